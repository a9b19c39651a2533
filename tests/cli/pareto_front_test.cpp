#include "cli/pareto_front.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::cli {
namespace {

double peak_of(const model::Plan& plan) {
  double peak = 0;
  for (const auto& stage : plan.stages) peak = std::max(peak, stage.memory.total_bytes);
  return peak;
}

model::Problem limited(model::Problem problem, std::optional<std::int64_t> limit) {
  if (limit) limit_memory(problem, *limit);
  return problem;
}

/// The front of time and memory on all devices.
std::vector<FrontPoint> front_of(const model::Problem& problem) {
  std::vector<FrontPoint> points;
  walk_front([&](std::optional<std::int64_t> limit) -> std::optional<std::int64_t> {
    const model::Problem under = limited(problem, limit);
    const model::Plan plan = solver::solve(under, *network::make_network(under.cluster));
    if (plan.status == model::Status::kInfeasible) return std::nullopt;
    points.push_back({problem.cluster.devices(), plan.iteration_time_s, peak_of(plan)});
    return std::llround(peak_of(plan));
  });
  std::vector<FrontPoint> front;
  for (const std::size_t i : undominated(points)) front.push_back(points[i]);
  return front;
}

/// The least time of any plan whose stages take at most so much, by enumeration; infinite: none.
double least_time(const model::Problem& problem, std::optional<std::int64_t> limit) {
  const model::Problem under = limited(problem, limit);
  const bool per_stage = problem.options.per_stage_strategies;
  return testing::brute_force(under, *network::make_network(under.cluster), per_stage)
      .at(problem.options.objective, per_stage)
      .value_s;
}

// The least time under a limit of memory is a step function of it. That it has the value of each
// point at the point's memory, and that of the next point one byte below, is all there is to it.
TEST(ParetoFrontTest, IsTheStepsOfTheLeastTimeUnderEveryLimit) {
  std::size_t longest = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(150); ++seed) {
    SCOPED_TRACE(seed);
    const model::Problem problem = testing::random_problem(seed);
    const std::vector<FrontPoint> front = front_of(problem);
    longest = std::max(longest, front.size());
    double least = least_time(problem, std::nullopt);
    for (const FrontPoint& point : front) {
      const std::int64_t bytes = std::llround(point.memory_bytes);
      ASSERT_NEAR(point.iteration_time_s, least, 1e-9 * least);
      const double at_its_memory = least_time(problem, bytes);
      ASSERT_NEAR(point.iteration_time_s, at_its_memory, 1e-9 * at_its_memory);
      least = least_time(problem, bytes - 1);
      ASSERT_GT(least, point.iteration_time_s * (1 + 1e-13));
    }
    ASSERT_TRUE(std::isinf(least));
  }
  EXPECT_GT(longest, 3U) << "the instances are meant to have fronts";
}

TEST(ParetoFrontTest, LimitsAreThoseOfEveryTypeOfDevice) {
  model::Problem problem = testing::random_problem(1);
  problem.options.reserve.margin = 0.1;
  problem.cluster.device.memory_bytes = 1000;
  problem.cluster.device.reserved_bytes = 100;
  problem.cluster.other_devices = {problem.cluster.device};
  problem.cluster.other_devices[0].memory_bytes = 500;
  limit_memory(problem, 600);
  const auto limit = [&](int type) {
    return cost::memory_limit(problem.cluster.type(type).usable_bytes(), problem.options.reserve);
  };
  EXPECT_EQ(limit(0), 600);
  EXPECT_EQ(limit(1), 360);
}

TEST(ParetoFrontTest, DominatedPointsAreLeftOut) {
  const std::vector<FrontPoint> points{{8, 1.0, 60}, {8, 1.0, 50}, {8, 2.0, 40}, {8, 3.0, 40},
                                       {4, 2.0, 40}, {4, 1.5, 60}, {4, 2.0, 40}};
  EXPECT_EQ(undominated(points), (std::vector<std::size_t>{1, 4, 5}));
  EXPECT_FALSE((FrontPoint{8, 1, 50}.dominates({8, 1 - 1e-14, 50}))) << "rounding is no gain";
  EXPECT_TRUE((FrontPoint{8, 1 + 1e-14, 50}.dominates({8, 1, 60})));
  EXPECT_TRUE(undominated({}).empty());
}

TEST(ParetoFrontTest, SpreadKeepsBothEnds) {
  EXPECT_EQ(spread(3, 5), (std::vector<std::size_t>{0, 1, 2}));
  EXPECT_EQ(spread(5, 5), (std::vector<std::size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(spread(9, 3), (std::vector<std::size_t>{0, 4, 8}));
  EXPECT_EQ(spread(100, 2), (std::vector<std::size_t>{0, 99}));
  EXPECT_TRUE(spread(0, 4).empty());
  for (std::size_t size = 2; size < 40; ++size) {
    for (std::size_t count = 2; count <= size; ++count) {
      const auto indices = spread(size, count);
      ASSERT_EQ(indices.size(), count);
      ASSERT_EQ(indices.back(), size - 1);
      for (std::size_t i = 1; i < count; ++i) ASSERT_GT(indices[i], indices[i - 1]);
    }
  }
}

TEST(ParetoFrontTest, Halves) {
  EXPECT_EQ(halves(24), (std::vector<std::int64_t>{24, 12, 6, 3, 1}));
  EXPECT_EQ(halves(1), (std::vector<std::int64_t>{1}));
}

}  // namespace
}  // namespace nestplan::cli
