#include "baselines/phaze.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::baselines {
namespace {

// From device 0: one peer at 100 GB/s and 1 us, two at 10 GB/s and 5 us.
TEST(Phaze, ItsNetworkIsTheMeanOfThatOfTheFirstDevice) {
  model::Cluster cluster;
  cluster.network = model::HierarchySpec{"hierarchical-ring",
                                         {{"node", 2, 100e9, 1e-6, 1}, {"leaf", 2, 10e9, 5e-6, 1}}};
  const auto network = network::make_network(cluster);
  const model::Cluster flat = flattened(cluster, *network);
  ASSERT_EQ(flat.hierarchy().levels.size(), 1U);
  const model::NetworkLevel& level = flat.hierarchy().levels[0];
  EXPECT_EQ(level.fanout, 4);
  EXPECT_NEAR(1 / level.bandwidth, (1 / 100e9 + 2 / 10e9) / 3, 1e-20);
  EXPECT_NEAR(level.latency_s, 11e-6 / 3, 1e-12);
  EXPECT_EQ(flat.devices(), 4);
}

/// With one level there is nothing about the network that it does not know.
TEST(Phaze, OnAFlatNetworkItIsThePlanner) {
  for (std::uint64_t seed = 0; seed < testing::seeds(150); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    if (problem.options.vpp.front() > 1) continue;
    problem.options.stages.confined.clear();
    const auto uneven = network::make_network(problem.cluster);
    problem.cluster = flattened(problem.cluster, *uneven);
    const auto network = network::make_network(problem.cluster);
    const model::Plan own = solver::solve(problem, *network);
    const model::Plan phaze = find_plan(Method::kPhaze, problem, *network);
    EXPECT_EQ(phaze.status, own.status) << "seed " << seed << ": " << phaze.reason;
    if (own.status == model::Status::kInfeasible) continue;
    EXPECT_NEAR(phaze.iteration_time_s, own.iteration_time_s, 1e-9 * own.iteration_time_s)
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace nestplan::baselines
