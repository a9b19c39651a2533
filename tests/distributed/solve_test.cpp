#include "nestplan/distributed/solve.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "distributed/layouts.hpp"
#include "support/branching.hpp"
#include "support/random_problem.hpp"
#include "support/row_problem.hpp"

namespace nestplan::distributed {
namespace {

std::uint64_t seeds() {
  const char* soak = std::getenv("NESTPLAN_SOAK");
  return soak != nullptr && std::string(soak) != "0" ? 2000 : 60;
}

/// Solves on all ranks in every layout; the first rank compares with what it finds on its own.
void expect_same_plan(const model::Problem& problem, const mpi::Comm& world,
                      const std::string& where) {
  const auto network = network::make_network(problem.cluster);
  std::string alone;
  if (world.rank() == 0) alone = document(solver::solve(problem, *network), problem);
  for (const RankLayout& layout : layouts(world.size())) {
    const auto plan = solve(problem, *network, {}, world, layout);
    EXPECT_EQ(plan.has_value(), world.rank() == 0) << where;
    if (plan) {
      EXPECT_EQ(document(*plan, problem), alone) << where << " " << name(layout);
    }
  }
  const auto plan = solve(problem, *network, {}, world);
  if (plan) {
    EXPECT_EQ(document(*plan, problem), alone) << where << " layout chosen";
  }
}

TEST(DistributedSolve, EqualsSerialOnRandomProblems) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    model::Problem problem = testing::random_problem(7'000'000 + seed);
    problem.options.objective = seed % 2 == 0 ? model::Objective::k1F1B : model::Objective::kPaper;
    problem.options.per_stage_strategies = seed % 4 < 2;
    expect_same_plan(problem, world, "seed " + std::to_string(seed));
  }
}

TEST(DistributedSolve, EqualsSerialOnInterleavedRows) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  for (std::uint64_t seed = 0; seed < seeds(); ++seed) {
    model::Problem problem = testing::row_problem(seed);
    problem.options.vpp = {1, 2};
    problem.options.per_stage_strategies = seed % 2 == 0;
    if (seed % 3 == 0) problem.options.target = "megatron";
    expect_same_plan(problem, world, "row " + std::to_string(seed));
  }
}

TEST(DistributedSolve, EqualsSerialOnBranches) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  for (const bool per_stage : {false, true}) {
    for (const model::Objective objective : {model::Objective::k1F1B, model::Objective::kPaper}) {
      model::Problem problem = testing::branching(2, 5, 11);
      problem.options.per_stage_strategies = per_stage;
      problem.options.objective = objective;
      expect_same_plan(problem, world, per_stage ? "per stage" : "uniform");
    }
  }
  expect_same_plan(testing::branching(3, 4, 5), world, "three branches");
}

TEST(DistributedSolve, GivesTheReasonWhenNothingFits) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  model::Problem problem = testing::branching(2, 3, 3);
  problem.cluster.device.memory_bytes = 1e7;
  expect_same_plan(problem, world, "infeasible");
}

TEST(DistributedSolve, StopsEverywhereAtATimeLimit) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  model::Problem problem = testing::branching(2, 12, 9);
  problem.options.per_stage_strategies = true;
  solver::SearchSettings settings;
  settings.time_limit_s = 0.2;
  settings.prune = false;  // so that it takes long enough
  for (const RankLayout& layout : layouts(world.size())) {
    const auto network = network::make_network(problem.cluster);
    const auto plan = solve(problem, *network, settings, world, layout);
    if (plan) {
      EXPECT_NE(plan->status, model::Status::kOptimal) << name(layout);
      EXPECT_LE(plan->lower_bound_s,
                plan->status == model::Status::kFeasible ? plan->iteration_time_s : 1e9);
    }
  }
}

TEST(DistributedSolve, RefusesATableThatNoRankHasRoomFor) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  const model::Problem problem = testing::branching(2, 5, 11);
  const auto network = network::make_network(problem.cluster);
  solver::SearchSettings settings;
  settings.memory_limit_bytes = 100;
  // One team: every rank sees the same need and leaves in the same way.
  EXPECT_THROW(solve(problem, *network, settings, world, RankLayout{1, {world.size(), 1}}),
               MemoryLimit);
}

}  // namespace
}  // namespace nestplan::distributed
