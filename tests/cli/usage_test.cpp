#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

using UsageTest = Workspace;

TEST_F(UsageTest, HelpNamesEveryCommandAndExitCode) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word :
       {"plan", "evaluate", "export", "batch", "inspect", "--version", "Exit codes"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(outcome.err, "");
}

TEST_F(UsageTest, EveryCommandHasHelp) {
  for (const char* command : {"plan", "evaluate", "inspect"}) {
    const Outcome outcome = run({command, "--help"});
    EXPECT_EQ(outcome.exit_code, 0) << command;
    for (const char* flag : {"--help", "--json", "-v,--verbose", "-q,--quiet", "--model"}) {
      EXPECT_NE(outcome.out.find(flag), std::string::npos) << command << ' ' << flag;
    }
  }
}

TEST_F(UsageTest, HelpShowsDefaults) {
  const std::string help = run({"plan", "--help"}).out;
  for (const char* text : {"2,4,12", "none,selective,full", "0,1,2,3", "bf16"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text;
  }
}

TEST_F(UsageTest, Version) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("nestplan ")) << outcome.out;
  EXPECT_TRUE(is_one_line(outcome.out));
}

struct WrongLine {
  const char* name;
  Words words;
  const char* says;  ///< in the one line on stderr
};

class WrongUsageTest : public Workspace, public testing::WithParamInterface<WrongLine> {};

TEST_P(WrongUsageTest, IsOneLineThatNamesTheFlag) {
  const Outcome outcome = run(GetParam().words);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_NE(outcome.err.find(GetParam().says), std::string::npos) << outcome.err;
}

TEST_F(UsageTest, WordsOfAChoiceAreListedOnce) {
  for (const Words& words :
       {Words{"plan", "--schedule", "zigzag"}, Words{"calibrate", "--loss", "zigzag"},
        Words{"compare", "--methods", "zigzag"}, Words{"plan", "--target", "zigzag"}}) {
    const std::string error = run(words).err;
    EXPECT_EQ(error.find("; known are"), std::string::npos) << error;
    EXPECT_NE(error.find("(known: \""), std::string::npos) << error;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lines, WrongUsageTest,
    testing::Values(
        WrongLine{"nothing", {}, "a command is needed"},
        WrongLine{"command", {"plam"}, "did you mean \"plan\"?"},
        WrongLine{"two_commands", {"plan", "inspect"}, "inspect"},
        WrongLine{"option", {"plan", "--golbal-batch", "3"}, "did you mean \"--global-batch\"?"},
        WrongLine{"option_with_value", {"plan", "--sqe=3"}, "did you mean \"--seq\"?"},
        WrongLine{"argument", {"plan", "stray"}, "\"stray\""},
        WrongLine{"no_value", {"plan", "--seq"}, "--seq: a value is needed"},
        WrongLine{"word_for_number", {"plan", "--seq", "many"}, "--seq: \"many\" is not a whole"},
        WrongLine{"fraction", {"plan", "--seq", "1.5"}, "--seq: \"1.5\" is not a whole"},
        WrongLine{"batch_zero", {"plan", "--global-batch", "0"}, "--global-batch: 0"},
        WrongLine{"batch_negative", {"plan", "--global-batch", "-4"}, "--global-batch: -4"},
        WrongLine{
            "batch_huge", {"plan", "--global-batch", "99999999999999999999"}, "--global-batch"},
        WrongLine{"empty_in_list", {"plan", "--tp", "1,,2"}, "--tp: \"\" is not a whole"},
        WrongLine{"zero_in_list", {"plan", "--micro-batch", "1,0"}, "--micro-batch: 0"},
        WrongLine{"zero_stage", {"plan", "--zero", "4"}, "--zero: 4 is out of range (0 to 3)"},
        WrongLine{"recompute", {"plan", "--recompute", "ful"}, "did you mean \"full\"?"},
        WrongLine{"objective", {"plan", "--objective", "papr"}, "did you mean \"paper\"?"},
        WrongLine{"schedule", {"plan", "--schedule", "gipe"}, "did you mean \"gpipe\"?"},
        WrongLine{"state_bytes_two", {"plan", "--state-bytes", "2,4"}, "--state-bytes: 3 numbers"},
        WrongLine{
            "state_bytes_nan", {"plan", "--state-bytes", "2,nan,4"}, "--state-bytes: \"nan\""},
        WrongLine{"state_bytes_negative", {"plan", "--state-bytes", "2,-1,4"}, "--state-bytes: -1"},
        WrongLine{"time_limit_zero", {"plan", "--time-limit", "0"}, "--time-limit: 0"},
        WrongLine{"time_limit_inf", {"plan", "--time-limit", "inf"}, "--time-limit: \"inf\""},
        WrongLine{"twice", {"plan", "--seq", "1", "--seq", "2"}, "--seq: given 2 times"},
        WrongLine{"no_model", {"plan", "--cluster", "c", "--global-batch", "1"}, "--model"},
        WrongLine{"no_cluster", {"plan", "--graph", "g", "--global-batch", "1"}, "--cluster"},
        WrongLine{"no_batch", {"plan", "--graph", "g", "--cluster", "c"}, "--global-batch"},
        WrongLine{
            "model_and_graph", {"plan", "--graph", "g", "--model", "m"}, "exclude each other"},
        WrongLine{"no_plan", {"evaluate"}, "one plan file is needed"},
        WrongLine{"two_plans", {"evaluate", "a", "b"}, "2 given"},
        WrongLine{"no_batch_file", {"batch", "-o", "d"}, "one batch file is needed, 0 given"},
        WrongLine{"no_directory", {"batch", "b"}, "-o is needed"},
        WrongLine{"crew", {"batch", "b", "-o", "d", "--ranks-per-job", "2"}, "the 1 rank there is"},
        WrongLine{
            "empty_name", {"batch", "b", "-o", "d", "--only", "a,,b"}, "--only: a name is emp"},
        WrongLine{"of_plan", {"batch", "b", "--seq", "3"}, "unknown option \"--seq\" of batch"},
        WrongLine{"nothing_to_inspect", {"inspect"}, "a file is needed"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(UsageTest, DegreeThatNoStrategyHas) {
  const Outcome outcome = run(on_small({"plan"}, {"--tp", "3"}));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("--tp: no strategy of small has 3; it has 1, 2"), std::string::npos)
      << outcome.err;
}

TEST_F(UsageTest, DumpedConfigurationReadsBackToItself) {
  const Words flags{"--graph",
                    "a, b.json",
                    "--tp",
                    "2,1",
                    "--tp",
                    "4",
                    "--time-limit",
                    "1.5",
                    "--objective",
                    "paper",
                    "--per-stage-strategies"};
  Words first{"plan", "--dump-config"};
  first.insert(first.end(), flags.begin(), flags.end());
  const Outcome dumped = run(first);
  ASSERT_EQ(dumped.exit_code, 0) << dumped.err;
  EXPECT_NE(dumped.out.find("tp = [1, 2, 4]"), std::string::npos) << dumped.out;
  const std::string file = write("options.ini", dumped.out);
  const Outcome again = run({"plan", "--config", file, "--dump-config"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(again.out, dumped.out);
}

TEST_F(UsageTest, FlagsWinOverTheConfiguration) {
  const std::string file = write("options.ini", "[plan]\nseq = 7\nglobal-batch = 9\n");
  const Outcome outcome = run({"plan", "--config", file, "--seq", "8", "--dump-config"});
  EXPECT_NE(outcome.out.find("seq = 8\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("global-batch = 9\n"), std::string::npos) << outcome.out;
}

TEST_F(UsageTest, ConfigurationErrorsNameFileAndKey) {
  const auto error_of = [&](const std::string& text) {
    const Outcome outcome = run({"plan", "--config", write("options.ini", text), "--dump-config"});
    EXPECT_EQ(outcome.exit_code, 2) << text;
    EXPECT_TRUE(is_one_line(outcome.err));
    EXPECT_NE(outcome.err.find("options.ini: "), std::string::npos) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(error_of("[plan]\nmicro-bach = 2\n").find("did you mean \"micro-batch\"?"),
            std::string::npos);
  EXPECT_NE(error_of("[plna]\nseq = 2\n").find("plna.seq"), std::string::npos);
  EXPECT_NE(error_of("seq = 2\n").find("[plan]"), std::string::npos);
  EXPECT_NE(error_of("[plan]\nseq = two\n").find("--seq: \"two\""), std::string::npos);
}

TEST_F(UsageTest, ConfigurationThatCannotBeRead) {
  write("options.ini", "[plan]\n");
  const Outcome missing = run({"plan", "--config", path("option.ini")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.err.find("options.ini\"?)"), std::string::npos) << missing.err;
  EXPECT_NE(run({"plan", "--config", path("")}).err.find("directory"), std::string::npos);
}

TEST_F(UsageTest, SwitchesTakeTrueAndFalse) {
  const std::string file = write("options.ini", "[plan]\njson = true\n");
  const Outcome off = run({"plan", "--config", file, "--json=false", "--dump-config"});
  EXPECT_NE(off.out.find("\njson = false\n"), std::string::npos) << off.out;
  const Outcome wrong = run({"plan", "--json=perhaps"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("neither true nor false"), std::string::npos) << wrong.err;
}

TEST_F(UsageTest, PrecisionThatTheDeviceLacks) {
  const std::string model = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/llama-3.1-8b";
  const auto error_of = [&](const char* precision) {
    const Outcome outcome = run({"plan", "--model", model, "--cluster", path("cluster.json"),
                                 "--global-batch", "8", "--precision", precision});
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_NE(error_of("bf61").find("--precision: unknown \"bf61\""), std::string::npos);
  EXPECT_NE(error_of("fp8").find(path("cluster.json") + ": "), std::string::npos);
}

TEST_F(UsageTest, LengthBeyondTheModelIsRemarkedOn) {
  const std::string model = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/mistral-7b";
  Json cluster = small_cluster();
  cluster["device"]["name"] = "h100";
  write_json("cluster.json", cluster);
  const auto remarks_of = [&](const char* length) {
    return run({"plan", "--model", model, "--cluster", path("cluster.json"), "--global-batch", "8",
                "--tp", "1", "--seq", length})
        .err;
  };
  EXPECT_EQ(remarks_of("4096"), "");
  EXPECT_NE(remarks_of("1000000").find("--seq 1000000 is more than the"), std::string::npos);
}

}  // namespace
}  // namespace nestplan::test
