#include "solver/table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/team.hpp"
#include "support/dice.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::solver {
namespace {

/// Tables of one configuration, filled with different limits.
class Tables {
 public:
  Tables(const Instance& instance, const Placement& placement, std::vector<std::int64_t> depths)
      : instance_(instance),
        placement_(placement),
        depths_(std::move(depths)),
        layers_(instance, placement, depths_) {}

  Table fill(Combine combine, const TableLimits& limits) {
    Table table(instance_, placement_, layers_, depths_, combine, limits, team_);
    EXPECT_TRUE(table.fill({}));
    return table;
  }

  const std::vector<std::int64_t>& depths() const { return depths_; }

 private:
  const Instance& instance_;
  const Placement& placement_;
  std::vector<std::int64_t> depths_;
  PortLayers layers_;
  SoloTeam team_;
};

/// A walk costs what the table promised.
void expect_walk(Table& table, std::int64_t depth, Combine combine, std::int64_t microbatches,
                 Ticks cap) {
  const Total best = table.best(depth);
  if (best == kNoTotal) return;
  const Walk walk = table.walk(depth);
  ASSERT_EQ(static_cast<std::int64_t>(walk.stages.size()), depth);
  EXPECT_EQ(walk.stages.back().inner, 0);
  Ticks sum = walk.stages.front().option.sync;
  Ticks bottleneck = 0;
  for (const Transition& stage : walk.stages) {
    sum += stage.time() + stage.tie;
    bottleneck = std::max(bottleneck, stage.time());
  }
  EXPECT_EQ(sum, walk.sum);
  EXPECT_EQ(bottleneck, walk.bottleneck);
  EXPECT_LE(bottleneck, cap);
  const Total value = combine == Combine::kSum ? to_total(sum)
                                               : (microbatches + depth - 1) * to_total(bottleneck) +
                                                     to_total(walk.stages.front().option.sync);
  EXPECT_TRUE(value == best) << "the walk costs something else";
}

void expect_pruning_changes_nothing(Tables& tables, std::int64_t microbatches,
                                    testing::Dice& dice) {
  for (const Combine combine : {Combine::kSum, Combine::kBottleneck}) {
    Table full = tables.fill(combine, {kNever, kNever, false});
    Table pruned = tables.fill(combine, {kNever, kNever, true});
    for (const std::int64_t depth : tables.depths()) {
      EXPECT_TRUE(full.best(depth) == pruned.best(depth)) << depth;
      expect_walk(full, depth, combine, microbatches, kNever);
      expect_walk(pruned, depth, combine, microbatches, kNever);
      if (full.best(depth) == kNoTotal) continue;

      // The cap of a plan that exists, and just below it.
      const Walk walk = full.walk(depth);
      const Ticks cap = dice.chance(50) ? walk.bottleneck : just_below(walk.bottleneck);
      Table capped = tables.fill(combine, {cap, kNever, false});
      const Total best = capped.best(depth);
      Table narrow = tables.fill(combine, {cap, kNever, true});
      EXPECT_TRUE(narrow.best(depth) == best) << depth;
      expect_walk(narrow, depth, combine, microbatches, cap);
      if (combine == Combine::kBottleneck || best == kNoTotal) continue;
      Table limited = tables.fill(combine, {cap, static_cast<Ticks>(best), true});
      EXPECT_TRUE(limited.best(depth) == best) << "limited to the best sum, depth " << depth;
      EXPECT_LE(limited.relaxations(), capped.relaxations());
    }
  }
}

TEST(Table, PruningKeepsTheBestOfEveryDepth) {
  int configurations = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(250) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.per_stage_strategies = dice.chance(50);
    const auto network = network::make_network(problem.cluster);
    const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
    ConfigurationSpace space(instance);
    ClassCache classes(instance);
    for (const Configuration& configuration : space.list()) {
      const Placement placement(instance, configuration, classes);
      const std::vector<std::int64_t> depths = space.depths(configuration);
      if (depths.empty()) continue;
      Tables tables(instance, placement, depths);
      expect_pruning_changes_nothing(tables, configuration.microbatches, dice);
      ++configurations;
    }
  }
  EXPECT_GT(configurations, 0);
}

TEST(Table, OneDepthOrSeveralGiveTheSame) {
  for (std::uint64_t seed = 0; seed < testing::seeds(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
    ConfigurationSpace space(instance);
    ClassCache classes(instance);
    for (const Configuration& configuration : space.list()) {
      const Placement placement(instance, configuration, classes);
      const std::vector<std::int64_t> depths = space.depths(configuration);
      if (depths.empty()) continue;
      const TableLimits limits{kNever, kNever, true};
      Tables together(instance, placement, depths);
      Table all = together.fill(Combine::kSum, limits);
      for (const std::int64_t depth : depths) {
        Tables alone(instance, placement, {depth});
        EXPECT_TRUE(alone.fill(Combine::kSum, limits).best(depth) == all.best(depth)) << depth;
      }
    }
  }
}

TEST(Table, StopsWhenTold) {
  // Long enough for the table to ask.
  model::Problem problem;
  problem.graph.strategies.push_back({"s", 1, 1, 1, 1, 1, 1});
  for (int i = 0; i < 128; ++i) {
    model::LayerCost cost;
    cost.forward_s = 1e-3;
    cost.backward_s = 2e-3;
    problem.graph.layers.push_back({"n", {cost}});
    if (i > 0) problem.graph.edges.push_back({i - 1, i, {1e6}});
  }
  problem.cluster.hierarchy().levels = {{"node", 8, 1e11, 1e-6, 1}, {"leaf", 8, 1e10, 1e-6, 1}};
  problem.cluster.device.memory_bytes = 1e9;
  problem.options.global_batch = 8;
  problem.options.dp = {1};
  const auto network = network::make_network(problem.cluster);
  const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
  ConfigurationSpace space(instance);
  ClassCache classes(instance);
  const std::vector<Configuration> configurations = space.list();
  ASSERT_EQ(configurations.size(), 1U);
  const Placement placement(instance, configurations[0], classes);
  const std::vector<std::int64_t> depths = space.depths(configurations[0]);
  const PortLayers layers(instance, placement, depths);
  SoloTeam team;
  Table table(instance, placement, layers, depths, Combine::kSum, {kNever, kNever, true}, team);
  int asked = 0;
  EXPECT_FALSE(table.fill([&asked] { return ++asked == 1; }));
  EXPECT_EQ(asked, 1);
}

}  // namespace
}  // namespace nestplan::solver
