#include "support/brute_force.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

constexpr double kRelative = 1e-9;
constexpr std::uint64_t kShare = 500;  ///< usual seeds per test case

void expect_same(const model::Plan& plan, const testing::Optimum& best, const std::string& where) {
  if (!best.feasible()) {
    EXPECT_EQ(plan.status, model::Status::kInfeasible) << where;
    EXPECT_FALSE(plan.reason.empty()) << where;
    return;
  }
  ASSERT_EQ(plan.status, model::Status::kOptimal) << where << ": " << plan.reason;
  EXPECT_NEAR(plan.iteration_time_s, best.value_s, kRelative * best.value_s) << where;
  EXPECT_EQ(plan.strategy.micro_batch, best.micro_batch) << where;
  EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(best.plan)) << where;
}

/// Each case takes its own block of seeds, so that cases run side by side.
class BruteForce : public ::testing::TestWithParam<int> {};

TEST_P(BruteForce, AgreesWithSolver) {
  const std::uint64_t count = testing::seeds(kShare);
  const std::uint64_t first = static_cast<std::uint64_t>(GetParam()) * 1'000'000;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const testing::Optima optima = testing::brute_force(problem, *network);
    for (const model::Objective objective : {model::Objective::k1F1B, model::Objective::kPaper}) {
      for (const bool per_stage : {false, true}) {
        problem.options.objective = objective;
        problem.options.per_stage_strategies = per_stage;
        const std::string where = "seed " + std::to_string(seed) +
                                  (objective == model::Objective::kPaper ? " paper" : " 1f1b") +
                                  (per_stage ? " per stage" : " uniform");
        SCOPED_TRACE(where);
        const testing::Optimum& best = optima.at(objective, per_stage);
        expect_same(solver::solve(problem, *network), best, where);
        solver::SearchSettings plain;
        plain.prune = false;
        plain.collapse = false;
        expect_same(solver::solve(problem, *network, plain), best, where + " in full");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, BruteForce, ::testing::Range(0, 6));

}  // namespace
}  // namespace nestplan
