#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "distributed/archive.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/io/files.hpp"
#include "solver/saved_search.hpp"
#include "support/branching.hpp"
#include "support/dice.hpp"
#include "support/memory_snapshot.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::distributed {
namespace {

using testing::MemorySnapshot;

/// The plan's document without what may differ between runs.
std::string document(model::Plan plan, const model::Problem& problem) {
  plan.search = {};
  return io::plan_to_json(plan, problem.graph, problem.cluster, problem.options.global_batch);
}

/// A layout of `ranks` ranks.
RankLayout any_layout(int ranks, testing::Dice& dice) {
  for (;;) {
    const auto groups = static_cast<int>(dice.between(1, ranks));
    const auto downsets = static_cast<int>(dice.between(1, ranks));
    if (ranks % (groups * downsets) == 0) {
      return {groups, {downsets, ranks / (groups * downsets)}};
    }
  }
}

/// What all ranks of `comm` saved, on its first rank.
void put_together(const mpi::Comm& comm, MemorySnapshot& state) {
  const std::string mine = comm.rank() == 0 ? "" : state.pack();
  for (const auto& bytes : comm.all_gather(std::as_bytes(std::span(mine)))) {
    if (bytes.empty() || comm.rank() != 0) continue;
    state.merge(MemorySnapshot::unpack(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  }
  if (comm.rank() == 0) state.check_whole();
}

struct Relay {
  std::optional<std::string> plan;  ///< its document, on the first rank
  std::int64_t tables = 0;
  int saves = 0;
  int half_tables = 0;
};

/// Searches in runs that are stopped by any one of their ranks, each with another number and layout
/// of ranks, and from what the last one saved.
Relay relay(const model::Problem& problem, const mpi::Comm& world, std::int64_t polls,
            std::uint64_t seed) {
  testing::Dice dice(seed);  // the same on all ranks
  const auto network = network::make_network(problem.cluster);
  Relay result;
  std::string saved;  // the same on all ranks
  for (int run = 0; run < 5000; ++run) {
    const auto ranks = static_cast<int>(dice.between(1, world.size()));
    const RankLayout layout = any_layout(ranks, dice);
    const bool chosen = dice.chance(20);
    const std::int64_t stopper = dice.between(0, ranks - 1);
    // where ranks have little to do, the stopper may never be asked: less is needed now and then
    const std::int64_t most = dice.between(2, 2 * polls);
    const bool now_and_then = dice.chance(30);
    const mpi::Comm comm = world.split(world.rank() < ranks ? 0 : 1, world.rank());

    std::string news;
    std::int64_t done = 0;
    if (world.rank() < ranks) {
      std::optional<MemorySnapshot> from;
      if (!saved.empty()) from = MemorySnapshot::unpack(saved);
      solver::Checkpoints checkpoints;
      checkpoints.from = from ? &*from : nullptr;
      checkpoints.every_s = now_and_then ? 0 : std::numeric_limits<double>::infinity();
      checkpoints.save = [&](const std::function<void(solver::SnapshotWriter&)>& write) {
        MemorySnapshot state;
        write(state);
        put_together(comm, state);
        ++result.saves;
        if (comm.rank() != 0) return;
        for (const auto& visit : solver::SavedSearch::read(state).visits) {
          result.half_tables += visit.next >= 0;
        }
        news = state.pack();
      };
      std::int64_t asked = 0;
      solver::SearchSettings settings;
      settings.checkpoints = &checkpoints;
      settings.stop_requested = [&] { return comm.rank() == stopper && ++asked > most; };
      const auto plan =
          solve(problem, *network, settings, comm, chosen ? std::optional<RankLayout>() : layout);
      EXPECT_EQ(plan.has_value(), comm.rank() == 0);
      if (plan && !plan->search.stopped) {
        result.plan = document(*plan, problem);
        result.tables = plan->search.tables;
        done = 1;
      }
    }
    if (world.max(done) != 0) return result;
    broadcast(world, news);
    if (!news.empty()) saved = news;
  }
  ADD_FAILURE() << "no end";
  return result;
}

/// Searches `problem`, with the options of that seed, by a relay; the first rank compares with what
/// it finds on its own, undisturbed.
Relay expect_to_go_on(model::Problem problem, const mpi::Comm& world, int polls,
                      std::uint64_t seed) {
  problem.options.objective = seed % 2 == 0 ? model::Objective::k1F1B : model::Objective::kPaper;
  problem.options.per_stage_strategies = seed % 4 < 2;
  const auto network = network::make_network(problem.cluster);
  Relay stopped = relay(problem, world, polls, seed);
  if (world.rank() == 0) {
    EXPECT_EQ(stopped.plan, document(solver::solve(problem, *network), problem)) << "seed " << seed;
  }
  return stopped;
}

TEST(SavedSolve, GoesOnWithOtherRanks) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  int saves = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(25); ++seed) {
    saves += expect_to_go_on(testing::random_problem(9'500'000 + seed), world, 6, seed).saves;
  }
  if (world.rank() == 0) {
    EXPECT_GT(saves, 0);
  }
}

TEST(SavedSolve, HandsHalfFilledTablesOn) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  int half_tables = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(4); ++seed) {
    half_tables += expect_to_go_on(testing::branching(3, 4, seed), world, 12, seed).half_tables;
  }
  if (world.rank() == 0 && world.size() > 1) {
    EXPECT_GT(half_tables, 0);
  }
}

/// A signal that reaches one rank only, which need not lead its group.
TEST(SavedSolve, StopsForAnyRank) {
  const auto world = mpi::Comm::duplicate(MPI_COMM_WORLD);
  const model::Problem problem = testing::branching(3, 5, 3);
  const auto network = network::make_network(problem.cluster);
  for (int stopper = 0; stopper < world.size(); ++stopper) {
    int saves = 0;
    solver::Checkpoints checkpoints;
    checkpoints.save = [&](const auto& write) {
      MemorySnapshot state;
      write(state);
      ++saves;
    };
    solver::SearchSettings settings;
    settings.prune = false;
    settings.checkpoints = &checkpoints;
    std::int64_t asked = 0;
    settings.stop_requested = [&] { return world.rank() == stopper && ++asked > 20; };
    const auto plan = solve(problem, *network, settings, world, RankLayout{1, {world.size(), 1}});
    if (plan) {
      EXPECT_TRUE(plan->search.stopped) << stopper;
    }
    EXPECT_LE(saves, 3) << "one to stop, and what stopped a rank alone";
    EXPECT_GE(saves, 1);
  }
}

}  // namespace
}  // namespace nestplan::distributed
