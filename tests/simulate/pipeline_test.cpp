#include "nestplan/simulate/pipeline.hpp"

#include <gtest/gtest.h>

#include "nestplan/network/network.hpp"
#include "support/small_case.hpp"

namespace nestplan::simulate {
namespace {

using testing::sharded;
using testing::SmallCase;

PartWork work_of(const SmallCase& c) {
  const auto network = network::make_network(c.problem.cluster);
  return build_pipeline(c.problem, *network, c.evaluate()).work.front();
}

TEST(BuildPipeline, TrafficOfZeroIsPartOfTheSteps) {
  EXPECT_DOUBLE_EQ(work_of(sharded(1)).forward_s, 1);
  EXPECT_DOUBLE_EQ(work_of(sharded(1)).backward_s, 2);
  EXPECT_DOUBLE_EQ(work_of(sharded(2)).forward_s, 1);
  EXPECT_DOUBLE_EQ(work_of(sharded(2)).backward_s, 2 + 10);
  EXPECT_DOUBLE_EQ(work_of(sharded(3)).forward_s, 1 + 5);
  EXPECT_DOUBLE_EQ(work_of(sharded(3)).backward_s, 2 + 5 + 10);
}

/// Four layers of 1 to 4 s as two stages of two chunks: layers 0 and 2, 1 and 3.
TEST(BuildPipeline, ChunksHaveTimesOfTheirOwn) {
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
  const auto network = network::make_network(c.problem.cluster);
  const model::Plan plan = c.evaluate();
  ASSERT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  const Pipeline pipeline = build_pipeline(c.problem, *network, plan);
  ASSERT_EQ(pipeline.parts(), 4);
  for (std::size_t part = 0; part < 4; ++part) {
    const auto number = static_cast<double>(part);
    EXPECT_DOUBLE_EQ(pipeline.work[part].forward_s, number + 1);
    EXPECT_DOUBLE_EQ(pipeline.work[part].backward_s, 2 * (number + 1));
    EXPECT_DOUBLE_EQ(pipeline.kinds[0].forward[part].seconds, number);
    EXPECT_DOUBLE_EQ(pipeline.kinds[0].gradient[part].seconds, part < 3 ? number + 1 : 0);
  }
}

/// A tensor that skips a stage is relayed, and counts once however many need it.
TEST(BuildPipeline, TensorsThatSkipStagesAreRelayed) {
  SmallCase c({SmallCase::level(3, 10)}, 1);
  c.strategy(1);
  for (int i = 0; i < 3; ++i) c.layer();
  c.edge(0, 1, 10);
  c.edge(0, 2, 40);
  c.edge(1, 2, 20);
  for (int i = 0; i < 3; ++i) c.stage({i}, 0, i);
  const auto network = network::make_network(c.problem.cluster);
  const Pipeline pipeline = build_pipeline(c.problem, *network, c.evaluate());
  EXPECT_EQ(pipeline.kinds[0].forward[1].device_bytes, 40);
  EXPECT_EQ(pipeline.kinds[0].forward[2].device_bytes, 60);
}

/// On a torus rows of neighbours say nothing about links.
TEST(BuildPipeline, UplinksNeedATree) {
  SmallCase c({SmallCase::level(2, 10)}, 1);
  model::TorusSpec torus;
  torus.dimensions = {{"x", 4, true, 10, 1e-6}, {"y", 4, true, 10, 1e-6}};
  c.problem.cluster.network = torus;
  c.strategy(4);
  for (int i = 0; i < 4; ++i) c.layer();
  for (int i = 0; i < 3; ++i) c.edge(i, i + 1, 10);
  for (int i = 0; i < 4; ++i) c.stage({i}, 0, 4 * i);
  const auto network = network::make_network(c.problem.cluster);
  const Pipeline pipeline = build_pipeline(c.problem, *network, c.evaluate());
  EXPECT_FALSE(pipeline.has_uplinks);
  for (const SharedLink& link : pipeline.kinds[0].links) EXPECT_EQ(link.level, -1);
  EXPECT_GT(pipeline.kinds[0].forward[1].seconds, 0);
}

}  // namespace
}  // namespace nestplan::simulate
