#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

/// Flags about the layers of stages and about memory that is left alone, seen from outside.
class RulesAndMemoryTest : public Workspace {
 protected:
  Json plan(const Words& more, int exit_code = 0) const {
    Words flags{"--json"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"plan"}, flags));
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    return Json::parse(outcome.out);
  }

  /// What `evaluate` makes of a plan, with the same flags.
  Json evaluated(const Json& plan, const Words& more) const {
    Words flags{"--json"};
    flags.insert(flags.end(), more.begin(), more.end());
    const Outcome outcome = run(on_small({"evaluate", write_json("plan.json", plan)}, flags));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

Json without_search(Json plan) {
  plan.erase("search");
  return plan;
}

/// The index of the stage that holds `layer`.
std::size_t stage_of(const Json& plan, const std::string& layer) {
  for (std::size_t s = 0; s < plan["stages"].size(); ++s) {
    const Json& layers = plan["stages"][s]["layers"];
    if (std::find(layers.begin(), layers.end(), layer) != layers.end()) return s;
  }
  return plan["stages"].size();
}

TEST_F(RulesAndMemoryTest, RulesOnStagesHold) {
  EXPECT_EQ(stage_of(plan({"--pp", "2", "--pin", "b.1=first"}), "b.1"), 0U);
  EXPECT_EQ(stage_of(plan({"--pp", "3", "--pin", "b.*=2"}), "b.0"), 1U);
  EXPECT_EQ(stage_of(plan({"--pp", "2", "--together", "a,b.*"}), "b.1"), 0U);
  const Json cut = plan({"--pp", "2", "--cut", "a|b.*,c"});
  EXPECT_EQ(cut["stages"][0]["layers"], Json{"a"});
  EXPECT_EQ(plan({"--pp", "2", "--first-stage-layers", "3"})["stages"][0]["layers"].size(), 3U);
  EXPECT_EQ(plan({"--pp", "2", "--last-stage-layers", "3"})["stages"][1]["layers"].size(), 3U);
  for (const Json& stage : plan({"--most-stage-layers", "1"})["stages"]) {
    EXPECT_EQ(stage["layers"].size(), 1U);
  }
  const Json even = plan({"--stage-layers", "even", "--pp", "2,3,4"});
  for (const Json& stage : even["stages"]) {
    EXPECT_EQ(stage["layers"].size(), 4 / even["stages"].size());
  }
}

TEST_F(RulesAndMemoryTest, RulesThatNothingMeets) {
  const Json refused = plan({"--pp", "1", "--cut", "a|c"}, 3);
  EXPECT_EQ(refused["status"], "infeasible");
  EXPECT_FALSE(refused["reason"].get<std::string>().empty());
  const Outcome unknown = run(on_small({"plan"}, {"--pin", "b.7=first"}));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_EQ(unknown.err.find("nestplan: --pin: unknown layer \"b.7\" (did you mean"), 0U)
      << unknown.err;
}

TEST_F(RulesAndMemoryTest, ReserveIsPartOfEveryStage) {
  const Words flags{"--context-reserve",
                    "10 MB",
                    "--communicator-buffer",
                    "1 MB",
                    "--memory-margin",
                    "12.5%",
                    "--pp",
                    "2",
                    "--dp",
                    "2",
                    "--tp",
                    "2"};
  const Json made = plan(flags);
  for (const Json& stage : made["stages"]) {
    const Json& memory = stage["memory"];
    EXPECT_EQ(memory["context_bytes"], 10e6);
    EXPECT_EQ(memory["communicator_bytes"], 3e6) << "tensor, data and pipeline parallel";
    EXPECT_EQ(memory["margin_bytes"], 125e6);
    EXPECT_EQ(memory["reserve_bytes"], 13e6);
    EXPECT_EQ(memory["total_bytes"], memory["state_bytes"].get<double>() +
                                         memory["activation_bytes"].get<double>() + 13e6);
    EXPECT_EQ(memory["activation_bytes"],
              memory["in_flight_bytes"].get<double>() + memory["working_bytes"].get<double>());
  }
  EXPECT_EQ(without_search(evaluated(made, flags)), without_search(made));
  EXPECT_EQ(plan({})["stages"][0]["memory"]["reserve_bytes"], 0) << "a graph has none by default";
}

TEST_F(RulesAndMemoryTest, ModelsLeaveMemoryAlone) {
  const std::string model = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/llama-2-7b";
  const std::string cluster =
      std::string(NESTPLAN_SOURCE_DIR) + "/inputs/clusters/single-node-8xh100.json";
  const auto memory_of = [&](const Words& more) {
    Words words{"plan", "--model", model, "--cluster", cluster, "--global-batch", "8", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(run(words).out)["stages"][0]["memory"];
  };
  const Json memory = memory_of({});
  EXPECT_EQ(memory["context_bytes"], 2.3e9);
  EXPECT_GT(memory["margin_bytes"], 0);
  const Json none = memory_of(
      {"--context-reserve", "0 B", "--communicator-buffer", "0 B", "--memory-margin", "0%"});
  EXPECT_EQ(none["reserve_bytes"], 0);
  EXPECT_EQ(none["margin_bytes"], 0);
}

TEST_F(RulesAndMemoryTest, InterleavedAndHybridPlansAreReadBack) {
  const Words flags{"--vpp", "2", "--shard", "all,pod", "--pp", "2", "--zero", "1,2"};
  const Json made = plan(flags);
  EXPECT_EQ(made["strategy"]["vpp"], 2);
  for (const Json& stage : made["stages"]) {
    EXPECT_EQ(stage["chunks"].size(), 2U);
    EXPECT_TRUE(stage["shard"] == "all" || stage["shard"] == "pod") << stage;
  }
  EXPECT_EQ(without_search(evaluated(made, flags)), without_search(made));
  EXPECT_EQ(plan({"--shard", "pod", "--zero", "1", "--dp", "4"})["stages"][0]["shard"], "pod");
}

TEST_F(RulesAndMemoryTest, TargetsTellWhatToSet) {
  const Json made = plan({"--target", "megatron", "--zero", "1", "--dp", "2"});
  EXPECT_EQ(made["target"]["name"], "megatron");
  EXPECT_FALSE(made["target"]["version"].get<std::string>().empty());
  EXPECT_FALSE(made["target"]["settings"].empty());
  EXPECT_EQ(without_search(evaluated(made, {"--zero", "1"})), without_search(made))
      << "the plan names its target";
  EXPECT_FALSE(plan({}).contains("target"));
}

TEST_F(RulesAndMemoryTest, CheckpointsAndBatchesKnowThem) {
  const Words flags{
      "--pp", "3",     "--pin", "b.*=2",   "--memory-margin", "5%", "--context-reserve",
      "1 MB", "--vpp", "1,2",   "--shard", "all,pod"};
  const Json made = plan(flags);
  Words with_checkpoint = flags;
  with_checkpoint.insert(with_checkpoint.end(), {"--checkpoint", path("c.h5")});
  plan(with_checkpoint);
  const Outcome resumed = run({"resume", path("c.h5"), "--json"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(without_search(Json::parse(resumed.out)), without_search(made));
  write_json("batch.json", {{"format", "nestplan.batch/1"},
                            {"jobs",
                             {{{"name", "j"},
                               {"graph", "graph.json"},
                               {"cluster", "cluster.json"},
                               {"options",
                                {{"global-batch", 16},
                                 {"pp", 3},
                                 {"pin", Json::array({"b.*=2"})},
                                 {"memory-margin", "5%"},
                                 {"context-reserve", "1 MB"},
                                 {"vpp", {1, 2}},
                                 {"shard", "all,pod"}}}}}}});
  const Outcome batch = run({"batch", path("batch.json"), "-o", path("plans")});
  EXPECT_EQ(batch.exit_code, 0) << batch.err;
  EXPECT_EQ(without_search(Json::parse(read_file(path("plans/j.plan.json")))),
            without_search(made));
}

}  // namespace
}  // namespace nestplan::test
