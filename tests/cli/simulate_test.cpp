#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class SimulateTest : public Workspace {
 protected:
  /// Plans the small graph, as far as `flags` let.
  void plan(const Words& flags) const {
    Words more{"-q", "-o", path("plan.json")};
    more.insert(more.end(), flags.begin(), flags.end());
    const Outcome outcome = run(on_small({"plan"}, more));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }

  Outcome simulate(const Words& more = {}) const {
    return run(on_small({"simulate", path("plan.json")}, more));
  }

  Json simulated(const Words& more = {}) const {
    Words words = more;
    words.push_back("--json");
    const Outcome outcome = simulate(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

TEST_F(SimulateTest, ChecksThePlansOwnTime) {
  for (const Words& flags :
       {Words{}, Words{"--pp", "2"}, Words{"--pp", "4", "--tp", "2"},
        Words{"--pp", "2", "--schedule", "gpipe"}, Words{"--pp", "2", "--objective", "paper"}}) {
    plan(flags);
    const Json file = Json::parse(read_file(path("plan.json")));
    const Json out = simulated();
    EXPECT_EQ(out["format"], "nestplan.simulation/1");
    EXPECT_EQ(out["status"], "feasible");
    EXPECT_EQ(out["predicted_s"], file["iteration_time_s"]);
    EXPECT_EQ(out["schedule"], file["strategy"]["schedule"]);
    EXPECT_EQ(out["stages"].size(), file["stages"].size());
    const double makespan = out["makespan_s"].get<double>();
    const double alone = out["without_contention_s"].get<double>();
    EXPECT_GE(makespan, alone);
    EXPECT_GE(alone * (1 + 1e-9), out["bounds"]["least_s"].get<double>());
    EXPECT_LE(alone * (1 - 1e-9), out["bounds"]["most_s"].get<double>());
    const Json& difference = out["difference"];
    EXPECT_NEAR(difference["total_s"].get<double>(),
                difference["schedule_s"].get<double>() + difference["contention_s"].get<double>() +
                    difference["synchronisation_s"].get<double>(),
                1e-9 * makespan);
  }
}

TEST_F(SimulateTest, OneStageTakesWhatTheFormulaSays) {
  plan({"--pp", "1"});
  const Json out = simulated();
  EXPECT_NEAR(out["makespan_s"].get<double>(), out["predicted_s"].get<double>(),
              1e-9 * out["predicted_s"].get<double>());
  EXPECT_TRUE(out["levels"].empty());
}

TEST_F(SimulateTest, SameInputSameBytes) {
  plan({"--pp", "2"});
  EXPECT_EQ(simulate({"--json"}).out, simulate({"--json"}).out);
  const Outcome ranks = run_on(2, on_small({"simulate", path("plan.json")}, {"--json"}));
  EXPECT_EQ(ranks.exit_code, 0) << ranks.err;
  EXPECT_EQ(ranks.out, simulate({"--json"}).out);
}

TEST_F(SimulateTest, TextShowsStagesAndTimeline) {
  plan({"--pp", "2"});
  const std::string text = simulate().out;
  for (const char* word :
       {"simulated", "formula", "bubble", "timeline of", "▒ forward", "transfers between stages"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << '\n' << text;
  }
}

TEST_F(SimulateTest, TraceHoldsEveryStep) {
  plan({"--pp", "2"});
  const Outcome outcome = simulate({"--trace", path("trace.json"), "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json out = Json::parse(outcome.out);
  const std::string text = read_file(path("trace.json"));
  const Json trace = Json::parse(text);
  std::multiset<std::string> names;
  for (const Json& event : trace["traceEvents"]) {
    names.insert(event["name"].get<std::string>());
    if (event["ph"] == "X") {
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
  }
  const auto steps =
      2 * out["microbatches"].get<std::size_t>() * out["pod_kinds"].get<std::size_t>();
  EXPECT_EQ(names.count("forward"), steps);
  EXPECT_EQ(names.count("backward"), steps);
  EXPECT_EQ(simulate({"--trace", "-"}).out, text);
}

TEST_F(SimulateTest, TraceThatCannotBeWrittenIsAFileError) {
  plan({"--pp", "2"});
  const Outcome outcome = simulate({"--trace", path("no/such/trace.json")});
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_NE(outcome.err.find("no/such/trace.json: cannot be written"), std::string::npos);
}

TEST_F(SimulateTest, InfeasiblePlansAreNotRun) {
  plan({"--pp", "2"});
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "100 kB";
  write_json("cluster.json", cluster);
  const Outcome outcome = simulate({"--json"});
  EXPECT_EQ(outcome.exit_code, 3);
  const Json out = Json::parse(outcome.out);
  EXPECT_EQ(out["status"], "infeasible");
  EXPECT_TRUE(out["makespan_s"].is_null());
  EXPECT_NE(simulate().out.find("memory"), std::string::npos);
}

TEST_F(SimulateTest, RefusesWhatIsNoPlan) {
  for (const Words& words :
       {Words{"simulate"}, on_small({"simulate", path("graph.json")}),
        on_small({"simulate", path("plan.json")}), on_small({"simulate", "a", "b"})}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_TRUE(is_one_line(outcome.err));
  }
  EXPECT_EQ(run({"simulate", "--help"}).exit_code, 0);
}

}  // namespace
}  // namespace nestplan::test
