#include "solver/ladder.hpp"

#include <gtest/gtest.h>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::solver {
namespace {

TEST(Ladder, RowsKeepTheOrderOfTheGraph) {
  for (std::uint64_t seed = 0; seed < testing::seeds(200); ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const Lattice whole = Lattice::enumerate(problem.graph);
    const Lattice row = row_lattice(problem.graph);
    ASSERT_TRUE(row.totally_ordered());
    ASSERT_EQ(row.size(), static_cast<DownsetId>(problem.graph.layers.size()) + 1);
    // Every downset of the row is one of the graph.
    for (DownsetId d = 0; d < row.size(); ++d) {
      bool found = false;
      for (DownsetId e = 0; e < whole.size() && !found; ++e) {
        found = std::ranges::equal(row.members(d), whole.members(e));
      }
      ASSERT_TRUE(found) << "seed " << seed << ", downset " << d;
    }
  }
}

TEST(Ladder, EndsWithTheProblemItself) {
  for (std::uint64_t seed = 0; seed < testing::seeds(100); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    problem.options.per_stage_strategies = seed % 2 == 0;
    const Lattice lattice = Lattice::enumerate(problem.graph);
    const std::vector<Rung> rungs = ladder(problem, lattice, false);
    EXPECT_EQ(rungs.back().problem.options.per_stage_strategies,
              problem.options.per_stage_strategies);
    EXPECT_EQ(rungs.back().lattice.size(), lattice.size());
    for (std::size_t r = 0; r + 1 < rungs.size(); ++r) {
      EXPECT_LE(rungs[r].lattice.size(), rungs[r + 1].lattice.size());
      EXPECT_TRUE(rungs[r].lattice.totally_ordered());
    }
  }
}

TEST(Ladder, NoRungIsBetterThanTheNext) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(60); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    problem.options.per_stage_strategies = true;
    const auto network = network::make_network(problem.cluster);
    const model::Plan answer = solve(problem, *network);
    problem.options.per_stage_strategies = false;
    const model::Plan below = solve(problem, *network);
    if (below.status != model::Status::kOptimal) continue;
    ++compared;
    ASSERT_EQ(answer.status, model::Status::kOptimal) << "seed " << seed;
    EXPECT_LE(answer.iteration_time_s, below.iteration_time_s * (1 + 1e-12)) << "seed " << seed;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace nestplan::solver
