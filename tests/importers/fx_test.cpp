#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "importers/samples.hpp"

namespace nestplan::importers {
namespace {

using nlohmann::json;
using test::has;

Imported read(const json& document, const Options& options = {}) {
  return test::import(document.dump(), "m.json", Format::kFx, options);
}

json gpt() { return json::parse(test::sample("gpt.fx.json")); }

std::string complaint_with(const std::string& pointer, const json& value,
                           const Options& options = {}) {
  json document = gpt();
  document[json::json_pointer(pointer)] = value;
  return test::complaint(document.dump(), "m.json", Format::kFx, options);
}

TEST(Fx, TiesAndNamesAreKept) {
  const model::Graph graph = test::import_sample("gpt.fx.json").graph;
  EXPECT_EQ(graph.name, "Gpt");
  ASSERT_EQ(graph.ties.size(), 1U);
  EXPECT_EQ(graph.layers[static_cast<std::size_t>(graph.ties[0].layers[1])].id, "lm_head");
  EXPECT_EQ(graph.strategies.size(), 2U);
}

TEST(Fx, MultiheadAttentionIsProductsAndACore) {
  Options options;
  options.tp = {1, 2};
  const model::Graph graph = test::import_sample("encoder.fx.json", options).graph;
  // 8 tokens of width 16: four square products, the core, and an MLP four times as wide
  const double forward = 4 * 2 * 8 * 16 * 16 + 4 * 8 * 8 * 16 + 2 * 2 * 8 * 16 * 64;
  EXPECT_DOUBLE_EQ(*graph.model_flops_per_sample, 3 * forward);
  const model::Layer& mix = test::layer(graph, "mix");
  EXPECT_EQ(mix.costs[0]->parameters, 4 * (16 * 16 + 16));
  const auto split = std::find_if(graph.strategies.begin(), graph.strategies.end(),
                                  [](const auto& s) { return s.id == "tp2-mb1"; });
  ASSERT_NE(split, graph.strategies.end());
  const auto column = static_cast<std::size_t>(split - graph.strategies.begin());
  EXPECT_EQ(mix.costs[column]->parameters, 4 * 16 * 16 / 2 + 3 * 16 / 2 + 16);
}

TEST(Fx, CausalMultiheadAttentionCountsHalfOfThePairs) {
  json document = json::parse(test::sample("encoder.fx.json"));
  const double full = *read(document).graph.model_flops_per_sample;
  for (json& node : document["nodes"]) {
    if (node["type"] == "MultiheadAttention") node["attributes"]["is_causal"] = true;
  }
  EXPECT_DOUBLE_EQ(*read(document).graph.model_flops_per_sample, full - 3 * 2 * 8 * 8 * 16);
}

TEST(Fx, BothFormatsOfAModelAgree) {
  for (const std::string name : {"gpt", "llama", "encoder", "convnet", "mixtral", "t5"}) {
    Options options;
    options.micro_batches = {1};
    const model::Graph a = test::import_sample(name + ".onnx", options).graph;
    const model::Graph b = test::import_sample(name + ".fx.json", options).graph;
    EXPECT_EQ(a.model_flops_per_sample, b.model_flops_per_sample) << name;
    EXPECT_EQ(a.tokens_per_sample, b.tokens_per_sample) << name;
  }
}

TEST(Fx, OnlyTheMicroBatchesThatAreAskedFor) {
  Options options;
  options.micro_batches = {2};
  EXPECT_EQ(read(gpt(), options).graph.strategies.size(), 1U);
  options.micro_batches = {3};
  EXPECT_TRUE(has(test::complaint(gpt().dump(), "m.json", Format::kFx, options),
                  "traced with 1, 2, not 3"));
}

TEST(Fx, BadFieldsAreNamed) {
  EXPECT_EQ(complaint_with("/nodes/5/type", "Liner"),
            "m.json: nodes[5].type: unknown operator \"Liner\" (did you mean \"Linear\"?); "
            "--unknown memory-bound counts its inputs and outputs");
  EXPECT_TRUE(has(complaint_with("/nodes/5/inputs/0", "h_0_ln_2"),
                  "nodes[5].inputs[0]: no node or constant before this one is called "
                  "\"h_0_ln_2\" (did you mean \"h_0_ln_1\"?)"));
  EXPECT_TRUE(has(complaint_with("/nodes/5/shapes", json::array()), "nodes[5].shapes"));
  EXPECT_TRUE(has(complaint_with("/nodes/5/shapes/0/0", -1), "nodes[5].shapes[0][0]"));
  EXPECT_TRUE(has(complaint_with("/nodes/5/dtype", "float31"), "did you mean \"float32\""));
  EXPECT_TRUE(has(complaint_with("/nodes/5/name", "wte"), "is the name of two"));
  EXPECT_TRUE(has(complaint_with("/nodes/5/module", 7), "nodes[5].module"));
  EXPECT_TRUE(has(complaint_with("/constants/0/shape", {1 << 30, 1 << 30}), "2^50"));
  EXPECT_TRUE(has(complaint_with("/micro_batches", {1, 1}), "micro_batches[1]"));
  EXPECT_TRUE(has(complaint_with("/format", "nestplan.fx/2"), "nestplan.fx/1"));
  EXPECT_TRUE(has(complaint_with("/nods", 1), "did you mean \"nodes\""));
  EXPECT_TRUE(has(complaint_with("/nodes/5/inputs", {"h_0_ln_1"}), "nodes[5].inputs"));
}

TEST(Fx, FactorsOfDifferentDepthAreRefused) {
  EXPECT_TRUE(has(complaint_with("/constants/5/shape", {48, 15}),
                  "nodes[5].inputs: must be factors of one depth, but are 16 and 15"));
}

TEST(Fx, UnknownTypesMayMoveMemory) {
  json document = gpt();
  document["nodes"][28]["type"] = "my_op";
  Options options;
  options.unknown_memory_bound = true;
  EXPECT_GT(read(document, options).graph.layers.size(), 1U);
}

}  // namespace
}  // namespace nestplan::importers
