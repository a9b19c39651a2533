#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

constexpr const char* kInputs = NESTPLAN_SOURCE_DIR "/inputs/";

class CalibrateTest : public Workspace {
 protected:
  void SetUp() override {
    Workspace::SetUp();
    std::filesystem::copy(std::string(kInputs) + "clusters/single-node-8xh100.json",
                          path("node.json"));
    std::filesystem::copy(std::string(kInputs) + "models/llama-2-7b", path("model"));
    write("runs.csv",
          "model,seq,global_batch,micro_batch,tp,zero,iteration_s\n"
          "model,4096,64,1,1,1,3.02\nmodel,4096,64,2,1,1,2.95\n"
          "model,4096,64,1,2,1,3.24\nmodel,4096,64,2,2,1,3.16\n"
          "model,4096,64,1,4,1,3.75\nmodel,4096,64,2,4,1,7.2\n");
  }

  Outcome calibrate(const Words& more) const {
    Words words{"calibrate", "--cluster", path("node.json"), "--runs", path("runs.csv")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  std::string refusal(const Words& words) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(outcome.out.empty());
    EXPECT_TRUE(is_one_line(outcome.err));
    return outcome.err;
  }
};

TEST_F(CalibrateTest, WritesADeviceThatPlanTakes) {
  const Outcome outcome = calibrate({"-o", path("device.json"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json report = Json::parse(outcome.out);
  EXPECT_EQ(report["format"], "nestplan.calibration/1");
  EXPECT_EQ(report["samples"], 6);
  EXPECT_LT(report["errors"]["fit"]["median"], report["errors"]["before"]["median"]);

  Json cluster = Json::parse(read_file(path("node.json")));
  cluster["device"] = "device.json";
  write_json("mine.json", cluster);
  const Outcome planned = run({"plan",
                               "--model",
                               path("model"),
                               "--cluster",
                               path("mine.json"),
                               "--seq",
                               "4096",
                               "--global-batch",
                               "64",
                               "--micro-batch",
                               "1",
                               "--tp",
                               "2",
                               "--pp",
                               "1",
                               "--zero",
                               "1",
                               "--recompute",
                               "none",
                               "--dp",
                               "4",
                               "--memory-margin",
                               "0%",
                               "--json",
                               "-q"});
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_NEAR(Json::parse(planned.out)["iteration_time_s"].get<double>() /
                  report["times"][2]["fit_s"].get<double>(),
              1, 1e-6);
}

TEST_F(CalibrateTest, ReportsParametersErrorsAndOutliers) {
  const Outcome outcome = calibrate({});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"6 measured times", "matmul_efficiency", "before", "held out",
                           "kept: the measurements do not determine it", "runs.csv:7"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  }
}

/// Whatever the order of its columns.
TEST_F(CalibrateTest, TakesColumnsByTheirNames) {
  const Json report = Json::parse(calibrate({"--json"}).out);
  write("runs.csv",
        "iteration_s,zero,tp,micro_batch,global_batch,seq,model,device\n"
        "3.02,1,1,1,64,4096,model,\n2.95,1,1,2,64,4096,model,H100-SXM\n"
        "3.24,1,2,1,64,4096,model,\n3.16,1,2,2,64,4096,model,\n"
        "3.75,1,4,1,64,4096,model,\n7.2,1,4,2,64,4096,model,\n");
  EXPECT_EQ(Json::parse(calibrate({"--json"}).out)["parameters"], report["parameters"]);
}

TEST_F(CalibrateTest, TheDeviceAloneMayGoToStdout) {
  const Outcome outcome = calibrate({"-o", "-", "-q"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["format"], "nestplan.device/1");
  EXPECT_TRUE(outcome.err.empty()) << outcome.err;
}

TEST_F(CalibrateTest, StartsFromADeviceFile) {
  ASSERT_EQ(calibrate({"-o", path("device.json")}).exit_code, 0);
  const Outcome again = calibrate({"--device", path("device.json"), "--json", "--loss", "huber"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const Json report = Json::parse(again.out);
  const Json device = Json::parse(read_file(path("device.json")));
  for (const Json& parameter : report["parameters"]) {
    if (parameter["name"] == "kernel_time") continue;
    EXPECT_EQ(parameter["before"], device["model"][parameter["name"].get<std::string>()]);
  }
}

TEST_F(CalibrateTest, SaysWhatIsKnownExactly) {
  Json device = Json::parse(read_file(kInputs + std::string("devices/h100-sxm.json")));
  device["uncertainty"]["memory_efficiency"] = 0;
  write_json("device.json", device);
  const Outcome outcome = calibrate({"--device", path("device.json")});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  std::size_t rows = 0;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) {
    if (line.find("memory_efficiency") == std::string::npos) continue;
    ++rows;
    EXPECT_NE(line.find("kept: known exactly"), std::string::npos) << line;
    EXPECT_EQ(line.find("±"), std::string::npos) << line;
  }
  EXPECT_EQ(rows, 1U);
}

TEST_F(CalibrateTest, NeverReplacesWhatItReads) {
  const std::string before = read_file(path("runs.csv"));
  const Outcome outcome = calibrate({"-o", path("./runs.csv")});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("is the file of --runs"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(path("runs.csv")), before);
}

TEST_F(CalibrateTest, KeepsOneSentenceOfItsOwnInTheProvenance) {
  ASSERT_EQ(calibrate({"-o", path("device.json")}).exit_code, 0);
  Json device = Json::parse(read_file(path("device.json")));
  device["provenance"] = "Ours. " + device["provenance"].get<std::string>() + " Of May.";
  write_json("device.json", device);
  std::string text;
  for (int i = 0; i < 3; ++i) {
    const Outcome outcome = calibrate({"--device", path("device.json"), "-o", path("device.json")});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("has been fitted to " + path("runs.csv") + " before"),
              std::string::npos)
        << outcome.err;
    const std::string now = Json::parse(read_file(path("device.json")))["provenance"];
    if (i > 0) {
      EXPECT_EQ(now, text);
    }
    text = now;
  }
  EXPECT_EQ(text, "Ours. Of May. Parameters fitted to 6 measured times of " + path("runs.csv") +
                      " by nestplan calibrate, from those of an earlier calibration.");
}

TEST_F(CalibrateTest, SaysWhenAFitIsNoBetterOnWhatItHasNotSeen) {
  std::string table = "model,seq,global_batch,tp,iteration_s,group\n";
  const Json report = Json::parse(calibrate({"--json"}).out);
  const double right = report["times"][0]["before_s"];
  for (int i = 0; i < 6; ++i) {
    table += "model,4096,64,1," + std::to_string(right * (i % 2 == 0 ? 0.8 : 1.25)) +
             (i % 2 == 0 ? ",fast\n" : ",slow\n");
  }
  write("runs.csv", table);
  const Outcome outcome = calibrate({});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("verdict"), std::string::npos) << outcome.out;
  EXPECT_EQ(Json::parse(calibrate({"--json"}).out)["better_held_out"], false);
}

TEST_F(CalibrateTest, SaysWhenNoParametersExplainTheMeasurements) {
  const Json times = Json::parse(calibrate({"--json"}).out)["times"];
  const std::vector<std::string> degrees{"1,1", "2,1", "1,2", "2,2", "1,4", "2,4"};
  std::string table = "model,seq,global_batch,zero,micro_batch,tp,iteration_s\n";
  for (std::size_t i = 0; i < degrees.size(); ++i) {
    const double right = times[i]["before_s"];
    table += "model,4096,64,1," + degrees[i] + ',' + std::to_string(10 * right) + '\n';
  }
  write("runs.csv", table);
  const Outcome outcome = calibrate({});
  EXPECT_NE(outcome.out.find("most measurements are far off"), std::string::npos) << outcome.out;
}

TEST_F(CalibrateTest, SaysWhenNothingIsHeldOut) {
  write("runs.csv",
        "model,seq,global_batch,tp,iteration_s,group\nmodel,4096,64,1,3.02,all\n"
        "model,4096,64,2,3.24,all\nmodel,4096,64,4,3.75,all\n");
  const Outcome outcome = calibrate({});
  EXPECT_NE(outcome.out.find("nothing is held out"), std::string::npos) << outcome.out;
  EXPECT_TRUE(Json::parse(calibrate({"--json"}).out)["better_held_out"].is_null());
}

TEST_F(CalibrateTest, RefusesMilliseconds) {
  write("runs.csv",
        "model,seq,global_batch,iteration_s\nmodel,4096,64,3500\nmodel,4096,128,9000\n");
  const std::string error =
      refusal({"calibrate", "--cluster", path("node.json"), "--runs", path("runs.csv")});
  EXPECT_NE(error.find("are they in seconds"), std::string::npos) << error;
  EXPECT_NE(error.find("runs.csv:3"), std::string::npos) << error;
}

TEST_F(CalibrateTest, NeedsADeviceAndMeasurements) {
  const auto says = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  says(refusal({"calibrate", "--runs", path("runs.csv")}), "--device or --cluster is needed");
  says(refusal({"calibrate", "--cluster", path("node.json")}), "--runs or --layers is needed");
  says(refusal({"calibrate", "--cluster", path("node.json"), "--runs", path("run.csv")}),
       "runs.csv");
  says(refusal({"calibrate", "--cluster", path("node.json"), "--runs", path("runs.csv"), "--loss",
                "hubert"}),
       "huber");
  write("runs.csv", "model,seq,global_batch,iteration_s\n");
  says(refusal({"calibrate", "--cluster", path("node.json"), "--runs", path("runs.csv")}),
       "nothing measured");
  write("runs.csv", "model,seq,global_batch,iteration_s\nmodle,4096,64,1\n");
  says(refusal({"calibrate", "--cluster", path("node.json"), "--runs", path("runs.csv")}),
       "runs.csv:2: ");
}

}  // namespace
}  // namespace nestplan::test
