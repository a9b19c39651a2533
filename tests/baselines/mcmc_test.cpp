#include <gtest/gtest.h>

#include <cstdint>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::baselines {
namespace {

model::Plan search(const model::Problem& problem, const network::Network& network,
                   std::uint64_t seed, std::int64_t steps) {
  SearchBudget budget;
  budget.seed = seed;
  budget.mcmc_steps = steps;
  return find_plan(Method::kMcmc, problem, network, budget);
}

std::string choices(const model::Plan& plan) { return testing::describe(cost::placed(plan)); }

TEST(Mcmc, TheSameSeedGivesTheSamePlan) {
  for (std::uint64_t seed = 0; seed < testing::seeds(20); ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    EXPECT_EQ(choices(search(problem, *network, seed, 300)),
              choices(search(problem, *network, seed, 300)));
  }
}

TEST(Mcmc, SeedsMatter) {
  bool differ = false;
  for (std::uint64_t seed = 0; seed < testing::seeds(20); ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    differ = differ ||
             choices(search(problem, *network, 1, 20)) != choices(search(problem, *network, 2, 20));
  }
  EXPECT_TRUE(differ);
}

/// Tiny instances leave few plans, so a chain comes by the best one often; gaps aside, which it
/// does not propose.
TEST(Mcmc, OftenFindsTheOptimumOfTinyInstances) {
  std::int64_t feasible = 0, optimal = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(60); ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan own = solver::solve(problem, *network);
    if (own.status == model::Status::kInfeasible) continue;
    ++feasible;
    const model::Plan plan = search(problem, *network, 1, 4000);
    if (plan.status == model::Status::kInfeasible) continue;
    if (plan.iteration_time_s <= own.iteration_time_s * (1 + 1e-9)) ++optimal;
  }
  EXPECT_GT(2 * optimal, feasible);
}

bool has_plan(const model::Problem& problem) {
  const auto network = network::make_network(problem.cluster);
  return search(problem, *network, 1, 100).status != model::Status::kInfeasible;
}

TEST(Mcmc, StopsWhenItIsTold) {
  std::uint64_t seed = 0;
  while (!has_plan(testing::random_problem(seed))) ++seed;
  const model::Problem problem = testing::random_problem(seed);
  const auto network = network::make_network(problem.cluster);
  SearchBudget budget;
  budget.mcmc_steps = std::int64_t{1} << 40;
  std::int64_t polls = 0;
  budget.stop_requested = [&polls] { return ++polls > 100; };
  EXPECT_TRUE(find_plan(Method::kMcmc, problem, *network, budget).search.stopped);
}

}  // namespace
}  // namespace nestplan::baselines
