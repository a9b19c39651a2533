#include "nestplan/cost/profile.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cost/samples.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::Collective;
using model::CollectiveOp;
using model::LayerCost;
using model::Phase;
using test::a100;
using test::h100;
using test::llama;

Architecture llama2_7b() { return llama(32, 4096, 32, 32, 11008, 32000); }
Architecture llama3_8b() { return llama(32, 4096, 32, 8, 14336, 128256); }
Architecture llama3_70b() { return llama(80, 8192, 64, 8, 28672, 128256); }

Architecture gpt3() { return test::gpt(96, 12288, 96); }

Architecture bert_large() {
  Architecture a = gpt3();
  a.name = a.family = "bert";
  a.layers = 24;
  a.hidden = 1024;
  a.heads = a.kv_heads = 16;
  a.head_dim = 64;
  a.ffn = 4096;
  a.vocab = 30522;
  a.max_positions = a.learned_positions = 512;
  a.token_types = 2;
  a.causal = false;
  a.post_norm = a.embedding_norm = a.mlm_transform = a.bias.head = true;
  return a;
}

ProfileOptions options(std::int64_t sequence, std::vector<std::int64_t> tp,
                       std::vector<std::int64_t> micro_batches = {1}) {
  ProfileOptions o;
  o.sequence = sequence;
  o.tp = std::move(tp);
  o.micro_batches = std::move(micro_batches);
  return o;
}

const LayerCost& cost_of(const model::Graph& graph, std::size_t layer, std::size_t strategy = 0) {
  return graph.layers.at(layer).costs.at(strategy).value();
}

double sum_parameters(const model::Graph& graph, std::size_t strategy = 0) {
  double sum = 0;
  for (const model::Layer& layer : graph.layers) sum += layer.costs.at(strategy)->parameters;
  return sum;
}

double seconds(const model::Graph& graph, std::size_t strategy = 0) {
  double sum = 0;
  for (const model::Layer& layer : graph.layers) {
    sum += layer.costs.at(strategy)->forward_s + layer.costs.at(strategy)->backward_s;
  }
  return sum;
}

double flop_rate(const model::Graph& graph, std::size_t strategy = 0) {
  const model::Strategy& s = graph.strategies.at(strategy);
  return *graph.model_flops_per_sample * static_cast<double>(s.micro_batch) /
         static_cast<double>(s.tp) / seconds(graph, strategy);
}

std::int64_t count(const LayerCost& cost, Phase phase, CollectiveOp op) {
  return std::count_if(cost.collectives.begin(), cost.collectives.end(),
                       [&](const Collective& c) { return c.phase == phase && c.op == op; });
}

TEST(Parameters, SumOfLayersIsThePublishedSize) {
  const auto total = [](const Architecture& a, std::int64_t sequence) {
    return sum_parameters(build_graph(a, h100(), options(sequence, {1})));
  };
  EXPECT_EQ(total(llama2_7b(), 4096), 6'738'415'616.0);
  EXPECT_EQ(total(llama3_8b(), 8192), 8'030'261'248.0);
  EXPECT_EQ(total(llama3_70b(), 8192), 70'553'706'496.0);
  EXPECT_EQ(total(llama(126, 16384, 128, 8, 53248, 128256), 8192), 405'853'388'800.0);
}

TEST(Parameters, HeadKeepsItsOwnCopyOfATiedTable) {
  const Architecture a = gpt3();
  const model::Graph graph = build_graph(a, h100(), options(2048, {1}));
  EXPECT_NEAR(static_cast<double>(total_parameters(a)), 174.6e9, 0.1e9);
  EXPECT_EQ(sum_parameters(graph), static_cast<double>(total_parameters(a) + 51200 * 12288));
}

TEST(Parameters, BertIsCountedWithItsMaskedLanguageModelHead) {
  // 334,092,288 of tables and blocks + 1,051,648 + 2,048 + 30,522 of the head
  EXPECT_EQ(total_parameters(bert_large()), 335'174'458);
}

TEST(Parameters, ShardsAddUpToTheWhole) {
  Architecture a = llama3_8b();
  a.vocab = 131072;  // a multiple of 128·8, so that no degree pads it
  const model::Graph graph = build_graph(a, h100(), options(8192, {1, 2, 4, 8}));
  const double norms = (32 * 2 + 1) * 4096;
  for (std::size_t s = 0; s < 4; ++s) {
    const double tp = static_cast<double>(graph.strategies[s].tp);
    EXPECT_EQ(sum_parameters(graph, s) * tp,
              static_cast<double>(total_parameters(a)) + (tp - 1) * norms);
  }
}

TEST(Parameters, VocabularyIsPaddedToAMultipleOf128PerShard) {
  Architecture a = llama2_7b();
  a.vocab = 32001;
  const model::Graph graph = build_graph(a, h100(), options(4096, {1, 8}));
  EXPECT_EQ(cost_of(graph, 0, 0).parameters, 32128.0 * 4096);
  EXPECT_EQ(cost_of(graph, 0, 1).parameters, 32768.0 / 8 * 4096);
}

TEST(Flops, AreSixPerParameterAndTokenPlusAttention) {
  const Architecture a = llama2_7b();
  const double tokens = 4096;
  const double matrices = 6'738'415'616.0 - 32000.0 * 4096 - (32 * 2 + 1) * 4096;
  const double attention = 3 * 32 * 4 * (tokens * tokens / 2) * 4096;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(a, 4096), 6 * matrices * tokens + attention);
}

TEST(Flops, FullAttentionCountsTwiceAndAWindowLess) {
  Architecture a = llama2_7b();
  const double causal = model_flops_per_sample(a, 4096);
  a.windows.assign(32, 1024);
  const double windowed = model_flops_per_sample(a, 4096);
  a.windows.clear();
  a.causal = false;
  const double full = model_flops_per_sample(a, 4096);
  const double unit = 3.0 * 32 * 4 * 4096;  // per pair
  EXPECT_NEAR(full - causal, unit * 4096 * 4096 / 2, 1e6);
  EXPECT_NEAR(causal - windowed, unit * (4096.0 * 4096 / 2 - (1024.0 * 4096 - 1024.0 * 512)), 1e6);
}

TEST(Activations, OfALlamaBlockByHand) {
  const model::Graph graph = build_graph(llama3_8b(), h100(), options(8192, {1, 8}));
  const double tokens = 8192;
  // norm inputs and outputs 4h; Q 4096, K and V 1024 each; O 4096; gate and up; their product
  const double bytes = tokens * 2 * (4 * 4096 + 6144 + 4096 + 2 * 14336 + 14336) + tokens * 32 * 4;
  EXPECT_DOUBLE_EQ(cost_of(graph, 1).activation_bytes, bytes);
  EXPECT_DOUBLE_EQ(cost_of(graph, 1, 1).activation_bytes, bytes / 8);
  EXPECT_DOUBLE_EQ(cost_of(graph, 1).checkpoint_bytes, tokens * 4096 * 2);
  EXPECT_DOUBLE_EQ(cost_of(graph, 1, 1).checkpoint_bytes, tokens * 4096 * 2 / 8);
  EXPECT_DOUBLE_EQ(graph.edges.at(0).bytes.at(1), tokens * 4096 * 2 / 8);
}

// Korthikanti et al., table 2: s·b·h·34/t with sequence parallelism, 10 + 24/t without. Fused
// attention drops 5·a·s/h and keeps four bytes per row and head.
TEST(Activations, OfAGptBlockAreThePublishedThirtyFour) {
  const double sbh = 2048.0 * 2 * 12288;
  const double log_sum_exp = 2048.0 * 2 * 96 * 4;
  ProfileOptions o = options(2048, {1, 8}, {2});
  const model::Graph sharded = build_graph(gpt3(), h100(), o);
  EXPECT_DOUBLE_EQ(cost_of(sharded, 1).activation_bytes, 34 * sbh + log_sum_exp);
  EXPECT_DOUBLE_EQ(cost_of(sharded, 1, 1).activation_bytes, (34 * sbh + log_sum_exp) / 8);
  o.sequence_parallel = false;
  const model::Graph replicated = build_graph(gpt3(), h100(), o);
  EXPECT_DOUBLE_EQ(cost_of(replicated, 1, 1).activation_bytes,
                   (10 + 24.0 / 8) * sbh + log_sum_exp / 8);
  // without dropout, its two one-byte masks go
  Architecture a = gpt3();
  a.hidden_dropout = false;
  const model::Graph dry = build_graph(a, h100(), options(2048, {1}, {2}));
  EXPECT_DOUBLE_EQ(cost_of(dry, 1).activation_bytes, 32 * sbh + log_sum_exp);
}

TEST(Activations, OfTheHeadAreItsInputsAndTheLogitsOnlyWhileItWorks) {
  const model::Graph graph = build_graph(llama3_8b(), h100(), options(8192, {1, 4}));
  const double rows = 8192.0 * 4096;
  const double logits = 8192.0 * 128512;  // 128256 is padded to 128·4 for tp 4, unpadded for tp 1
  EXPECT_DOUBLE_EQ(cost_of(graph, 33).activation_bytes, 4 * rows);
  EXPECT_DOUBLE_EQ(cost_of(graph, 33).working_bytes, 6 * 8192.0 * 128256);
  EXPECT_DOUBLE_EQ(cost_of(graph, 33, 1).activation_bytes, 4 * rows / 4);
  // with the gathered input of the output layer, and its gradient
  EXPECT_DOUBLE_EQ(cost_of(graph, 33, 1).working_bytes, 6 * logits / 4 + 2 * 2 * rows);
}

TEST(Collectives, AreThoseOfSequenceParallelism) {
  const model::Graph graph = build_graph(llama3_8b(), h100(), options(8192, {1, 4}, {2}));
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    EXPECT_TRUE(cost_of(graph, i, 0).collectives.empty());
  }
  const LayerCost& block = cost_of(graph, 1, 1);
  EXPECT_EQ(count(block, Phase::kForward, CollectiveOp::kAllGather), 2);
  EXPECT_EQ(count(block, Phase::kForward, CollectiveOp::kReduceScatter), 2);
  EXPECT_EQ(count(block, Phase::kBackward, CollectiveOp::kAllGather), 4);
  EXPECT_EQ(count(block, Phase::kBackward, CollectiveOp::kReduceScatter), 2);
  for (const Collective& c : block.collectives) EXPECT_EQ(c.bytes, 2 * 8192.0 * 4096 * 2);
  const LayerCost& embedding = cost_of(graph, 0, 1);
  EXPECT_EQ(embedding.collectives.size(), 2U);
  EXPECT_EQ(count(embedding, Phase::kForward, CollectiveOp::kReduceScatter), 1);
  EXPECT_EQ(count(embedding, Phase::kBackward, CollectiveOp::kAllGather), 1);
  const LayerCost& head = cost_of(graph, 33, 1);
  EXPECT_EQ(count(head, Phase::kForward, CollectiveOp::kAllGather), 1);
  EXPECT_EQ(count(head, Phase::kForward, CollectiveOp::kAllReduce), 3);
  EXPECT_EQ(count(head, Phase::kBackward, CollectiveOp::kReduceScatter), 1);
}

TEST(Collectives, AreAllReducesWithoutSequenceParallelism) {
  ProfileOptions o = options(8192, {4});
  o.sequence_parallel = false;
  const model::Graph graph = build_graph(llama3_8b(), h100(), o);
  const LayerCost& block = cost_of(graph, 1);
  EXPECT_EQ(block.collectives.size(), 4U);
  EXPECT_EQ(count(block, Phase::kForward, CollectiveOp::kAllReduce), 2);
  EXPECT_EQ(count(block, Phase::kBackward, CollectiveOp::kAllReduce), 2);
  EXPECT_EQ(graph.strategies[0].sp, 1);
}

TEST(Times, ArePositiveAndGrowWithTheMicroBatch) {
  const model::Graph graph = build_graph(llama3_8b(), h100(), options(4096, {1, 8}, {1, 2, 4}));
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      EXPECT_GT(cost_of(graph, i, s).forward_s, 0);
      EXPECT_GT(cost_of(graph, i, s).backward_s, 0);
      if (graph.strategies[s].micro_batch == 1) continue;
      EXPECT_GT(cost_of(graph, i, s).forward_s, cost_of(graph, i, s - 1).forward_s);
      // a sequence never gets dearer in a larger micro-batch
      EXPECT_LE(cost_of(graph, i, s).forward_s, 2 * cost_of(graph, i, s - 1).forward_s);
    }
  }
}

TEST(Times, SplittingHelpsButLessThanLinearly) {
  const model::Graph graph = build_graph(llama3_70b(), h100(), options(4096, {1, 2, 4, 8}));
  for (std::size_t s = 1; s < 4; ++s) {
    EXPECT_LT(seconds(graph, s), seconds(graph, s - 1));
    EXPECT_GE(seconds(graph, s), seconds(graph, s - 1) / 2);
  }
}

// Rates per GPU of whole iterations, which include what a graph does not (optimizer step, exposed
// communication): Llama-3.1-8B on H100 at 547 TFLOP/s in bf16 and 715 in fp8
// (NVIDIA/dgxc-benchmarking; earlier releases 523 and 698), MPT-13B on A100 at 180, with the first
// FlashAttention, which is slower (mosaicml/llm-foundry). Causal attention counted half. Parameters
// are those of a generation, fitted to many more runs than these.
TEST(Times, AgreeWithPublishedTrainingRates) {
  const auto expect_rate = [](const Architecture& a, const model::Device& device, ProfileOptions o,
                              double published, double most = 1.15) {
    const double rate = flop_rate(build_graph(a, device, o)) / 1e12;
    EXPECT_GT(rate, 0.93 * published);
    EXPECT_LT(rate, published * most);
  };
  expect_rate(llama3_8b(), h100(), options(8192, {1}), 547);
  ProfileOptions fp8 = options(8192, {1});
  fp8.precision = "fp8";
  expect_rate(llama3_8b(), h100(), fp8, 715);
  Architecture mpt = gpt3();
  mpt.layers = 40;
  mpt.hidden = 5120;
  mpt.heads = mpt.kv_heads = 40;
  mpt.ffn = 4 * 5120;
  mpt.vocab = 50368;
  expect_rate(mpt, a100(), options(2048, {1}, {2}), 180, 1.25);
}

TEST(Times, Fp8IsFasterButNotTwice) {
  ProfileOptions o = options(8192, {1});
  const double bf16 = seconds(build_graph(llama3_8b(), h100(), o));
  o.precision = "fp8";
  const double fp8 = seconds(build_graph(llama3_8b(), h100(), o));
  EXPECT_LT(fp8, bf16);
  EXPECT_GT(fp8, bf16 / 2);
}

TEST(Operators, TimesNeverFallWhenADimensionGrows) {
  const AnalyticalCostModel costs(h100(), precision_of("bf16"));
  for (double size = 1; size < 5e4; size *= 1.3) {
    const double larger = size * 1.3;
    EXPECT_LE(costs.seconds(Matmul{size, 4096, 4096}), costs.seconds(Matmul{larger, 4096, 4096}));
    EXPECT_LE(costs.seconds(Matmul{4096, size, 4096}), costs.seconds(Matmul{4096, larger, 4096}));
    EXPECT_LE(costs.seconds(Matmul{4096, 4096, size}), costs.seconds(Matmul{4096, 4096, larger}));
    const auto attention = [&costs](double tokens) {
      return costs.seconds(Attention{1, tokens, 32, 8, 128, tokens * tokens / 2, false});
    };
    EXPECT_LE(attention(size), attention(larger));
  }
}

TEST(Operators, AttentionBackwardTakesTwoAndAHalfTimesTheFlops) {
  const Attention forward{1, 4096, 32, 8, 128, 4096.0 * 2048, false};
  Attention backward = forward;
  backward.backward = true;
  EXPECT_DOUBLE_EQ(forward.flops(), 4 * 4096.0 * 2048 * 32 * 128);
  EXPECT_DOUBLE_EQ(backward.flops(), 2.5 * forward.flops());
}

/// A cost model of another kind: counts operators instead of timing them.
class CountingModel final : public CostModel {
 public:
  double seconds(const Operator& /*op*/) const override { return 1; }
  const Precision& precision() const override { return precision_; }

 private:
  Precision precision_ = precision_of("bf16");
};

TEST(Graph, TakesAnyCostModel) {
  const model::Graph graph = build_graph(llama3_8b(), CountingModel(), options(4096, {1}));
  // two norms, QKV, rotation, attention, projection, two MLP products, activation, two sums
  EXPECT_EQ(cost_of(graph, 1).forward_s, 11);
  // products have two gradients each
  EXPECT_EQ(cost_of(graph, 1).backward_s, 15);
}

TEST(Graph, IsAChainWithOneColumnPerDegreeAndMicroBatch) {
  const model::Graph graph = build_graph(llama3_8b(), h100(), options(4096, {8, 1}, {2, 1}));
  std::vector<std::string> ids;
  for (const model::Strategy& s : graph.strategies) ids.push_back(s.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"tp1-mb1", "tp1-mb2", "tp8-mb1", "tp8-mb2"}));
  ASSERT_EQ(graph.layers.size(), 34U);
  EXPECT_EQ(graph.layers.front().id, "embedding");
  EXPECT_EQ(graph.layers[1].id, "layer.0");
  EXPECT_EQ(graph.layers[32].id, "layer.31");
  EXPECT_EQ(graph.layers.back().id, "head");
  ASSERT_EQ(graph.edges.size(), 33U);
  for (int i = 0; i < 33; ++i) {
    const model::Edge& edge = graph.edges[static_cast<std::size_t>(i)];
    EXPECT_EQ(edge.from, i);
    EXPECT_EQ(edge.to, i + 1);
    EXPECT_EQ(edge.bytes.size(), 4U);
  }
  EXPECT_EQ(graph.tokens_per_sample, 4096);
}

TEST(Graph, WindowedBlocksAreCheaper) {
  Architecture a = llama3_8b();
  a.windows.assign(32, 0);
  a.windows[1] = 1024;
  const model::Graph graph = build_graph(a, h100(), options(16384, {1}));
  EXPECT_LT(cost_of(graph, 2).forward_s, cost_of(graph, 1).forward_s);
  EXPECT_EQ(cost_of(graph, 3).forward_s, cost_of(graph, 1).forward_s);
}

TEST(Degrees, ThatDoNotFitAreDroppedWithAReason) {
  Architecture a = llama(28, 3584, 28, 4, 18944, 152064);
  std::vector<DroppedDegree> dropped;
  const model::Graph graph = build_graph(a, h100(), options(4096, {1, 2, 3, 4, 8}), &dropped);
  EXPECT_EQ(graph.strategies.size(), 3U);
  ASSERT_EQ(dropped.size(), 2U);
  EXPECT_EQ(dropped[0].kind, "tp");
  EXPECT_EQ(dropped[0].degree, 3);
  EXPECT_EQ(dropped[0].reason, "tp 3 does not divide the attention heads (28)");
  EXPECT_EQ(dropped[1].reason, "tp 8 does not divide the attention heads (28)");
  a.heads = 32;
  EXPECT_EQ(tensor_parallel_obstacle(a, options(4096, {8}), 8),
            "tp 8 does not divide the key-value heads (4)");
}

TEST(Degrees, SequenceMattersOnlyWithSequenceParallelism) {
  ProfileOptions o = options(1023, {1, 2});
  EXPECT_EQ(build_graph(llama3_8b(), h100(), o).strategies.size(), 1U);
  o.sequence_parallel = false;
  EXPECT_EQ(build_graph(llama3_8b(), h100(), o).strategies.size(), 2U);
}

std::string failure(const Architecture& a, const model::Device& device, const ProfileOptions& o) {
  try {
    build_graph(a, device, o);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Errors, NameWhatIsWrong) {
  EXPECT_EQ(failure(llama3_8b(), h100(), options(4096, {3})),
            "tp: no degree fits llama: tp 3 does not divide the attention heads (32)");
  EXPECT_EQ(failure(llama3_8b(), h100(), options(0, {1})), "seq: 0 is not positive");
  EXPECT_EQ(failure(llama3_8b(), h100(), options(4096, {0})), "tp: 0 is not positive");
  EXPECT_EQ(failure(llama3_8b(), h100(), options(4096, {1}, {})),
            "micro-batch: at least one value is needed");
  EXPECT_EQ(failure(gpt3(), h100(), options(4096, {1})),
            "seq: 4096 is more than the 2048 learned positions of gpt2");
  ProfileOptions o = options(4096, {1});
  o.precision = "int3";
  EXPECT_EQ(failure(llama3_8b(), h100(), o),
            "precision: unknown \"int3\" (known: bf16, fp16, fp8, mxfp8, tf32, fp32)");
  o.precision = "fp16";
  EXPECT_EQ(failure(llama3_8b(), h100(), o),
            "device h100: peak: no rate for fp16 (given: bf16, fp8)");
  model::Device blind = h100();
  blind.memory_bandwidth = 0;
  EXPECT_NE(failure(llama3_8b(), blind, options(4096, {1})).find("memory_bandwidth"),
            std::string::npos);
}

}  // namespace
}  // namespace nestplan::cost
