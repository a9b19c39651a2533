#include "nestplan/model/overlap.hpp"

#include <gtest/gtest.h>

#include <string>

#include "nestplan/cost/evaluator.hpp"
#include "support/small_case.hpp"

/// Communication beside computation, on paper. Plans at random are in
/// tests/solver/overlap_test.cpp.

namespace nestplan {
namespace {

using model::CollectiveOp;
using model::GroupKind;
using model::Phase;
using testing::sharded;
using testing::SmallCase;

/// One stage of two neighbours that takes `compute` s forward and twice that backward, with
/// collectives of 1 s forward and 2 s backward: an all-reduce of 10 bytes at 10 bytes/s takes 1 s.
SmallCase communicating(double compute, GroupKind group, CollectiveOp op) {
  SmallCase c({SmallCase::level(2, 10)}, 1);
  const bool tensor = group == GroupKind::kTensor;
  c.strategy(tensor ? 2 : 1, tensor ? 1 : 2);
  const double bytes = op == CollectiveOp::kAllReduce ? 10 : 20;
  model::LayerCost cost;
  cost.forward_s = compute;
  cost.backward_s = 2 * compute;
  cost.collectives = {{Phase::kForward, op, group, bytes},
                      {Phase::kBackward, op, group, 2 * bytes}};
  c.layer(cost);
  c.stage({0}, 0, 0);
  return c;
}

model::StageTime time_of(const SmallCase& c) {
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  return plan.stages.front().time;
}

TEST(Overlap, HidesItsShareOfTheCollectives) {
  SmallCase c = communicating(1, GroupKind::kTensor, CollectiveOp::kAllReduce);
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 3 + 3);
  c.problem.options.overlap.tensor = 0.5;
  EXPECT_DOUBLE_EQ(time_of(c).hidden_s, 1.5);
  EXPECT_DOUBLE_EQ(time_of(c).hidden_forward_s, 0.5);
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 3 + 3 - 1.5);
  EXPECT_DOUBLE_EQ(time_of(c).collective_s, 3);
}

TEST(Overlap, CountsWhatIsRecomputed) {
  SmallCase c = communicating(1, GroupKind::kTensor, CollectiveOp::kAllReduce);
  c.problem.options.overlap.tensor = 0.5;
  c.plan.stages[0].recompute = model::Recompute::kFull;
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 4 + 4 - 2);
  EXPECT_DOUBLE_EQ(time_of(c).hidden_forward_s, 0.5);
}

TEST(Overlap, NeedsComputationToHideBeside) {
  SmallCase c = communicating(0.25, GroupKind::kTensor, CollectiveOp::kAllReduce);
  c.problem.options.overlap.tensor = 1;
  EXPECT_DOUBLE_EQ(time_of(c).hidden_s, 0.75);
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 3);  // the collectives alone
}

TEST(Overlap, OfContextIsThatOfARing) {
  SmallCase ring = communicating(1, GroupKind::kContext, CollectiveOp::kAllGather);
  SmallCase traded = communicating(1, GroupKind::kContext, CollectiveOp::kAllToAll);
  for (SmallCase* c : {&ring, &traded}) c->problem.options.overlap.context = 1;
  EXPECT_DOUBLE_EQ(time_of(ring).hidden_s, 3);
  EXPECT_DOUBLE_EQ(time_of(traded).hidden_s, 0);
  EXPECT_GT(time_of(traded).collective_s, 0);
}

TEST(Overlap, OfDataParallelGroupsInLayersIsThatOfShards) {
  SmallCase c = communicating(1, GroupKind::kData, CollectiveOp::kAllReduce);
  c.problem.options.overlap.shards = 1;
  EXPECT_DOUBLE_EQ(time_of(c).hidden_s, 3);
}

TEST(Overlap, HidesTrafficOfShards) {
  SmallCase c = sharded(3);
  c.problem.options.overlap.shards = 0.1;
  EXPECT_DOUBLE_EQ(time_of(c).zero_s, 20);
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 3 + 20 - 2);
  EXPECT_DOUBLE_EQ(time_of(c).hidden_forward_s, 0.5);
  c.problem.options.overlap.shards = 1;
  EXPECT_DOUBLE_EQ(time_of(c).total_s, 20);
}

TEST(Overlap, HidesSynchronisationBesideOneMicroBatch) {
  SmallCase reduced = sharded(0);
  reduced.problem.options.overlap.sync = 0.05;
  EXPECT_DOUBLE_EQ(time_of(reduced).sync_s, 20 - 1);
  reduced.problem.options.overlap.sync = 1;
  EXPECT_DOUBLE_EQ(time_of(reduced).sync_s, 20 - 2);
  SmallCase c = sharded(1);
  c.problem.options.overlap.sync = 1;
  EXPECT_DOUBLE_EQ(time_of(c).sync_s, (10 - 2) + (5 - 1));
  EXPECT_DOUBLE_EQ(time_of(c).hidden_sync_s, 3);
  EXPECT_DOUBLE_EQ(c.evaluate().iteration_time_s, 2 * 3 + 12);
  c.plan.stages[0].recompute = model::Recompute::kFull;
  EXPECT_DOUBLE_EQ(time_of(c).sync_s, (10 - 3) + (5 - 1));
}

/// Four layers of 1 to 4 s forward and twice that backward as two stages of two chunks. The first
/// stage works for 12 s and receives for 2 + 1 + 3, the second for 18 s and 1 + 3 + 2.
SmallCase interleaved() {
  SmallCase c({SmallCase::level(2, 10)}, 2);
  c.strategy(1);
  for (int i = 0; i < 4; ++i) {
    model::LayerCost cost;
    cost.forward_s = i + 1;
    cost.backward_s = 2 * (i + 1);
    c.layer(cost);
    if (i > 0) c.edge(i - 1, i, 10.0 * i);
  }
  c.stage({0, 2}, 0, 0).chunks = {{0}, {2}};
  c.stage({1, 3}, 0, 1).chunks = {{1}, {3}};
  return c;
}

TEST(Overlap, OfTransfersLetsThePipelineFillAtFullPrice) {
  SmallCase c = interleaved();
  const auto iteration = [&c](double share) {
    c.problem.options.overlap.pipeline = share;
    return c.evaluate().iteration_time_s;
  };
  EXPECT_DOUBLE_EQ(iteration(0), (18 + 24) / 2.0 + 1.5 * 24);
  EXPECT_DOUBLE_EQ(iteration(0.5), (18 + 24) / 2.0 + 1.5 * 21);
  EXPECT_DOUBLE_EQ(iteration(1), (18 + 24) / 2.0 + 1.5 * 18);
  const model::StageTime last = c.evaluate().stages[1].time;
  EXPECT_DOUBLE_EQ(last.total_s, 24);
  EXPECT_DOUBLE_EQ(last.hidden_transfer_s, 6);
  EXPECT_DOUBLE_EQ(last.pace_s(), 18);
  c.problem.options.objective = model::Objective::kPaper;
  EXPECT_DOUBLE_EQ(iteration(1), (2 + 1 / 2.0) * 18);
}

TEST(Overlap, OfTransfersIsNoMoreThanTheWorkBesideThem) {
  SmallCase c = interleaved();
  for (model::Edge& edge : c.problem.graph.edges) edge.bytes = {100};  // 10 s each
  c.problem.options.overlap.pipeline = 1;
  const model::Plan plan = c.evaluate();
  EXPECT_DOUBLE_EQ(plan.stages[0].time.pace_s(), 30);  // receives for longer than it works
  EXPECT_DOUBLE_EQ(plan.stages[1].time.pace_s(), 30);
}

TEST(Overlap, OfTransfersNeedsChunksAndAFrameworkThatDoesIt) {
  SmallCase c = interleaved();
  const double apart = c.evaluate().iteration_time_s;
  c.problem.options.overlap.pipeline = 1;
  c.problem.options.overlap_p2p = false;
  EXPECT_EQ(c.evaluate().iteration_time_s, apart);
  EXPECT_EQ(c.evaluate().strategy.overlap.pipeline, 0);

  SmallCase plain = interleaved();
  plain.plan.stages[0] = {{0, 1}, 0, 0};
  plain.plan.stages[1] = {{2, 3}, 0, 1};
  const double one_chunk = plain.evaluate().iteration_time_s;
  plain.problem.options.overlap.pipeline = 1;
  EXPECT_EQ(plain.evaluate().iteration_time_s, one_chunk);
}

TEST(Overlap, IsNotCountedTwiceInTheSplit) {
  SmallCase tensor = communicating(1, GroupKind::kTensor, CollectiveOp::kAllReduce);
  SmallCase shards = sharded(3);
  SmallCase chunks = interleaved();
  for (SmallCase* c : {&tensor, &shards, &chunks}) {
    for (const model::OverlapTerm& term : model::kOverlapTerms) {
      c->problem.options.overlap.*term.share = 0.75;
    }
    const model::Plan plan = c->evaluate();
    const model::TimeSplit& split = plan.split;
    EXPECT_NEAR(split.compute_s + split.recompute_s + split.collective_s + split.pipeline_s +
                    split.data_parallel_s + split.bubble_s,
                plan.iteration_time_s, 1e-12 * plan.iteration_time_s);
  }
}

}  // namespace
}  // namespace nestplan
