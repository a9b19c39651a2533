#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "network/torus_samples.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

/// A torus or mesh of so many places, of up to three dimensions and maybe in slices, with links as
/// fast as `nearest`.
model::TorusSpec torus_instead(testing::Dice& dice, std::int64_t places,
                               const model::NetworkLevel& nearest) {
  model::TorusSpec spec;
  for (int d = 0; d < 3; ++d) {
    const std::int64_t size = d == 2 ? places : testing::random_divisor(dice, places);
    places /= size;
    const double slower = dice.pick({1.0, 1.0, 2.0});
    spec.dimensions.push_back({std::string(1, static_cast<char>('a' + d)), size, dice.chance(50),
                               nearest.bandwidth / slower, nearest.latency_s, 0});
  }
  const bool cubes = dice.chance(40);
  for (const model::TorusDimension& dimension : spec.dimensions) {
    const std::int64_t cube =
        cubes ? testing::random_divisor(dice, dimension.size) : dimension.size;
    if (cubes) spec.cube.push_back(cube);
    spec.host.push_back(testing::random_divisor(dice, cube));
  }
  if (dice.chance(20)) {
    spec.dimensions[2].switched = true;
    spec.dimensions[2].bandwidth /= 8;
    spec.host[2] = 1;
    if (cubes) spec.cube[2] = 1;
  }
  spec.collectives = dice.pick({"auto", "auto", "dimension-wise", "all-dimensions", "ring"});
  return spec;
}

TEST(TorusPlans, AreThoseOfBruteForce) {
  int feasible = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(600) && !HasFailure(); ++seed) {
    model::Problem problem = testing::random_problem(7'000'000 + seed);
    const auto* hierarchy = std::get_if<model::HierarchySpec>(&problem.cluster.network);
    if (hierarchy == nullptr) continue;
    testing::Dice dice(seed);
    problem.cluster.network =
        torus_instead(dice, problem.cluster.places(), hierarchy->levels.front());
    const auto network = network::make_network(problem.cluster);
    for (auto& confinement : problem.options.stages.confined) {
      confinement.domain = dice.pick(network->domains());
    }
    const testing::Optima optima = testing::brute_force(problem, *network);
    for (const model::Objective objective : {model::Objective::k1F1B, model::Objective::kPaper}) {
      for (const bool per_stage : {false, true}) {
        SCOPED_TRACE("seed " + std::to_string(seed) + (per_stage ? " per stage" : ""));
        problem.options.objective = objective;
        problem.options.per_stage_strategies = per_stage;
        const testing::Optimum& best = optima.at(objective, per_stage);
        const model::Plan plan = solver::solve(problem, *network);
        ASSERT_EQ(plan.status,
                  best.feasible() ? model::Status::kOptimal : model::Status::kInfeasible);
        if (!best.feasible()) continue;
        ++feasible;
        EXPECT_NEAR(plan.iteration_time_s, best.value_s, 1e-9 * best.value_s);
        EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(best.plan));
      }
    }
  }
  EXPECT_GT(feasible, 0);
}

}  // namespace
}  // namespace nestplan
