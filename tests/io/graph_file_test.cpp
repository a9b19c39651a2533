#include <gtest/gtest.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

model::Graph parse(const Json& document) { return parse_graph(document.dump(), "g.json"); }

std::string error_of(const Json& document) {
  return message_of([&] { parse(document); });
}

/// The message for the sample with `value` at the JSON pointer `where`.
std::string error_with(const std::string& where, const Json& value) {
  Json document = test::sample_graph();
  document[Json::json_pointer(where)] = value;
  return error_of(document);
}

std::string error_without(const std::string& parent, const std::string& key) {
  Json document = test::sample_graph();
  document[Json::json_pointer(parent)].erase(key);
  return error_of(document);
}

TEST(GraphFile, ReadsEverything) {
  Json document = test::sample_graph();
  document["tokens_per_sample"] = 4096;
  document["model_flops_per_sample"] = 1.5e15;
  document["provenance"] = "by hand";
  const model::Graph graph = parse(document);
  EXPECT_EQ(graph.name, "toy");
  EXPECT_EQ(graph.tokens_per_sample, 4096);
  EXPECT_EQ(graph.model_flops_per_sample, 1.5e15);
  ASSERT_EQ(graph.strategies.size(), 2U);
  EXPECT_EQ(graph.strategies[1].id, "tp2");
  EXPECT_EQ(graph.strategies[1].tp, 2);
  ASSERT_EQ(graph.layers.size(), 3U);
  EXPECT_FALSE(graph.layers[2].costs[1].has_value()) << "an empty column";
  const model::LayerCost& cost = graph.layers[0].costs[1].value();
  EXPECT_EQ(cost.forward_s, 0.05);
  EXPECT_EQ(cost.backward_s, 0.1);
  EXPECT_EQ(cost.parameters, 50);
  EXPECT_EQ(cost.expert_parameters, 3);
  EXPECT_EQ(cost.activation_bytes, 25);
  EXPECT_EQ(cost.checkpoint_bytes, 7);
  ASSERT_EQ(cost.collectives.size(), 1U);
  EXPECT_EQ(cost.collectives[0].phase, model::Phase::kBackward);
  EXPECT_EQ(cost.collectives[0].op, model::CollectiveOp::kAllGather);
  EXPECT_EQ(cost.collectives[0].group, model::GroupKind::kExpert);
  EXPECT_EQ(cost.collectives[0].bytes, 9);
  ASSERT_EQ(graph.edges.size(), 3U);
  EXPECT_EQ(graph.edges[0].from, 0);
  EXPECT_EQ(graph.edges[0].to, 1);
  EXPECT_EQ(graph.edges[0].bytes, (std::vector<double>{10, 20}));
  EXPECT_EQ(graph.edges[1].bytes, (std::vector<double>{30, 30}));
}

TEST(GraphFile, Defaults) {
  const model::Graph graph = parse(test::sample_graph());
  EXPECT_EQ(graph.tokens_per_sample, std::nullopt);
  EXPECT_EQ(graph.model_flops_per_sample, std::nullopt);
  const model::Strategy& strategy = graph.strategies[0];
  EXPECT_EQ(
      std::vector({strategy.sp, strategy.cp, strategy.ep, strategy.etp, strategy.micro_batch}),
      (std::vector<std::int64_t>(5, 1)));
  const model::LayerCost& cost = *graph.layers[0].costs[0];
  EXPECT_EQ(cost.expert_parameters, 0);
  EXPECT_TRUE(cost.collectives.empty());
}

TEST(GraphFile, CheckpointsDefaultToTheSumOfIncomingEdges) {
  const model::Graph graph = parse(test::sample_graph());
  EXPECT_EQ(graph.layers[0].costs[0]->checkpoint_bytes, 0) << "a source";
  EXPECT_EQ(graph.layers[0].costs[1]->checkpoint_bytes, 7) << "given";
  EXPECT_EQ(graph.layers[1].costs[0]->checkpoint_bytes, 10);
  EXPECT_EQ(graph.layers[1].costs[1]->checkpoint_bytes, 20) << "by strategy";
  EXPECT_EQ(graph.layers[2].costs[0]->checkpoint_bytes, 30 + 5) << "two edges";
}

TEST(GraphFile, GivenCheckpointOfZeroIsKept) {
  Json document = test::sample_graph();
  document["layers"][1]["costs"]["tp1"]["checkpoint_bytes"] = 0;
  EXPECT_EQ(parse(document).layers[1].costs[0]->checkpoint_bytes, 0);
}

TEST(GraphFile, CountsAreQuantised) {
  Json document = test::sample_graph();
  document["layers"][0]["costs"]["tp1"]["parameters"] = 0.1;
  EXPECT_EQ(parse(document).layers[0].costs[0]->parameters, 103.0 / 1024);
}

TEST(GraphFile, SequenceParallelIsADegreeOrAYes) {
  Json document = test::sample_graph();
  document["strategies"][0]["sp"] = false;
  document["strategies"][1]["sp"] = true;
  EXPECT_EQ(parse(document).strategies[0].sp, 1);
  EXPECT_EQ(parse(document).strategies[1].sp, 2);
  document["strategies"][1]["sp"] = 4;
  EXPECT_EQ(parse(document).strategies[1].sp, 4);
}

TEST(GraphFile, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_with("/edgse", 1), "g.json: unknown key \"edgse\" (did you mean \"edges\"?)");
  EXPECT_EQ(error_with("/strategies/1/microbatch", 1),
            "g.json: strategies[1]: unknown key \"microbatch\" (did you mean \"micro_batch\"?)");
  EXPECT_EQ(error_with("/layers/0/cost", 1),
            "g.json: layers[0]: unknown key \"cost\" (did you mean \"costs\"?)");
  EXPECT_EQ(error_with("/layers/2/costs/tp1/forward", 1),
            "g.json: layers[2].costs.tp1: unknown key \"forward\" (did you mean \"forward_s\"?)");
  EXPECT_EQ(error_with("/edges/1/byte", 1),
            "g.json: edges[1]: unknown key \"byte\" (did you mean \"bytes\"?)");
  expect_contains(error_with("/layers/0/costs/tp2/collectives/0/size", 1),
                  "layers[0].costs.tp2.collectives[0]: unknown key \"size\"");
}

TEST(GraphFile, MissingKeysAreNamed) {
  for (const char* key : {"name", "strategies", "layers", "edges"}) {
    EXPECT_EQ(error_without("", key), std::string("g.json: missing key \"") + key + "\"");
  }
  for (const char* key : {"forward_s", "backward_s", "parameters", "activation_bytes"}) {
    EXPECT_EQ(error_without("/layers/1/costs/tp2", key),
              std::string("g.json: layers[1].costs.tp2: missing key \"") + key + "\"");
  }
  EXPECT_EQ(error_without("/strategies/0", "tp"), "g.json: strategies[0]: missing key \"tp\"");
  EXPECT_EQ(error_without("/edges/0", "bytes"), "g.json: edges[0]: missing key \"bytes\"");
}

TEST(GraphFile, IdsAreUnique) {
  EXPECT_EQ(error_with("/layers/2/id", "embed"),
            "g.json: layers[2].id: \"embed\" is the id of layers[0] already");
  EXPECT_EQ(error_with("/strategies/1/id", "tp1"),
            "g.json: strategies[1].id: \"tp1\" is the id of strategies[0] already");
  expect_contains(error_with("/layers/0/id", ""), "layers[0].id: must not be empty");
}

TEST(GraphFile, NamesMustExist) {
  EXPECT_EQ(error_with("/edges/0/to", "blok"),
            "g.json: edges[0].to: unknown layer \"blok\" (did you mean \"block\"?)");
  EXPECT_EQ(error_with("/edges/2/from", "embeds"),
            "g.json: edges[2].from: unknown layer \"embeds\" (did you mean \"embed\"?)");
  EXPECT_EQ(error_with("/layers/0/costs/tp3", Json::object()),
            "g.json: layers[0].costs: unknown strategy \"tp3\" (did you mean \"tp1\"?)");
  EXPECT_EQ(error_with("/edges/0/bytes/pt2", 1),
            "g.json: edges[0].bytes: unknown strategy \"pt2\" (did you mean \"tp2\"?)");
  expect_contains(
      error_with("/layers/0/costs/tp2/collectives/0/op", "allreduce"),
      "layers[0].costs.tp2.collectives[0].op: \"allreduce\" is not a collective (known: "
      "all_reduce, ");
  expect_contains(error_with("/layers/0/costs/tp2/collectives/0/group", "pp"), ".group: \"pp\" is");
  expect_contains(error_with("/layers/0/costs/tp2/collectives/0/phase", "fwd"),
                  ".phase: \"fwd\" is");
}

TEST(GraphFile, EdgesMakeAnAcyclicGraph) {
  Json document = test::sample_graph();
  document["edges"].push_back({{"from", "head"}, {"to", "block"}, {"bytes", 1}});
  const std::string message = error_of(document);
  expect_contains(message, "g.json: edges: layer \"");
  expect_contains(message, "is on a cycle");

  EXPECT_EQ(error_with("/edges/1/to", "block"),
            "g.json: edges[1]: leads from layer \"block\" to itself");
  EXPECT_EQ(error_with("/edges/2/to", "block"),
            "g.json: edges[2]: is the same edge as edges[0]: \"embed\" to \"block\"");
}

TEST(GraphFile, NothingMayBeEmpty) {
  Json document = test::sample_graph();
  document["layers"] = Json::array();
  document["edges"] = Json::array();
  EXPECT_EQ(error_of(document), "g.json: layers: must have at least one layer");
  document = test::sample_graph();
  document["strategies"] = Json::array();
  EXPECT_EQ(error_of(document), "g.json: strategies: must have at least one strategy");
  expect_contains(error_with("/layers/1/costs", Json::object()),
                  "g.json: layers[1].costs: the layer can use no strategy");
  expect_contains(error_with("/layers/1/costs", Json{{"tp1", Json::object()}}),
                  "g.json: layers[1].costs: the layer can use no strategy");
}

TEST(GraphFile, EdgesNeedBytesForEveryUsableStrategy) {
  EXPECT_EQ(error_with("/edges/0/bytes", Json{{"tp1", 10}}),
            "g.json: edges[0].bytes: missing the bytes of strategy \"tp2\"");
  // "head" cannot use tp2, but tensors to it may be relayed by a stage that does
  EXPECT_EQ(error_with("/edges/1/bytes", Json{{"tp1", 10}}),
            "g.json: edges[1].bytes: missing the bytes of strategy \"tp2\"");
  Json document = test::sample_graph();
  for (Json& layer : document["layers"]) layer["costs"].erase("tp2");
  document["edges"][0]["bytes"].erase("tp2");
  EXPECT_EQ(parse(document).edges[0].bytes[0], 10) << "no layer can use tp2";
}

TEST(GraphFile, NumbersMustMakeSense) {
  expect_contains(error_with("/strategies/0/tp", 0), "strategies[0].tp: must be at least 1");
  expect_contains(error_with("/strategies/0/cp", -2), "strategies[0].cp: must be at least 1");
  expect_contains(error_with("/strategies/0/ep", 1.5), "strategies[0].ep: must be a whole number");
  expect_contains(error_with("/strategies/0/etp", 1e18), "strategies[0].etp: must be at most");
  expect_contains(error_with("/strategies/0/micro_batch", 0), "micro_batch: must be at least 1");
  expect_contains(error_with("/layers/0/costs/tp1/forward_s", -1e-3),
                  "layers[0].costs.tp1.forward_s: must not be negative");
  expect_contains(error_with("/layers/0/costs/tp1/forward_s", 1e300), "forward_s: must be at most");
  expect_contains(error_with("/layers/0/costs/tp1/parameters", "7B"),
                  "parameters: must be a number");
  expect_contains(error_with("/layers/0/costs/tp1/parameters", nullptr),
                  "must be a number, not null");
  expect_contains(error_with("/layers/0/costs/tp2/collectives/0/bytes", -1),
                  "must not be negative");
  expect_contains(error_with("/edges/0/bytes/tp1", -1), "edges[0].bytes.tp1: must not be negative");
  expect_contains(error_with("/edges/0/bytes", "1 GB"), "edges[0].bytes: must be a number");
  expect_contains(error_with("/tokens_per_sample", 0), "tokens_per_sample: must be more than 0");
  expect_contains(error_with("/model_flops_per_sample", -5), "must not be negative");
  expect_contains(error_with("/provenance", 5), "provenance: must be text");
}

TEST(GraphFile, DimensionsRoundTrip) {
  Json document = test::sample_graph();
  document["dimensions"] = {{"heads", 8}, {"blocks", 4},      {"windows", 2},
                            {"sinks", 3}, {"predictions", 1}, {"kind", "encoder_decoder"}};
  const model::Graph graph = parse(document);
  EXPECT_EQ(graph.dimensions.windows, 2);
  EXPECT_EQ(graph.dimensions.sinks, 3);
  EXPECT_EQ(graph.dimensions.predictions, 1);
  EXPECT_EQ(graph.dimensions.kind, model::ModelKind::kEncoderDecoder);
  EXPECT_EQ(parse_graph(graph_to_json(graph), "g.json"), graph);
  expect_contains(error_with("/dimensions", {{"kind", "decodr"}}), "is not a kind of model");
}

TEST(GraphFile, RoundTrip) {
  Json document = test::sample_graph();
  document["tokens_per_sample"] = 2048;
  document["model_flops_per_sample"] = 1.0 / 3;
  document["layers"][0]["costs"]["tp1"]["forward_s"] = 0.1234567890123456789;
  const std::string once = graph_to_json(parse(document));
  const model::Graph graph = parse_graph(once, "again");
  EXPECT_EQ(graph_to_json(graph), once);
  EXPECT_EQ(graph.layers[0].costs[0]->forward_s, 0.1234567890123456789);
  EXPECT_EQ(graph.model_flops_per_sample, 1.0 / 3);
  EXPECT_EQ(graph.layers[2].costs[0]->checkpoint_bytes, 35);
  EXPECT_FALSE(graph.layers[2].costs[1].has_value());
  EXPECT_EQ(once.back(), '\n');
}

}  // namespace
}  // namespace nestplan::io
