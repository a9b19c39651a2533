#include "solver/saved_search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "nestplan/io/files.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/branching.hpp"
#include "support/dice.hpp"
#include "support/memory_snapshot.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using solver::SearchSettings;
using testing::MemorySnapshot;

/// The plan's document without what may differ between runs.
std::string document(model::Plan plan, const model::Problem& problem) {
  plan.search = {};
  return io::plan_to_json(plan, problem.graph, problem.cluster, problem.options.global_batch);
}

/// What became of a search that was stopped again and again.
struct Relay {
  model::Plan plan;
  int runs = 0;         ///< that ended with a saved state
  int half_tables = 0;  ///< saved
  int between = 0;      ///< saved between two tables of a configuration
};

/// Searches in runs that are stopped after about `polls` polls each, every one from what the last
/// one saved.
Relay relay(const model::Problem& problem, const network::Network& network, bool prune,
            std::int64_t polls, std::uint64_t seed) {
  testing::Dice dice(seed);
  Relay result;
  std::optional<MemorySnapshot> saved;
  constexpr int kMostRuns = 20'000;
  for (; result.runs < kMostRuns; ++result.runs) {
    const std::int64_t most = dice.between(2, 2 * polls);
    std::int64_t asked = 0;
    std::optional<MemorySnapshot> next;
    solver::Checkpoints checkpoints;
    checkpoints.from = saved ? &*saved : nullptr;
    checkpoints.save = [&](const std::function<void(solver::SnapshotWriter&)>& write) {
      next.emplace();
      write(*next);
    };
    SearchSettings settings;
    settings.prune = prune;
    settings.checkpoints = &checkpoints;
    settings.stop_requested = [&] { return ++asked > most; };
    result.plan = solver::solve(problem, network, settings);
    if (!result.plan.search.stopped) return result;
    if (!next) continue;  // stopped before there was anything to save
    next->check_whole();
    const solver::SavedSearch state = solver::SavedSearch::read(*next);
    for (const solver::SavedVisit& visit : state.visits) {
      ++(visit.next < 0 ? result.between : result.half_tables);
    }
    saved = std::move(next);
  }
  ADD_FAILURE() << "no end";
  return result;
}

void expect_same_effort(const model::Plan& plan, const model::Plan& undisturbed,
                        const std::string& where) {
  EXPECT_EQ(plan.search.tables, undisturbed.search.tables) << where;
  EXPECT_EQ(plan.search.cells, undisturbed.search.cells) << where;
  EXPECT_EQ(plan.search.configurations, undisturbed.search.configurations) << where;
  EXPECT_EQ(plan.search.rejected, undisturbed.search.rejected) << where;
}

/// What happened on the way of several relays.
struct Tally {
  int runs = 0, half_tables = 0, between = 0;
};

/// Searches `problem`, with the options of that seed, undisturbed and by relays.
void expect_to_go_on(model::Problem problem, std::uint64_t seed, int polls, Tally& tally) {
  problem.options.objective = seed % 2 == 0 ? model::Objective::k1F1B : model::Objective::kPaper;
  problem.options.per_stage_strategies = seed % 4 < 2;
  const auto network = network::make_network(problem.cluster);
  for (const bool prune : {true, false}) {
    const std::string where = "seed " + std::to_string(seed) + (prune ? "" : ", not pruned");
    SearchSettings settings;
    settings.prune = prune;
    const model::Plan undisturbed = solver::solve(problem, *network, settings);
    const Relay stopped = relay(problem, *network, prune, polls, seed);
    EXPECT_EQ(document(stopped.plan, problem), document(undisturbed, problem)) << where;
    expect_same_effort(stopped.plan, undisturbed, where);
    tally.runs += stopped.runs;
    tally.half_tables += stopped.half_tables;
    tally.between += stopped.between;
  }
}

TEST(SavedSearch, GoesOnWhereItWasStopped) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < testing::seeds(150) && !HasFailure(); ++seed) {
    expect_to_go_on(testing::random_problem(9'000'000 + seed), seed, 4, tally);
  }
  EXPECT_GT(tally.runs, 0);
  EXPECT_GT(tally.between + tally.half_tables, 0);
}

TEST(SavedSearch, KeepsHalfFilledTables) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < testing::seeds(2) && !HasFailure(); ++seed) {
    expect_to_go_on(testing::branching(3, 5, seed), seed, 12, tally);
  }
  EXPECT_GT(tally.half_tables, 0);
}

TEST(SavedSearch, IsSavedNowAndThenWithoutBeingStopped) {
  model::Problem problem = testing::branching(3, 5, 1);
  problem.options.per_stage_strategies = true;
  const auto network = network::make_network(problem.cluster);
  const model::Plan undisturbed = solver::solve(problem, *network);
  int saves = 0;
  solver::Checkpoints checkpoints;
  checkpoints.every_s = 0;
  std::vector<MemorySnapshot> states;
  checkpoints.save = [&](const std::function<void(solver::SnapshotWriter&)>& write) {
    MemorySnapshot state;
    write(state);
    if (++saves % 25 == 1) states.push_back(std::move(state));
  };
  SearchSettings settings;
  settings.checkpoints = &checkpoints;
  const model::Plan plan = solver::solve(problem, *network, settings);
  EXPECT_EQ(document(plan, problem), document(undisturbed, problem));
  expect_same_effort(plan, undisturbed, "saved while it runs");
  EXPECT_GT(saves, 10);
  for (const MemorySnapshot& state : states) {
    solver::Checkpoints from;
    from.save = [](const auto&) {};
    from.from = &state;
    settings.checkpoints = &from;
    const model::Plan again = solver::solve(problem, *network, settings);
    EXPECT_EQ(document(again, problem), document(undisturbed, problem));
    expect_same_effort(again, undisturbed, "gone on with");
  }
}

TEST(SavedSearch, TellsHowFarItIs) {
  model::Problem problem = testing::branching(3, 5, 1);
  problem.options.per_stage_strategies = true;
  const auto network = network::make_network(problem.cluster);
  const double optimum = solver::solve(problem, *network).iteration_time_s;
  solver::Checkpoints checkpoints;
  checkpoints.every_s = 0;
  bool last_rung = false;
  checkpoints.save = [&](const std::function<void(solver::SnapshotWriter&)>& write) {
    MemorySnapshot snapshot;
    write(snapshot);
    const auto state = solver::SavedSearch::read(snapshot);
    EXPECT_LT(state.rung, state.rungs);
    EXPECT_EQ(state.rungs, 3);
    EXPECT_GT(state.listed, 0);
    EXPECT_LE(state.waiting.size() + state.visits.size(), static_cast<std::size_t>(state.listed));
    for (const auto& visit : state.visits) EXPECT_LT(visit.next, state.downsets);
    if (state.best_s > 0) {
      EXPECT_GE(state.best_s, optimum * (1 - 1e-9));
    }
    EXPECT_LE(state.lower_bound_s, optimum * (1 + 1e-9));
    last_rung = last_rung || state.lower_bound_s > 0;
  };
  SearchSettings settings;
  settings.checkpoints = &checkpoints;
  solver::solve(problem, *network, settings);
  EXPECT_TRUE(last_rung);
}

}  // namespace
}  // namespace nestplan
