#include "nestplan/cost/evaluator.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/small_case.hpp"

/// The formulas themselves are tested clause by clause in tests/solver/clauses_test.cpp.

namespace nestplan {
namespace {

using testing::SmallCase;

/// Chain n0 → n1 → n2 of 2 s + 4 s layers, strategies s0 (tp 1) and s1 (tp 2), on 8 devices.
SmallCase chain() {
  SmallCase c({SmallCase::level(4, 100), SmallCase::level(2, 10)}, 8);
  c.strategy(1);
  c.strategy(2);
  model::LayerCost cost;
  cost.forward_s = 2;
  cost.backward_s = 4;
  cost.parameters = 10;
  cost.activation_bytes = 50;
  cost.checkpoint_bytes = 5;
  for (int i = 0; i < 3; ++i) c.layer(cost);
  c.edge(0, 1, 100);
  c.edge(1, 2, 100);
  return c;
}

/// The message of the InvalidInput that evaluating `c` throws.
std::string complaint(const SmallCase& c) {
  try {
    c.evaluate();
  } catch (const InvalidInput& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(EvaluateForm, LayersMustBeAPartition) {
  SmallCase c = chain();
  EXPECT_TRUE(contains(complaint(c), "stages: empty"));
  c.stage({0, 1}, 0, 0);
  EXPECT_TRUE(contains(complaint(c), "layer \"n2\" is in no stage")) << complaint(c);
  c.stage({1, 2}, 0, 1);
  EXPECT_TRUE(contains(complaint(c), "stages[1].layers: \"n1\" is already in stages[0]"))
      << complaint(c);
  c.plan.stages[1].layers = {2, 7};
  EXPECT_TRUE(contains(complaint(c), "index 7")) << complaint(c);
  c.plan.stages[1].layers = {};
  EXPECT_TRUE(contains(complaint(c), "stages[1].layers: empty")) << complaint(c);
}

TEST(EvaluateForm, StagesMustFollowTheEdges) {
  SmallCase c = chain();
  c.stage({0, 2}, 0, 0);
  c.stage({1}, 0, 1);
  EXPECT_TRUE(contains(complaint(c), "\"n2\" needs \"n1\"")) << complaint(c);
}

TEST(EvaluateForm, StrategiesMustExistAndFit) {
  SmallCase c = chain();
  c.stage({0, 1, 2}, 2, 0);
  EXPECT_TRUE(contains(complaint(c), "no strategy has index 2")) << complaint(c);
  c.plan.stages[0].strategy = 1;
  c.problem.graph.layers[1].costs[1].reset();
  EXPECT_TRUE(contains(complaint(c), "layer \"n1\" has no costs for \"s1\" (it has s0)"))
      << complaint(c);
}

TEST(EvaluateForm, StagesShareTheMicroBatch) {
  SmallCase c = chain();
  c.problem.graph.strategies[1].micro_batch = 2;
  c.stage({0}, 0, 0);
  c.stage({1, 2}, 1, 1);
  EXPECT_TRUE(contains(complaint(c), "micro-batches of 2")) << complaint(c);
}

TEST(EvaluateForm, DegreesAndChoices) {
  SmallCase c = chain();
  c.stage({0, 1, 2}, 0, 0);
  c.data_parallel(4, 3);
  EXPECT_TRUE(contains(complaint(c), "dp_inner: 3")) << complaint(c);
  c.data_parallel(0, 1);
  EXPECT_TRUE(contains(complaint(c), "dp: 0")) << complaint(c);
  c.data_parallel(1, 1);
  c.plan.stages[0].zero = 4;
  EXPECT_TRUE(contains(complaint(c), "zero: 4")) << complaint(c);
  c.plan.stages[0].zero = 0;
  c.plan.stages[0].position = -1;
  EXPECT_TRUE(contains(complaint(c), "position: -1")) << complaint(c);
  c.plan.stages[0].position = 0;
  c.problem.options.global_batch = 0;
  EXPECT_THROW(c.evaluate(), InvalidConfig);
}

TEST(EvaluateInfeasible, BatchNamesTheNearest) {
  SmallCase c = chain();
  c.stage({0, 1, 2}, 0, 0);
  c.data_parallel(3, 1);
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_TRUE(contains(plan.reason, "batch of 8")) << plan.reason;
  EXPECT_TRUE(contains(plan.reason, "6 and 9")) << plan.reason;
  EXPECT_EQ(plan.strategy.microbatches, 3);  // the breakdown is still there, rounded up
  EXPECT_GT(plan.iteration_time_s, 0);
}

TEST(EvaluateInfeasible, MoreReplicasThanDevices) {
  SmallCase c = chain();
  c.stage({0, 1, 2}, 0, 0);
  c.problem.options.global_batch = std::int64_t{1} << 62;
  c.data_parallel(std::int64_t{1} << 61, std::int64_t{1} << 61);
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_TRUE(contains(plan.reason, "exceeds the cluster's 8 devices")) << plan.reason;
}

TEST(EvaluateInfeasible, OverlapAndPodEnd) {
  SmallCase c = chain();
  c.stage({0}, 1, 0);
  c.stage({1, 2}, 1, 1);
  model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_TRUE(contains(plan.reason, "stage 2 of 2 starts at position 1")) << plan.reason;
  EXPECT_TRUE(contains(plan.reason, "ends at 2")) << plan.reason;
  EXPECT_GT(plan.stages[0].memory.total_bytes, 0);  // memory does not depend on the place

  c.plan.stages[1].position = 7;
  plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_TRUE(contains(plan.reason, "end at device 9 of a pod, which has 8")) << plan.reason;
}

TEST(EvaluateInfeasible, MemoryNamesStageBytesAndAWayOut) {
  SmallCase c = chain();
  c.stage({0}, 0, 0);
  c.stage({1, 2}, 0, 1);
  // Stage 1: 180 + 2·50 bytes; stage 2: 360 + 1·100 bytes.
  c.problem.cluster.device.memory_bytes = 450;
  model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_TRUE(contains(plan.reason, "stage 2 of 2 needs 460 bytes")) << plan.reason;
  EXPECT_TRUE(contains(plan.reason, "10 more than the 450")) << plan.reason;
  EXPECT_TRUE(contains(plan.reason, "recompute full and ZeRO 0")) << plan.reason;  // 360 + 10 + 50
  EXPECT_GT(plan.iteration_time_s, 0);

  c.problem.options.recompute = {model::Recompute::kNone};
  c.problem.options.zero = {0};
  plan = c.evaluate();
  EXPECT_TRUE(contains(plan.reason, "a device with 460 usable bytes")) << plan.reason;
}

TEST(Evaluate, SearchRestrictionsDoNotBindAPlanByHand) {
  SmallCase c = chain();
  cost::PlacedStage& stage = c.stage({0, 1, 2}, 1, 0);
  stage.zero = 3;
  stage.recompute = model::Recompute::kFull;
  c.problem.options.zero = {0};
  c.problem.options.recompute = {model::Recompute::kNone};
  c.problem.options.tp = {1};
  c.problem.options.pp = {2};
  c.problem.options.dp = {2};
  EXPECT_EQ(c.evaluate().status, model::Status::kOptimal);
}

TEST(Evaluate, GapsNeedNoAlignment) {
  SmallCase c = chain();
  c.stage({0}, 0, 0);
  c.stage({1, 2}, 0, 3);
  EXPECT_EQ(c.evaluate().status, model::Status::kOptimal);
}

TEST(Evaluate, OrderInWhichLayersAreGivenDoesNotMatter) {
  SmallCase c = chain();
  c.stage({2, 0, 1}, 0, 0);
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.stages[0].layers, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.iteration_time_s, 3 * 6 * 8.0);
}

TEST(Evaluate, DescribesThePlan) {
  SmallCase c = chain();
  c.stage({0}, 1, 0).zero = 2;
  c.stage({1, 2}, 0, 2);
  c.data_parallel(2, 1);
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.strategy.dp_outer, 2);
  EXPECT_EQ(plan.strategy.pp, 2);
  EXPECT_EQ(plan.strategy.microbatches, 4);
  EXPECT_EQ(plan.stages[0].devices, 2);
  EXPECT_EQ(plan.stages[1].position, 2);
  EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(c.plan));
}

TEST(Evaluate, SplitFollowsTheBottleneckAndAddsUp) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const testing::Optima optima = testing::brute_force(problem, *network, false);
    for (const auto objective : {model::Objective::k1F1B, model::Objective::kPaper}) {
      const testing::Optimum& best = optima.at(objective, false);
      if (!best.feasible()) continue;
      problem.options.objective = objective;
      const model::Plan plan = cost::evaluate(problem, *network, best.plan);
      const model::TimeSplit& s = plan.split;
      EXPECT_NEAR(s.compute_s + s.recompute_s + s.collective_s + s.pipeline_s + s.data_parallel_s +
                      s.update_s + s.bubble_s,
                  plan.iteration_time_s, 1e-12 * plan.iteration_time_s)
          << seed;
      EXPECT_GE(s.bubble_s, 0) << seed;
    }
  }
}

TEST(Evaluate, SplitByHand) {
  SmallCase c = chain();  // 8 micro-batches
  for (model::Layer& layer : c.problem.graph.layers) {
    layer.costs[1]->collectives.push_back(
        {model::Phase::kForward, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor, 100});
  }
  c.stage({0}, 1, 0);
  c.stage({1, 2}, 1, 2).recompute = model::Recompute::kFull;
  const model::TimeSplit split = c.evaluate().split;
  // The second stage: two layers of 2 s + 4 s, two collectives of 1 s, all forward twice; it
  // receives 100 bytes at 100 bytes/s. The first: 7 s and its gradient for 1 s, once for the
  // bubble.
  EXPECT_DOUBLE_EQ(split.compute_s, 8 * 12.0);
  EXPECT_DOUBLE_EQ(split.recompute_s, 8 * 4.0);
  EXPECT_DOUBLE_EQ(split.collective_s, 8 * 4.0);
  EXPECT_DOUBLE_EQ(split.pipeline_s, 8 * 1.0);
  EXPECT_DOUBLE_EQ(split.data_parallel_s, 0);
  EXPECT_DOUBLE_EQ(split.bubble_s, 7 + 1.0);
}

TEST(Evaluate, LargeClustersTakeMilliseconds) {
  SmallCase c({SmallCase::level(8, 100), SmallCase::level(4, 10), SmallCase::level(1024, 5)}, 4096);
  const int s = c.strategy(2, 2, 2);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.parameters = 10;
  cost.expert_parameters = 5;
  for (const auto group : {model::GroupKind::kTensor, model::GroupKind::kContext,
                           model::GroupKind::kExpert, model::GroupKind::kData}) {
    cost.collectives.push_back({model::Phase::kForward, model::CollectiveOp::kAllReduce, group, 1});
  }
  for (int i = 0; i < 128; ++i) {
    c.layer(cost);
    if (i > 0) c.edge(i - 1, i, 10);
  }
  c.data_parallel(1024, 8);
  for (int i = 0; i < 8; ++i) {
    std::vector<int> layers;
    for (int l = 0; l < 16; ++l) layers.push_back(16 * i + l);
    c.stage(layers, s, 32 * i);
  }
  const auto network = network::make_network(c.problem.cluster);
  const auto start = std::chrono::steady_clock::now();
  const model::Plan plan = cost::evaluate(c.problem, *network, c.plan);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  // About 10 ms in a Release build; the limit leaves room for sanitizers and a busy machine.
  EXPECT_LT(seconds.count(), 2.0);
}

}  // namespace
}  // namespace nestplan
