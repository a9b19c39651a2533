#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"
#include "solver/configuration.hpp"
#include "solver/random_plan.hpp"
#include "solver/table.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::solver {
namespace {

using model::Objective;

/// A bound may be above a value by rounding alone.
constexpr double kRounding = 1e-11;

/// Ticks that the rounding of a stage's terms may add up to.
constexpr Ticks kRoundingTicks = 100;

/// The parts of a plan's cost that the bounds speak of, in seconds.
struct Cost {
  double sum = 0;  ///< Σ t + sync_1
  double bottleneck = 0;
  double objective = 0;
};

Cost cost_of(const model::Plan& plan) {
  Cost cost{plan.stages.front().time.sync_s, 0, plan.iteration_time_s};
  for (const model::StagePlan& stage : plan.stages) {
    cost.sum += stage.time.total_s;
    cost.bottleneck = std::max(cost.bottleneck, stage.time.total_s);
  }
  return cost;
}

void expect_below(const TickScale& scale, const DepthBound& bound, const Cost& cost,
                  const std::string& where) {
  const double above = 1 + kRounding;
  EXPECT_LE(scale.seconds(bound.sum), cost.sum * above) << where;
  EXPECT_LE(scale.seconds(bound.bottleneck), cost.bottleneck * above) << where;
  EXPECT_LE(scale.seconds(bound.total), cost.objective * above) << where;
}

TEST(DepthBounds, AreBelowEveryPlan) {
  std::uint64_t plans = 0;
  const std::uint64_t seeds = testing::seeds(600);
  for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    testing::Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.objective = dice.chance(50) ? Objective::k1F1B : Objective::kPaper;
    problem.options.per_stage_strategies = dice.chance(50);
    const auto network = network::make_network(problem.cluster);
    const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
    ConfigurationSpace space(instance);
    ClassCache classes(instance);
    for (const Configuration& configuration : space.list()) {
      const Placement placement(instance, configuration, classes);
      const DepthBounds loose(instance, configuration, space.floor(configuration));
      const DepthBounds tight(instance, configuration, placement.floor());
      for (int draw = 0; draw < 4; ++draw) {
        const auto choices = testing::random_plan(instance, configuration, dice);
        if (!choices) continue;
        const model::Plan plan = cost::evaluate(problem, *network, *choices);
        if (plan.status != model::Status::kOptimal) continue;
        const std::string where =
            "seed " + std::to_string(seed) + ": " + testing::describe(*choices);
        const auto depth = static_cast<std::int64_t>(plan.stages.size());
        expect_below(instance.scale(), loose.at_depth(depth), cost_of(plan), where);
        expect_below(instance.scale(), tight.at_depth(depth), cost_of(plan), where);
        const std::vector<std::int64_t> depths = space.depths(configuration);
        if (std::find(depths.begin(), depths.end(), depth) != depths.end()) {
          EXPECT_LE(instance.scale().seconds(configuration.bound),
                    plan.iteration_time_s * (1 + kRounding))
              << where;
        }
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, seeds);
}

TEST(DepthBounds, AreBelowTheOptimumOfTheirDepth) {
  for (std::uint64_t seed = 0; seed < testing::seeds(60) && !HasFailure(); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    problem.options.per_stage_strategies = true;
    problem.options.target = "any";  // others know one strategy for all stages
    const auto network = network::make_network(problem.cluster);
    for (const Objective objective : {Objective::k1F1B, Objective::kPaper}) {
      problem.options.objective = objective;
      const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
      ConfigurationSpace space(instance);
      ClassCache classes(instance);
      for (const Configuration& configuration : space.list()) {
        const Placement placement(instance, configuration, classes);
        const DepthBounds bounds(instance, configuration, placement.floor());
        for (const std::int64_t depth : space.depths(configuration)) {
          model::Problem only = problem;
          only.options.micro_batches = {configuration.micro_batch};
          only.options.dp = {configuration.dp};
          only.options.dp_inner = {configuration.dp_inner};
          only.options.pp = {depth};
          const testing::Optimum best = testing::brute_force(only, *network).at(objective, true);
          if (!best.feasible()) continue;
          EXPECT_LE(instance.scale().seconds(bounds.at_depth(depth).total),
                    best.value_s * (1 + kRounding))
              << "seed " << seed << ": " << testing::describe(best.plan);
        }
      }
    }
  }
}

/// Layers in a row, whatever the edges were.
void make_chain(model::Graph& graph, testing::Dice& dice) {
  graph.edges.clear();
  const auto layers = static_cast<int>(graph.layers.size());
  for (int to = 1; to < layers; ++to) {
    const auto bytes = static_cast<double>(dice.between(0, 40)) * 1e5;
    graph.edges.push_back({to - 1, to, std::vector<double>(graph.strategies.size(), bytes)});
  }
}

TEST(LongestSuffixes, AreNoShorterThanThoseOfAnyPlan) {
  std::uint64_t plans = 0, cut_short = 0;
  const std::uint64_t seeds = testing::seeds(600);
  for (std::uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    testing::Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.per_stage_strategies = dice.chance(50);
    problem.options.target = "any";  // the plans below know no rules
    problem.options.stages.confined.clear();
    make_chain(problem.graph, dice);
    const auto network = network::make_network(problem.cluster);
    const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
    ASSERT_TRUE(instance.lattice().totally_ordered());
    ConfigurationSpace space(instance);
    ClassCache classes(instance);
    for (const Configuration& configuration : space.list()) {
      const Placement placement(instance, configuration, classes);
      for (int draw = 0; draw < 4; ++draw) {
        const auto choices = testing::random_plan(instance, configuration, dice);
        if (!choices) continue;
        const model::Plan plan = cost::evaluate(problem, *network, *choices);
        if (plan.status != model::Status::kOptimal) continue;
        const auto depth = static_cast<std::int64_t>(plan.stages.size());
        const std::vector<DownsetId> longest =
            longest_suffixes(instance, placement, depth,
                             instance.scale().ticks(cost_of(plan).bottleneck) + kRoundingTicks);
        ASSERT_EQ(longest.size(), at(depth + 1));
        DownsetId suffix = 0;  // of layers in a row: its number of layers
        for (std::int64_t s = 1; s <= depth; ++s) {
          suffix += static_cast<DownsetId>(plan.stages[at(depth - s)].layers.size());
          EXPECT_GE(longest[at(s)], suffix)
              << "seed " << seed << ": " << testing::describe(*choices) << ", last " << s;
          cut_short += longest[at(s)] < instance.lattice().whole();
        }
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, seeds);
  EXPECT_GT(cut_short, 0U);
}

}  // namespace
}  // namespace nestplan::solver
