#include <gtest/gtest.h>

#include <cmath>

#include "nestplan/simulate/simulation.hpp"
#include "simulate/random_pipeline.hpp"
#include "support/seeds.hpp"
#include "support/small_case.hpp"

/// Random pipelines, far from any plan.

namespace nestplan::simulate {
namespace {

using testing::Dice;
using testing::random_pipeline;
using testing::seeds;

constexpr double kRounding = 1e-9;

/// With everything but times of synchronisation left out.
double sum_and_max(const Pipeline& pipeline) {
  const PodKind& kind = pipeline.kinds.front();
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  std::vector<double> work(stages, 0);
  std::vector<double> received(stages, 0);
  for (std::size_t part = 0; part < pipeline.work.size(); ++part) {
    work[part % stages] += pipeline.work[part].forward_s + pipeline.work[part].backward_s;
    received[part % stages] += kind.forward[part].seconds + kind.gradient[part].seconds;
  }
  double sum = 0;
  double most = 0;
  for (std::size_t s = 0; s < stages; ++s) {
    const double hidden = std::min(pipeline.transfer_overlap * received[s], work[s]);
    sum += work[s] + received[s];
    most = std::max(most, work[s] + received[s] - hidden);
  }
  const auto v = static_cast<double>(pipeline.chunks);
  return sum / v + (static_cast<double>(pipeline.microbatches) - 1 / v) * most;
}

Simulation simulated(const Pipeline& pipeline) {
  testing::SmallCase c({testing::SmallCase::level(2, 10), testing::SmallCase::level(2, 10)});
  model::Plan plan;
  plan.iteration_time_s = sum_and_max(pipeline) + pipeline.sync_s.front();
  return simulate(pipeline, *network::make_network(c.problem.cluster), plan);
}

TEST(Schedules, EventsEndWhenLongestPathsDo) {
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    Dice dice(seed);
    Pipeline pipeline = random_pipeline(dice);
    pipeline.transfer_overlap = 0;
    const PodRun out = run(pipeline, pipeline.kinds[0], false);
    const std::vector<double> ends = testing::longest_paths(pipeline);
    for (std::size_t s = 0; s < ends.size(); ++s) {
      ASSERT_NEAR(out.stages[s].finish_s, ends[s], kRounding) << "seed " << seed;
    }
  }
}

TEST(Schedules, StayWithinTheirBounds) {
  int formula_is_a_bound = 0;
  int one_forward_one_backward = 0;
  for (std::uint64_t seed = 0; seed < seeds(4000); ++seed) {
    Dice dice(seed);
    const Pipeline pipeline = random_pipeline(dice);
    const Simulation simulation = simulated(pipeline);
    const double time = simulation.without_contention_s;
    ASSERT_GE(time, simulation.bounds.least_s - kRounding) << "seed " << seed;
    if (simulation.bounds.most_s) {
      ASSERT_LE(time, *simulation.bounds.most_s + kRounding) << "seed " << seed;
    }
    const bool gpipe = pipeline.schedule == model::Schedule::kGPipe;
    if (gpipe) {
      ASSERT_GE(simulation.schedule_s, -kRounding) << "seed " << seed;
    }
    if (pipeline.chunks > 1 || gpipe) continue;
    ++one_forward_one_backward;
    if (simulation.schedule_s <= kRounding) ++formula_is_a_bound;
  }
  // forward steps are as long as backward steps here, which they are not in training
  EXPECT_GT(formula_is_a_bound, one_forward_one_backward * 8 / 10);
  EXPECT_LT(formula_is_a_bound, one_forward_one_backward);
}

TEST(Schedules, GPipeIsItsClosedForm) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
    Dice dice(seed);
    Pipeline pipeline = random_pipeline(dice);
    if (pipeline.schedule != model::Schedule::kGPipe) continue;
    pipeline.sync_s.assign(pipeline.sync_s.size(), 0);
    const PodRun out = run(pipeline, pipeline.kinds[0], false);
    ASSERT_NEAR(out.stages[0].finish_s, *bounds_of(pipeline, pipeline.kinds[0]).most_s, kRounding)
        << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

/// Where the last stage is the slowest and no forward step is longer than any whole stage.
TEST(Schedules, FormulaIsExactIfTheLastStageIsTheSlowest) {
  int checked = 0;
  for (std::uint64_t seed = 0; seed < seeds(1000); ++seed) {
    Dice dice(seed);
    Pipeline pipeline = random_pipeline(dice);
    if (pipeline.schedule == model::Schedule::kGPipe || pipeline.chunks > 1) continue;
    for (PartWork& work : pipeline.work) work.backward_s += 3;
    pipeline.work.back().backward_s += 10;
    pipeline.sync_s.assign(pipeline.sync_s.size(), 0);
    const PodRun out = run(pipeline, pipeline.kinds[0], false);
    ASSERT_NEAR(out.stages[0].finish_s, sum_and_max(pipeline), kRounding) << "seed " << seed;
    ++checked;
  }
  EXPECT_GT(checked, 0);
}

TEST(Schedules, BalancedPipelinesMeetTheFormula) {
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    Dice dice(seed);
    const Pipeline pipeline = random_pipeline(dice, true);
    const double time = run(pipeline, pipeline.kinds[0], false).stages[0].finish_s;
    ASSERT_NEAR(time / sum_and_max(pipeline), 1, 0.01)
        << "seed " << seed << " p " << pipeline.stages << " v " << pipeline.chunks << " m "
        << pipeline.microbatches;
  }
}

/// Equal steps, and transfers no longer than they are, all of them beside other steps. The first
/// micro-batch waits for them on its way through every chunk, of which the formula counts one.
TEST(Schedules, TransfersBesideStepsCostWhatFillingThePipelineDoes) {
  int deep = 0;
  for (std::uint64_t seed = 0; seed < seeds(500); ++seed) {
    Dice dice(seed);
    Pipeline pipeline = random_pipeline(dice, true);
    if (pipeline.chunks == 1) continue;
    pipeline.transfer_overlap = 1;
    const double forward = pipeline.work.front().forward_s;
    const double each = forward * static_cast<double>(dice.between(0, 10)) / 10;
    double received = 0;
    PodKind& kind = pipeline.kinds.front();
    for (std::int64_t part = 1; part < pipeline.parts(); ++part) {
      for (Transfer* transfer : {&kind.forward[static_cast<std::size_t>(part)],
                                 &kind.gradient[static_cast<std::size_t>(part - 1)]}) {
        transfer->seconds = each;
        received += each;
      }
    }
    const auto v = static_cast<double>(pipeline.chunks);
    const double time = run(pipeline, kind, false).stages[0].finish_s;
    ASSERT_NEAR(time / (sum_and_max(pipeline) + (v - 1) / v * received), 1, 0.01)
        << "seed " << seed << " p " << pipeline.stages << " v " << pipeline.chunks << " m "
        << pipeline.microbatches;
    deep += pipeline.stages > 2 && each > 0 ? 1 : 0;
  }
  EXPECT_GT(deep, 0);
}

TEST(Schedules, ContentionOnlySlowsDown) {
  int slower = 0;
  for (std::uint64_t seed = 0; seed < seeds(2000); ++seed) {
    Dice dice(seed);
    const Pipeline pipeline = random_pipeline(dice);
    const Simulation simulation = simulated(pipeline);
    ASSERT_GE(simulation.contention_s, -kRounding) << "seed " << seed;
    ASSERT_NEAR(simulation.schedule_s + simulation.contention_s + simulation.synchronisation_s,
                simulation.makespan_s - simulation.predicted_s, kRounding);
    if (simulation.contention_s > kRounding) ++slower;
  }
  EXPECT_GT(slower, 0);
}

TEST(Schedules, SimulationIsDeterministic) {
  for (std::uint64_t seed = 0; seed < seeds(300); ++seed) {
    Dice dice(seed);
    const Pipeline pipeline = random_pipeline(dice);
    const Simulation once = simulated(pipeline);
    const Simulation again = simulated(pipeline);
    ASSERT_EQ(once.makespan_s, again.makespan_s);
    ASSERT_EQ(once.events, again.events);
    for (std::size_t s = 0; s < once.stages.size(); ++s) {
      ASSERT_EQ(once.stages[s].idle_s, again.stages[s].idle_s);
    }
  }
}

}  // namespace
}  // namespace nestplan::simulate
