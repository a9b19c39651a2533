#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/flop_counter.hpp"
#include "cost/samples.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"
#include "support/dice.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::Collective;
using model::CollectiveOp;
using model::ContextForm;
using model::EncoderDecoder;
using model::GroupKind;
using model::LayerCost;
using model::Model;
using model::Phase;
using nestplan::testing::Dice;
using test::a100;
using test::small_unet;

constexpr double kMiB = 1024.0 * 1024;

/// GPT-3 6.7B (Brown et al., arXiv 2005.14165, table 2.1).
Architecture gpt() { return test::gpt(2, 4096, 32); }

/// A block of Llama 3 8B.
Architecture llama() { return test::llama(2, 4096, 32, 8, 14336, 128256); }

Architecture with_experts(std::int64_t experts) {
  Architecture a = llama();
  a.name = "mixture";
  a.moe = model::MixtureOfExperts{};
  a.moe->experts = experts;
  a.moe->top_k = 2;
  a.moe->expert_ffn = 1536;
  return a;
}

EncoderDecoder t5(bool tied) {
  EncoderDecoder model;
  model.name = model.family = "t5";
  model.encoder = model.decoder = llama();
  model.encoder.layers = 3;
  model.encoder.causal = false;
  model.encoder.tied_embeddings = model.decoder.tied_embeddings = tied;
  model.decoder.cross_width = 4096;
  return model;
}

ProfileOptions options(std::int64_t sequence, std::vector<std::int64_t> tp = {1}) {
  ProfileOptions o;
  o.sequence = sequence;
  o.tp = std::move(tp);
  return o;
}

model::Graph graph_of(const Model& model, const ProfileOptions& o) {
  return build_graph(model, a100(), o);
}

const LayerCost& cost_of(const model::Graph& graph, const std::string& layer,
                         const std::string& strategy) {
  std::size_t s = 0;
  while (graph.strategies.at(s).id != strategy) ++s;
  return test::cost_of(graph, layer, s);
}

std::vector<std::string> ids(const model::Graph& graph) {
  std::vector<std::string> list;
  for (const model::Strategy& strategy : graph.strategies) list.push_back(strategy.id);
  return list;
}

/// The ids of the columns with Strategy::ep, and what was dropped.
std::vector<std::pair<std::string, std::int64_t>> legal(const Model& model, const ProfileOptions& o,
                                                        std::vector<DroppedDegree>* dropped) {
  std::vector<std::pair<std::string, std::int64_t>> list;
  for (const model::Strategy& s : build_graph(model, a100(), o, dropped).strategies) {
    list.emplace_back(s.id, s.ep);
  }
  return list;
}

std::string failure(const Model& model, const ProfileOptions& o) {
  try {
    graph_of(model, o);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

using Sent = std::vector<std::tuple<Phase, CollectiveOp, double>>;

Sent sent(const LayerCost& cost, GroupKind group) {
  Sent list;
  for (const Collective& c : cost.collectives) {
    if (c.group == group) list.emplace_back(c.phase, c.op, c.bytes);
  }
  return list;
}

TEST(StrategyIds, AreReadBack) {
  using enum ContextForm;
  const std::vector<std::pair<std::string, Degrees>> known{
      {"tp8-mb2", {8, 1, kRing, 1, 8, 2}},
      {"tp4-cp2-mb1", {4, 2, kRing, 1, 4, 1}},
      {"tp4-cp2a2a-mb1", {4, 2, kAllToAll, 1, 4, 1}},
      {"tp2-ep8-mb1", {2, 1, kRing, 8, 2, 1}},
      {"tp2-ep8-etp1-mb1", {2, 1, kRing, 8, 1, 1}},
      {"tp2-cp16a2a-ep1-etp1-mb3", {2, 16, kAllToAll, 1, 1, 3}}};
  for (const auto& [id, degrees] : known) {
    EXPECT_EQ(strategy_id(degrees), id);
    EXPECT_EQ(parse_strategy_id(id), degrees) << id;
  }
  for (const char* other : {"", "tp8", "tp8-mb", "mb2-tp8", "tp8-mb2-", "tp0-mb1", "tp8-cp1-mb2",
                            "tp8-etp2-mb1", "tp08-mb1", "a2a", "tp99999999999999999999-mb1"}) {
    EXPECT_EQ(parse_strategy_id(other), std::nullopt) << other;
  }
}

TEST(StrategyColumns, AreTheProductOfWhatFits) {
  ProfileOptions o = options(4096, {4, 2});
  o.cp = {2, 1};
  o.context_forms = {ContextForm::kAllToAll, ContextForm::kRing};
  o.micro_batches = {2, 1};
  const model::Graph graph = graph_of(llama(), o);
  EXPECT_EQ(ids(graph), (std::vector<std::string>{
                            "tp2-mb1", "tp2-mb2", "tp2-cp2-mb1", "tp2-cp2-mb2", "tp2-cp2a2a-mb1",
                            "tp2-cp2a2a-mb2", "tp4-mb1", "tp4-mb2", "tp4-cp2-mb1", "tp4-cp2-mb2",
                            "tp4-cp2a2a-mb1", "tp4-cp2a2a-mb2"}));
  const model::Strategy& last = graph.strategies.back();
  EXPECT_EQ(last.cp, 2);
  EXPECT_EQ(last.context, ContextForm::kAllToAll);
  EXPECT_EQ(last.ep, 1);
  EXPECT_EQ(last.etp, 1);
}

TEST(StrategyColumns, DealExpertsOutOverTheDataParallelGroup) {
  ProfileOptions o = options(4096, {2, 4});
  o.ep = {1, 4, 8};
  o.etp = {1, 2};
  std::vector<DroppedDegree> dropped;
  const auto all = legal(with_experts(8), o, &dropped);
  const std::vector<std::pair<std::string, std::int64_t>> expected{
      {"tp2-ep4-etp1-mb1", 2}, {"tp2-ep8-etp1-mb1", 4}, {"tp2-mb1", 1},
      {"tp2-ep4-mb1", 4},      {"tp2-ep8-mb1", 8},      {"tp4-ep4-etp1-mb1", 1},
      {"tp4-ep8-etp1-mb1", 2}, {"tp4-ep4-etp2-mb1", 2}, {"tp4-ep8-etp2-mb1", 4}};
  EXPECT_EQ(all, expected);
  ASSERT_EQ(dropped.size(), 3U);
  EXPECT_EQ(dropped[0].kind, "ep");
  EXPECT_EQ(dropped[0].reason,
            "ep 1 times etp 1 is no multiple of tp 2, whose devices would hold copies of the same "
            "experts");
}

TEST(StrategyColumns, SayWhyNoneIsLeft) {
  ProfileOptions o = options(4096, {8});
  o.cp = {3};
  EXPECT_EQ(failure(llama(), o),
            "cp: no degree fits llama: cp 3 needs two chunks a device, and 6 does not divide the "
            "sequence length (4096)");
  o.cp = {8};
  o.context_forms = {ContextForm::kAllToAll};
  EXPECT_EQ(failure(llama(), o),
            "cp: no degree fits llama: cp 8 as all_to_all does not divide the attention heads that "
            "tp 8 leaves (4)");
  o.context_forms = {ContextForm::kRing};
  o.fused_attention = false;
  EXPECT_EQ(failure(llama(), o), "cp: no degree fits llama: cp 8 needs fused attention");
  o.cp = {1};
  o.ep = {4};
  EXPECT_EQ(failure(llama(), o),
            "ep: no degree fits llama: ep 4 is for experts, and llama has none");
  EXPECT_EQ(failure(with_experts(6), o),
            "ep: no degree fits mixture: ep 4 does not divide the experts (6)");
  o.etp = {16};
  EXPECT_EQ(failure(with_experts(8), o),
            "etp: no degree fits mixture: etp 16 does not divide tp 8");
  o = options(4096);
  o.cp = {2};
  EXPECT_EQ(failure(small_unet(), o),
            "cp: no degree fits unet: cp 2 would split convolutions, which are kept whole");
  o.cp.clear();
  EXPECT_EQ(failure(llama(), o), "cp: at least one value is needed");
  o.cp = {1};
  o.routing_imbalance = 0.5;
  EXPECT_EQ(failure(llama(), o), "routing-imbalance: is at least 1, the fullest over the average");
}

TEST(StrategyColumns, FewKeyHeadsAreRepeatedButOnlyEvenly) {
  Architecture a = llama();
  a.heads = 24;
  a.kv_heads = 4;
  ProfileOptions o = options(6144);
  o.cp = {2, 6, 8};
  o.context_forms = {ContextForm::kAllToAll};
  std::vector<DroppedDegree> dropped;
  EXPECT_EQ(ids(build_graph(a, a100(), o, &dropped)),
            (std::vector<std::string>{"tp1-cp2a2a-mb1", "tp1-cp8a2a-mb1"}));
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].degree, 6);
}

TEST(StrategyColumns, SequenceMustHoldTwoChunksPerDeviceOnlyIfMasked) {
  ProfileOptions o = options(36, {1, 2});
  o.cp = {2, 4};
  EXPECT_EQ(ids(graph_of(llama(), o)), (std::vector<std::string>{"tp1-cp2-mb1", "tp2-cp2-mb1"}));
  Architecture a = llama();
  a.causal = false;
  EXPECT_EQ(ids(graph_of(a, o)),
            (std::vector<std::string>{"tp1-cp2-mb1", "tp1-cp4-mb1", "tp2-cp2-mb1"}));
  o.sequence_parallel = false;
  EXPECT_EQ(ids(graph_of(a, o)).size(), 4U);
}

TEST(ContextParallelism, DividesTokensAndNotParameters) {
  ProfileOptions o = options(8192, {2});
  o.cp = {1, 4};
  const model::Graph graph = graph_of(llama(), o);
  for (const char* layer : {"embedding", "layer.1", "head"}) {
    const LayerCost& whole = cost_of(graph, layer, "tp2-mb1");
    const LayerCost& part = cost_of(graph, layer, "tp2-cp4-mb1");
    EXPECT_EQ(part.parameters, whole.parameters);
    EXPECT_EQ(part.activation_bytes, whole.activation_bytes / 4);
    EXPECT_EQ(part.selectively_kept(), whole.selectively_kept() / 4);
    EXPECT_EQ(part.checkpoint_bytes, whole.checkpoint_bytes / 4);
    EXPECT_EQ(part.working_bytes, whole.working_bytes / 4);
    EXPECT_LT(part.forward_s, whole.forward_s);
    EXPECT_GT(part.forward_s, whole.forward_s / 4);
    const auto tensor = sent(whole, GroupKind::kTensor);
    ASSERT_EQ(sent(part, GroupKind::kTensor).size(), tensor.size());
    EXPECT_EQ(std::get<double>(sent(part, GroupKind::kTensor).front()),
              std::get<double>(tensor.front()) / 4);
  }
  for (const model::Edge& edge : graph.edges) EXPECT_EQ(edge.bytes[1], edge.bytes[0] / 4);
}

TEST(ContextParallelism, RingPassesKeysAndValuesAround) {
  ProfileOptions o = options(8192, {2});
  o.cp = {1, 4};
  o.micro_batches = {2};
  const model::Graph graph = graph_of(llama(), o);
  const double whole = 2 * 8192.0 * (2 * 8 * 128 / 2) * 2;
  const Sent expected{{Phase::kForward, CollectiveOp::kAllGather, whole},
                      {Phase::kBackward, CollectiveOp::kAllGather, whole},
                      {Phase::kBackward, CollectiveOp::kReduceScatter, whole}};
  EXPECT_EQ(sent(cost_of(graph, "layer.0", "tp2-cp4-mb2"), GroupKind::kContext), expected);
  EXPECT_TRUE(sent(cost_of(graph, "layer.0", "tp2-mb2"), GroupKind::kContext).empty());
  EXPECT_TRUE(sent(cost_of(graph, "head", "tp2-cp4-mb2"), GroupKind::kContext).empty());
}

TEST(ContextParallelism, AllToAllTradesHeadsForTokens) {
  ProfileOptions o = options(8192, {2});
  o.cp = {1, 4, 8};
  o.context_forms = {ContextForm::kAllToAll};
  const model::Graph graph = graph_of(llama(), o);
  const auto expect = [&](const char* strategy, double tokens, double copies) {
    const double query = 32 * 128 / 2;
    const double key_value = 2 * 8 * 128 / 2 * copies;
    const double in = tokens * (query + key_value) * 2;
    const double out = tokens * query * 2;
    const Sent expected{{Phase::kForward, CollectiveOp::kAllToAll, in},
                        {Phase::kForward, CollectiveOp::kAllToAll, out},
                        {Phase::kBackward, CollectiveOp::kAllToAll, in},
                        {Phase::kBackward, CollectiveOp::kAllToAll, out}};
    const LayerCost& cost = cost_of(graph, "layer.0", strategy);
    EXPECT_EQ(sent(cost, GroupKind::kContext), expected) << strategy;
    // the output is kept on both sides, keys and values as often as they are repeated
    const double ring = cost_of(graph, "layer.0", "tp2-mb1").activation_bytes * tokens / 8192;
    EXPECT_EQ(cost.activation_bytes, ring + out + tokens * (copies - 1) * 2 * 8 * 128 / 2 * 2);
  };
  expect("tp2-cp4a2a-mb1", 2048, 1);
  expect("tp2-cp8a2a-mb1", 1024, 2);  // of four heads of keys
}

Architecture small_stack(Dice& dice, bool causal) {
  Architecture a = llama();
  a.hidden = 64;
  a.heads = 8;
  a.kv_heads = dice.pick({2, 4, 8});
  a.head_dim = 8;
  a.ffn = 96;
  a.vocab = 1024;
  a.causal = causal;
  a.hidden_dropout = dice.chance(50);
  a.post_norm = dice.chance(30);
  a.tied_embeddings = dice.chance(50);
  if (dice.chance(50)) a.windows = {16, 0};
  return a;
}

/// A stack by itself, or an encoder and a decoder.
Model small_model(Dice& dice) {
  if (dice.chance(60)) return small_stack(dice, dice.chance(60));
  EncoderDecoder model;
  model.name = "both";
  model.encoder = small_stack(dice, false);
  model.decoder = small_stack(dice, true);
  model.decoder.cross_width = 64;
  return model;
}

TEST(ContextParallelism, DividesTheOperationsAndNothingIsComputedTwice) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Model model = small_model(dice);
    ProfileOptions o = options(256);
    o.cp = {1, 2, 4, 8};
    o.context_forms = {ContextForm::kRing, ContextForm::kAllToAll};
    if (std::holds_alternative<EncoderDecoder>(model)) o.tokens = {{"decoder", 64}};
    const model::Graph graph = build_graph(model, FlopCounter(), o);
    ASSERT_GE(graph.strategies.size(), 4U);
    for (const model::Layer& layer : graph.layers) {
      for (std::size_t s = 1; s < graph.strategies.size(); ++s) {
        const double cp = static_cast<double>(graph.strategies[s].cp);
        EXPECT_NEAR(layer.costs[s]->forward_s * cp, layer.costs[0]->forward_s,
                    1e-12 * layer.costs[0]->forward_s);
        EXPECT_NEAR(layer.costs[s]->backward_s * cp, layer.costs[0]->backward_s,
                    1e-12 * layer.costs[0]->backward_s);
      }
    }
  }
}

TEST(ContextParallelism, WindowsThatLieWithinADeviceNeedNoOthers) {
  Architecture a = llama();
  a.causal = false;
  a.windows = {1024, 0};
  ProfileOptions o = options(8192);
  o.cp = {8, 16};
  const model::Graph graph = graph_of(a, o);
  EXPECT_TRUE(sent(cost_of(graph, "layer.0", "tp1-cp8-mb1"), GroupKind::kContext).empty());
  EXPECT_EQ(sent(cost_of(graph, "layer.1", "tp1-cp8-mb1"), GroupKind::kContext).size(), 3U);
  EXPECT_EQ(sent(cost_of(graph, "layer.0", "tp1-cp16-mb1"), GroupKind::kContext).size(), 3U);
}

TEST(ContextParallelism, CrossAttentionReadsTheOtherStates) {
  ProfileOptions o = options(4096);
  o.tokens = {{"decoder", 1024}};
  o.cp = {2};
  const model::Graph graph = graph_of(t5(false), o);
  const auto ring = sent(cost_of(graph, "decoder.layer.0", "tp1-cp2-mb1"), GroupKind::kContext);
  ASSERT_EQ(ring.size(), 6U);
  EXPECT_EQ(std::get<double>(ring[0]), 1024 * 2 * 8 * 128 * 2.0);
  EXPECT_EQ(std::get<double>(ring[3]), 4096 * 2 * 8 * 128 * 2.0);
}

// Korthikanti et al., arXiv 2205.05198, table 2: s·b·h·34/t with sequence parallelism, and
// s·b·h·(10 + 24/t) without; 5·a·s²·b/t more for the scores.
TEST(Activations, OfAGptBlockAreTwoHundredAndSeventyTwoMebibytes) {
  ProfileOptions o = options(2048, {1, 8});
  o.precision = "fp16";
  const double log_sum_exp = 2048.0 * 32 * 4;
  const model::Graph fused = graph_of(gpt(), o);
  EXPECT_EQ(cost_of(fused, "layer.0", "tp1-mb1").activation_bytes, 272 * kMiB + log_sum_exp);
  EXPECT_EQ(cost_of(fused, "layer.0", "tp8-mb1").activation_bytes, 34 * kMiB + log_sum_exp / 8);
  o.fused_attention = false;
  const model::Graph unfused = graph_of(gpt(), o);
  EXPECT_EQ(cost_of(unfused, "layer.0", "tp1-mb1").activation_bytes, 912 * kMiB);
  EXPECT_EQ(cost_of(unfused, "layer.0", "tp1-mb1").selectively_kept(), 272 * kMiB);
  EXPECT_EQ(cost_of(unfused, "layer.0", "tp8-mb1").activation_bytes, 114 * kMiB);
  EXPECT_EQ(cost_of(unfused, "layer.0", "tp8-mb1").selectively_kept(), 34 * kMiB);
  o.sequence_parallel = false;
  const double sbh = 2048.0 * 4096;
  const model::Graph replicated = graph_of(gpt(), o);
  EXPECT_EQ(cost_of(replicated, "layer.0", "tp8-mb1").selectively_kept(), sbh * (10 + 24.0 / 8));
  EXPECT_EQ(cost_of(replicated, "layer.0", "tp8-mb1").activation_bytes,
            sbh * (10 + 24.0 / 8) + 5 * 32 * 2048.0 * 2048 / 8);
}

TEST(Activations, ScoresWithoutDropoutAreTheSoftmaxAlone) {
  Architecture a = gpt();
  a.hidden_dropout = false;
  ProfileOptions o = options(2048);
  o.fused_attention = false;
  const LayerCost cost = cost_of(graph_of(a, o), "layer.0", "tp1-mb1");
  EXPECT_EQ(cost.activation_bytes, 32 * 2048.0 * 4096 + 2 * 32 * 2048.0 * 2048);
  EXPECT_EQ(cost.selectively_kept(), 32 * 2048.0 * 4096);
}

TEST(Activations, OfTheLossAreThoseOfTheFramework) {
  ProfileOptions o = options(2048, {2});
  const double logits = 2048.0 * 128256 / 2;
  o.vocabulary_multiple = 1;
  // with the gathered input of the output layer, and its gradient
  const double gathered = 2 * 2 * 2048.0 * static_cast<double>(llama().hidden);
  EXPECT_EQ(cost_of(graph_of(llama(), o), "head", "tp2-mb1").working_bytes, 6 * logits + gathered);
  o.logit_bytes = 10;
  EXPECT_EQ(cost_of(graph_of(llama(), o), "head", "tp2-mb1").working_bytes, 10 * logits + gathered);
}

TEST(SelectiveRecomputation, RunsNormsAndActivationFunctionsAgain) {
  const model::Graph graph = graph_of(llama(), options(4096, {2}));
  const LayerCost& cost = cost_of(graph, "layer.0", "tp2-mb1");
  const double rows = 4096.0 * 4096 / 2;
  const double products = 4096.0 * 14336 / 2;
  EXPECT_EQ(cost.selectively_kept(), cost.activation_bytes - 2 * (2 * rows + products));
  const AnalyticalCostModel costs(a100(), precision_of("bf16"));
  EXPECT_DOUBLE_EQ(cost.selective_s, 2 * costs.seconds(MemoryBound{2 * 2 * rows}) +
                                         costs.seconds(MemoryBound{2 * 3 * products}));
  for (const char* layer : {"embedding", "head"}) {
    EXPECT_EQ(cost_of(graph, layer, "tp2-mb1").selective_bytes, std::nullopt);
    EXPECT_EQ(cost_of(graph, layer, "tp2-mb1").selective_s, 0);
  }
}

TEST(SelectiveRecomputation, RunsTheWholeCoreAgainWithoutFusion) {
  ProfileOptions o = options(2048);
  o.fused_attention = false;
  const LayerCost cost = cost_of(graph_of(gpt(), o), "layer.0", "tp1-mb1");
  Attention core{1, 2048, 32, 32, 128, 2048.0 * 2048};
  core.fused = false;
  core.dropout = true;
  const AnalyticalCostModel costs(a100(), precision_of("bf16"));
  EXPECT_DOUBLE_EQ(cost.selective_s, costs.seconds(core));
}

TEST(SelectiveRecomputation, LeavesAloneWhatTheLayerBeforeComputed) {
  Architecture a = gpt();
  a.post_norm = true;
  const LayerCost after = cost_of(graph_of(a, options(2048)), "layer.1", "tp1-mb1");
  const LayerCost before = cost_of(graph_of(gpt(), options(2048)), "layer.1", "tp1-mb1");
  EXPECT_EQ(after.activation_bytes, before.activation_bytes);
  EXPECT_EQ(after.selectively_kept(), before.selectively_kept() + 2 * 2048.0 * 4096);
  EXPECT_LT(after.selective_s, before.selective_s);
}

TEST(SelectiveRecomputation, OfAResnetKeepsTheInputsOfItsNorms) {
  const model::Graph graph = graph_of(small_unet(), options(0));
  const LayerCost& cost = cost_of(graph, "down.0.0", "tp1-mb1");
  EXPECT_EQ(cost.activation_bytes, 6 * 16.0 * 16 * 32 * 2);
  EXPECT_EQ(cost.selectively_kept(), 2 * 16.0 * 16 * 32 * 2);
  EXPECT_GT(cost.selective_s, 0);
  EXPECT_LT(cost.selective_s, cost.forward_s);
}

/// Selective recomputation pays: it never drops more than there is nor costs more than forward.
TEST(SelectiveRecomputation, AddsUpAtEveryGranularity) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const Model model = small_model(dice);
    ProfileOptions o = options(128, {1, 2});
    o.fused_attention = dice.chance(70);
    if (o.fused_attention) {
      o.cp = {1, 2};
      o.context_forms = {ContextForm::kRing, ContextForm::kAllToAll};
    }
    o.sequence_parallel = dice.chance(70);
    std::vector<std::vector<double>> sums;
    for (const Granularity granularity :
         {Granularity::kLayer, Granularity::kBlock, Granularity::kOperator}) {
      o.granularity = granularity;
      const model::Graph graph = graph_of(model, o);
      std::vector<double> kept(graph.strategies.size() + 1, 0);
      for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
        double working = 0;  // of one layer at a time
        for (const model::Layer& layer : graph.layers) {
          const LayerCost& cost = layer.costs[s].value();
          working = std::max(working, cost.working_bytes);
          kept[s] += cost.selectively_kept() + cost.table_parameters;
          EXPECT_GE(cost.selectively_kept(), 0);
          EXPECT_LE(cost.selectively_kept(), cost.activation_bytes);
          EXPECT_LE(cost.selective_s, cost.forward_s);
        }
        kept[s] += working;
      }
      for (const model::Layer& layer : graph.layers) kept.back() += layer.counted ? 1 : 0;
      sums.push_back(kept);
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], sums[2]);
  }
}

TEST(UnfusedAttention, TakesLongerAndGrowsWithThePairs) {
  const AnalyticalCostModel costs(a100(), precision_of("bf16"));
  const AnalyticalCostModel fp8(a100(), precision_of("fp8"));
  for (const bool backward : {false, true}) {
    double last = 0;
    for (const double tokens : {512.0, 1024.0, 4096.0, 16384.0}) {
      Attention op{1, tokens, 32, 32, 128, tokens * tokens / 2};
      op.backward = backward;
      const double fused = costs.seconds(op);
      op.fused = false;
      const double unfused = costs.seconds(op);
      EXPECT_GT(unfused, fused);
      EXPECT_GT(unfused, last);
      EXPECT_EQ(fp8.seconds(op), unfused);  // scores stay in 16 bits
      op.dropout = true;
      EXPECT_GT(costs.seconds(op), unfused);
      last = unfused;
    }
  }
  ProfileOptions o = options(2048);
  const double flops = *graph_of(gpt(), o).model_flops_per_sample;
  o.fused_attention = false;
  EXPECT_EQ(*graph_of(gpt(), o).model_flops_per_sample, flops);
}

TEST(Ties, JoinTheCopiesOfTheTokenTable) {
  const model::Graph graph = graph_of(gpt(), options(2048, {1, 8}));
  ASSERT_EQ(graph.ties.size(), 1U);
  EXPECT_EQ(graph.ties[0].layers, (std::vector<int>{0, 3}));
  // 51200 is a multiple of 128·8
  EXPECT_EQ(graph.ties[0].parameters, (std::vector<double>{51200.0 * 4096, 51200.0 * 4096 / 8}));
  EXPECT_TRUE(graph_of(llama(), options(2048)).ties.empty());
  Architecture bert = gpt();
  bert.bias.head = true;
  bert.vocab = 30522;
  const model::Graph padded = graph_of(bert, options(2048, {2}));
  EXPECT_EQ(padded.ties.at(0).parameters, (std::vector<double>{30720.0 / 2 * 4096}));
  EXPECT_EQ(cost_of(padded, "embedding", "tp2-mb1").table_parameters, 30720.0 / 2 * 4096);
  EXPECT_EQ(cost_of(padded, "head", "tp2-mb1").table_parameters, 30720.0 / 2 * 4097);
  EXPECT_EQ(cost_of(padded, "layer.0", "tp2-mb1").table_parameters, 0);
}

/// Whatever the output layer does (tie_word_embeddings), the two sides read one table: `shared` in
/// modeling_t5.py of github.com/huggingface/transformers.
TEST(Ties, JoinEncoderAndDecoder) {
  ProfileOptions o = options(1024);
  o.granularity = Granularity::kOperator;
  for (const bool tied : {false, true}) {
    const model::Graph graph = graph_of(t5(tied), o);
    ASSERT_EQ(graph.ties.size(), 1U);
    std::vector<std::string> names;
    for (const int layer : graph.ties[0].layers) {
      names.push_back(graph.layers[static_cast<std::size_t>(layer)].id);
    }
    std::vector<std::string> expected{"encoder.embedding", "decoder.embedding"};
    if (tied) expected.emplace_back("head.output");
    EXPECT_EQ(names, expected);
  }
}

TEST(CountedLayers, AreTheBlocks) {
  const auto counted = [](const Model& model, Granularity granularity) {
    ProfileOptions o = options(1024);
    o.granularity = granularity;
    std::vector<std::string> names;
    for (const model::Layer& layer : build_outline(model, o).layers) {
      if (layer.counted) names.push_back(layer.id);
    }
    return names;
  };
  EXPECT_EQ(counted(llama(), Granularity::kLayer),
            (std::vector<std::string>{"layer.0", "layer.1"}));
  EXPECT_EQ(counted(llama(), Granularity::kBlock),
            (std::vector<std::string>{"layer.0.attention", "layer.1.attention"}));
  EXPECT_EQ(counted(t5(true), Granularity::kLayer).size(), 5U);
  EXPECT_EQ(counted(small_unet(), Granularity::kLayer).size(), 12U);
  EXPECT_EQ(counted(small_unet(), Granularity::kOperator).size(), 12U);
}

TEST(Dimensions, AreThoseThatRulesAskAbout) {
  const model::Dimensions dense = graph_of(llama(), options(4096)).dimensions;
  EXPECT_EQ(dense.heads, 32);
  EXPECT_EQ(dense.kv_heads, 8);
  EXPECT_EQ(dense.hidden, 4096);
  EXPECT_EQ(dense.ffn, 14336);
  EXPECT_EQ(dense.vocabulary, 128256);
  EXPECT_EQ(dense.sequence, 4096);
  EXPECT_EQ(dense.blocks, 2);
  EXPECT_EQ(dense.experts, 0);
  EXPECT_EQ(dense.encoder_blocks, 0);
  EXPECT_EQ(dense.kind, model::ModelKind::kDecoder);
  EXPECT_EQ(dense.windows + dense.sinks + dense.predictions, 0);
  model::Architecture special = llama();
  special.windows = {0, 128};
  special.sinks = true;
  special.mtp_layers = 3;
  const model::Dimensions noted = graph_of(special, options(4096)).dimensions;
  EXPECT_EQ(noted.windows, 1);
  EXPECT_EQ(noted.sinks, 2);
  EXPECT_EQ(noted.predictions, 3);
  const model::Dimensions sparse = graph_of(with_experts(8), options(4096)).dimensions;
  EXPECT_EQ(sparse.experts, 8);
  EXPECT_EQ(sparse.expert_ffn, 1536);
  const model::Dimensions both = graph_of(t5(true), options(512)).dimensions;
  EXPECT_EQ(both.blocks, 5);
  EXPECT_EQ(both.encoder_blocks, 3);
  EXPECT_EQ(both.kind, model::ModelKind::kEncoderDecoder);
  EXPECT_EQ(both.sequence, 512);
  const model::Dimensions image = graph_of(small_unet(), options(0)).dimensions;
  EXPECT_EQ(image.blocks, 12);
  EXPECT_EQ(image.hidden, 0);
  EXPECT_EQ(image.kind, model::ModelKind::kUNet);
  EXPECT_EQ(image.sequence, 0);
}

}  // namespace
}  // namespace nestplan::cost
