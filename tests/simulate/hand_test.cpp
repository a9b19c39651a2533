#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>

#include "nestplan/network/network.hpp"
#include "nestplan/simulate/simulation.hpp"
#include "simulate/line.hpp"
#include "support/small_case.hpp"

/// Schedules computed on paper.

namespace nestplan::simulate {
namespace {

using model::Schedule;
using testing::line;

/// Ends of steps, "F1" of stage 0 as {0, "F1"}; with chunks "F1a".
class Ends : public Observer {
 public:
  explicit Ends(bool chunks = false) : chunks_(chunks) {}
  void done(std::int64_t stage, const Step& step, const StepTimes& times) override {
    std::string name(1, step.kind == Step::Kind::kForward ? 'F' : 'B');
    name += std::to_string(step.microbatch + 1);
    if (chunks_) name += static_cast<char>('a' + step.chunk);
    ends_[{stage, name}] = times.end_s;
  }
  double at(std::int64_t stage, const std::string& name) const { return ends_.at({stage, name}); }

 private:
  bool chunks_;
  std::map<std::pair<std::int64_t, std::string>, double> ends_;
};

PodRun run_line(const Pipeline& pipeline, Observer* observer = nullptr) {
  return run(pipeline, pipeline.kinds.front(), true, observer);
}

//  0 1 2 3 4 5 6 7 8 9
//  F1F2  B1--F3B2--B3--      stage 1: forward 1, backward 2
//    F1B1--F2B2--F3B3--      stage 2 is never idle between 1 and 10
TEST(ByHand, TwoEqualStages) {
  const Pipeline pipeline = line(2, 3, {{1, 2}, {1, 2}});
  Ends ends;
  const PodRun out = run_line(pipeline, &ends);
  EXPECT_EQ(ends.at(1, "B1"), 4);
  EXPECT_EQ(ends.at(0, "B1"), 6);
  EXPECT_EQ(ends.at(0, "F3"), 7);
  EXPECT_EQ(ends.at(1, "B2"), 7);
  EXPECT_EQ(ends.at(0, "B2"), 9);
  EXPECT_EQ(ends.at(1, "B3"), 10);
  EXPECT_EQ(out.stages[0].finish_s, 12);  // Σ t + (m-1)·max t = 6 + 2·3
  EXPECT_EQ(out.stages[0].forward_s, 3);
  EXPECT_EQ(out.stages[0].backward_s, 6);
  EXPECT_EQ(out.events, 12);
}

/// Two stages of two chunks, steps of 1 and 2 s, transfers of 0.5 s. Σ t/v + (m-1/v)·τ is 7.5 + 9
/// with all of each transfer beside other steps, and the first micro-batch comes through the second
/// chunks for another 1.5 s of transfers; half of it beside makes 7.5 + 10.125, less what the
/// stages wait for anyway.
TEST(ByHand, TransfersBesideSteps) {
  Pipeline pipeline = line(2, 2, {{1, 2}, {1, 2}, {1, 2}, {1, 2}});
  PodKind& kind = pipeline.kinds.front();
  for (std::size_t part = 1; part < 4; ++part) {
    kind.forward[part].seconds = kind.gradient[part - 1].seconds = 0.5;
    kind.forward[part].rate = kind.gradient[part - 1].rate = 1;
  }
  const auto finish = [&](double share) {
    pipeline.transfer_overlap = share;
    return run_line(pipeline).stages[0].finish_s;
  };
  EXPECT_EQ(finish(0), 18.5);
  EXPECT_EQ(finish(0.5), 18.25);
  EXPECT_EQ(finish(1), 18);
  const PodRun out = run_line(pipeline);
  EXPECT_EQ(out.stages[0].receive_s, 0);
  EXPECT_EQ(out.levels[0].transfers, 12);
  EXPECT_EQ(out.events, 16 + 12);
}

/// t = 3, 6, 3 with m = 3. The middle stage works without a break from 1 to 1 + 3·6; what is
/// behind it hides, so the 12 + 2·6 = 24 of the formula are 3 too many but for the waiting at the
/// start: F1 of the middle ends at 3, F2 at 5, stage 3 is back with B1 at 6.
TEST(ByHand, ThreeUnequalStages) {
  const Pipeline pipeline = line(3, 3, {{1, 2}, {2, 4}, {1, 2}});
  Ends ends;
  const PodRun out = run_line(pipeline, &ends);
  EXPECT_EQ(ends.at(1, "F1"), 3);
  EXPECT_EQ(ends.at(2, "F1"), 4);
  EXPECT_EQ(ends.at(1, "F2"), 5);
  EXPECT_EQ(ends.at(2, "B1"), 6);
  EXPECT_EQ(ends.at(1, "B1"), 10);  // from 6: one second lost
  EXPECT_EQ(ends.at(2, "B2"), 9);
  EXPECT_EQ(ends.at(0, "B1"), 12);
  EXPECT_EQ(ends.at(1, "F3"), 12);
  EXPECT_EQ(ends.at(1, "B2"), 16);
  EXPECT_EQ(ends.at(2, "B3"), 15);
  EXPECT_EQ(ends.at(1, "B3"), 20);
  EXPECT_EQ(out.stages[0].finish_s, 22);
  const Bounds bounds = bounds_of(pipeline, pipeline.kinds[0]);
  EXPECT_EQ(bounds.least_s, 3 + 18);
  EXPECT_EQ(bounds.most_s, 12 + 2 * 6);
}

/// The first stage has long forward steps and nothing else, the second long backward steps: the
/// second cannot begin with backward steps before the first has done two forward ones for it.
TEST(ByHand, WarmUpCanExceedTheFormula) {
  const Pipeline pipeline = line(3, 4, {{10, 0}, {0, 10}, {0, 0}});
  const PodRun out = run_line(pipeline);
  EXPECT_EQ(out.stages[0].finish_s, 20 + 4 * 10);  // the formula: 20 + 3·10
  EXPECT_EQ(bounds_of(pipeline, pipeline.kinds[0]).most_s, 60);
}

/// Forward steps are through at 1 + 2·3 + 3 = 10, of the middle; stage 3 at 11; then 3·2 back
/// there, and the last gradient goes up: (Σ f + 2·max f) + (Σ b + 2·max b) = (6 + 6) + (8 + 2·4).
TEST(ByHand, GPipe) {
  const Pipeline pipeline = line(3, 3, {{2, 4}, {3, 1}, {1, 3}}, Schedule::kGPipe);
  Ends ends;
  const PodRun out = run_line(pipeline, &ends);
  EXPECT_EQ(ends.at(1, "F3"), 11);
  EXPECT_EQ(ends.at(2, "F3"), 12);
  EXPECT_EQ(ends.at(2, "B3"), 15);
  EXPECT_EQ(ends.at(2, "B1"), 21);
  EXPECT_EQ(ends.at(0, "B3"), 20);
  EXPECT_EQ(out.stages[0].finish_s, 28);
  EXPECT_EQ(bounds_of(pipeline, pipeline.kinds[0]).most_s, 28);
}

/// Two stages of two chunks, every step 1: stage 2 is busy from 1 to 17, and one step up is left.
TEST(ByHand, Interleaved) {
  const Pipeline pipeline = line(2, 4, {{1, 1}, {1, 1}, {1, 1}, {1, 1}});
  Ends ends(true);
  const PodRun out = run_line(pipeline, &ends);
  EXPECT_EQ(ends.at(0, "F1b"), 3);
  EXPECT_EQ(ends.at(1, "F1b"), 4);
  EXPECT_EQ(ends.at(1, "B1b"), 5);
  EXPECT_EQ(ends.at(0, "F3a"), 5);
  EXPECT_EQ(ends.at(0, "B1b"), 6);
  EXPECT_EQ(ends.at(1, "B4a"), 17);
  EXPECT_EQ(out.stages[0].finish_s, 18);  // m·t + (p-1)·t/v = 4·4 + 2
}

/// Receiving takes the receiver's time: 1 + 2 forward, 3 + 4 backward on each stage.
TEST(ByHand, ReceiverPays) {
  Pipeline pipeline = line(2, 2, {{1, 4}, {2, 3}});
  pipeline.kinds[0].forward[1].seconds = 1;
  pipeline.kinds[0].gradient[0].seconds = 3;
  Ends ends;
  const PodRun out = run_line(pipeline, &ends);
  EXPECT_EQ(ends.at(1, "F1"), 1 + 1 + 2);
  EXPECT_EQ(ends.at(1, "B1"), 7);
  EXPECT_EQ(ends.at(0, "B1"), 7 + 3 + 4);
  EXPECT_EQ(ends.at(1, "B2"), 13);
  EXPECT_EQ(out.stages[0].finish_s, 14 + 7);
  EXPECT_EQ(out.stages[0].receive_s, 6);
  EXPECT_EQ(out.stages[1].receive_s, 2);
}

/// A chain of two layers on two devices with a batch of four, whose formula is exact as its second
/// stage is the slower one.
TEST(ByHand, FromPlanToTimes) {
  testing::SmallCase c({testing::SmallCase::level(2, 10, 0.5)}, 4);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 2;
  cost.parameters = 5;
  c.layer(cost);
  cost.forward_s = 2;
  cost.backward_s = 3;
  c.layer(cost);
  c.edge(0, 1, 10);
  c.stage({0}, 0, 0);
  c.stage({1}, 0, 1).recompute = model::Recompute::kFull;
  const auto network = network::make_network(c.problem.cluster);
  const model::Plan plan = c.evaluate();
  ASSERT_EQ(plan.status, model::Status::kOptimal);
  const Pipeline pipeline = build_pipeline(c.problem, *network, plan);
  EXPECT_EQ(pipeline.work[0].forward_s, 1);
  EXPECT_EQ(pipeline.work[1].backward_s, 5);
  EXPECT_EQ(pipeline.kinds[0].forward[1].seconds, 1.5);
  EXPECT_EQ(pipeline.kinds[0].forward[1].latency_s, 0.5);
  EXPECT_EQ(pipeline.kinds[0].gradient[0].seconds, 1.5);
  const Simulation simulation = simulate(pipeline, *network, plan);
  // t = 1 + 1.5 + 2 and 1.5 + 2 + 2 + 3, so 13 + 3·8.5
  EXPECT_DOUBLE_EQ(simulation.predicted_s, 38.5);
  EXPECT_DOUBLE_EQ(simulation.makespan_s, 38.5);
  ASSERT_EQ(simulation.levels.size(), 1U);
  EXPECT_EQ(simulation.levels[0].transfers, 8);
  EXPECT_EQ(simulation.levels[0].bytes, 80);
  EXPECT_DOUBLE_EQ(simulation.stages[1].idle_s, 38.5 - 4 * 8.5);
}

/// Stage 2 is done at 9 and takes 5 to synchronise, stage 1 is done at 12 and takes 1: the tie can
/// begin when both are ready.
TEST(ByHand, Synchronisation) {
  Pipeline pipeline = line(2, 3, {{1, 2}, {1, 2}});
  pipeline.sync_s = {1, 5};
  pipeline.tie_s = {0, 0.5};
  testing::SmallCase c({testing::SmallCase::level(2, 10)});
  model::Plan plan;
  plan.iteration_time_s = 12 + 1 + 0.5;
  const Simulation simulation = simulate(pipeline, *network::make_network(c.problem.cluster), plan);
  EXPECT_EQ(simulation.stages[1].sync_start_s, 10);
  ASSERT_EQ(simulation.ties.size(), 1U);
  EXPECT_EQ(simulation.ties[0].start_s, 15);
  EXPECT_EQ(simulation.makespan_s, 15.5);
  EXPECT_EQ(simulation.schedule_s, 0);
  EXPECT_EQ(simulation.synchronisation_s, 2);
  EXPECT_EQ(simulation.bounds.most_s, 15.5);
  EXPECT_EQ(simulation.stages[0].idle_s, 15.5 - 9 - 1 - 0.5);
}

}  // namespace
}  // namespace nestplan::simulate
