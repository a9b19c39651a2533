#include <gtest/gtest.h>

#include <limits>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

model::Graph graph() { return parse_graph(test::sample_graph().dump(), "g.json"); }
model::Cluster cluster() { return parse_cluster(test::sample_cluster().dump(), "c.json"); }

model::PartialPlan parse(const Json& document) {
  return parse_plan(document.dump(), "p.json", graph());
}

std::string error_of(const Json& document) {
  return message_of([&] { parse(document); });
}

/// The message for the sample with `value` at the JSON pointer `where`.
std::string error_with(const std::string& where, const Json& value) {
  Json document = test::sample_plan();
  document[Json::json_pointer(where)] = value;
  return error_of(document);
}

/// A plan as a search returns it; its numbers need not agree with any formula.
model::Plan finished_plan() {
  model::Plan plan;
  plan.status = model::Status::kFeasible;
  plan.iteration_time_s = 0.1 + 0.2;
  plan.lower_bound_s = 0.25;
  plan.gap = 1.0 / 6;
  plan.strategy.dp = 4;
  plan.strategy.dp_inner = 2;
  plan.strategy.dp_outer = 2;
  plan.strategy.pp = 2;
  plan.strategy.microbatches = 8;
  plan.stages.resize(2);
  model::StagePlan& first = plan.stages[0];
  first.layers = {0, 1};
  first.strategy = 1;
  first.devices = 4;
  first.zero = 2;
  first.time.total_s = 1e-3;
  first.time.sync_s = 1.0 / 3;
  first.memory = {.total_bytes = 75e9, .state_bytes = 70e9, .activation_bytes = 5e9};
  model::StagePlan& second = plan.stages[1];
  second.layers = {2};
  second.position = 4;
  second.devices = 2;
  second.recompute = model::Recompute::kFull;
  plan.split.compute_s = 0.125;
  plan.split.bubble_s = -1e-19;
  plan.search.seconds = 1.5;
  plan.search.ranks = 2;
  plan.search.configurations = 10;
  plan.search.tables = 3;
  plan.search.cells = 1000;
  plan.search.rejected = {{"memory", 4}, {"bound", 6}};
  return plan;
}

TEST(PlanFile, SaysWhatRunsBesideComputation) {
  model::Plan plan = finished_plan();
  const auto written = [&](const std::optional<PlanTarget>& target) {
    return Json::parse(plan_to_json(plan, graph(), cluster(), {}, target, {}));
  };
  EXPECT_FALSE(written({})["strategy"].contains("overlap"));
  EXPECT_FALSE(written({})["stages"][0]["time"].contains("hidden_s"));
  const PlanTarget megatron{"megatron", "", {}};
  EXPECT_EQ(written(megatron)["strategy"]["overlap"]["sync"], 0) << "not what is usual there";
  plan.strategy.overlap.sync = 0.5;
  plan.stages[0].time.hidden_sync_s = 0.25;
  const Json document = written({});
  EXPECT_EQ(document["strategy"]["overlap"]["sync"], 0.5);
  EXPECT_EQ(document["strategy"]["overlap"]["tensor"], 0);
  EXPECT_EQ(document["stages"][0]["time"]["hidden_sync_s"], 0.25);
}

TEST(PlanFile, NamesTheOptimizersStepWhereItTakesTime) {
  model::Plan plan = finished_plan();
  const auto written = [&] {
    return Json::parse(plan_to_json(plan, graph(), cluster(), {}, {}, {}));
  };
  EXPECT_FALSE(written()["stages"][0]["time"].contains("update_s"));
  EXPECT_FALSE(written()["time_split"].contains("update_s"));
  plan.stages[0].time.update_s = 0.25;
  plan.split.update_s = 0.25;
  EXPECT_EQ(written()["stages"][0]["time"]["update_s"], 0.25);
  EXPECT_EQ(written()["time_split"]["update_s"], 0.25);
}

TEST(PlanFile, SharesAreFromNoneToAll) {
  expect_contains(error_with("/strategy/overlap", {{"sync", 1.5}}), "strategy.overlap.sync: ");
  expect_contains(error_with("/strategy/overlap", {{"synch", 1}}), "did you mean \"sync\"");
}

TEST(PlanFile, ReadsAPlanByHand) {
  const model::PartialPlan plan = parse(test::sample_plan());
  EXPECT_EQ(plan.dp, 4);
  EXPECT_EQ(plan.dp_inner, 2);
  EXPECT_EQ(plan.schedule, model::Schedule::kGPipe);
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.stages[0].layers, (std::vector<int>{0, 1})) << "ascending";
  EXPECT_EQ(plan.stages[0].strategy, 1);
  EXPECT_EQ(plan.stages[0].position, 0);
  EXPECT_EQ(plan.stages[0].recompute, model::Recompute::kFull);
  EXPECT_EQ(plan.stages[0].zero, 1);
  EXPECT_EQ(plan.stages[1].position, std::nullopt);
  EXPECT_EQ(plan.stages[1].recompute, std::nullopt);
  EXPECT_EQ(plan.stages[1].zero, std::nullopt);
}

TEST(PlanFile, LittleIsEnough) {
  const model::PartialPlan plan = parse(Json::parse(R"({
    "format": "nestplan.plan/1", "strategy": {"dp": 3},
    "stages": [{"layers": ["embed", "block", "head"], "strategy": "tp1"}]})"));
  EXPECT_EQ(plan.dp, 3);
  EXPECT_EQ(plan.dp_inner, std::nullopt);
  EXPECT_EQ(plan.schedule, std::nullopt);
}

TEST(PlanFile, InnerDataParallelismFollowsFromTheRest) {
  Json document = test::sample_plan();
  document["strategy"].erase("dp_inner");
  EXPECT_EQ(parse(document).dp_inner, 2) << "from dp_outer";
  document["strategy"].erase("dp_outer");
  EXPECT_EQ(parse(document).dp_inner, 2) << "from the devices of a stage";
  document["stages"][0]["devices"] = 6;
  expect_contains(error_of(document), "stages[0].devices: is 6, which is not tp times cp (2)");
  document["stages"][0]["devices"] = 3;
  expect_contains(error_of(document), "stages[0].devices: is 3, which is not tp times cp (2)");
}

TEST(PlanFile, ContradictionsAreErrors) {
  EXPECT_EQ(error_with("/strategy/dp_outer", 4),
            "p.json: strategy.dp_outer: dp_inner times dp_outer is 8, but dp is 4");
  EXPECT_EQ(error_with("/strategy/dp_inner", 3),
            "p.json: strategy.dp_outer: dp_inner times dp_outer is 6, but dp is 4");
  EXPECT_EQ(error_with("/strategy/pp", 3),
            "p.json: strategy.pp: is 3, but the number of stages is 2");
  EXPECT_EQ(error_with("/strategy/micro_batch", 2),
            "p.json: strategy.micro_batch: is 2, but the stages' strategies are for 1");
  EXPECT_EQ(error_with("/stages/0/tp", 1),
            "p.json: stages[0].tp: is 1, but strategy \"tp2\" has 2");
  EXPECT_EQ(error_with("/stages/0/devices", 8),
            "p.json: stages[0].devices: is 8, but tp times cp times dp_inner is 4");
  EXPECT_EQ(error_with("/strategy/vpp", 2),
            "p.json: stages[0]: without \"chunks\" there is 1 chunk, but strategy.vpp is 2");

  Json document = test::sample_plan();
  document["strategy"].erase("dp_outer");
  document["strategy"]["dp_inner"] = 3;
  EXPECT_EQ(error_of(document), "p.json: strategy.dp_inner: 3 does not divide dp, which is 4");
  document["strategy"].erase("dp_inner");
  document["strategy"]["dp_outer"] = 3;
  EXPECT_EQ(error_of(document), "p.json: strategy.dp_outer: 3 does not divide dp, which is 4");
}

/// A plan with two chunks per stage: the first stage has the ends of the model.
Json interleaved() {
  return Json::parse(R"({
    "format": "nestplan.plan/1", "strategy": {"dp": 1, "vpp": 2},
    "stages": [{"layers": ["embed", "block", "head"], "strategy": "tp1",
                "chunks": [["embed"], ["head", "block"]]}]})");
}

TEST(PlanFile, ReadsChunksAndSpans) {
  const model::PartialPlan plan = parse(interleaved());
  EXPECT_EQ(plan.stages[0].chunks, (std::vector<std::vector<int>>{{0}, {1, 2}}));
  EXPECT_EQ(plan.stages[0].shard, std::nullopt);
  Json document = interleaved();
  document["strategy"].erase("vpp");
  EXPECT_EQ(parse(document).stages[0].chunks.size(), 2U) << "vpp follows from the chunks";
  document["stages"][0]["shard"] = "pod";
  EXPECT_EQ(parse(document).stages[0].shard, model::ShardSpan::kPod);
  document["stages"][0]["chunks"] = {{"embed", "block", "head"}};
  EXPECT_TRUE(parse(document).stages[0].chunks.empty()) << "one chunk is as good as none";
}

TEST(PlanFile, ChunksAreThoseOfTheStage) {
  const auto error_of_chunks = [](const Json& chunks) {
    Json document = interleaved();
    document["stages"][0]["chunks"] = chunks;
    return error_of(document);
  };
  EXPECT_EQ(error_of_chunks({{"embed"}, {"block"}}),
            "p.json: stages[0].chunks: layer \"head\" of the stage is in no chunk");
  EXPECT_EQ(error_of_chunks(Json::parse(R"([["embed", "block"], ["block", "head"]])")),
            "p.json: stages[0].chunks[1][0]: layer \"block\" is in a chunk of the stage already");
  EXPECT_EQ(error_of_chunks({{"embed", "block", "head"}, Json::array()}),
            "p.json: stages[0].chunks[1]: must have at least one layer");
  EXPECT_EQ(error_of_chunks({{"embed"}, {"block"}, {"head"}}),
            "p.json: stages[0].chunks: 3 chunks, but strategy.vpp is 2");
  expect_contains(error_of_chunks({{"embed"}, {"blok", "head"}}), "did you mean \"block\"?");
  Json document = test::sample_plan();
  document["strategy"].erase("vpp");
  document["stages"][0]["chunks"] = {{"embed"}, {"block"}};
  EXPECT_EQ(error_of(document),
            "p.json: stages[1]: without \"chunks\" there is 1 chunk, but the first stage has 2");
  document["stages"][0]["chunks"] = Json::parse(R"([["embed"], ["block", "head"]])");
  EXPECT_EQ(error_of(document),
            "p.json: stages[0].chunks[1][1]: layer \"head\" is not among the layers of the stage");
  expect_contains(error_with("/stages/0/shard", "pods"), "pod");
}

TEST(PlanFile, WritesSpansChunksAndTarget) {
  model::Plan plan = finished_plan();
  plan.stages[0].shard = model::ShardSpan::kPod;
  plan.stages[0].chunks = {{0}, {1}};
  plan.stages[0].time.tie_s = 0.5;
  plan.stages[0].memory.working_bytes = 7;
  const PlanTarget target{"megatron", "of today", {{"a.b", "2", "since"}}};
  const Json json = Json::parse(plan_to_json(plan, graph(), cluster(), 32, target));
  EXPECT_EQ(json["stages"][0]["shard"], "pod");
  EXPECT_EQ(json["stages"][0]["chunks"], (Json{{"embed"}, {"block"}}));
  EXPECT_FALSE(json["stages"][1].contains("shard")) << "ZeRO 0 has none";
  EXPECT_FALSE(json["stages"][1].contains("chunks"));
  EXPECT_EQ(json["stages"][0]["time"]["tie_s"], 0.5);
  EXPECT_EQ(json["stages"][0]["memory"]["working_bytes"], 7);
  EXPECT_EQ(json["target"], Json::parse(R"({"name": "megatron", "version": "of today",
      "settings": [{"key": "a.b", "value": "2", "why": "since"}]})"));
  EXPECT_FALSE(Json::parse(plan_to_json(plan, graph(), cluster(), 32)).contains("target"));
}

TEST(PlanFile, TargetsAndAnswersAreRead) {
  Json document = test::sample_plan();
  document["target"] = {{"name", "megatron"}, {"settings", {{{"key", "k"}, {"value", "v"}}}}};
  document["fewest_devices"] = {{"devices", 4}, {"of", 8}, {"proven", true}, {"too_few", nullptr}};
  document["what_if"] = {{{"change", "more"}, {"gain", nullptr}}};
  parse(document);
  document["target"]["settings"][0]["keys"] = "x";
  expect_contains(error_of(document), "target.settings[0]: unknown key \"keys\"");
  document["target"].erase("settings");
  document["what_if"][0].erase("change");
  expect_contains(error_of(document), "what_if[0]: missing key \"change\"");
}

TEST(PlanFile, StagesOfDifferentMicroBatchesAreRefused) {
  Json graph = test::sample_graph();
  graph["strategies"][1]["micro_batch"] = 2;
  Json document = test::sample_plan();
  document["strategy"].erase("micro_batch");
  const std::string message = message_of(
      [&] { parse_plan(document.dump(), "p.json", parse_graph(graph.dump(), "g.json")); });
  EXPECT_EQ(message,
            "p.json: stages[1].strategy: \"tp1\" is for micro-batches of 1, but the first stage's "
            "are of 2");
}

TEST(PlanFile, EveryLayerIsInExactlyOneStage) {
  EXPECT_EQ(error_with("/stages/0/layers", Json{"embed"}),
            "p.json: stages: layer \"block\" is in no stage");
  EXPECT_EQ(error_with("/stages/1/layers", Json{"head", "embed"}),
            "p.json: stages[1].layers[1]: layer \"embed\" is in stages[0].layers[1] already");
  EXPECT_EQ(error_with("/stages/1/layers", Json{"haed"}),
            "p.json: stages[1].layers[0]: unknown layer \"haed\" (did you mean \"head\"?)");
  EXPECT_EQ(error_with("/stages/1/layers", Json::array()),
            "p.json: stages[1].layers: must have at least one layer");
  EXPECT_EQ(error_with("/stages/1/strategy", "tp2"),
            "p.json: stages[1].layers[0]: layer \"head\" cannot use strategy \"tp2\"");
  EXPECT_EQ(error_with("/stages/1/strategy", "pt1"),
            "p.json: stages[1].strategy: unknown strategy \"pt1\" (did you mean \"tp1\"?)");
  expect_contains(error_with("/stages", Json::array()), "stages: must have at least one stage");
}

TEST(PlanFile, UnknownKeysAndNamesAreErrors) {
  EXPECT_EQ(error_with("/stages/0/recomputation", "none"),
            "p.json: stages[0]: unknown key \"recomputation\" (did you mean \"recompute\"?)");
  EXPECT_EQ(error_with("/strategy/dp_iner", 1),
            "p.json: strategy: unknown key \"dp_iner\" (did you mean \"dp_inner\"?)");
  EXPECT_EQ(error_with("/stage", 1), "p.json: unknown key \"stage\" (did you mean \"stages\"?)");
  expect_contains(error_with("/throughput", Json{{"tokens", 1}}), "throughput: unknown key");
  expect_contains(error_with("/stages/0/time", Json{{"forward", 1}}),
                  "stages[0].time: unknown key");
  expect_contains(error_with("/stages/0/recompute", "some"),
                  "stages[0].recompute: \"some\" is not");
  expect_contains(error_with("/strategy/schedule", "2f2b"), "strategy.schedule: \"2f2b\" is not");
  expect_contains(error_with("/status", "best"), "status: \"best\" is not");
  expect_contains(error_with("/objective", "best"), "objective: \"best\" is not");
}

TEST(PlanFile, NumbersMustMakeSense) {
  expect_contains(error_with("/strategy/dp", 0), "strategy.dp: must be at least 1");
  expect_contains(error_with("/strategy/dp", 1e12), "strategy.dp: must be at most");
  expect_contains(error_with("/stages/0/zero", 4), "stages[0].zero: must be at most 3");
  expect_contains(error_with("/stages/0/position", -1), "stages[0].position: must be at least 0");
  expect_contains(error_with("/stages/0/position", 0.5), "stages[0].position: must be a whole");
  expect_contains(error_with("/iteration_time_s", -1), "iteration_time_s: must not be negative");
  expect_contains(error_with("/throughput", Json{{"samples_per_s", "fast"}}), "must be a number");
  expect_contains(error_with("/search", Json{{"rejected", {{"memory", -1}}}}),
                  "search.rejected.memory: must be at least 0");
}

TEST(PlanFile, WritesEveryKey) {
  model::Graph toy = graph();
  toy.tokens_per_sample = 1000;
  toy.model_flops_per_sample = 6e12;
  const Json written = Json::parse(plan_to_json(finished_plan(), toy, cluster(), 31));
  EXPECT_EQ(written["format"], "nestplan.plan/1");
  EXPECT_EQ(written["status"], "feasible");
  EXPECT_EQ(written["objective"], "1f1b");
  EXPECT_EQ(written["model"], "toy");
  EXPECT_EQ(written["cluster"], "small");
  EXPECT_FALSE(written.contains("reason"));
  EXPECT_EQ(written["iteration_time_s"].get<double>(), 0.1 + 0.2) << "to the last bit";
  EXPECT_EQ(written["gap"].get<double>(), 1.0 / 6);
  EXPECT_EQ(written["batch"], (Json{{"global_batch", 31}, {"tokens", 31000}}));
  EXPECT_EQ(written["devices"], (Json{{"total", 16}, {"used", 12}, {"idle", 4}}));
  const double rate = 31 / (0.1 + 0.2);
  EXPECT_DOUBLE_EQ(written["throughput"]["samples_per_s"], rate);
  EXPECT_DOUBLE_EQ(written["throughput"]["tokens_per_s"], rate * 1000);
  EXPECT_DOUBLE_EQ(written["throughput"]["tokens_per_s_per_device"], rate * 1000 / 12);
  EXPECT_DOUBLE_EQ(written["throughput"]["model_tflops_per_device"], rate * 6 / 12);
  EXPECT_EQ(written["strategy"],
            Json::parse(R"({"dp": 4, "dp_inner": 2, "dp_outer": 2, "pp": 2, "vpp": 1,
                            "micro_batch": 1, "microbatches": 8, "schedule": "1f1b"})"));
  const Json& stage = written["stages"][0];
  EXPECT_EQ(stage["layers"], (Json{"embed", "block"}));
  EXPECT_EQ(stage["strategy"], "tp2");
  EXPECT_EQ(stage["tp"], 2);
  EXPECT_EQ(stage["devices"], 4);
  EXPECT_EQ(stage["zero"], 2);
  EXPECT_EQ(stage["recompute"], "none");
  EXPECT_EQ(stage["time"]["sync_s"].get<double>(), 1.0 / 3);
  EXPECT_EQ(stage["memory"]["total_bytes"], 75000000000);
  EXPECT_EQ(written["stages"][1]["recompute"], "full");
  EXPECT_EQ(written["time_split"]["compute_s"], 0.125);
  EXPECT_EQ(written["time_split"]["bubble_s"], 0);
  EXPECT_EQ(written["search"]["cells"], 1000);
  EXPECT_EQ(written["search"]["rejected"], (Json{{"memory", 4}, {"bound", 6}}));
}

TEST(PlanFile, UnknownThroughputIsNull) {
  const Json written = Json::parse(plan_to_json(finished_plan(), graph(), cluster()));
  EXPECT_EQ(written["batch"]["global_batch"], 4 * 1 * 8)
      << "dp times micro-batch times their number";
  EXPECT_TRUE(written["batch"]["tokens"].is_null());
  EXPECT_TRUE(written["throughput"]["tokens_per_s"].is_null());
  EXPECT_TRUE(written["throughput"]["tokens_per_s_per_device"].is_null());
  EXPECT_TRUE(written["throughput"]["model_tflops_per_device"].is_null());
  EXPECT_DOUBLE_EQ(written["throughput"]["samples_per_s"], 32 / (0.1 + 0.2));
}

TEST(PlanFile, ASearchWithoutAPlanHasAReason) {
  model::Plan plan;
  plan.reason = "no strategy divides the batch";
  const Json written = Json::parse(plan_to_json(plan, graph(), cluster(), 7));
  EXPECT_EQ(written["status"], "infeasible");
  EXPECT_EQ(written["reason"], plan.reason);
  EXPECT_EQ(written["batch"]["global_batch"], 7);
  EXPECT_TRUE(written["iteration_time_s"].is_null());
  EXPECT_TRUE(written["strategy"].is_null());
  EXPECT_TRUE(written["throughput"]["samples_per_s"].is_null());
  EXPECT_TRUE(written["stages"].empty());
  expect_contains(error_of(written), "stages: must have at least one stage");
}

TEST(PlanFile, AnInfeasiblePlanKeepsItsBreakdown) {
  model::Plan plan = finished_plan();
  plan.status = model::Status::kInfeasible;
  plan.reason = "stage 1 needs 3 GB too much";
  const std::string text = plan_to_json(plan, graph(), cluster());
  const Json written = Json::parse(text);
  EXPECT_EQ(written["iteration_time_s"].get<double>(), 0.1 + 0.2);
  EXPECT_TRUE(written["throughput"]["samples_per_s"].is_null());
  EXPECT_EQ(written["stages"].size(), 2U);
  EXPECT_EQ(parse_plan(text, "p.json", graph()).stages.size(), 2U);
}

TEST(PlanFile, ReadsWhatItWrites) {
  const model::Plan plan = finished_plan();
  const std::string text = plan_to_json(plan, graph(), cluster());
  EXPECT_EQ(text, plan_to_json(plan, graph(), cluster()));
  EXPECT_EQ(text.back(), '\n');
  const model::PartialPlan read = parse_plan(text, "p.json", graph());
  EXPECT_EQ(read.dp, 4);
  EXPECT_EQ(read.dp_inner, 2);
  EXPECT_EQ(read.schedule, model::Schedule::k1F1B);
  ASSERT_EQ(read.stages.size(), plan.stages.size());
  for (std::size_t i = 0; i < read.stages.size(); ++i) {
    EXPECT_EQ(read.stages[i].layers, plan.stages[i].layers);
    EXPECT_EQ(read.stages[i].strategy, plan.stages[i].strategy);
    EXPECT_EQ(read.stages[i].position, plan.stages[i].position);
    EXPECT_EQ(read.stages[i].recompute, plan.stages[i].recompute);
    EXPECT_EQ(read.stages[i].zero, plan.stages[i].zero);
  }
}

TEST(PlanFile, NumbersThatAreNotFiniteAreNeverWritten) {
  model::Plan plan = finished_plan();
  plan.stages[0].time.zero_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(plan_to_json(plan, graph(), cluster()), InternalError);
}

}  // namespace
}  // namespace nestplan::io
