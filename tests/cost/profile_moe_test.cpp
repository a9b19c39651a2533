#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cost/samples.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::Collective;
using model::CollectiveOp;
using model::Graph;
using model::GroupKind;
using model::Layer;
using model::LayerCost;
using model::Phase;
using test::cost_of;
using test::h100;

constexpr double kMiB = 1024.0 * 1024;

/// Two blocks of Qwen3-235B-A22B (arXiv 2505.09388, table 2).
Architecture qwen() {
  Architecture a = test::llama(2, 4096, 64, 4, 12288, 151936);
  a.name = a.family = "qwen3_moe";
  a.head_dim = 128;
  a.qk_norm = true;
  a.moe = model::MixtureOfExperts{};
  a.moe->experts = 128;
  a.moe->top_k = 8;
  a.moe->expert_ffn = 1536;
  return a;
}

/// A plain block and two with experts of DeepSeek-V3 (arXiv 2412.19437, section 4.2).
Architecture deepseek() {
  Architecture a = test::llama(3, 7168, 128, 128, 18432, 129280);
  a.name = a.family = "deepseek_v3";
  a.head_dim = 192;
  a.moe = model::MixtureOfExperts{};
  a.moe->experts = 256;
  a.moe->top_k = 8;
  a.moe->expert_ffn = a.moe->shared_ffn = 2048;
  a.moe->dense_blocks = {0};
  a.latent = model::LatentAttention{1536, 512, 128, 64, 128};
  a.mtp_layers = 1;
  return a;
}

ProfileOptions one_column(std::int64_t tp, std::int64_t ep, std::int64_t etp) {
  ProfileOptions options;
  options.sequence = 4096;
  options.tp = {tp};
  options.ep = {ep};
  options.etp = {etp};
  return options;
}

Graph graph_of(const Architecture& a, const ProfileOptions& options) {
  return build_graph(a, h100(), options);
}

ProfileOptions by_operator(ProfileOptions options) {
  options.granularity = Granularity::kOperator;
  return options;
}

double bytes_of(const LayerCost& cost, CollectiveOp op, GroupKind group, Phase phase) {
  double bytes = 0;
  for (const Collective& each : cost.collectives) {
    if (each.op == op && each.group == group && each.phase == phase) bytes += each.bytes;
  }
  return bytes;
}

// 4,096 tokens, 8 copies of each, 1,536 wide, two bytes: 96 MiB however the experts are dealt out.
TEST(Experts, WhatADeviceKeepsDoesNotDependOnTheirDealingOut) {
  for (const std::int64_t ep : {1, 8, 128}) {
    const Graph graph = graph_of(qwen(), by_operator(one_column(1, ep, 1)));
    const LayerCost& out = cost_of(graph, "layer.0.expert_out");
    EXPECT_EQ(out.activation_bytes, 96 * kMiB) << ep;
    EXPECT_EQ(out.selectively_kept(), 0) << ep;
    EXPECT_EQ(cost_of(graph, "layer.0.expert_act").activation_bytes, 192 * kMiB);
    EXPECT_EQ(cost_of(graph, "layer.0.expert_in").activation_bytes, 4096 * 8 * (4096 * 2.0 + 4));
  }
}

TEST(Experts, AreDealtOutAndSplit) {
  const double all = 128.0 * 3 * 4096 * 1536;
  for (const std::int64_t ep : {1, 8, 64}) {
    const LayerCost cost = cost_of(graph_of(qwen(), one_column(1, ep, 1)), "layer.1");
    EXPECT_EQ(cost.expert_parameters, all / static_cast<double>(ep));
  }
  const LayerCost split = cost_of(graph_of(qwen(), one_column(4, 8, 4)), "layer.1");
  EXPECT_EQ(split.expert_parameters, all / 32);
  const LayerCost dealt = cost_of(graph_of(qwen(), one_column(4, 32, 1)), "layer.1");
  EXPECT_EQ(dealt.expert_parameters, all / 32);
  // the router is on every device
  EXPECT_EQ(
      cost_of(graph_of(qwen(), by_operator(one_column(4, 8, 4))), "layer.1.router").parameters,
      4096.0 * 128);
}

TEST(Experts, ParametersAreThoseOfTheModel) {
  for (const Architecture& a : {qwen(), deepseek()}) {
    const Graph graph = graph_of(a, one_column(1, 1, 1));
    double sum = 0;
    for (const Layer& layer : graph.layers) {
      sum += layer.costs.front()->parameters + layer.costs.front()->expert_parameters;
    }
    const std::int64_t copies = a.mtp_layers * a.vocab * a.hidden;  // of the token table
    EXPECT_EQ(sum, static_cast<double>(total_parameters(a) + mtp_parameters(a) + copies));
  }
}

TEST(Experts, TokensTravelThereAndBack) {
  const double sent = 4096.0 * 8 * 4096 * 2;
  const Graph graph = graph_of(qwen(), by_operator(one_column(1, 8, 1)));
  EXPECT_EQ(graph.strategies.front().ep, 8);
  for (const char* id : {"layer.0.dispatch", "layer.0.combine"}) {
    const LayerCost& cost = cost_of(graph, id);
    EXPECT_EQ(cost.collectives.size(), 2U);
    for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
      EXPECT_EQ(bytes_of(cost, CollectiveOp::kAllToAll, GroupKind::kExpert, phase), sent);
    }
  }
  EXPECT_TRUE(cost_of(graph_of(qwen(), one_column(1, 1, 1)), "layer.0").collectives.empty());
}

// Four tensor-parallel peers with a quarter of the tokens each.
TEST(Experts, TensorParallelPeersShareTheirCopies) {
  const double sent = 1024.0 * 8 * 4096 * 2;
  const Graph graph = graph_of(qwen(), by_operator(one_column(4, 8, 4)));
  EXPECT_EQ(graph.strategies.front().ep, 8);
  const LayerCost& dispatch = cost_of(graph, "layer.0.dispatch");
  const LayerCost& combine = cost_of(graph, "layer.0.combine");
  const auto forward = [](const LayerCost& cost, CollectiveOp op, GroupKind group) {
    return bytes_of(cost, op, group, Phase::kForward);
  };
  EXPECT_EQ(forward(dispatch, CollectiveOp::kAllToAll, GroupKind::kExpert), sent);
  EXPECT_EQ(forward(dispatch, CollectiveOp::kAllToAll, GroupKind::kTensor), 0);
  EXPECT_EQ(forward(dispatch, CollectiveOp::kAllGather, GroupKind::kTensor), 4 * sent);
  EXPECT_EQ(forward(combine, CollectiveOp::kReduceScatter, GroupKind::kTensor), 4 * sent);
  EXPECT_EQ(bytes_of(combine, CollectiveOp::kAllGather, GroupKind::kTensor, Phase::kBackward),
            4 * sent);
  // as wide as the whole, for a fourth of the copies a device: as without tensor parallelism
  EXPECT_EQ(cost_of(graph, "layer.0.expert_out").activation_bytes, 96 * kMiB / 4);
}

TEST(Experts, TensorParallelPeersWithOtherExpertsTrade) {
  const double sent = 1024.0 * 8 * 4096 * 2;
  const Graph graph = graph_of(qwen(), by_operator(one_column(4, 32, 1)));
  EXPECT_EQ(graph.strategies.front().ep, 8);
  const LayerCost& dispatch = cost_of(graph, "layer.0.dispatch");
  EXPECT_EQ(bytes_of(dispatch, CollectiveOp::kAllToAll, GroupKind::kExpert, Phase::kForward), sent);
  EXPECT_EQ(bytes_of(dispatch, CollectiveOp::kAllToAll, GroupKind::kTensor, Phase::kForward), sent);
  EXPECT_EQ(bytes_of(dispatch, CollectiveOp::kAllGather, GroupKind::kTensor, Phase::kForward), 0);
  // within one tensor-parallel group there is no other
  const Graph inside = graph_of(qwen(), by_operator(one_column(4, 4, 1)));
  EXPECT_EQ(inside.strategies.front().ep, 1);
  const LayerCost& within = cost_of(inside, "layer.0.dispatch");
  EXPECT_EQ(bytes_of(within, CollectiveOp::kAllToAll, GroupKind::kExpert, Phase::kForward), 0);
  EXPECT_EQ(bytes_of(within, CollectiveOp::kAllToAll, GroupKind::kTensor, Phase::kForward), sent);
}

// Of four peers two by two: a device sends half of its copies away, and gathers those of one other.
TEST(Experts, PartsOfATensorParallelGroupSendWhatTheyMust) {
  const double sent = 1024.0 * 8 * 4096 * 2;
  const LayerCost dispatch =
      cost_of(graph_of(qwen(), by_operator(one_column(4, 2, 2))), "layer.0.dispatch");
  const double traded =
      bytes_of(dispatch, CollectiveOp::kAllToAll, GroupKind::kTensor, Phase::kForward);
  EXPECT_NEAR(traded * 3 / 4, sent / 2, 1);
  const double gathered =
      bytes_of(dispatch, CollectiveOp::kAllGather, GroupKind::kTensor, Phase::kForward);
  EXPECT_NEAR(gathered * 3 / 4, sent, 1);
}

TEST(Experts, ImbalanceWeighsOnTheFullestShard) {
  ProfileOptions options = by_operator(one_column(1, 8, 1));
  const Graph even = graph_of(qwen(), options);
  options.routing_imbalance = 1.5;
  const Graph uneven = graph_of(qwen(), options);
  const auto ratio = [&](const char* id, auto value) {
    return value(cost_of(uneven, id)) / value(cost_of(even, id));
  };
  const auto activations = [](const LayerCost& cost) { return cost.activation_bytes; };
  const auto sent = [](const LayerCost& cost) { return cost.collectives.front().bytes; };
  EXPECT_EQ(ratio("layer.0.expert_in", activations), 1.5);
  EXPECT_EQ(ratio("layer.0.expert_out", activations), 1.5);
  EXPECT_EQ(ratio("layer.0.dispatch", sent), 1.5);
  EXPECT_GT(cost_of(uneven, "layer.0.expert_in").forward_s,
            1.3 * cost_of(even, "layer.0.expert_in").forward_s);
  EXPECT_EQ(ratio("layer.0.router", activations), 1);
  EXPECT_EQ(uneven.model_flops_per_sample, even.model_flops_per_sample);
  // one shard has all tokens already
  options.ep = {1};
  options.routing_imbalance = 1;
  const Graph whole = graph_of(qwen(), options);
  options.routing_imbalance = 1.5;
  EXPECT_EQ(cost_of(graph_of(qwen(), options), "layer.0.expert_in").activation_bytes,
            cost_of(whole, "layer.0.expert_in").activation_bytes);
}

TEST(Experts, CapacitySetsTheLoad) {
  ProfileOptions options = by_operator(one_column(1, 8, 1));
  options.routing_imbalance = 3;
  options.capacity_factor = 1.25;
  const Graph graph = graph_of(qwen(), options);
  EXPECT_EQ(cost_of(graph, "layer.0.expert_out").activation_bytes, 1.25 * 96 * kMiB);
  options.capacity_factor = -1;
  EXPECT_THROW(graph_of(qwen(), options), InvalidConfig);
  options.capacity_factor = 0;
  options.routing_imbalance = 0.5;
  EXPECT_THROW(graph_of(qwen(), options), InvalidConfig);
}

// As many products of the same size in one kernel take less than one after the other, and more
// than a single one of as many tokens, whose weights are read once.
TEST(Experts, ProductsOfAllExpertsAreOneKernel) {
  const AnalyticalCostModel costs(h100(), precision_of("bf16"));
  const Matmul one{256, 3072, 4096};
  Matmul all = one;
  all.groups = 16;
  Matmul dense = one;
  dense.m *= 16;
  EXPECT_EQ(all.flops(), dense.flops());
  EXPECT_LT(costs.seconds(all), 16 * costs.seconds(one));
  EXPECT_GE(costs.seconds(all), costs.seconds(dense));
  Matmul few{8, 3072, 4096};
  few.groups = 128;
  EXPECT_GT(costs.seconds(few), 128.0 * 3072 * 4096 * 2 / 3.35e12);  // the weights alone
}

TEST(Experts, DegreesThatDoNotFitAreDropped) {
  ProfileOptions options = one_column(1, 1, 1);
  options.ep = {1, 3, 8};
  std::vector<DroppedDegree> dropped;
  const Graph graph = build_graph(qwen(), h100(), options, &dropped);
  EXPECT_EQ(graph.strategies.size(), 2U);
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped.front().kind, "ep");
  EXPECT_EQ(dropped.front().degree, 3);
  // expert dispatch needs tokens that are split among tensor-parallel peers
  options = one_column(2, 8, 2);
  options.sequence_parallel = false;
  EXPECT_THROW(graph_of(qwen(), options), InvalidConfig);
}

TEST(Experts, FlopsAreThoseOfTheActiveParameters) {
  const Architecture a = qwen();
  const double weights =
      2 * (4096.0 * (64 + 2 * 4) * 128 + 64.0 * 128 * 4096 + 4096.0 * 128 + 8 * 3 * 4096.0 * 1536) +
      4096.0 * 151936;
  const double attention = 2 * 4 * (4096.0 * 4096 / 2) * 64 * 128;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(a, 4096), 3 * (2.0 * 4096 * weights + attention));
}

TEST(Experts, SharedOnesAreAPlainMlp) {
  const Graph graph = graph_of(deepseek(), by_operator(one_column(8, 8, 8)));
  const LayerCost& in = cost_of(graph, "layer.1.shared_in");
  EXPECT_EQ(in.parameters, 7168.0 * 2 * 2048 / 8);
  EXPECT_EQ(bytes_of(in, CollectiveOp::kAllGather, GroupKind::kTensor, Phase::kForward),
            4096.0 * 7168 * 2);
  EXPECT_EQ(cost_of(graph, "layer.1.shared_out").activation_bytes, 4096.0 * 2048 / 8 * 2);
  EXPECT_EQ(cost_of(graph, "layer.0.mlp_in").expert_parameters, 0);
  EXPECT_EQ(cost_of(graph, "layer.0.mlp_in").parameters, 7168.0 * 2 * 18432 / 8);
}

// Of the narrow states 1536 + 512 + 64 a token; behind their norms all but the position.
TEST(LatentAttention, KeepsNarrowStatesAndWholeHeads) {
  const Graph graph = graph_of(deepseek(), by_operator(one_column(8, 8, 8)));
  const LayerCost& down = cost_of(graph, "layer.0.qkv_down");
  EXPECT_EQ(down.parameters, 7168.0 * (1536 + 512 + 64) + 1536 + 512);
  EXPECT_EQ(down.activation_bytes, 512.0 * (7168 + 1536 + 512 + 64) * 2);
  EXPECT_TRUE(down.collectives.empty());
  const LayerCost& up = cost_of(graph, "layer.0.qkv");
  EXPECT_EQ(up.parameters, (1536.0 * 128 * 192 + 512.0 * 128 * 256) / 8);
  EXPECT_EQ(up.activation_bytes, 512.0 * (1536 + 512) * 2);
  EXPECT_EQ(up.selectively_kept(), 0);
  EXPECT_EQ(bytes_of(up, CollectiveOp::kAllGather, GroupKind::kTensor, Phase::kForward),
            4096.0 * (1536 + 512 + 64) * 2);
  const LayerCost& core = cost_of(graph, "layer.0.attention");
  EXPECT_EQ(core.activation_bytes, 4096.0 * 16 * ((192 + 192 + 128) * 2 + 4));
  EXPECT_EQ(core.selectively_kept(), 4096.0 * 16 * 4);
  EXPECT_DOUBLE_EQ(up.selective_s, up.forward_s);
  EXPECT_EQ(cost_of(graph, "layer.0.attention_out").parameters, 128.0 * 128 * 7168 / 8);
}

TEST(LatentAttention, FlopsFollowTheWidthsOfKeysAndValues) {
  Architecture a = deepseek();
  a.moe.reset();
  a.mtp_layers = 0;
  const double weights = 7168.0 * (1536 + 512 + 64) + 1536.0 * 128 * 192 + 512.0 * 128 * 256 +
                         128.0 * 128 * 7168 + 3 * 7168.0 * 18432;
  const double pairs = 4096.0 * 4096 / 2;
  const double forward =
      2.0 * 4096 * (3 * weights + 7168.0 * 129280) + 3 * 2 * pairs * 128 * (192 + 128);
  EXPECT_DOUBLE_EQ(model_flops_per_sample(a, 4096), 3 * forward);
}

TEST(LatentAttention, QueriesMayComeFromTheHiddenState) {
  Architecture a = deepseek();
  a.latent->query_rank = 0;
  const Graph graph = graph_of(a, by_operator(one_column(8, 8, 8)));
  EXPECT_EQ(cost_of(graph, "layer.0.qkv").parameters, (7168.0 * 128 * 192 + 512.0 * 128 * 256) / 8);
  EXPECT_EQ(bytes_of(cost_of(graph, "layer.0.qkv"), CollectiveOp::kAllGather, GroupKind::kTensor,
                     Phase::kForward),
            4096.0 * (512 + 64 + 7168) * 2);
}

TEST(Prediction, IsALayerInFrontOfTheHead) {
  const Graph graph = graph_of(deepseek(), one_column(1, 8, 1));
  ASSERT_EQ(graph.layers.size(), 6U);
  EXPECT_EQ(graph.layers[4].id, "mtp.0");
  EXPECT_FALSE(graph.layers[4].counted);
  EXPECT_TRUE(graph.layers[3].counted);
  std::vector<std::pair<int, int>> edges;
  for (const model::Edge& edge : graph.edges) edges.emplace_back(edge.from, edge.to);
  EXPECT_NE(std::find(edges.begin(), edges.end(), std::pair(3, 4)), edges.end());
  EXPECT_NE(std::find(edges.begin(), edges.end(), std::pair(3, 5)), edges.end());
  EXPECT_NE(std::find(edges.begin(), edges.end(), std::pair(4, 5)), edges.end());
  // it shares the token table with the embedding
  ASSERT_EQ(graph.ties.size(), 1U);
  EXPECT_EQ(graph.ties.front().layers, (std::vector<int>{0, 4}));
  EXPECT_EQ(graph.ties.front().parameters.front(), 129280.0 * 7168);
}

TEST(Prediction, DoublesWhatTheHeadDoes) {
  Architecture a = deepseek();
  const LayerCost with = cost_of(graph_of(a, one_column(1, 8, 1)), "head");
  a.mtp_layers = 0;
  const LayerCost without = cost_of(graph_of(a, one_column(1, 8, 1)), "head");
  EXPECT_EQ(with.parameters, without.parameters);
  EXPECT_EQ(with.working_bytes, 2 * without.working_bytes);
  EXPECT_GT(with.forward_s, 1.9 * without.forward_s);
}

TEST(Prediction, IsDrawnAtEveryGranularity) {
  ProfileOptions options = one_column(2, 8, 2);
  const Graph coarse = graph_of(deepseek(), options);
  for (const Granularity granularity : {Granularity::kBlock, Granularity::kOperator}) {
    options.granularity = granularity;
    const Graph fine = graph_of(deepseek(), options);
    EXPECT_GT(fine.layers.size(), coarse.layers.size());
    const auto sum = [](const Graph& graph, auto value) {
      double total = 0;
      for (const Layer& layer : graph.layers) total += value(*layer.costs.front());
      return total;
    };
    for (const auto value : {+[](const LayerCost& c) { return c.forward_s; },
                             +[](const LayerCost& c) { return c.backward_s; },
                             +[](const LayerCost& c) { return c.activation_bytes; },
                             +[](const LayerCost& c) { return c.selectively_kept(); },
                             +[](const LayerCost& c) { return c.parameters; },
                             +[](const LayerCost& c) { return c.expert_parameters; }}) {
      EXPECT_NEAR(sum(fine, value) / sum(coarse, value), 1, 1e-12);
    }
  }
}

}  // namespace
}  // namespace nestplan::cost
