#include "nestplan/model/overlap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/solver.hpp"
#include "solver/configuration.hpp"
#include "solver/random_plan.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/row_problem.hpp"
#include "support/seeds.hpp"

/// What holds for every plan, and for the best one, when communication runs beside computation.

namespace nestplan::solver {
namespace {

/// A cost may be above another by rounding alone.
constexpr double kRounding = 1 + 1e-12;

/// An iteration without any communication.
double compute_alone(const model::Plan& plan) {
  double sum = 0;
  double slowest = 0;
  for (const model::StagePlan& stage : plan.stages) {
    const model::StageTime& time = stage.time;
    const double compute = time.forward_s + time.backward_s + time.recompute_s - time.collective_s;
    sum += compute;
    slowest = std::max(slowest, compute);
  }
  const auto m = static_cast<double>(plan.strategy.microbatches);
  const auto p = static_cast<double>(plan.strategy.pp);
  const auto v = static_cast<double>(plan.strategy.vpp);
  return plan.objective == model::Objective::kPaper ? (m + (p - 1) / v) * slowest
                                                    : sum / v + (m - 1 / v) * slowest;
}

void expect_sound(const model::Plan& plan) {
  EXPECT_GE(plan.iteration_time_s * kRounding, compute_alone(plan));
  for (const model::StagePlan& stage : plan.stages) {
    const model::StageTime& time = stage.time;
    const double compute = time.forward_s + time.backward_s + time.recompute_s - time.collective_s;
    const double slack = 1e-12 * time.total_s;
    EXPECT_LE(time.hidden_s, compute + slack);
    EXPECT_LE(time.hidden_s, time.collective_s + time.zero_s + slack);
    EXPECT_LE(time.hidden_forward_s, time.hidden_s + slack);
    EXPECT_LE(time.hidden_sync_s, compute + slack);
    EXPECT_GE(time.sync_s, -slack);
    EXPECT_GE(time.pace_s() * kRounding, time.receive_s + time.gradient_receive_s);
    EXPECT_GE(time.pace_s() * kRounding, compute);
  }
}

/// Raises one share after the other, in steps, from none to all. Returns what the plan costs then
/// less than at first.
double raise_shares(model::Problem problem, const network::Network& network,
                    const cost::PlacedPlan& plan) {
  problem.options.overlap = {};
  problem.options.overlap_p2p = true;
  const double apart = cost::evaluate(problem, network, plan).iteration_time_s;
  double last = apart;
  for (const model::OverlapTerm& term : model::kOverlapTerms) {
    for (const double share : {0.3, 1.0}) {
      SCOPED_TRACE(std::string(term.name) + " " + std::to_string(share));
      problem.options.overlap.*term.share = share;
      const model::Plan costed = cost::evaluate(problem, network, plan);
      EXPECT_LE(costed.iteration_time_s, last * kRounding);
      expect_sound(costed);
      last = costed.iteration_time_s;
    }
  }
  return apart - last;
}

TEST(Overlap, MakesNoPlanSlowerAndNoneFasterThanItsComputation) {
  int faster = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(300) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.objective =
        dice.chance(75) ? model::Objective::k1F1B : model::Objective::kPaper;
    problem.options.per_stage_strategies = dice.chance(50);
    const auto network = network::make_network(problem.cluster);
    const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
    const auto configurations = ConfigurationSpace(instance).list();
    for (int draw = 0; draw < 4 && !configurations.empty(); ++draw) {
      const auto plan = testing::random_plan(instance, dice.pick(configurations), dice);
      if (plan && raise_shares(problem, *network, *plan) > 0) ++faster;
    }
  }
  EXPECT_GT(faster, 0);
}

TEST(Overlap, MakesNoInterleavedPlanSlower) {
  int faster = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(200) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Problem problem = testing::row_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solve(problem, *network);
    if (plan.status != model::Status::kOptimal) continue;
    if (raise_shares(problem, *network, testing::placed(plan)) > 0) ++faster;
  }
  EXPECT_GT(faster, 0);
}

/// The best of some plans is no worse if none of them is.
TEST(Overlap, LeavesTheOptimumNoWorse) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(200) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Dice dice(seed);
    model::Problem problem =
        dice.chance(70) ? testing::random_problem(seed) : testing::row_problem(seed);
    problem.options.overlap = {};
    const auto network = network::make_network(problem.cluster);
    const model::Plan apart = solve(problem, *network);
    if (apart.status != model::Status::kOptimal) continue;
    double last = apart.iteration_time_s;
    for (const double share : {0.25, 0.7, 1.0}) {
      for (const model::OverlapTerm& term : model::kOverlapTerms) {
        problem.options.overlap.*term.share = share;
      }
      const model::Plan plan = solve(problem, *network);
      ASSERT_EQ(plan.status, model::Status::kOptimal);
      EXPECT_LE(plan.iteration_time_s, last * kRounding);
      last = plan.iteration_time_s;
    }
    better += last < apart.iteration_time_s ? 1 : 0;
  }
  EXPECT_GT(better, 0);
}

}  // namespace
}  // namespace nestplan::solver
