#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using model::Status;

/// A plan found, or none yet, with bounds that hold around `optimum`.
void expect_honest(const model::Plan& plan, const model::Plan& optimum, const std::string& where) {
  const double above = 1 + 1e-12;
  if (plan.status == Status::kInfeasible) {
    EXPECT_NE(plan.reason.find("stopped"), std::string::npos) << where << ": " << plan.reason;
    EXPECT_LE(plan.lower_bound_s, optimum.iteration_time_s * above) << where;
    return;
  }
  EXPECT_LE(plan.lower_bound_s, optimum.iteration_time_s * above) << where;
  EXPECT_GE(plan.iteration_time_s * above, optimum.iteration_time_s) << where;
  EXPECT_DOUBLE_EQ(plan.gap, (plan.iteration_time_s - plan.lower_bound_s) / plan.iteration_time_s)
      << where;
  if (plan.status == Status::kOptimal) {
    EXPECT_EQ(plan.gap, 0) << where;
    EXPECT_NEAR(plan.iteration_time_s, optimum.iteration_time_s, 1e-12 * optimum.iteration_time_s)
        << where;
  } else {
    EXPECT_GT(plan.gap, 0) << where;
  }
}

TEST(Stopping, GivesTheBestPlanSoFarAndABound) {
  int feasible = 0, none = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(200) && !HasFailure(); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    problem.options.objective = seed % 2 == 0 ? model::Objective::k1F1B : model::Objective::kPaper;
    problem.options.per_stage_strategies = seed % 4 < 2;
    const auto network = network::make_network(problem.cluster);
    const model::Plan optimum = solver::solve(problem, *network);
    if (optimum.status == Status::kInfeasible) continue;
    for (const bool prune : {true, false}) {
      for (std::int64_t polls = 0; polls < 200; polls += 1 + polls / 2) {
        std::int64_t asked = 0;
        solver::SearchSettings settings;
        settings.prune = prune;
        settings.stop_requested = [&] { return ++asked > polls; };
        const model::Plan plan = solver::solve(problem, *network, settings);
        expect_honest(plan, optimum,
                      "seed " + std::to_string(seed) + " polls " + std::to_string(polls));
        feasible += plan.status == Status::kFeasible;
        none += plan.status == Status::kInfeasible;
      }
    }
  }
  EXPECT_GT(feasible, 0);
  EXPECT_GT(none, 0);
}

TEST(Stopping, AtATimeLimit) {
  const model::Problem problem = testing::random_problem(3);
  const auto network = network::make_network(problem.cluster);
  const model::Plan optimum = solver::solve(problem, *network);
  ASSERT_EQ(optimum.status, Status::kOptimal);
  solver::SearchSettings settings;
  settings.time_limit_s = 0;
  const model::Plan plan = solver::solve(problem, *network, settings);
  EXPECT_NE(plan.status, Status::kOptimal);
  expect_honest(plan, optimum, "no time");
}

TEST(Stopping, WithoutALimitChangesNothing) {
  const model::Problem problem = testing::random_problem(3);
  const auto network = network::make_network(problem.cluster);
  const model::Plan optimum = solver::solve(problem, *network);
  solver::SearchSettings settings;
  settings.time_limit_s = 1e6;
  settings.stop_requested = [] { return false; };
  const model::Plan plan = solver::solve(problem, *network, settings);
  EXPECT_EQ(plan.status, optimum.status);
  EXPECT_EQ(plan.iteration_time_s, optimum.iteration_time_s);
  EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(testing::placed(optimum)));
}

}  // namespace
}  // namespace nestplan
