// What a device holds, item by item.

#include "nestplan/cost/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cases/chains.hpp"
#include "cli/plan_remarks.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/cost/restart.hpp"
#include "nestplan/cost/shards.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/util/errors.hpp"
#include "support/small_case.hpp"

namespace nestplan::cases {
namespace {

using cost::ShardGroups;
using cost::StageFootprint;
using model::StateBytes;
using nestplan::testing::SmallCase;

constexpr StateBytes kBf16{2, 4, 12};       ///< gradients summed up in fp32
constexpr StateBytes kBf16Small{2, 2, 12};  ///< gradients in bf16
constexpr StateBytes kFp16{2, 2, 16};       ///< a copy of the gradients in fp32 beside the moments
constexpr StateBytes kFp32{4, 4, 8};

StageFootprint of_parameters(double parameters, double largest_layer = 0) {
  StageFootprint stage;
  stage.parameters = parameters;
  stage.largest_layer = largest_layer;
  return stage;
}

double state(double parameters, int zero, const StateBytes& bytes, std::int64_t ranks) {
  return cost::state_bytes(of_parameters(parameters), zero, bytes, {ranks, ranks});
}

// M01 — NVIDIA/Megatron-LM docs/user-guide/features/dist_optimizer.md

TEST(CaseM01, BytesPerParameterFollowPrecisionAndShards) {
  EXPECT_NEAR(state(7e9, 0, kBf16, 8) / kGiB, 117.35, 0.005);
  EXPECT_NEAR(state(7e9, 1, kBf16, 8) / kGiB, 48.89, 0.005);
  EXPECT_EQ(state(7e9, 1, kBf16, 8), 7.5 * 7e9);
  EXPECT_EQ(state(7e9, 0, kFp16, 8), 20 * 7e9);
  EXPECT_EQ(state(7e9, 1, kFp16, 8), 6 * 7e9);
  EXPECT_EQ(state(7e9, 0, kFp32, 8), 16 * 7e9);
  EXPECT_EQ(state(7e9, 1, kFp32, 8), 9 * 7e9);
}

/// One stage on `dp` copies with the given state.
model::Plan one_stage(double parameters, std::int64_t dp, int zero, const StateBytes& bytes) {
  SmallCase small({SmallCase::level(dp, 1e9)}, dp);
  const int one = small.strategy(1);
  small.layer({.forward_s = 1, .backward_s = 2, .parameters = parameters});
  small.data_parallel(dp, dp);
  small.stage({0}, one, 0).zero = zero;
  small.problem.options.state_bytes = bytes;
  return small.evaluate();
}

TEST(CaseM01, ItemsOfAPlanAddUpForEveryPrecisionAndNumberOfCopies) {
  for (const StateBytes& bytes : {kBf16, kBf16Small, kFp16, kFp32}) {
    for (const std::int64_t dp : {1, 2, 8, 64}) {
      for (int zero = 0; zero <= 2; ++zero) {
        const auto& memory = one_stage(64e6, dp, zero, bytes).stages.at(0).memory;
        const auto shards = static_cast<double>(dp);
        EXPECT_EQ(memory.weight_bytes, 64e6 * bytes.weight);
        EXPECT_EQ(memory.gradient_bytes, 64e6 * bytes.gradient / (zero >= 2 ? shards : 1));
        EXPECT_EQ(memory.optimizer_bytes, 64e6 * bytes.optimizer / (zero >= 1 ? shards : 1));
        EXPECT_EQ(memory.state_bytes,
                  memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes);
      }
    }
  }
}

// M02 — deepspeedai/DeepSpeed pull request 5099

TEST(CaseM02, ZeroTwoSharesGradientsAndOptimizer) { EXPECT_EQ(state(1e9, 2, kFp16, 8), 4.25e9); }

TEST(CaseM02, MoreSharingNeverTakesMoreMemory) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 5000; ++i) {
    const auto draw = [&](std::uint64_t most) { return static_cast<double>(random() % most); };
    StageFootprint stage;
    // the largest layer is gathered by ZeRO 3; on a stage of equal layers it is a small part
    stage.largest_layer = draw(1'000'000);
    const double layers = 8 + draw(100);
    stage.expert_parameters = random() % 2 == 0 ? 0 : stage.largest_layer * layers / 2;
    stage.parameters = stage.largest_layer * layers - stage.expert_parameters;
    const StateBytes bytes{1 + draw(4), 1 + draw(4), draw(17)};
    const auto expert = static_cast<std::int64_t>(2 + random() % 32);
    const ShardGroups groups{expert * static_cast<std::int64_t>(1 + random() % 4), expert};
    double last = INFINITY;
    for (int zero = 0; zero <= 3; ++zero) {
      const double now = cost::state_bytes(stage, zero, bytes, groups);
      EXPECT_LE(now, last) << "ZeRO " << zero << " in groups of " << groups.dense;
      last = now;
    }
    const double whole = cost::state_bytes(stage, 0, bytes, {1, 1});
    for (int zero = 1; zero <= 3; ++zero) {
      const double buffer = zero == 3 ? bytes.weight * stage.largest_layer : 0;
      EXPECT_EQ(cost::state_bytes(stage, zero, bytes, {1, 1}), whole + buffer) << zero;
    }
  }
}

// M03 — deepspeedai/DeepSpeed issue 4527

/// 18 bytes per parameter in shards and 4 of every parameter of the largest layer.
TEST(CaseM03, TheLargestLayerIsGatheredBesideTheShards) {
  const double bytes =
      cost::state_bytes(of_parameters(6805e6, 131e6), 3, {4, 2, 12}, ShardGroups{4, 4});
  EXPECT_NEAR(bytes / 1e9, 31.15, 0.005);
  EXPECT_NEAR(bytes / kGiB, 29.01, 0.005);
}

TEST(CaseM03, GatheredWeightsAreAnItemOfTheirOwn) {
  const auto& memory = one_stage(131e6, 4, 3, {4, 2, 12}).stages.at(0).memory;
  EXPECT_NEAR(memory.gathered_bytes / kGiB, 0.488, 0.0005);
  EXPECT_EQ(memory.state_bytes, memory.gathered_bytes + memory.weight_bytes +
                                    memory.gradient_bytes + memory.optimizer_bytes);
}

// M05 — deepspeedai/DeepSpeed issue 3442

TEST(CaseM05, HalfPrecisionIsNotDearerThanFull) {
  EXPECT_EQ(state(1e9, 0, kFp32, 1), 16e9);
  EXPECT_EQ(state(1e9, 0, kBf16Small, 1), 16e9);
  EXPECT_EQ(state(1e9, 0, kBf16, 1), 18e9);
  EXPECT_EQ(state(1e9, 0, kFp16, 1), 20e9) << "with a declared copy of the gradients in fp32";
}

// M07 — Korthikanti et al., arXiv 2205.05198

TEST(CaseM07, InterleavingKeepsMoreOnTheFirstStage) {
  const auto micro_batches = [](std::int64_t depth, std::int64_t vpp, std::int64_t m) {
    if (vpp == 1) {
      return static_cast<double>(cost::in_flight(model::Schedule::k1F1B, depth, m));
    }
    const cost::InFlight flight = cost::interleaved_in_flight(depth, depth, vpp, m);
    return static_cast<double>(flight.chunks) / static_cast<double>(flight.vpp);
  };
  EXPECT_EQ(micro_batches(8, 1, 32), 8);
  EXPECT_EQ(micro_batches(8, 2, 32), 11.5);
  EXPECT_EQ(micro_batches(8, 4, 32), 9.75);
  for (std::int64_t p = 2; p <= 32; ++p) {
    for (std::int64_t v = 2; v <= 8; ++v) {
      const double factor = 1 + static_cast<double>(p - 1) / static_cast<double>(p * v);
      EXPECT_NEAR(micro_batches(p, v, 100 * p), static_cast<double>(p) * factor, 1e-9);
      EXPECT_GE(micro_batches(p, v, 100 * p), micro_batches(p, 1, 100 * p));
    }
    for (std::int64_t m = 1; m <= 2 * p; ++m) {
      EXPECT_EQ(cost::in_flight(model::Schedule::k1F1B, p, m), std::min(p, m));
    }
  }
}

// M09 — NVIDIA/Megatron-LM pull request 6782

model::Architecture mixture(std::int64_t experts, std::int64_t top_k, std::int64_t ffn) {
  model::Architecture a = gpt(2, 4096, 32, 32000);
  a.bias = {};
  a.gated_mlp = a.rotary = true;
  a.learned_positions = 0;
  a.moe = model::MixtureOfExperts{};
  a.moe->experts = experts;
  a.moe->top_k = top_k;
  a.moe->expert_ffn = ffn;
  return a;
}

cost::ProfileOptions of_experts(std::int64_t ep, std::int64_t tp = 1, std::int64_t etp = 1) {
  cost::ProfileOptions options;
  options.sequence = 4096;
  options.tp = {tp};
  options.ep = {ep};
  options.etp = {etp};
  return options;
}

model::LayerCost cost_of(const model::Architecture& a, const cost::ProfileOptions& options,
                         const std::string& layer) {
  const model::Graph graph = cost::build_graph(a, node(64).device, options);
  for (const model::Layer& each : graph.layers) {
    if (each.id == layer) return each.costs.at(0).value();
  }
  throw InternalError("no layer " + layer);
}

TEST(CaseM09, DealingExpertsOutMovesTokensAndSharesWeights) {
  const model::Architecture a = mixture(64, 8, 1536);
  cost::ProfileOptions one = of_experts(1);
  cost::ProfileOptions eight = of_experts(8);
  one.granularity = eight.granularity = cost::Granularity::kOperator;
  for (const auto& options : {one, eight}) {
    EXPECT_EQ(cost_of(a, options, "layer.0.expert_out").activation_bytes, 96 * kMiB);
  }
  EXPECT_EQ(cost_of(a, of_experts(1), "layer.0").expert_parameters,
            8 * cost_of(a, of_experts(8), "layer.0").expert_parameters);
}

TEST(CaseM09, HoldsForAllWaysToDealThemOut) {
  for (const std::int64_t experts : {8, 60, 64}) {
    for (const std::int64_t top_k : {1, 2, 8}) {
      const model::Architecture a = mixture(experts, top_k, 1536);
      const auto whole = cost_of(a, of_experts(1), "layer.1");
      for (std::int64_t ep = 2; ep <= experts; ++ep) {
        if (experts % ep != 0) continue;
        const auto dealt = cost_of(a, of_experts(ep), "layer.1");
        EXPECT_EQ(dealt.activation_bytes, whole.activation_bytes) << ep;
        EXPECT_NEAR(dealt.expert_parameters * static_cast<double>(ep), whole.expert_parameters, 1);
        EXPECT_EQ(dealt.parameters, whole.parameters);
      }
      const auto split = cost_of(a, of_experts(4, 4, 4), "layer.1");
      EXPECT_NEAR(split.expert_parameters * 16, whole.expert_parameters, 1) << "EP · ETP";
    }
  }
}

TEST(CaseM09, ImbalanceAndCapacityBoundWhatIsKept) {
  const model::Architecture a = mixture(64, 8, 1536);
  double last = 0;
  for (const double imbalance : {1.0, 1.2, 2.0, 4.0}) {
    cost::ProfileOptions options = of_experts(8);
    options.routing_imbalance = imbalance;
    const double kept = cost_of(a, options, "layer.0").activation_bytes;
    EXPECT_GT(kept, last) << imbalance;
    last = kept;
  }
  last = 0;
  for (const double capacity : {0.5, 1.0, 1.25, 2.0}) {
    cost::ProfileOptions options = of_experts(8);
    options.capacity_factor = capacity;
    const double kept = cost_of(a, options, "layer.0").activation_bytes;
    EXPECT_GT(kept, last) << capacity;
    last = kept;
  }
}

TEST(CaseM09, OptimizerStateOfExpertsIsSharedByTheirCopies) {
  StageFootprint stage;
  stage.expert_parameters = 1e6;
  const ShardGroups groups = cost::shard_groups(model::ShardSpan::kAll, 16, 16, 1, 8);
  EXPECT_EQ(groups.expert, 2);
  EXPECT_EQ(cost::state_bytes(stage, 1, kBf16, groups), 1e6 * (6 + 12.0 / 2));
}

// M11 — memory of communicators

/// Two stages that communicate in groups of every kind, and need `bytes` a device without them.
SmallCase of_all_groups(double bytes) {
  SmallCase small({SmallCase::level(16, 1e9)}, 2);
  const int all = small.strategy(2, 2, 2);
  small.layer({.forward_s = 1, .backward_s = 2, .activation_bytes = bytes / 2});
  small.layer({.forward_s = 1, .backward_s = 2, .activation_bytes = bytes / 2});
  small.edge(0, 1, 0);
  small.data_parallel(2, 2);
  small.stage({0}, all, 0);
  small.stage({1}, all, 8);
  small.problem.cluster.device.memory_bytes = 80 * kGiB;
  return small;
}

TEST(CaseM11, FiveKindsOfGroupsDoNotFitBesideAlmostAll) {
  SmallCase small = of_all_groups(157 * kGiB);
  small.problem.options.global_batch = 2;
  small.problem.options.reserve = {1 * kGiB, 0.6 * kGiB, 0};
  const model::Plan plan = small.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  const auto& memory = plan.stages.at(0).memory;
  EXPECT_EQ(memory.activation_bytes, 78.5 * kGiB);
  EXPECT_EQ(memory.communicator_bytes, 3 * kGiB);
  EXPECT_EQ(memory.context_bytes, 1 * kGiB);
  EXPECT_EQ(memory.total_bytes, 82.5 * kGiB);

  small.problem.options.reserve = {};
  const model::Plan without = small.evaluate();
  EXPECT_EQ(without.status, model::Status::kOptimal) << without.reason;
  const auto written = nlohmann::json::parse(
      io::plan_to_json(without, small.problem.graph, small.problem.cluster, 2));
  EXPECT_EQ(written.at("stages").at(0).at("memory").at("reserve_bytes"), 0);
}

TEST(CaseM11, EveryKindOfGroupCountsOnce) {
  for (int kinds = 0; kinds < 32; ++kinds) {
    const auto degree = [&](int bit) { return (kinds >> bit & 1) != 0 ? 4 : 1; };
    const std::int64_t communicators =
        cost::communicators(degree(0), degree(1), degree(2), degree(3), degree(4) > 1);
    EXPECT_EQ(communicators, std::popcount(static_cast<unsigned>(kinds)));
    EXPECT_EQ(cost::reserve_bytes({100, 10, 0}, communicators),
              100 + 10 * static_cast<double>(communicators));
  }
}

// M12 — the share that is left for fragmentation; the rest is in the tests of the command line

TEST(CaseM12, TheMarginIsLeftOfWhatADeviceHas) {
  for (double margin = 0; margin < 1; margin += 0.05) {
    EXPECT_EQ(cost::memory_limit(80e9, {5e9, 1e9, margin}), std::floor(80e9 * (1 - margin)));
  }
}

// M13 — FSDP2 deals out whole rows

TEST(CaseM13, RowsAreDealtOutWhole) {
  const cost::RowShards few = cost::shard_rows(2, 4096, 8);
  EXPECT_EQ(few.rows, (std::vector<std::int64_t>{1, 1, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(few.largest, 4096) << "not the ideal 1024";
  EXPECT_EQ(few.communicated, 8 * 4096);
  const cost::RowShards even = cost::shard_rows(16, 4096, 8);
  EXPECT_EQ(even.rows, std::vector<std::int64_t>(8, 2));
  EXPECT_EQ(even.largest, 8192);
  EXPECT_EQ(even.communicated, 16 * 4096);
}

TEST(CaseM13, NoRowIsLostOrDoubled) {
  for (std::int64_t rows = 0; rows <= 100; ++rows) {
    for (std::int64_t ranks = 1; ranks <= 40; ++ranks) {
      const cost::RowShards shards = cost::shard_rows(rows, 3, ranks);
      ASSERT_EQ(std::ssize(shards.rows), ranks);
      EXPECT_EQ(std::accumulate(shards.rows.begin(), shards.rows.end(), std::int64_t{0}), rows);
      EXPECT_TRUE(std::is_sorted(shards.rows.rbegin(), shards.rows.rend()));
      EXPECT_EQ(shards.rows.front(), (rows + ranks - 1) / ranks);
      EXPECT_EQ(shards.largest, 3 * static_cast<double>(shards.rows.front()));
      EXPECT_GE(shards.communicated, 3 * static_cast<double>(rows)) << "with the padding";
    }
  }
  EXPECT_THROW(cost::shard_rows(2, 1, 0), InvalidConfig);
  EXPECT_THROW(cost::shard_rows(-1, 1, 2), InvalidConfig);
}

// M14 — weights that stay between forward and backward, or do not

/// 8·10^9 parameters on four stages, eight copies and 16 micro-batches.
model::Plan resharded(int zero, model::Problem* problem = nullptr) {
  SmallCase small({SmallCase::level(32, 1e11)}, 8 * 16);
  const int one = small.strategy(1);
  for (int i = 0; i < 4; ++i) {
    small.layer({.forward_s = 1, .backward_s = 2, .parameters = 2e9});
    if (i > 0) small.edge(i - 1, i, 1e6);
    small.stage({i}, one, 8 * i).zero = zero;
  }
  small.data_parallel(8, 8);
  if (problem != nullptr) *problem = small.problem;
  return small.evaluate();
}

nlohmann::json written(const model::Plan& plan, const model::Problem& problem) {
  cli::Setup setup;
  setup.problem = problem;
  setup.network = network::make_network(problem.cluster);
  return nlohmann::json::parse(io::plan_to_json(plan, problem.graph, problem.cluster,
                                                problem.options.global_batch, {},
                                                cli::plan_notes(plan, setup)));
}

TEST(CaseM14, WeightsAreKeptWholeOrGatheredForEveryPass) {
  model::Problem problem;
  const auto kept = written(resharded(2, &problem), problem);
  const auto resharding = written(resharded(3, &problem), problem);
  EXPECT_EQ(kept.at("strategy").at("microbatches"), 16);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(kept.at("stages").at(s).at("memory").at("weight_bytes"), 4.0e9);
    EXPECT_EQ(kept.at("stages").at(s).at("weight_gathers"), 1);
    EXPECT_EQ(resharding.at("stages").at(s).at("memory").at("weight_bytes"), 0.5e9);
    EXPECT_EQ(resharding.at("stages").at(s).at("weight_gathers"), 32);
  }
  EXPECT_FALSE(kept.contains("remarks"));
  const auto remark = resharding.at("remarks").at(0).get<std::string>();
  EXPECT_NE(remark.find("32 times an iteration"), std::string::npos) << remark;
}

TEST(CaseM14, GatheringForEveryPassIsPaidForEveryPass) {
  const model::Plan kept = resharded(2);
  const model::Plan resharding = resharded(3);
  for (std::size_t s = 0; s < 4; ++s) {
    const double gather = kept.stages[s].time.sync_s;
    EXPECT_NEAR(resharding.stages[s].time.zero_s - kept.stages[s].time.zero_s, 2 * gather,
                1e-9 * gather);
  }
}

// M15 — the type in a model's config says nothing about the type that is asked for

TEST(CaseM15, BytesFollowTheRequestAlone) {
  const auto parameters = [](const std::string& type) {
    nlohmann::json config{{"model_type", "llama"},       {"num_hidden_layers", 80},
                          {"hidden_size", 8192},         {"num_attention_heads", 64},
                          {"num_key_value_heads", 8},    {"intermediate_size", 28672},
                          {"vocab_size", 128256},        {"max_position_embeddings", 131072},
                          {"tie_word_embeddings", false}};
    if (!type.empty()) config["torch_dtype"] = type;
    const model::Model model = io::parse_model(config.dump(), "config.json");
    cost::ProfileOptions options;
    options.sequence = 4096;
    options.tp = {1};
    const model::Graph graph = cost::build_graph(model, node(1).device, options);
    double sum = 0;
    for (const model::Layer& layer : graph.layers) sum += layer.costs[0]->parameters;
    EXPECT_EQ(sum, static_cast<double>(total_parameters(model)));
    return sum;
  };
  for (const char* type : {"", "bfloat16", "float32", "float16"}) {
    const double bytes = state(parameters(type), 0, {2, 0, 0}, 1);
    EXPECT_NEAR(bytes / 1e9, 141.1, 0.05) << type;
    EXPECT_NEAR(bytes / kGiB, 131.4, 0.05) << type;
  }
}

// M16 — Korthikanti et al., arXiv 2205.05198, table 2

double activations(std::int64_t sequence, std::int64_t hidden, std::int64_t heads, bool fused,
                   std::int64_t tp = 1, bool sequence_parallel = true) {
  cost::ProfileOptions options;
  options.sequence = sequence;
  options.tp = {tp};
  options.precision = "bf16";
  options.fused_attention = fused;
  options.sequence_parallel = sequence_parallel;
  return cost_of(gpt(2, hidden, heads, 51200), options, "layer.0").activation_bytes;
}

TEST(CaseM16, ScoresAreStoredOnlyWhereTheyAreWrittenOut) {
  const double fused = activations(2048, 4096, 32, true);
  const double scores = activations(2048, 4096, 32, false);
  EXPECT_NEAR(fused / kMiB, 272, 0.5);
  EXPECT_NEAR(scores / kMiB, 912, 0.5);
  EXPECT_NEAR(activations(4096, 4096, 32, true) / fused, 2, 2e-3);
  EXPECT_NEAR(
      (activations(4096, 4096, 32, false) - activations(4096, 4096, 32, true)) / (scores - fused),
      4, 4e-3);
}

TEST(CaseM16, TheFormulaHoldsForAllSizesAndSplits) {
  for (const double s : {512.0, 1024.0, 4096.0}) {
    for (const std::int64_t hidden : {1024, 2048, 8192}) {
      const std::int64_t heads = hidden / 64;
      const auto h = static_cast<double>(hidden);
      const auto sequence = static_cast<std::int64_t>(s);
      for (const std::int64_t tp : {1, 2, 8}) {
        const auto t = static_cast<double>(tp);
        const double scores = 5 * static_cast<double>(heads) * s * s / t;
        // all of 34·s·h is divided with sequence parallelism, without it the 10·s·h between the
        // parallel operators are not
        const double split = activations(sequence, hidden, heads, true, tp);
        const double whole = activations(sequence, hidden, heads, true, tp, false);
        EXPECT_NEAR(split, 34 * s * h / t, 0.01 * split) << s << " " << h << " " << t;
        EXPECT_NEAR(whole, s * h * (10 + 24 / t), 0.01 * whole) << s << " " << h << " " << t;
        EXPECT_NEAR(activations(sequence, hidden, heads, false, tp) - split, scores, 0.02 * scores);
      }
    }
  }
}

// M17 — a run that trained and could not be loaded again

model::Problem loading(int zero, std::int64_t dp, std::int64_t node_size, model::Plan& plan) {
  SmallCase small({SmallCase::level(node_size, 1e11), SmallCase::level(dp / node_size + 1, 1e10)},
                  dp);
  const int one = small.strategy(1);
  small.layer({.forward_s = 1, .backward_s = 2, .parameters = 5e9});
  small.data_parallel(dp, dp);
  small.stage({0}, one, 0).zero = zero;
  small.problem.cluster.host_memory_bytes = 256e9;
  plan = small.evaluate();
  return small.problem;
}

TEST(CaseM17, RanksThatAllReadEverythingNeedMoreThanAHostHas) {
  for (int zero = 0; zero <= 3; ++zero) {
    model::Plan plan;
    const model::Problem problem = loading(zero, 8, 8, plan);
    const cost::Restart load = cost::restart(problem, plan);
    EXPECT_EQ(load.ranks_per_node, 8);
    EXPECT_EQ(load.whole_bytes_per_rank, 60e9);
    EXPECT_EQ(load.whole_bytes_per_node, 480e9);
    EXPECT_EQ(load.shard_bytes_per_node, 60e9) << "all copies are on this node";
    const auto document = written(plan, problem);
    EXPECT_EQ(document.at("restart").at("whole_bytes_per_node"), 480e9);
    EXPECT_EQ(document.at("restart").at("host_memory_bytes"), 256e9);
    const auto remark = document.at("remarks").back().get<std::string>();
    EXPECT_NE(remark.find("480 GB"), std::string::npos) << remark;
    EXPECT_NE(remark.find("256 GB"), std::string::npos) << remark;
  }
}

TEST(CaseM17, ShardsOfManyNodesAreSmallAndWholeStatesAreNot) {
  for (const std::int64_t nodes : {1, 2, 4, 16}) {
    for (const int zero : {0, 1, 2, 3}) {
      model::Plan plan;
      const model::Problem problem = loading(zero, 8 * nodes, 8, plan);
      const cost::Restart load = cost::restart(problem, plan);
      EXPECT_EQ(load.whole_bytes_per_node, 480e9);
      const double shard = zero == 0 ? 60e9 : 60e9 / static_cast<double>(nodes);
      EXPECT_NEAR(load.shard_bytes_per_node, shard, 1) << zero << " on " << nodes;
    }
  }
}

TEST(CaseM17, HostsWithRoomAreNotRemarkedOn) {
  model::Plan plan;
  model::Problem problem = loading(1, 8, 8, plan);
  for (const auto& [host, remarked] :
       {std::pair{0.0, false}, {256e9, true}, {479e9, true}, {480e9, false}}) {
    problem.cluster.host_memory_bytes = host;
    EXPECT_EQ(written(plan, problem).contains("remarks"), remarked) << host;
  }
}

}  // namespace
}  // namespace nestplan::cases
