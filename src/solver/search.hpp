#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/board.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/solver/team.hpp"
#include "solver/configuration.hpp"
#include "solver/placement.hpp"
#include "solver/table.hpp"

namespace nestplan::solver {

/// A place where the optimum may be: all plans of a configuration and depth whose slowest stage
/// takes at most `cap`, the best of which cost `total`.
struct Candidate {
  Total total = kNoTotal;
  PlanKey key;
  Configuration configuration;
  Ticks cap = kNever;
};

struct SearchResult {
  std::optional<cost::PlacedPlan> plan;  ///< empty: none, or another group has the best
  Total total = kNoTotal;
  Total lower_bound = 0;
  bool complete = true;  ///< false: stopped before the optimum was proven
  /// Not 0: the ticks do not suit the best plan, and there is no plan; search again with ticks
  /// chosen by this horizon. The same for every team and group.
  double better_horizon_s = 0;
  model::SearchStats stats;
};

/// Branch and bound over configurations, one dynamic program each.
///
/// Configurations are visited by rising bound. For the `1f1b` objective,
/// `Σt + (m-1)·max t + sync_1`, a configuration's tables are filled with sums under a cap τ on the
/// stage time: first the largest τ that could still beat the incumbent, then, for each depth, with
/// τ just below the slowest stage of the last plan found, until the sum alone (with the best
/// bottleneck that the bounds allow) is too much. Every optimum is met this way: at the step whose
/// cap admits it, its sum is the least and its bottleneck that of the plan found. For `paper`,
/// `(m+p-1)·max t + sync_1`, one table of bottlenecks does, with every option of the first stage.
///
/// Only what is strictly worse than the incumbent, or equal and later in canonical order, is
/// dropped; of the candidates that remain the canonical plan is taken.
class Search {
 public:
  /// Every rank of `team` makes the same search; its first rank speaks for it at `board`.
  Search(const Instance& instance, const SearchSettings& settings, Team& team, Board& board);
  SearchResult run();

 private:
  using Clock = std::chrono::steady_clock;

  /// A configuration on its way through the search: where its stages can be, and its bounds.
  struct Visit {
    const Placement& placement;
    const DepthBounds& bounds;
    const Configuration& configuration() const { return placement.configuration(); }
  };

  std::vector<FirstStageCost> first_stage_costs(const Configuration& configuration) const;
  /// The same, remembered from when the configuration was bounded to when it is visited.
  const std::vector<FirstStageCost>& first_stage(const Configuration& configuration);
  Total bound_at_origin(const Configuration& configuration);
  void visit(const Configuration& configuration);
  void visit_1f1b(const Visit& visit, std::vector<std::int64_t> depths);
  void visit_paper(const Visit& visit, std::vector<std::int64_t> depths);
  void seed(const Visit& visit, const std::vector<std::int64_t>& depths);
  void refine(const Visit& visit, std::int64_t depth, Ticks cap);

  PlanKey key(const Configuration& configuration, std::int64_t depth) const;
  bool beaten(Total total, const PlanKey& key) const;
  void offer(const Configuration& configuration, std::int64_t depth, Total total, Ticks cap);
  Ticks stage_cap(const Visit& visit, std::int64_t depth) const;
  Ticks sum_limit(const Visit& visit, std::int64_t depth) const;
  void drop_hopeless(const Visit& visit, std::vector<std::int64_t>& depths) const;
  void drop_unreachable(const Visit& visit, std::vector<std::int64_t>& depths, Ticks cap) const;
  bool fill(Table& table);
  std::string describe_need(const Table& table, double bytes) const;
  /// What the team's first rank was told, for all its ranks.
  struct Order {
    BoardEntry entry;
    Total best = kNoTotal;
    Total lower_bound = 0;
    std::int64_t waiting = 0;
    std::int64_t told = 0;   ///< another group was stopped
    std::int64_t alive = 0;  ///< 0: nothing is left
    std::int64_t stop = 0;
  };
  Order next_order();
  Total incumbent() const;
  bool clock_says_stop() const;
  void report(Total lower_bound, std::int64_t waiting);
  void finish(Total lower_bound);
  double better_horizon(Total best, const PlanKey& key) const;

  const Instance& instance_;
  const SearchSettings& settings_;
  Team& team_;
  Board& board_;
  const bool paper_;
  ConfigurationSpace space_;
  ClassCache classes_;
  std::unordered_map<const Configuration*, std::vector<FirstStageCost>> first_stage_;
  std::vector<Candidate> best_;   ///< all of them equal in total and key
  Total shared_best_ = kNoTotal;  ///< the best value of any group, as last heard
  std::vector<BoardEntry> back_;  ///< for the board
  Ticket ticket_;
  std::size_t taken_ = 0;  ///< entries of the ticket that were taken
  std::int64_t configurations_ = 0;
  std::int64_t visited_ = 0;
  bool stopped_ = false;
  Clock::time_point start_;
  Clock::time_point reported_;
  std::map<std::string, std::int64_t> rejected_;
  SearchResult result_;
};

/// The canonical plan among those of `candidates`, which are equal in total and key: stage by stage
/// the least (layers, strategy, position, recompute, ZeRO).
cost::PlacedPlan canonical_plan(const Instance& instance, const std::vector<Candidate>& candidates,
                                ClassCache& classes, Team& team);

/// Canonical order of plans with the same micro-batch, dp, dp_inner and depth.
bool canonically_before(const cost::PlacedPlan& a, const cost::PlacedPlan& b);

/// Searches are made with ticks that suit the best plan: once, or, where the estimate from the
/// graph was off by orders of magnitude, again.
class TickHorizon {
 public:
  /// For Instance: 0 at first.
  double seconds() const { return seconds_; }

  /// Whether the search has to be made again, now with a better horizon.
  bool improve(const SearchResult& result);

 private:
  double seconds_ = 0;
  int attempts_ = 0;
};

/// The plan of a result, judged; the reason where there is none. `result.plan` must be there if
/// `result.total` is.
model::Plan to_plan(const Instance& instance, const SearchResult& result);

/// The lattice of `graph`; nothing if the settings say stop before it is complete.
std::optional<Lattice> enumerate(const model::Graph& graph, const SearchSettings& settings);

/// What comes of a search that was stopped before it knew anything.
model::Plan stopped_at_once(const model::Problem& problem, double seconds);

/// Throws InvalidConfig for options that no search can satisfy by their form.
void check_options(const model::PlanOptions& options);

/// Why nothing fits, and the least change that would: a sentence with numbers.
std::string explain_infeasible(const Instance& instance);

}  // namespace nestplan::solver
