#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class EvaluateTest : public Workspace {
 protected:
  Outcome evaluate(const Words& more = {}) const {
    return run(on_small({"evaluate", path("plan.json")}, more));
  }

  /// Everything but what the search did and thinks of it.
  static Json judged(Json plan) {
    for (const char* key : {"search", "status", "lower_bound_s", "gap"}) plan.erase(key);
    return plan;
  }
};

TEST_F(EvaluateTest, OwnPlanCostsWhatItSaid) {
  for (const Words& flags :
       {Words{}, Words{"--objective", "paper"}, Words{"--schedule", "gpipe"},
        Words{"--per-stage-strategies"}, Words{"--dp", "2", "--pp", "2", "--recompute", "full"}}) {
    Words with_output = flags;
    with_output.insert(with_output.end(), {"-o", path("plan.json")});
    ASSERT_EQ(run(on_small({"plan"}, with_output)).exit_code, 0);
    const Outcome outcome = evaluate({"--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(judged(Json::parse(outcome.out)), judged(Json::parse(read_file(path("plan.json")))));
  }
}

TEST_F(EvaluateTest, PlanByHandIsCompleted) {
  write_json("plan.json", Json{{"format", "nestplan.plan/1"},
                               {"strategy", {{"dp", 2}}},
                               {"stages",
                                {{{"layers", {"a", "b.0"}}, {"strategy", "tp1"}},
                                 {{"layers", {"b.1", "c"}}, {"strategy", "tp2"}, {"zero", 1}}}}});
  const Outcome outcome = evaluate({"--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json plan = Json::parse(outcome.out);
  EXPECT_EQ(plan["format"], "nestplan.plan/1");
  EXPECT_EQ(plan["strategy"]["dp"], 2);
  EXPECT_EQ(plan["stages"][0]["tp"], 1);
  EXPECT_EQ(plan["stages"][1]["tp"], 2);
  EXPECT_EQ(plan["stages"][1]["zero"], 1);
  EXPECT_GT(plan["iteration_time_s"].get<double>(), 0);
  EXPECT_NE(evaluate().out.find("grad receive"), std::string::npos);
}

TEST_F(EvaluateTest, FlagWinsOverThePlansObjective) {
  ASSERT_EQ(run(on_small({"plan"}, {"-o", path("plan.json")})).exit_code, 0);
  const Json plan = Json::parse(evaluate({"--objective", "paper", "--json"}).out);
  EXPECT_EQ(plan["objective"], "paper");
}

TEST_F(EvaluateTest, PlanThatDoesNotFitIsShownAndExitsWithThree) {
  ASSERT_EQ(run(on_small({"plan"}, {"-o", path("plan.json")})).exit_code, 0);
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "100 kB";
  write_json("cluster.json", cluster);
  const Outcome outcome = evaluate({"--json"});
  EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
  const Json plan = Json::parse(outcome.out);
  EXPECT_EQ(plan["status"], "infeasible");
  EXPECT_FALSE(plan["reason"].get<std::string>().empty());
  EXPECT_FALSE(plan["stages"].empty());
  EXPECT_GT(plan["stages"][0]["memory"]["total_bytes"].get<double>(), 100e3);
  EXPECT_EQ(evaluate().exit_code, 3);
}

TEST_F(EvaluateTest, PlanOfAModelIsCostedAgainWithTheSameFlags) {
  const std::string inputs = std::string(NESTPLAN_SOURCE_DIR) + "/inputs";
  const Words inputs_of_both{"--model",        inputs + "/models/llama-3.1-8b",
                             "--cluster",      inputs + "/clusters/single-node-8xh100.json",
                             "--global-batch", "64",
                             "--json"};
  Words plan{"plan", "-o", path("plan.json")};
  plan.insert(plan.end(), inputs_of_both.begin(), inputs_of_both.end());
  ASSERT_EQ(run(plan).exit_code, 0);
  Words evaluate{"evaluate", path("plan.json")};
  evaluate.insert(evaluate.end(), inputs_of_both.begin(), inputs_of_both.end());
  const Outcome outcome = run(evaluate);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(judged(Json::parse(outcome.out)), judged(Json::parse(read_file(path("plan.json")))));
}

/// Once for each of the two types of devices, of which the costs of a graph say all there is.
TEST_F(EvaluateTest, DevicesThatNothingIsKnownOfAreRemarkedOn) {
  const std::string inputs = std::string(NESTPLAN_SOURCE_DIR) + "/inputs";
  Json cluster = small_cluster();
  cluster["device"]["memory"] = "800 GB";
  cluster["other_devices"] = {cluster["device"]};
  cluster["other_devices"][0]["name"] = "h1000";
  cluster["other_devices"][0]["places"] = "4-7";
  write_json("cluster.json", cluster);
  const Words setup{"--model",        inputs + "/models/llama-3.1-8b",
                    "--cluster",      path("cluster.json"),
                    "--global-batch", "64"};
  Words plan{"plan", "-o", path("plan.json")}, evaluate{"evaluate", path("plan.json")};
  for (Words* words : {&plan, &evaluate}) {
    words->insert(words->end(), setup.begin(), setup.end());
    const std::string error = run(*words).err;
    for (const char* part : {"cluster.json: device: nothing is known of \"d\" (known: ",
                             "other_devices[0]: nothing is known of \"h1000\" (did you mean "
                             "\"h100\"?)"}) {
      const std::size_t first = error.find(part);
      EXPECT_NE(first, std::string::npos) << error;
      EXPECT_EQ(error.find(part, first + 1), std::string::npos) << error;
    }
  }
  EXPECT_EQ(run(on_small({"plan"}, {})).err.find("nothing is known"), std::string::npos);
}

struct BadPlan {
  const char* name;
  void (*spoil)(Json& plan);
  const char* says;
};

class BadPlanTest : public EvaluateTest, public testing::WithParamInterface<BadPlan> {};

TEST_P(BadPlanTest, IsRefusedByFileAndField) {
  Json plan{{"format", "nestplan.plan/1"},
            {"strategy", {{"dp", 2}}},
            {"stages", {{{"layers", {"a", "b.0", "b.1", "c"}}, {"strategy", "tp1"}}}}};
  GetParam().spoil(plan);
  write_json("plan.json", plan);
  const Outcome outcome = evaluate();
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_TRUE(is_one_line(outcome.err));
  EXPECT_NE(outcome.err.find("plan.json: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(GetParam().says), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(
    Plans, BadPlanTest,
    testing::Values(BadPlan{"format", [](Json& p) { p["format"] = "nestplan.graph/1"; }, "format"},
                    BadPlan{"key", [](Json& p) { p["stagse"] = 1; }, "stages"},
                    BadPlan{"layer", [](Json& p) { p["stages"][0]["layers"][1] = "b.9"; }, "b.9"},
                    BadPlan{"strategy", [](Json& p) { p["stages"][0]["strategy"] = "tp3"; }, "tp3"},
                    BadPlan{"doubled", [](Json& p) { p["stages"][0]["layers"][1] = "a"; }, "\"a\""},
                    BadPlan{"no_strategy", [](Json& p) { p.erase("strategy"); }, "strategy"},
                    BadPlan{"zero", [](Json& p) { p["stages"][0]["zero"] = 4; }, "zero"},
                    BadPlan{"dp", [](Json& p) { p["strategy"]["dp"] = 0; }, "dp"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_F(EvaluateTest, MissingPlanIsRefused) {
  const Outcome outcome = evaluate();
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("plan.json: cannot be read"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace nestplan::test
