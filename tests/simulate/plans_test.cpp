#include <gtest/gtest.h>

#include <algorithm>

#include "nestplan/simulate/simulation.hpp"
#include "nestplan/solver/solver.hpp"
#include "solver/configuration.hpp"
#include "solver/random_plan.hpp"
#include "support/random_problem.hpp"
#include "support/row_problem.hpp"
#include "support/seeds.hpp"

/// Random plans of random problems, with the cost that the formula gives them.

namespace nestplan::simulate {
namespace {

using testing::Dice;
using testing::seeds;

/// Relative.
constexpr double kRounding = 1e-9;

/// The transfer in the pods where its link is of the highest level, which is what the cost takes
/// (a lower level can be slower).
double farthest_s(const Pipeline& pipeline, std::vector<Transfer> PodKind::*direction,
                  std::size_t part) {
  const auto& kinds = pipeline.kinds;
  const auto farthest =
      std::max_element(kinds.begin(), kinds.end(), [&](const PodKind& a, const PodKind& b) {
        return (a.*direction)[part].level < (b.*direction)[part].level;
      });
  return ((*farthest).*direction)[part].seconds;
}

void expect_steps_of_the_cost(const Pipeline& pipeline, const model::Plan& plan,
                              const std::string& where) {
  for (std::int64_t s = 0; s < pipeline.stages; ++s) {
    const model::StageTime& time = plan.stages[static_cast<std::size_t>(s)].time;
    double work = 0;
    double received = 0;
    double gradients = 0;
    for (auto part = static_cast<std::size_t>(s); part < pipeline.work.size();
         part += static_cast<std::size_t>(pipeline.stages)) {
      work += pipeline.work[part].forward_s + pipeline.work[part].backward_s;
      received += farthest_s(pipeline, &PodKind::forward, part);
      gradients += farthest_s(pipeline, &PodKind::gradient, part);
    }
    const double slack = kRounding * time.total_s;
    EXPECT_NEAR(received, time.receive_s, slack) << where << " stage " << s;
    EXPECT_NEAR(gradients, time.gradient_receive_s, slack) << where << " stage " << s;
    EXPECT_NEAR(work + received + gradients, time.total_s, slack) << where << " stage " << s;
  }
}

void expect_sound(const model::Problem& problem, const network::Network& network,
                  const model::Plan& plan, const std::string& where) {
  const Pipeline pipeline = build_pipeline(problem, network, plan);
  expect_steps_of_the_cost(pipeline, plan, where);
  std::int64_t pods = 0;
  for (const PodKind& kind : pipeline.kinds) pods += kind.pods;
  EXPECT_EQ(pods, plan.strategy.dp_outer) << where;

  const Simulation simulation = simulate(pipeline, network, plan);
  const double slack = kRounding * simulation.makespan_s;
  EXPECT_GE(simulation.without_contention_s, simulation.bounds.least_s - slack) << where;
  if (simulation.bounds.most_s) {
    EXPECT_LE(simulation.without_contention_s, *simulation.bounds.most_s + slack) << where;
  }
  EXPECT_GE(simulation.contention_s, -slack) << where;
  EXPECT_NEAR(simulation.schedule_s + simulation.contention_s + simulation.synchronisation_s,
              simulation.makespan_s - plan.iteration_time_s, slack)
      << where;
  for (std::size_t s = 0; s < simulation.stages.size(); ++s) {
    const StageSummary& stage = simulation.stages[s];
    EXPECT_EQ(stage.update_s, plan.stages[s].time.update_s) << where;
    EXPECT_NEAR(stage.forward_s + stage.backward_s + stage.receive_s + stage.sync_s + stage.tie_s +
                    stage.idle_s,
                simulation.makespan_s, slack)
        << where;
  }
  for (const LevelSummary& level : simulation.levels) {
    EXPECT_LE(level.busy_share, 1 + kRounding) << where;
    EXPECT_LE(level.fullest_uplink_share, 1 + kRounding) << where;
  }
}

TEST(Plans, RunAsTheyAreCosted) {
  int plans = 0;
  int deep = 0;
  for (std::uint64_t seed = 0; seed < seeds(400) && !HasFailure(); ++seed) {
    Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.objective = model::Objective::k1F1B;
    problem.options.per_stage_strategies = dice.chance(50);
    const auto network = network::make_network(problem.cluster);
    const solver::Instance instance(problem, *network, lattice::Lattice::enumerate(problem.graph));
    const auto configurations = solver::ConfigurationSpace(instance).list();
    if (configurations.empty()) continue;
    for (int draw = 0; draw < 4; ++draw) {
      const auto drawn = testing::random_plan(instance, dice.pick(configurations), dice);
      if (!drawn) continue;
      const model::Plan plan = cost::evaluate(problem, *network, *drawn);
      if (plan.iteration_time_s <= 0) continue;
      ++plans;
      if (plan.stages.size() > 1) ++deep;
      expect_sound(problem, *network, plan, "seed " + std::to_string(seed));
    }
  }
  EXPECT_GT(plans, 0);
  EXPECT_GT(deep, 0);
}

TEST(Plans, InterleavedOnesToo) {
  int interleaved = 0;
  for (std::uint64_t seed = 0; seed < seeds(150) && !HasFailure(); ++seed) {
    model::Problem problem = testing::row_problem(seed);
    problem.cluster.device.memory_bytes = 1e15;
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    if (plan.status == model::Status::kInfeasible || plan.strategy.vpp == 1) continue;
    ++interleaved;
    expect_sound(problem, *network, plan, "seed " + std::to_string(seed));
  }
  EXPECT_GT(interleaved, 0);
}

}  // namespace
}  // namespace nestplan::simulate
