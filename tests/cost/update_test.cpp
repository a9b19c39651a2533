#include "nestplan/cost/update.hpp"

#include <gtest/gtest.h>

#include "cost/samples.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/device_times.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/small_case.hpp"

/// The optimizer's step.

namespace nestplan::cost {
namespace {

using testing::sharded;
using testing::SmallCase;

constexpr model::StateBytes kMixed{2, 4, 12};

TEST(Update, MovesTheShardAndZeroesWhatIsHeld) {
  StageFootprint stage;
  stage.parameters = 80;
  stage.expert_parameters = 40;
  const ShardGroups groups{8, 2};
  const double shard = 80.0 / 8 + 40.0 / 2;
  EXPECT_DOUBLE_EQ(update_bytes(stage, 0, kMixed, groups), 120 * (2 * 4 + 2 * 12 + 2 + 4));
  EXPECT_DOUBLE_EQ(update_bytes(stage, 1, kMixed, groups), shard * 34 + 120 * 4);
  EXPECT_DOUBLE_EQ(update_bytes(stage, 2, kMixed, groups), shard * 38);
  EXPECT_DOUBLE_EQ(update_bytes(stage, 3, kMixed, groups), shard * 38);
}

TEST(Update, RunsAtTheSpeedOfMemory) {
  const model::Device device = test::a100();
  const AnalyticalCostModel costs(device, precision_of("bf16"));
  const model::UpdateRate rate = update_rate(costs);
  const model::DeviceModel model = model_of(device);
  EXPECT_DOUBLE_EQ(rate.fixed_s, 3 * model.kernel_s);
  EXPECT_NEAR(rate.per_byte_s * model.memory_efficiency * device.memory_bandwidth, 1, 1e-9);
  EXPECT_EQ(rate.seconds(0), 0);
}

TEST(Update, EveryTypeOfDevicesHasItsOwn) {
  model::Cluster cluster;
  cluster.device = test::h100();
  cluster.other_devices = {test::a100()};
  ProfileOptions options;
  options.sequence = 512;
  options.tp = {1};
  const model::Graph graph = build_graph(test::llama(2, 1024, 8, 8, 4096, 32000), cluster, options);
  ASSERT_EQ(graph.updates.size(), 2U);
  EXPECT_LT(graph.updates[0].per_byte_s, graph.updates[1].per_byte_s);
}

TEST(Update, FollowsTheSynchronisationUnhidden) {
  SmallCase c = sharded(0);
  const model::Plan without = c.evaluate();
  c.problem.graph.updates = {{1, 1e-3}};
  const double update = 1 + 1e-3 * 50 * 38;
  for (const double share : {0.0, 1.0}) {
    c.problem.options.overlap.sync = share;
    const model::Plan plan = c.evaluate();
    const model::StageTime& time = plan.stages[0].time;
    EXPECT_DOUBLE_EQ(time.update_s, update);
    EXPECT_DOUBLE_EQ(time.sync_s + time.hidden_sync_s, without.stages[0].time.sync_s + update);
    EXPECT_DOUBLE_EQ(plan.split.update_s, update);
    EXPECT_DOUBLE_EQ(plan.iteration_time_s + time.hidden_sync_s, without.iteration_time_s + update);
    EXPECT_DOUBLE_EQ(plan.split.data_parallel_s + time.hidden_sync_s,
                     without.split.data_parallel_s);
  }
}

TEST(Update, TakesAsLongAsOnTheSlowestType) {
  SmallCase c = sharded(1);
  c.problem.cluster.other_devices = {c.problem.cluster.device};
  c.problem.cluster.types = {{{1, 1}, 1}};
  c.problem.graph.updates = {{1, 0}, {3, 0}};
  EXPECT_DOUBLE_EQ(c.evaluate().stages[0].time.update_s, 3);
  c.problem.graph.updates = {{4, 0}, {3, 0}};
  EXPECT_DOUBLE_EQ(c.evaluate().stages[0].time.update_s, 4);
}

TEST(Update, TakesNoTimeInGraphsThatDoNotSay) {
  const model::Plan plan = sharded(1).evaluate();
  EXPECT_EQ(plan.stages[0].time.update_s, 0);
  EXPECT_EQ(plan.split.update_s, 0);
}

/// With one link so fast that messages take next to nothing, only the update is left to tell the
/// stages of ZeRO apart.
TEST(Update, IsAReasonToShard) {
  SmallCase c({SmallCase::level(2, 1e18)}, 4);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 2;
  cost.parameters = 50;
  c.layer(cost);
  c.problem.options.dp = {2};
  c.problem.options.zero = {0, 1};
  const auto network = network::make_network(c.problem.cluster);
  const auto zero = [&] { return solver::solve(c.problem, *network).stages.front().zero; };
  EXPECT_EQ(zero(), 0);
  c.problem.graph.updates = {{0, 1e-3}};
  EXPECT_EQ(zero(), 1);
}

}  // namespace
}  // namespace nestplan::cost
