#pragma once

#include <functional>
#include <limits>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/snapshot.hpp"

namespace nestplan::solver {

/// A sign of life from a running search.
struct Progress {
  double seconds = 0;
  std::int64_t configurations_done = 0;
  std::int64_t configurations_total = 0;
  double best_s = 0;         ///< iteration time of the best plan so far; 0: none yet
  double lower_bound_s = 0;  ///< no plan can be faster
  double table_done = 0;     ///< share of the downsets of the table in progress
};

/// Where the state of a search goes now and then and when it is stopped, and where it comes from.
struct Checkpoints {
  double every_s = std::numeric_limits<double>::infinity();
  /// Saves what it is given a writer for. Collective over all ranks of the search.
  std::function<void(const std::function<void(SnapshotWriter&)>&)> save;
  const SnapshotReader* from = nullptr;  ///< a state of the same search to go on from
};

/// How to search; none of it changes the plan (a time limit may stop before the optimum).
struct SearchSettings {
  double time_limit_s = std::numeric_limits<double>::infinity();
  std::function<void(const Progress&)> progress;  ///< called now and then, if set
  std::function<bool()> stop_requested;           ///< polled now and then, if set
  const Checkpoints* checkpoints = nullptr;
  double memory_limit_bytes = std::numeric_limits<double>::infinity();  ///< of one rank, for tables
  /// Downsets from which the ranks of a node share lattice and sums.
  std::int64_t share_from = 4096;
  bool explain = true;   ///< false: kInfeasible comes without a reason
  bool prune = true;     ///< false: fill every table in full (tests and measurements)
  bool collapse = true;  ///< false: keep every dimension even where it is forced (tests)
};

/// The exact optimum of the model over everything `problem.options` leaves open, with ties broken
/// canonically. The plan has been through cost::evaluate; a disagreement is an InternalError.
/// Status kOptimal, kFeasible (stopped early), or kInfeasible with the reason.
/// Throws InvalidConfig for options that no search can satisfy by their form (batch < 1, …).
model::Plan solve(const model::Problem& problem, const network::Network& network,
                  const SearchSettings& settings = {});

/// Chooses optimally what `partial` leaves open (dp_inner, positions, recompute, ZeRO), keeps
/// layers, strategies and dp, and evaluates the result. If nothing fits, the nearest completion is
/// evaluated and comes back kInfeasible with its breakdown.
model::Plan complete(const model::Problem& problem, const network::Network& network,
                     const model::PartialPlan& partial);

}  // namespace nestplan::solver
