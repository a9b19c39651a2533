#include "distributed/node_storage.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "nestplan/distributed/solve.hpp"
#include "nestplan/io/files.hpp"
#include "support/branching.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::distributed {
namespace {

TEST(NodeStorage, OneFillsForAll) {
  const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  const mpi::Comm node = world.split_by_node();
  NodeStorage storage(node);
  EXPECT_EQ(storage.agree(100 + node.rank()), 100);
  std::vector<util::Array<double>> arrays;
  for (std::int64_t size : {1, 1000, 6'000'000, 0, 7}) {  // the third has a slab of its own
    arrays.push_back(storage.make<double>(size, [size](std::span<double> values) {
      std::iota(values.begin(), values.end(), static_cast<double>(size));
    }));
  }
  storage.publish();
  EXPECT_EQ(arrays[1].back(), 1999);
  EXPECT_EQ(arrays[2].back(), 11'999'999);
  EXPECT_TRUE(arrays[3].empty());
  EXPECT_EQ(arrays[4][0], 7);
  EXPECT_LE(storage.bytes_per_process() * node.size(), 8 * 6'001'009.0);
}

TEST(NodeStorage, SolvesWithSharedLattices) {
  const mpi::Comm world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  solver::SearchSettings settings;
  settings.share_from = 1;
  for (std::uint64_t seed = 0; seed < testing::seeds(40); ++seed) {
    model::Problem problem =
        seed % 8 == 0 ? testing::branching(2, 4, seed) : testing::random_problem(seed);
    problem.options.per_stage_strategies = seed % 2 == 0;
    const auto network = network::make_network(problem.cluster);
    const auto document = [&](model::Plan plan) {
      plan.search = {};
      return io::plan_to_json(plan, problem.graph, problem.cluster, problem.options.global_batch);
    };
    const auto plan = solve(problem, *network, settings, world);
    EXPECT_EQ(plan.has_value(), world.rank() == 0);
    if (!plan) continue;
    EXPECT_EQ(document(*plan), document(solver::solve(problem, *network))) << seed;
  }
}

}  // namespace
}  // namespace nestplan::distributed
