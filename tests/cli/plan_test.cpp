#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <set>
#include <string>
#include <thread>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class PlanTest : public Workspace {
 protected:
  Json plan_json(const Words& more = {}) const {
    Words flags{"--json"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

std::set<std::string> keys_of(const Json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

void expect_keys(const Json& object, const std::set<std::string>& least) {
  const std::set<std::string> keys = keys_of(object);
  for (const std::string& key : least) EXPECT_TRUE(keys.contains(key)) << key;
}

TEST_F(PlanTest, JsonHasEveryKeyOfTheFormat) {
  const Json plan = plan_json();
  expect_keys(plan, {"format", "status", "objective", "iteration_time_s", "lower_bound_s", "gap",
                     "throughput", "strategy", "stages", "search"});
  expect_keys(plan["throughput"], {"samples_per_s", "tokens_per_s", "tokens_per_s_per_device",
                                   "model_tflops_per_device"});
  expect_keys(plan["strategy"], {"dp", "dp_inner", "dp_outer", "pp", "vpp", "micro_batch",
                                 "microbatches", "schedule"});
  expect_keys(plan["search"], {"seconds", "ranks", "configurations", "tables", "cells"});
  ASSERT_FALSE(plan["stages"].empty());
  for (const Json& stage : plan["stages"]) {
    expect_keys(stage, {"layers", "strategy", "tp", "cp", "ep", "position", "devices", "recompute",
                        "zero", "time", "memory"});
    expect_keys(stage["time"], {"total_s", "forward_s", "backward_s", "recompute_s", "receive_s",
                                "gradient_receive_s", "zero_s", "sync_s"});
    expect_keys(stage["memory"], {"total_bytes", "state_bytes", "activation_bytes"});
  }
  EXPECT_EQ(plan["format"], "nestplan.plan/1");
  EXPECT_EQ(plan["status"], "optimal");
  EXPECT_EQ(plan["gap"], 0);
}

TEST_F(PlanTest, IterationTimeIsTheFormulaOverItsStages) {
  const Json plan = plan_json();
  double sum = 0;
  double slowest = 0;
  for (const Json& stage : plan["stages"]) {
    const double total = stage["time"]["total_s"];
    sum += total;
    slowest = std::max(slowest, total);
  }
  const double m = plan["strategy"]["microbatches"];
  const double expected =
      sum + (m - 1) * slowest + plan["stages"][0]["time"]["sync_s"].get<double>();
  EXPECT_NEAR(plan["iteration_time_s"].get<double>(), expected, 1e-12 * expected);
}

TEST_F(PlanTest, RestrictionsHold) {
  const Json plan = plan_json({"--dp", "2", "--pp", "2", "--tp", "2", "--recompute", "full",
                               "--zero", "1", "--dp-inner", "2"});
  EXPECT_EQ(plan["strategy"]["dp"], 2);
  EXPECT_EQ(plan["strategy"]["dp_inner"], 2);
  EXPECT_EQ(plan["strategy"]["pp"], 2);
  for (const Json& stage : plan["stages"]) {
    EXPECT_EQ(stage["tp"], 2);
    EXPECT_EQ(stage["recompute"], "full");
    EXPECT_EQ(stage["zero"], 1);
  }
}

TEST_F(PlanTest, PaperObjectiveAndScheduleArePassedOn) {
  const Json plan = plan_json({"--objective", "paper", "--schedule", "gpipe"});
  EXPECT_EQ(plan["objective"], "paper");
  EXPECT_EQ(plan["strategy"]["schedule"], "gpipe");
}

TEST_F(PlanTest, StateBytesCount) {
  const Words one_stage{"--dp", "1", "--pp", "1", "--tp", "1", "--zero", "0"};
  Words doubled = one_stage;
  doubled.insert(doubled.end(), {"--state-bytes", "4,8,24"});
  const double single = plan_json(one_stage)["stages"][0]["memory"]["state_bytes"];
  EXPECT_EQ(single, 4 * 1000000 * 18.0);
  EXPECT_EQ(plan_json(doubled)["stages"][0]["memory"]["state_bytes"], 2 * single);
}

TEST_F(PlanTest, TwoRunsGiveTheSameBytesButForSearch) {
  const auto without_search = [&](const Words& more) {
    nlohmann::ordered_json plan =
        nlohmann::ordered_json::parse(run(on_small({"plan", "--json"}, more)).out);
    plan.erase("search");
    return plan.dump();
  };
  for (const Words& more : {Words{}, Words{"--per-stage-strategies"}}) {
    EXPECT_EQ(without_search(more), without_search(more));
  }
}

TEST_F(PlanTest, OutputFileAndJsonAgree) {
  const Outcome outcome = run(on_small({"plan"}, {"-o", path("plan.json"), "--json"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(read_file(path("plan.json")), outcome.out);
}

TEST_F(PlanTest, DashIsStdout) {
  const Outcome outcome = run(on_small({"plan"}, {"-o", "-"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["format"], "nestplan.plan/1");
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(PlanTest, NamesOfStdoutAreStdout) {
  const Outcome outcome = run(on_small({"plan"}, {"-o", "/dev/stdout"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["status"], "optimal");
}

TEST_F(PlanTest, TextIsNarrowAndTellsWhatCounts) {
  for (const char* detail : {"--quiet", "--verbose"}) {
    const Outcome outcome = run(on_small({"plan"}, {detail}));
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos);
    for (const char* word : {"small", "two-nodes", "dp ", "pp ", "compute", "bubble", "samples/s",
                             "optimal", "ZeRO", "GiB", "configurations"}) {
      EXPECT_NE(outcome.out.find(word), std::string::npos) << word << '\n' << outcome.out;
    }
    std::size_t width = 0;
    for (const char c : outcome.out) {
      width = c == '\n' ? 0 : width + ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0);
      ASSERT_LE(width, 120U) << outcome.out;
    }
  }
}

TEST_F(PlanTest, IdleDevicesAreNamed) {
  const Outcome outcome =
      run(on_small({"plan"}, {"--dp", "2", "--pp", "3", "--tp", "1", "--dp-inner", "1"}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("6 of 8 used, 2 idle: "), std::string::npos) << outcome.out;
}

TEST_F(PlanTest, TooLittleMemoryIsInfeasibleAndSaysWhatBinds) {
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "100 kB";
  write_json("cluster.json", cluster);
  const Outcome text = run(on_small({"plan"}));
  EXPECT_EQ(text.exit_code, 3);
  EXPECT_NE(text.out.find("infeasible"), std::string::npos) << text.out;
  const Outcome json = run(on_small({"plan"}, {"--json"}));
  EXPECT_EQ(json.exit_code, 3);
  const Json plan = Json::parse(json.out);
  EXPECT_EQ(plan["status"], "infeasible");
  EXPECT_NE(plan["reason"].get<std::string>().find("memory"), std::string::npos) << plan["reason"];
}

TEST_F(PlanTest, BatchThatNothingDividesIsInfeasible) {
  const Outcome outcome = run({"plan", "--graph", path("graph.json"), "--cluster",
                               path("cluster.json"), "--global-batch", "7", "--dp", "2", "--json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["status"], "infeasible");
}

TEST_F(PlanTest, UnwritableOutputIsKnownAtOnce) {
  const std::string absent = path("absent/plan.json");
  const Outcome outcome = run(on_small({"plan"}, {"-o", absent}));
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_EQ(outcome.out, "");
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_NE(outcome.err.find(absent), std::string::npos) << outcome.err;
}

TEST_F(PlanTest, FailureLeavesAnExistingOutputUntouched) {
  write("plan.json", std::string("precious"));
  write("graph.json", std::string("{"));
  EXPECT_EQ(run(on_small({"plan"}, {"-o", path("plan.json")})).exit_code, 2);
  EXPECT_EQ(read_file(path("plan.json")), "precious");
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp"), std::string::npos) << entry.path();
  }
}

TEST_F(PlanTest, FullStdoutIsASystemFailure) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "this system has no /dev/full";
  EXPECT_EQ(run(on_small({"plan"}), "/dev/full").exit_code, 5);
}

TEST_F(PlanTest, ReaderThatGoesAwayIsNoError) {
  const std::string fifo = path("fifo");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  // Opened for reading and writing, the pipe does not block the start; closed, nobody reads it.
  const int reader = ::open(fifo.c_str(), O_RDWR);
  ASSERT_GE(reader, 0);
  Process process(on_small({"plan"}), directory_, fifo);
  ::close(reader);
  EXPECT_EQ(process.wait().exit_code, 0);
}

TEST_F(PlanTest, TinyTimeLimitStopsWithCodeFour) {
  const Outcome outcome = run(on_small({"plan"}, {"--time-limit", "1e-9", "--json"}));
  EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
  const Json plan = Json::parse(outcome.out);
  EXPECT_TRUE(plan["status"] == "feasible" || plan["status"] == "infeasible") << plan["status"];
}

/// A search that takes minutes.
Words long_search() {
  const std::string inputs = std::string(NESTPLAN_SOURCE_DIR) + "/inputs";
  return {"plan",
          "--model",
          inputs + "/models/llama-3.1-405b",
          "--cluster",
          inputs + "/clusters/h100-16384.json",
          "--global-batch",
          "2047",
          "--seq",
          "8192",
          "--micro-batch",
          "1,2,3,4,5,6,7,8",
          "--per-stage-strategies",
          "--allow-uneven-batch",
          "--json"};
}

TEST_F(PlanTest, SignalsEndTheSearchWithTheBestPlanSoFar) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Words words = long_search();
    words.insert(words.end(), {"-o", path("plan.json")});
    Process process(words, directory_);
    std::this_thread::sleep_for(std::chrono::seconds(2));
    process.send(signal);
    const Outcome outcome = process.wait();
    EXPECT_EQ(outcome.exit_code, 4) << outcome.err;
    const Json plan = Json::parse(outcome.out);
    EXPECT_EQ(plan["status"], "feasible");
    EXPECT_LE(plan["lower_bound_s"], plan["iteration_time_s"]);
    EXPECT_GE(plan["gap"].get<double>(), 0);
    EXPECT_EQ(read_file(path("plan.json")), outcome.out);
  }
}

TEST_F(PlanTest, LongSearchesGiveASignOfLife) {
  Words words = long_search();
  words.insert(words.end(), {"--time-limit", "4.5"});
  EXPECT_NE(run(words).err.find("configurations"), std::string::npos);
  words.push_back("--quiet");
  EXPECT_EQ(run(words).err, "");
}

}  // namespace
}  // namespace nestplan::test
