#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"
#include "support/dice.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using testing::Dice;

double harsh_bandwidth(Dice& dice) { return dice.pick<double>({1e6, 3e8, 1e9, 12.5e9, 450e9}); }

double harsh_latency(Dice& dice) { return dice.pick<double>({0, 5e-6, 1e-3, 1e-2}); }

void make_harsh(model::HierarchySpec& tree, Dice& dice) {
  for (model::NetworkLevel& level : tree.levels) {
    level.bandwidth = harsh_bandwidth(dice);
    level.latency_s = harsh_latency(dice);
    level.oversubscription = dice.pick<double>({1, 1, 7, 64, 1000});
  }
}

void make_harsh(model::TorusSpec& torus, Dice& dice) {
  for (model::TorusDimension& dimension : torus.dimensions) {
    dimension.bandwidth = harsh_bandwidth(dice);
    dimension.latency_s = harsh_latency(dice);
  }
}

/// A random problem made harsh: levels from 1 MB/s to 450 GB/s in any order, a thousandfold
/// oversubscribed, layers that differ by six orders of magnitude, batches up to a billion. What is
/// chosen by plausible sizes (ticks, bounds, limits) has to hold here too.
model::Problem harsh_problem(std::uint64_t seed) {
  Dice dice(seed * 7919 + 13);
  model::Problem problem = testing::random_problem(seed);
  std::visit([&](auto& network) { make_harsh(network, dice); }, problem.cluster.network);
  const bool uneven_layers = dice.chance(50);
  for (model::Layer& layer : problem.graph.layers) {
    for (auto& cost : layer.costs) {
      if (!cost || !uneven_layers) continue;
      const double factor = std::pow(10.0, static_cast<double>(dice.between(-3, 3)));
      cost->forward_s *= factor;
      cost->backward_s *= factor;
      if (dice.chance(10)) cost->forward_s = 0;
    }
  }
  for (model::Edge& edge : problem.graph.edges) {
    if (dice.chance(20)) edge.bytes.assign(edge.bytes.size(), 0);
  }
  if (dice.chance(20)) {
    problem.options.global_batch = dice.pick<std::int64_t>({1, 1000, 720720, 1000000007});
  }
  if (dice.chance(30)) problem.options.zero = {0};
  problem.options.per_stage_strategies = dice.chance(50);
  problem.options.objective = dice.chance(50) ? model::Objective::k1F1B : model::Objective::kPaper;
  return problem;
}

TEST(Harsh, BoundsAndCollapsesChangeNothing) {
  for (std::uint64_t seed = 0; seed < testing::seeds(1500); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Problem problem = harsh_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    solver::SearchSettings plain;
    plain.prune = false;
    plain.collapse = false;
    const model::Plan full = solver::solve(problem, *network, plain);
    ASSERT_EQ(plan.status, full.status) << plan.reason << full.reason;
    if (plan.status == model::Status::kInfeasible) continue;
    EXPECT_EQ(plan.iteration_time_s, full.iteration_time_s);
    EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(testing::placed(full)));
  }
}

TEST(Harsh, EqualsBruteForceInValue) {
  for (std::uint64_t seed = 0; seed < testing::seeds(300); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Problem problem = harsh_problem(1'000'000 + seed);
    const auto network = network::make_network(problem.cluster);
    const testing::Optima optima = testing::brute_force(problem, *network);
    const testing::Optimum& best =
        optima.at(problem.options.objective, problem.options.per_stage_strategies);
    const model::Plan plan = solver::solve(problem, *network);
    ASSERT_EQ(plan.status == model::Status::kInfeasible, !best.feasible()) << plan.reason;
    if (best.feasible()) {
      EXPECT_NEAR(plan.iteration_time_s, best.value_s, 1e-9 * best.value_s);
    }
  }
}

/// Synchronisation that takes hundreds of times the compute, as small models on slow links have it.
TEST(Harsh, SynchronisationThatDwarfsTheRest) {
  for (const double bandwidth : {1e10, 1e7, 1e4, 10.0}) {
    SCOPED_TRACE(bandwidth);
    model::Problem problem;
    problem.graph.strategies = {{"tp1", 1, 1, 1, 1, 1, 1}};
    for (const char* id : {"a", "b", "c"}) {
      problem.graph.layers.push_back(
          {id, {model::LayerCost{1.1e-4, 2.3e-4, 1e7, 0, 1e6, 1e5, {}}}});
    }
    problem.graph.edges = {{0, 1, {1e5}}, {1, 2, {1e5}}};
    problem.cluster.device.memory_bytes = 1e12;
    problem.cluster.hierarchy().levels = {{"node", 2, 1e11, 0, 1}, {"slow", 4, bandwidth, 0, 1}};
    problem.options.dp = {8};
    problem.options.zero = {0};
    problem.options.global_batch = 48;
    const auto network = network::make_network(problem.cluster);
    EXPECT_EQ(solver::solve(problem, *network).status, model::Status::kOptimal);
  }
}

}  // namespace
}  // namespace nestplan
