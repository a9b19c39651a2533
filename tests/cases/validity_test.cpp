// Plans that frameworks would refuse, or take and train something else.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "cases/chains.hpp"
#include "cli/plan_target.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/targets/targets.hpp"
#include "util/expect_error.hpp"

namespace nestplan::cases {
namespace {

using model::Status;
using test::expect_contains;
using Counts = std::vector<std::int64_t>;
using Layout = model::StageConstraints::Layout;

std::string setting(const io::PlanTarget& target, const std::string& key) {
  for (const auto& each : target.settings) {
    if (each.key == key) return each.value;
  }
  return "";
}

/// What `plan` implies for the framework that `problem` is for.
io::PlanTarget target_of(const model::Plan& plan, const model::Problem& problem) {
  cli::Setup setup;
  setup.problem = problem;
  setup.network = network::make_network(problem.cluster);
  return cli::target_of(plan, setup).value();
}

// V03 — NVIDIA/Megatron-LM pull request 823: 30 layers over 4 stages became 28

/// Layers between a table that takes a little time and an output layer that takes more.
model::Problem with_ends(std::int64_t layers, std::int64_t pp, Layout layout) {
  model::Problem problem =
      chain(joined({pieces(1, {.seconds = 0.05, .counted = false}), pieces(layers),
                    pieces(1, {.seconds = 0.4, .counted = false})}),
            pp);
  problem.options.stages.layout = layout;
  problem.graph.dimensions.blocks = layers;
  problem.options.target = "megatron";
  return problem;
}

TEST(CaseV03, ThirtyLayersOverFourStages) {
  const model::Problem problem = with_ends(30, 4, Layout::kFirstLast);
  const model::Plan plan = solve(problem);
  EXPECT_EQ(counted_sizes(plan, problem.graph), (Counts{7, 8, 8, 7}));
  const io::PlanTarget target = target_of(plan, problem);
  EXPECT_EQ(setting(target, "decoder_first_pipeline_num_layers"), "7");
  EXPECT_EQ(setting(target, "decoder_last_pipeline_num_layers"), "7");

  const model::Plan even = solve(with_ends(30, 4, Layout::kEven));
  EXPECT_EQ(even.status, Status::kInfeasible);
  expect_contains(even.reason, "30");
}

TEST(CaseV03, NoLayoutLosesALayer) {
  for (std::int64_t layers = 4; layers <= 40; ++layers) {
    for (std::int64_t pp = 2; pp <= std::min<std::int64_t>(8, layers); ++pp) {
      for (const Layout layout : {Layout::kAny, Layout::kFirstLast, Layout::kEven}) {
        const model::Problem problem = with_ends(layers, pp, layout);
        const model::Plan plan = solve(problem);
        const bool divides = layers % pp == 0;
        ASSERT_EQ(plan.status == Status::kOptimal, layout != Layout::kEven || divides)
            << layers << " over " << pp << ": " << plan.reason;
        if (plan.status != Status::kOptimal) continue;
        expect_complete(plan, problem.graph.layers.size());
        const Counts counts = counted_sizes(plan, problem.graph);
        EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
        if (layout == Layout::kAny) continue;
        const auto first = counts.begin() + (layout == Layout::kEven ? 0 : 1);
        const auto last = counts.end() - (layout == Layout::kEven ? 0 : 1);
        EXPECT_TRUE(std::all_of(first, last, [&](std::int64_t n) { return n == *first; }));
      }
    }
  }
}

TEST(CaseV03, EvenStagesThatCannotBeAreExplained) {
  model::Problem problem = with_ends(30, 4, Layout::kEven);
  problem.options.target = "any";
  const model::Plan plan = solve(problem);
  expect_contains(plan.reason, "30 layers do not split evenly over 4 stages");
  expect_contains(plan.reason, "--pp 3 or 5");
}

// V05, U16 — numbers of layers left over from another plan

TEST(CaseV05, ASingleStageSaysNothingOfNumbersOfLayers) {
  const model::Problem uneven = with_ends(22, 4, Layout::kFirstLast);
  EXPECT_NE(setting(target_of(solve(uneven), uneven), "decoder_last_pipeline_num_layers"), "");

  const model::Problem single = with_ends(20, 1, Layout::kFirstLast);
  const model::Plan plan = solve(single);
  const io::PlanTarget target = target_of(plan, single);
  for (const auto& each : target.settings) {
    EXPECT_EQ(each.key.find("num_layers"), std::string::npos) << each.key;
    EXPECT_NE(each.key, "pipeline_model_parallel_layout");
  }
  const std::string text = io::plan_to_json(plan, single.graph, single.cluster, 1024, target);
  const model::PartialPlan read = io::parse_plan(text, "plan.json", single.graph);
  ASSERT_EQ(read.stages.size(), 1U);
  const auto counted = std::count_if(
      read.stages[0].layers.begin(), read.stages[0].layers.end(),
      [&](int layer) { return single.graph.layers[static_cast<std::size_t>(layer)].counted; });
  EXPECT_EQ(counted, 20);
}

TEST(CaseU16, PlansDoNotRememberOneAnother) {
  // an uneven pipeline in between, and other models, change nothing about the first
  const auto text = [](std::int64_t layers, std::int64_t pp) {
    const model::Problem problem = with_ends(layers, pp, Layout::kFirstLast);
    model::Plan plan = solve(problem);
    plan.search = {};
    return io::plan_to_json(plan, problem.graph, problem.cluster, 1024, target_of(plan, problem));
  };
  std::vector<std::string> first;
  for (std::int64_t layers = 16; layers <= 30; ++layers) first.push_back(text(layers, 8));
  for (std::int64_t layers = 30; layers >= 16; --layers) {
    text(layers, 16);
    EXPECT_EQ(text(layers, 8), first[static_cast<std::size_t>(layers - 16)]);
  }
}

TEST(CaseU16, HeadsPerRankAreThoseOfTheModel) {
  const auto columns = [](std::int64_t heads) {
    cost::ProfileOptions options;
    options.sequence = 1152;
    options.tp = {1, 3, 4};
    std::vector<std::string> ids;
    const auto architecture = gpt(2, 64 * heads, heads, 50304);
    for (const auto& s : cost::build_graph(architecture, node(8).device, options).strategies) {
      ids.push_back(s.id);
    }
    return ids;
  };
  const auto alone = columns(12);
  EXPECT_EQ(columns(3), (std::vector<std::string>{"tp1-mb1", "tp3-mb1"}));
  EXPECT_EQ(columns(12), alone);
  EXPECT_EQ(alone, (std::vector<std::string>{"tp1-mb1", "tp3-mb1", "tp4-mb1"})) << "3 heads each";
}

// V08 — epfLLM/Megatron-LLM issue 103

TEST(CaseV08, TablesAreAsLargeAsTheirPaddingMakesThem) {
  for (const std::int64_t vocabulary : {1000, 32000, 50257, 151669}) {
    for (const std::int64_t multiple : {1, 64, 128, 1024}) {
      cost::ProfileOptions options;
      options.sequence = 1024;
      options.tp = {1, 2, 4, 8};
      options.vocabulary_multiple = multiple;
      const model::Graph graph =
          cost::build_graph(gpt(1, 1024, 16, vocabulary), node(8).device, options);
      ASSERT_EQ(graph.strategies.size(), 4U);
      for (std::size_t s = 0; s < 4; ++s) {
        const std::int64_t tp = graph.strategies[s].tp;
        const std::int64_t padded = targets::padded_vocabulary(vocabulary, multiple, tp);
        EXPECT_EQ(padded % (multiple * tp), 0);
        EXPECT_GE(padded, vocabulary);
        EXPECT_LT(padded, vocabulary + multiple * tp);
        EXPECT_EQ(graph.layers.front().costs[s]->table_parameters,
                  1024.0 * static_cast<double>(padded / tp));
      }
      EXPECT_EQ(graph.dimensions.vocabulary, vocabulary) << "unpadded";
    }
  }
}

// V16 — NVIDIA/Megatron-LM issue 299

struct Tied {
  model::Problem problem;
  double unique = 0;
};

Tied tied(std::int64_t hidden, std::int64_t vocabulary, std::int64_t pp) {
  model::Architecture a = gpt(8, hidden, hidden / 64, vocabulary);
  a.tied_embeddings = true;
  cost::ProfileOptions options;
  options.sequence = 1024;
  options.tp = {1};
  Tied result;
  result.problem.cluster = node(pp);
  result.problem.graph = cost::build_graph(a, result.problem.cluster.device, options);
  result.problem.options.global_batch = 64;
  result.problem.options.dp = {1};
  result.problem.options.pp = {pp};
  result.problem.options.zero = {0};
  result.unique = static_cast<double>(total_parameters(a));
  return result;
}

double parameters(const model::Plan& plan, const model::Problem& problem) {
  double sum = 0;
  for (const model::StagePlan& stage : plan.stages) {
    sum += stage.memory.weight_bytes / problem.options.state_bytes.weight;
  }
  return sum;
}

TEST(CaseV16, ATiedTableIsOnBothEndsAndExchangedOnce) {
  constexpr double kTable = 51'511'296;
  const Tied one = tied(1024, 50304, 1);
  EXPECT_EQ(parameters(solve(one.problem), one.problem), one.unique);

  const Tied four = tied(1024, 50304, 4);
  const model::Plan plan = solve(four.problem);
  ASSERT_EQ(plan.stages.size(), 4U);
  EXPECT_EQ(parameters(plan, four.problem), four.unique + kTable);
  for (std::size_t s = 0; s + 1 < 4; ++s) EXPECT_EQ(plan.stages[s].time.tie_s, 0) << s;
  const auto network = network::make_network(four.problem.cluster);
  const double gradients = kTable * four.problem.options.state_bytes.gradient;
  EXPECT_NEAR(plan.stages[3].time.tie_s, network->transfer_s(gradients, 0, 1), 1e-12);
}

TEST(CaseV16, CopiesAreExactlyWhatThePartsExceedTheWholeBy) {
  for (const std::int64_t hidden : {512, 1024, 2048}) {
    for (const std::int64_t vocabulary : {32000, 50304}) {
      for (std::int64_t pp = 1; pp <= 5; ++pp) {
        const Tied small = tied(hidden, vocabulary, pp);
        const model::Plan plan = solve(small.problem);
        const auto table = static_cast<double>(vocabulary * hidden);
        EXPECT_EQ(parameters(plan, small.problem), small.unique + (pp > 1 ? table : 0));
        double exchanged = 0;
        for (const model::StagePlan& stage : plan.stages) exchanged += stage.time.tie_s;
        EXPECT_EQ(exchanged > 0, pp > 1);
      }
    }
  }
}

// U18 — RulinShao/LightSeq issue 3: a tensor-parallel group shares one sequence

TEST(CaseU18, SequencesAreCutByContextParallelismAlone) {
  const model::Architecture a = gpt(2, 4096, 32, 50304);
  const auto sent = [&](std::int64_t tp, std::int64_t cp) {
    cost::ProfileOptions options;
    options.sequence = 4096;
    options.tp = {tp};
    options.cp = {cp};
    options.sequence_parallel = false;
    const model::Graph graph = cost::build_graph(a, node(8).device, options);
    return graph.edges.at(1).bytes.at(0);
  };
  const double row = 2 * 4096;  // of one token
  EXPECT_EQ(sent(1, 1), 4096 * row);
  EXPECT_EQ(sent(8, 1), 4096 * row) << "all tokens";
  EXPECT_EQ(sent(1, 8), 512 * row) << "512 of them";
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    for (const std::int64_t cp : {1, 2, 4, 8}) {
      EXPECT_EQ(sent(tp, cp), 4096 * row / static_cast<double>(cp));
    }
  }
}

TEST(CaseU18, TensorParallelismSharesTheHeadsAndNotTheTokens) {
  const model::Architecture a = gpt(2, 4096, 32, 50304);
  const auto attention_s = [&](std::int64_t tp, std::int64_t cp) {
    cost::ProfileOptions options;
    options.sequence = 4096;
    options.tp = {tp};
    options.cp = {cp};
    options.granularity = cost::Granularity::kOperator;
    const model::Graph graph = cost::build_graph(a, node(8).device, options);
    for (const model::Layer& layer : graph.layers) {
      if (layer.id == "layer.0.attention") return layer.costs[0]->forward_s;
    }
    return 0.0;
  };
  const double whole = attention_s(1, 1);
  EXPECT_GT(whole, 0);
  // an eighth of the heads, or of the queries over all keys: an eighth of the work either way
  for (const double split : {attention_s(8, 1), attention_s(1, 8)}) {
    EXPECT_LT(split, whole / 2);
    EXPECT_GT(split, whole / 12);
  }
}

}  // namespace
}  // namespace nestplan::cases
