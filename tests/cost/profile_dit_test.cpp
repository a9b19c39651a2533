#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cost/samples.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

using model::DiffusionTransformer;
using model::Graph;
using model::Layer;
using model::LayerCost;
using test::h100;

/// Three blocks of DiT-XL/2 (arXiv 2212.09748, table 1).
DiffusionTransformer dit() {
  DiffusionTransformer model;
  model.name = "dit";
  model.in_channels = 4;
  model.out_channels = 8;
  model.sample_size = 32;
  model.patch = 2;
  model::Architecture& a = model.blocks;
  a.name = "dit";
  a.layers = 3;
  a.hidden = 1152;
  a.heads = a.kv_heads = 16;
  a.head_dim = 72;
  a.ffn = 4608;
  a.causal = false;
  a.norm = model::NormKind::kPlain;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.modulation = model::Modulation{256, 1001};
  return model;
}

ProfileOptions one_device() {
  ProfileOptions options;
  options.tp = {1};
  return options;
}

Graph graph_of(const ProfileOptions& options) {
  return build_graph(model::Model(dit()), h100(), options);
}

TEST(DiffusionTransformer, IsAChainOverPatches) {
  const Graph graph = graph_of(one_device());
  ASSERT_EQ(graph.layers.size(), 5U);
  EXPECT_EQ(graph.layers.front().id, "embedding");
  EXPECT_EQ(graph.layers[1].id, "layer.0");
  EXPECT_EQ(graph.layers.back().id, "head");
  EXPECT_FALSE(graph.tokens_per_sample);
  EXPECT_EQ(graph.dimensions.sequence, 256);
  ASSERT_EQ(graph.edges.size(), 4U);
  for (std::size_t i = 0; i < graph.edges.size(); ++i) {
    const double labels = i == 0 ? 0 : 16;  // handed on with the hidden state
    EXPECT_EQ(graph.edges[i].bytes.front(), 256 * 1152 * 2.0 + labels);
  }
}

// Were it not for what is handed on, every block's modulation could run at any time.
TEST(DiffusionTransformer, HasFewDownsetsAtEveryGranularity) {
  for (const Granularity granularity : {Granularity::kBlock, Granularity::kOperator}) {
    ProfileOptions options = one_device();
    options.granularity = granularity;
    const Graph graph = graph_of(options);
    std::vector<int> sources(graph.layers.size(), 1);
    for (const model::Edge& edge : graph.edges) sources[static_cast<std::size_t>(edge.to)] = 0;
    EXPECT_LE(std::count(sources.begin(), sources.end(), 1), 2);
  }
}

// The head reads time and label as the first block embeds them.
TEST(DiffusionTransformer, SharesTheEmbeddingOfTheFirstBlock) {
  const Graph graph = graph_of(one_device());
  ASSERT_EQ(graph.ties.size(), 1U);
  EXPECT_EQ(graph.ties.front().layers, (std::vector<int>{1, 4}));
  const double shared = graph.ties.front().parameters.front();
  EXPECT_EQ(shared, static_cast<double>(conditioning_parameters(dit().blocks)));
  double sum = 0;
  for (const Layer& layer : graph.layers) sum += layer.costs.front()->parameters;
  EXPECT_EQ(sum, static_cast<double>(total_parameters(dit())) + shared);
}

// 118.64 billion multiplications for 28 blocks and 256 tokens (table 1 there), all but the
// embeddings of time and label, of which there it has one.
TEST(DiffusionTransformer, FlopsAreAsPublished) {
  DiffusionTransformer xl = dit();
  xl.blocks.layers = 28;
  const double forward = model_flops_per_sample(model::Model(xl), one_device()) / 3;
  EXPECT_NEAR(forward / 2, 118.64e9, 0.005 * 118.64e9);
}

TEST(DiffusionTransformer, IsSplitLikeOtherTransformers) {
  ProfileOptions options = one_device();
  const Graph whole = graph_of(options);
  options.tp = {4, 32};
  std::vector<DroppedDegree> dropped;
  const Graph split = build_graph(model::Model(dit()), h100(), options, &dropped);
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped.front().degree, 32);
  const auto weights = [](const Graph& graph) { return graph.layers[1].costs.front()->parameters; };
  EXPECT_LT(weights(split), weights(whole));
  // what works out shifts, scales and gates is on every device
  EXPECT_GT(weights(split), 6.0 * 1152 * 1152);
}

TEST(DiffusionTransformer, ModulationIsAnOperatorOfItsOwn) {
  ProfileOptions options = one_device();
  options.micro_batches = {4};
  options.granularity = Granularity::kOperator;
  const Graph graph = graph_of(options);
  const auto& layer = graph.layers[1];
  EXPECT_EQ(layer.id, "layer.0.modulation");
  EXPECT_EQ(
      layer.costs.front()->parameters,
      6.0 * (1152 * 1152 + 1152) + static_cast<double>(conditioning_parameters(dit().blocks)));
  double coarse = 0;
  double fine = 0;
  for (const Layer& each : graph.layers) fine += each.costs.front()->activation_bytes;
  options.granularity = Granularity::kLayer;
  for (const Layer& each : graph_of(options).layers) coarse += each.costs.front()->activation_bytes;
  EXPECT_EQ(fine, coarse);
}

}  // namespace
}  // namespace nestplan::cost
