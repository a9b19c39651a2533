// How layers fall to the stages of a pipeline.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cases/chains.hpp"
#include "cli/plan_remarks.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/targets/layout.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/errors.hpp"
#include "util/expect_error.hpp"

namespace nestplan::cases {
namespace {

using model::Status;
using targets::LayoutPart;
using targets::PipelineLayout;
using test::expect_contains;
using test::message_of;
using Counts = std::vector<std::int64_t>;
using Layout = model::StageConstraints::Layout;

std::vector<double> seconds_of(const std::vector<Piece>& pieces) {
  std::vector<double> seconds;
  for (const Piece& piece : pieces) seconds.push_back(piece.seconds);
  return seconds;
}

// P01 — NVIDIA/Megatron-LM: 80 layers in 40 chunks, the first and the last of which hold the table
// and the loss

/// Chunks of 2 (with the embedding), 34 times 2, 3, three times 2, and 1 (with the loss).
PipelineLayout lightened() {
  PipelineLayout layout(40, LayoutPart{.layers = 2});
  layout.front().embedding = true;
  layout[35].layers = 3;
  layout.back().layers = 1;
  layout.back().loss = true;
  return layout;
}

TEST(CaseP01, AnExplicitLayoutCountsItsLayers) {
  PipelineLayout layout = lightened();
  EXPECT_EQ(targets::megatron_layout(layout), "Ett|(tt|)*34t*3|(tt|)*3tL");
  EXPECT_EQ(targets::parse_megatron_layout("Ett|(tt|)*34ttt|(tt|)*3,tL"), layout);
  EXPECT_NO_THROW(targets::check_layout(layout, 80, 0, 8, 5));

  layout.back().layers = 2;
  const std::string message =
      message_of<InvalidConfig>([&] { targets::check_layout(layout, 80, 0, 8, 5); });
  EXPECT_EQ(message, "layout: holds 81 layers in all, the model has 80");
  EXPECT_EQ(message_of<InvalidConfig>([&] { targets::check_layout(lightened(), 80, 0, 8, 4); }),
            "layout: has 40 parts, but pp 8 · vpp 4 = 32");
}

/// A plan of these parts, `pp` stages of as many chunks each.
cost::PlacedPlan placed(const PipelineLayout& layout, std::int64_t pp) {
  cost::PlacedPlan plan;
  plan.stages.resize(static_cast<std::size_t>(pp));
  int next = 0;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    cost::PlacedStage& stage = plan.stages[i % plan.stages.size()];
    std::vector<int>& chunk = stage.chunks.emplace_back();
    const std::int64_t count =
        layout[i].layers + (layout[i].embedding ? 1 : 0) + (layout[i].loss ? 1 : 0);
    for (std::int64_t k = 0; k < count; ++k) chunk.push_back(next++);
    stage.layers.insert(stage.layers.end(), chunk.begin(), chunk.end());
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    plan.stages[s].position = static_cast<std::int64_t>(s);
  }
  return plan;
}

TEST(CaseP01, ThePlanOfALayoutIsEvaluatedAndOneTooManyIsRefused) {
  const auto ends = pieces(1, {.seconds = 0.5, .counted = false});
  const model::Problem problem = chain(joined({ends, pieces(80), ends}), 8);
  const auto network = network::make_network(problem.cluster);
  const model::Plan plan = cost::evaluate(problem, *network, placed(lightened(), 8));
  EXPECT_EQ(plan.status, Status::kOptimal) << plan.reason;
  EXPECT_EQ(plan.strategy.vpp, 5);
  const Counts counts = counted_sizes(plan, problem.graph);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 80);

  PipelineLayout longer = lightened();
  longer.back().layers = 2;
  EXPECT_THROW(cost::evaluate(problem, *network, placed(longer, 8)), InvalidInput);
}

TEST(CaseP01, LayoutsAreReadBackAndEveryWrongTotalIsRefused) {
  std::mt19937 random(1);
  const auto draw = [&](std::int64_t most) {
    return static_cast<std::int64_t>(random()) % (most + 1);
  };
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t pp = 1 + draw(7);
    const std::int64_t vpp = 1 + draw(3);
    PipelineLayout layout;
    LayoutPart same{.layers = draw(5)};
    std::int64_t layers = 0;
    for (std::int64_t part = 0; part < pp * vpp; ++part) {
      if (draw(2) == 0) same.layers = draw(5);
      layout.push_back(same);
      layers += same.layers;
    }
    layout.front().embedding = layout.back().loss = true;
    layout.back().predictions = draw(2);
    const std::string text = targets::megatron_layout(layout);
    ASSERT_EQ(targets::parse_megatron_layout(text), layout) << text;
    const std::int64_t predictions = layout.back().predictions;
    EXPECT_NO_THROW(targets::check_layout(layout, layers, predictions, pp, vpp)) << text;
    ++layout[static_cast<std::size_t>(draw(pp * vpp - 1))].layers;
    const std::string message = message_of<InvalidConfig>(
        [&] { targets::check_layout(layout, layers, predictions, pp, vpp); });
    expect_contains(message, std::to_string(layers + 1));
    expect_contains(message, std::to_string(layers));
  }
}

TEST(CaseP01, NonsenseIsRefused) {
  for (const char* text : {"Et|tx|L", "E(tt|*3L", "E((t|)*2)*2L", "Et*|L", "Et*-1|L", "EEt|L",
                           "Et*99999999999999999999L"}) {
    expect_contains(message_of<InvalidConfig>([&] { targets::parse_megatron_layout(text); }),
                    "layout ");
  }
  for (const char* text : {"tt|ttL", "Ett|tt", "tt|EttL", "EttL|tt"}) {
    const PipelineLayout layout = targets::parse_megatron_layout(text);
    EXPECT_THROW(targets::check_layout(layout, 4, 0, 2, 1), InvalidConfig) << text;
  }
}

// P03 — a few cheap dense layers in front of those with experts

TEST(CaseP03, CheapLayersInFrontMakeALongFirstStage) {
  const model::Plan plan =
      solve(chain(joined({pieces(3, {.seconds = 1}), pieces(11, {.seconds = 2})}), 4));
  EXPECT_EQ(sizes(plan), (Counts{5, 3, 3, 3}));
  EXPECT_NEAR(bottleneck(plan), 7, 1e-9);
}

TEST(CaseP03, AnyChainIsSplitAsWellAsItCanBe) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t pp = 1 + static_cast<std::int64_t>(random() % 8);
    std::vector<Piece> layers = pieces(pp + static_cast<std::int64_t>(random() % 20));
    for (Piece& piece : layers) piece.seconds = 1 + static_cast<double>(random() % 5);
    const model::Plan plan = solve(chain(layers, pp));
    expect_complete(plan, layers.size());
    EXPECT_NEAR(bottleneck(plan), least_bottleneck(seconds_of(layers), pp), 1e-9);
  }
}

// P04 — embedding and head count as layers by what they cost

std::vector<Piece> with_ends(std::int64_t layers, double embedding, double head) {
  return joined({pieces(1, {.seconds = embedding, .counted = false}), pieces(layers),
                 pieces(1, {.seconds = head, .counted = false})});
}

TEST(CaseP04, EndsThatCountAsOneLayerEachTakeTheirPlace) {
  const model::Problem problem = chain(with_ends(32, 1, 1), 4);
  const model::Plan plan = solve(problem);
  EXPECT_NEAR(bottleneck(plan), 9, 1e-9);
  const Counts counts = counted_sizes(plan, problem.graph);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), 32);
  EXPECT_LE(counts.front(), 8);
  EXPECT_LE(counts.back(), 8);
}

TEST(CaseP04, NoWeightMakesACountNegative) {
  for (double weight = 0.5; weight <= 40; weight += 0.5) {
    const std::vector<Piece> layers = with_ends(32, weight, weight);
    const model::Problem problem = chain(layers, 4);
    const model::Plan plan = solve(problem);
    expect_complete(plan, layers.size());
    EXPECT_NEAR(bottleneck(plan), least_bottleneck(seconds_of(layers), 4), 1e-9) << weight;
  }
}

std::vector<std::string> remarks_on(const model::Problem& problem) {
  cli::Setup setup;
  setup.problem = problem;
  setup.network = network::make_network(problem.cluster);
  return cli::plan_notes(solve(problem), setup).remarks;
}

TEST(CaseP04, WeightsAboveAStagesShareAreNamedWithTheLimit) {
  for (const double weight : {2.0, 5.0, 8.0}) {
    EXPECT_TRUE(remarks_on(chain(with_ends(32, weight, weight), 4)).empty()) << weight;
  }
  for (const double weight : {8.5, 10.0, 30.0}) {
    const auto remarks = remarks_on(chain(with_ends(32, weight, weight), 4));
    ASSERT_EQ(remarks.size(), 1U) << weight;
    expect_contains(remarks[0], "more than the 8.0 of a stage's share (32 layers over 4 stages)");
  }
  expect_contains(remarks_on(chain(with_ends(32, 10, 10), 4)).at(0), "as long as 10.0 others");
}

// P06 — layers that no stage owned

TEST(CaseP06, EveryNumberOfLayersIsSplitCompletely) {
  for (std::int64_t layers = 1; layers <= 130; ++layers) {
    for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(16, layers); ++pp) {
      const model::Plan plan = solve(chain(pieces(layers), pp));
      ASSERT_EQ(plan.status, Status::kOptimal) << layers << " over " << pp;
      ASSERT_EQ(std::ssize(plan.stages), pp);
      expect_complete(plan, static_cast<std::size_t>(layers));
      EXPECT_NEAR(bottleneck(plan), static_cast<double>((layers + pp - 1) / pp), 1e-9);
    }
  }
}

/// Sizes from the largest down, where no stage is to be smaller than the rest makes it.
Counts balanced(std::int64_t layers, std::int64_t pp) {
  model::Problem problem = chain(pieces(layers), pp);
  problem.options.stages.least = layers / pp;
  problem.options.stages.most = (layers + pp - 1) / pp;
  Counts counts = sizes(solve(problem));
  std::sort(counts.rbegin(), counts.rend());
  return counts;
}

TEST(CaseP06, SizesOfEqualLayersDifferByOneAtMostIfThatIsAsked) {
  EXPECT_EQ(balanced(10, 3), (Counts{4, 3, 3}));
  EXPECT_EQ(balanced(7, 2), (Counts{4, 3}));
  EXPECT_EQ(balanced(62, 4), (Counts{16, 16, 15, 15}));
  for (std::int64_t layers = 1; layers <= 130; ++layers) {
    for (std::int64_t pp = 1; pp <= std::min<std::int64_t>(16, layers); ++pp) {
      const Counts counts = balanced(layers, pp);
      ASSERT_EQ(std::ssize(counts), pp);
      EXPECT_LE(counts.front() - counts.back(), 1) << layers << " over " << pp;
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}), layers);
    }
  }
}

// P07 — a vision encoder on the first stage

model::Problem with_encoder(double encoder, std::int64_t layers, std::int64_t pp) {
  model::Problem problem =
      chain(joined({pieces(1, {.seconds = encoder, .counted = false}), pieces(layers)}), pp);
  problem.options.stages.pins = {{0, 0}};
  return problem;
}

TEST(CaseP07, AnEncoderTakesUpTheRoomOfLayers) {
  const model::Problem problem = with_encoder(6, 42, 4);
  const model::Plan plan = solve(problem);
  EXPECT_EQ(counted_sizes(plan, problem.graph), (Counts{6, 12, 12, 12}));
  EXPECT_NEAR(bottleneck(plan), 12, 1e-9);
}

TEST(CaseP07, EncodersOfAnySizeStayOnTheFirstStage) {
  for (double encoder = 0.5; encoder <= 20; encoder += 0.5) {
    for (const std::int64_t pp : {2, 3, 4, 6}) {
      const model::Problem problem = with_encoder(encoder, 42, pp);
      const model::Plan plan = solve(problem);
      EXPECT_EQ(plan.stages.front().layers.front(), 0);
      std::vector<double> costs(43, 1);
      costs[0] = encoder;
      EXPECT_NEAR(bottleneck(plan), least_bottleneck(costs, pp), 1e-9) << encoder << " " << pp;
    }
  }
}

// P08 — encoder and decoder, with a stage's edge between them

model::Problem with_border(std::int64_t encoder, std::int64_t decoder, double cost,
                           std::int64_t pp) {
  model::Problem problem = chain(joined({pieces(encoder), pieces(decoder, {.seconds = cost})}), pp);
  std::vector<int> left(static_cast<std::size_t>(encoder));
  std::vector<int> right(static_cast<std::size_t>(decoder));
  std::iota(left.begin(), left.end(), 0);
  std::iota(right.begin(), right.end(), static_cast<int>(encoder));
  problem.options.stages.cuts = {left, right};
  return problem;
}

TEST(CaseP08, AForcedBorderIsAStagesEdge) {
  const model::Plan plan = solve(with_border(12, 6, 2, 4));
  EXPECT_EQ(sizes(plan), (Counts{6, 6, 3, 3}));
  EXPECT_NEAR(bottleneck(plan), 6, 1e-9);
}

TEST(CaseP08, BordersAreKeptAndTheRestIsAsGoodAsItCanBe) {
  for (std::int64_t encoder = 2; encoder <= 12; encoder += 2) {
    for (std::int64_t decoder = 1; decoder <= 7; decoder += 2) {
      for (const std::int64_t pp : {2, 3, 4}) {
        if (encoder + decoder < pp) continue;
        const model::Plan plan = solve(with_border(encoder, decoder, 2, pp));
        double best = 1e9;
        for (std::int64_t left = 1; left < pp; ++left) {
          if (left > encoder || pp - left > decoder) continue;
          const std::vector<double> first(static_cast<std::size_t>(encoder), 1);
          const std::vector<double> second(static_cast<std::size_t>(decoder), 2);
          best = std::min(
              best, std::max(least_bottleneck(first, left), least_bottleneck(second, pp - left)));
        }
        ASSERT_NEAR(bottleneck(plan), best, 1e-9) << encoder << " " << decoder << " " << pp;
        for (const model::StagePlan& stage : plan.stages) {
          EXPECT_EQ(stage.layers.front() < encoder, stage.layers.back() < encoder);
        }
      }
    }
  }
}

TEST(CaseP08, AnEncoderWithItsOwnTensorDegreeIsRefused) {
  targets::Candidate candidate;
  candidate.model.blocks = 18;
  candidate.pp = 4;
  candidate.per_stage_strategies = true;  // tp 4 here, tp 2 there
  const targets::Rule* rule = targets::rule_set("megatron").broken(candidate);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->name, "one-strategy");
  candidate.per_stage_strategies = false;
  candidate.model.encoder_blocks = 12;
  rule = targets::rule_set("megatron").broken(candidate);
  ASSERT_NE(rule, nullptr);
  EXPECT_STREQ(rule->name, "encoder");
}

// P09 — modules of prediction and their losses on the last stage

TEST(CaseP09, PredictionsPushLayersAwayFromTheLastStage) {
  for (const std::int64_t modules : {1, 2, 4}) {
    // a module and a loss each, which stay behind the last layer
    const std::vector<Piece> layers = joined({pieces(12), pieces(2 * modules, {.counted = false})});
    model::Problem problem = chain(layers, 4);
    for (int i = 12; i < static_cast<int>(layers.size()); ++i) {
      problem.options.stages.pins.push_back({i, -1});
    }
    const model::Plan plan = solve(problem);
    const double least = std::max(2.0 * static_cast<double>(modules),
                                  std::ceil((12 + 2 * static_cast<double>(modules)) / 4));
    EXPECT_NEAR(bottleneck(plan), least, 1e-9) << modules;
    expect_complete(plan, layers.size());
  }
  model::Problem even = chain(joined({pieces(12), pieces(2, {.counted = false})}), 4);
  even.options.stages.layout = Layout::kEven;
  EXPECT_NEAR(bottleneck(solve(even)), 5, 1e-9) << "3, 3, 3, 3 and what stays behind";
}

// P10 — tables that leave a stage no room for more than one layer

std::vector<Piece> with_tables(std::int64_t layers) {
  return joined({pieces(1, {.seconds = 0.01, .parameters = 3, .counted = false}),
                 pieces(layers, {.seconds = 1, .parameters = 1}),
                 pieces(1, {.seconds = 2, .parameters = 3, .counted = false})});
}

TEST(CaseP10, TablesGetAStageAlmostToThemselvesWhereMemoryIsShort) {
  for (const std::int64_t pp : {4, 5, 6}) {
    model::Problem problem = chain(with_tables(8), pp);
    problem.cluster.device.memory_bytes = 4;
    const model::Plan plan = solve(problem);
    ASSERT_EQ(plan.status, Status::kOptimal) << plan.reason;
    const Counts counts = counted_sizes(plan, problem.graph);
    EXPECT_LE(counts.front(), 1);
    EXPECT_LE(counts.back(), 1);
    for (const model::StagePlan& stage : plan.stages) {
      EXPECT_LE(stage.memory.total_bytes, 4) << "the peak of every stage is reported";
      EXPECT_GT(stage.memory.total_bytes, 0);
    }
    if (pp == 4) {
      EXPECT_EQ(counts, (Counts{1, 3, 3, 1}));
    }

    problem.options.stages.layout = Layout::kEven;
    const model::Plan even = solve(problem);
    EXPECT_EQ(even.status, Status::kInfeasible) << "2 layers and a table are 5";
  }
}

TEST(CaseP10, MemoryDecidesExactlyWhatFits) {
  for (std::int64_t layers = 4; layers <= 12; ++layers) {
    for (const std::int64_t pp : {3, 4, 5}) {
      std::vector<double> bytes(static_cast<std::size_t>(layers), 1);
      bytes.insert(bytes.begin(), 3);
      bytes.push_back(3);
      const double needed = least_bottleneck(bytes, pp);
      model::Problem problem = chain(with_tables(layers), pp);
      problem.cluster.device.memory_bytes = needed;
      EXPECT_EQ(solve(problem).status, Status::kOptimal) << layers << " " << pp;
      problem.cluster.device.memory_bytes = needed - 1;
      EXPECT_EQ(solve(problem).status, Status::kInfeasible) << layers << " " << pp;
    }
  }
}

// P12 — output layers of large vocabularies

/// What the head is worth in layers, by the time of one micro-batch.
double head_in_layers(std::int64_t hidden, std::int64_t vocabulary) {
  cost::ProfileOptions options;
  options.sequence = 2048;
  options.tp = {1};
  const model::Graph graph =
      cost::build_graph(gpt(4, hidden, hidden / 128, vocabulary), node(1).device, options);
  const auto seconds = [&](std::size_t layer) {
    return graph.layers[layer].costs[0]->forward_s + graph.layers[layer].costs[0]->backward_s;
  };
  return seconds(graph.layers.size() - 1) / seconds(1);
}

TEST(CaseP12, TheHeadIsWorthLayersByVocabularyAndWidth) {
  EXPECT_NEAR(head_in_layers(2048, 256000), 256000.0 / (12 * 2048), 4)
      << "2·h·V over 24·h², and what is not a product of matrices";
  double last = 0;
  for (const std::int64_t vocabulary : {32000, 64000, 128000, 256000}) {
    const double worth = head_in_layers(2048, vocabulary);
    EXPECT_GT(worth, 1.5 * last) << vocabulary;
    last = worth;
  }
  for (const std::int64_t hidden : {4096, 8192}) {
    const double worth = head_in_layers(hidden, 256000);
    EXPECT_LT(worth, last / 1.5) << hidden;
    last = worth;
  }
}

TEST(CaseP12, AHeadThatNoSplitBalancesIsRemarkedOn) {
  const double head = 10.4;
  for (std::int64_t pp = 2; pp <= 16; ++pp) {
    const std::vector<Piece> layers =
        joined({pieces(24), pieces(1, {.seconds = head, .counted = false})});
    const model::Plan plan = solve(chain(layers, pp));
    const auto remarks = remarks_on(chain(layers, pp));
    const bool above = head > 24.0 / static_cast<double>(pp);
    ASSERT_EQ(remarks.size(), above ? 1U : 0U) << pp;
    if (!above) continue;
    expect_contains(remarks[0], "takes as long as 10.4 others");
    const bool binds = bottleneck(plan) <= head + 1e-9;
    EXPECT_EQ(remarks[0].find("fewer stages") != std::string::npos, binds) << pp;
    if (pp == 8) {
      EXPECT_NEAR(bottleneck(plan), head, 1e-9);
    }
  }
}

}  // namespace
}  // namespace nestplan::cases
