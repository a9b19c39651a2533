#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/board.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/solver/team.hpp"
#include "solver/configuration.hpp"
#include "solver/incumbent.hpp"
#include "solver/placement.hpp"
#include "solver/saved_search.hpp"
#include "solver/table.hpp"
#include "solver/visit.hpp"

namespace nestplan::solver {

struct SearchResult {
  std::optional<cost::PlacedPlan> plan;  ///< empty: none, or another group has the best
  Total total = kNoTotal;                ///< of `plan`
  Total best = kNoTotal;                 ///< of all groups
  Total lower_bound = 0;
  bool complete = true;  ///< false: stopped before the optimum was proven
  /// Not 0: the ticks do not suit the best plan, and there is no plan; search again with ticks
  /// chosen by this horizon. The same for every team and group.
  double better_horizon_s = 0;
  std::int64_t listed = 0;   ///< configurations
  std::int64_t visited = 0;  ///< of them, by this group
  model::SearchStats stats;
};

/// A group of ranks that takes configurations from a board.
struct Group {
  Team& team;
  Board& board;
  int index = 0;
};

/// Branch and bound over configurations, a Visit each, by rising bound. Only what is strictly worse
/// than the incumbent, or equal and later in canonical order, is dropped; of the candidates that
/// remain the canonical plan is taken.
class Search {
 public:
  /// Every rank of the team makes the same search; its first rank speaks for it at the board.
  /// `settings.stop_requested` ends a run. `known`: some plan costs this. `from`: a state to go on
  /// from; the cells of its tables are in `cells`.
  Search(const Instance& instance, const SearchSettings& settings, const Group& group, Total known,
         const SavedSearch* from = nullptr, const SnapshotReader* cells = nullptr);

  /// Searches until nothing is left or somebody says stop. After a pause another call goes on.
  Halt run();

  /// Why it failed: what the memory does not hold, and what would. Empty if it did not.
  const std::string& failure() const { return failure_; }

  /// All groups come together after `run`, with the reason for which this one ended.
  Standing meet(Halt halt);

  /// This group's part of the state, between a meeting and the next `run`.
  GroupState state() const;
  /// Relaxations of this rank so far, those of the table in progress included.
  std::int64_t relaxations() const {
    return stats_.cells + (active_ && active_->in_progress() ? active_->table->relaxations() : 0);
  }
  std::int64_t listed() const { return static_cast<std::int64_t>(configurations_.size()); }
  /// The table in progress, if there is one.
  Table* table() { return active_ && active_->in_progress() ? active_->table.get() : nullptr; }

  /// What was found, after the last meeting.
  SearchResult finish(const Standing& standing);

 private:
  using Clock = std::chrono::steady_clock;

  /// A configuration whose tables are being filled.
  struct Active {
    Active(const Instance& instance, const Configuration& its_configuration, ClassCache& classes,
           const std::vector<FirstStageCost>& first)
        : configuration(its_configuration),
          placement(instance, its_configuration, classes),
          bounds(instance, its_configuration, placement.floor(), first) {}

    const Configuration& configuration;
    Placement placement;
    DepthBounds bounds;
    Total bound = 0;
    std::optional<Visit> visit;
    std::vector<std::int64_t> depths;    ///< of `layers`
    std::unique_ptr<PortLayers> layers;  ///< of the last table
    TableRequest request;                ///< of the last table
    std::unique_ptr<Table> table;        ///< the last one, until there is another
    bool filled = false;                 ///< the table was, and the visit has had it
    std::int64_t tables = 0;

    bool in_progress() const { return table != nullptr && !filled; }
  };

  /// What the team's first rank was told, for all its ranks.
  struct Order {
    BoardEntry entry;
    Total best = kNoTotal;
    Total lower_bound = 0;
    std::int64_t waiting = 0;
    std::int64_t alive = 0;  ///< 0: nothing is left
    std::int64_t stop = 0;
  };

  void post();
  Order next_order();
  std::vector<FirstStageCost> first_stage_costs(const Configuration& configuration);
  /// The same, remembered from when the configuration was bounded to when it is visited.
  const std::vector<FirstStageCost>& first_stage(const Configuration& configuration);
  Total bound_at_origin(const Configuration& configuration);
  void begin(const BoardEntry& entry);
  void interleave(const Active& active, std::int64_t index,
                  const std::vector<std::int64_t>& depths);
  void go_on_with(std::int64_t saved);
  void open(Active& active, const TableRequest& request);
  bool work();
  bool fill(Table& table);
  std::string describe_need(const Table& table, double bytes) const;
  bool told_to_stop();
  void report();
  double better_horizon(Total best, const PlanKey& key) const;

  const Instance& instance_;
  const SearchSettings& settings_;
  Team& team_;
  Board& board_;
  bool first_group_;
  const SavedSearch* from_;
  const SnapshotReader* cells_;
  double instance_bytes_ = 0;  ///< of the rank that has most
  ConfigurationSpace space_;
  ClassCache classes_;
  std::vector<Configuration> configurations_;
  std::unordered_map<const Configuration*, std::vector<FirstStageCost>> first_stage_;
  Incumbent incumbent_;
  std::vector<BoardEntry> back_;  ///< for the board
  Ticket ticket_;
  std::size_t taken_ = 0;  ///< entries of the ticket that were taken
  std::unique_ptr<Active> active_;
  std::unique_ptr<Active> last_;  ///< the last one that had tables, until another has one
  std::string failure_;
  bool posted_ = false;
  bool stop_ = false;  ///< the team has agreed to stop
  Total lower_bound_ = 0;
  std::int64_t waiting_ = 0;
  std::int64_t visited_ = 0;
  Clock::time_point start_;
  Clock::time_point reported_;
  std::map<std::string, std::int64_t> rejected_;
  model::SearchStats stats_;
};

/// A table, and what it was filled for.
struct FilledTable {
  const Placement& placement;
  const PortLayers& layers;
  Table& table;
  const TableRequest& request;
};

/// The canonical plan among those of `candidates`, which are equal in total and key: stage by stage
/// the least (layers, strategy, position, recompute, ZeRO). Where the `last` table does for a
/// candidate, no other is filled.
cost::PlacedPlan canonical_plan(const Instance& instance,
                                const std::vector<Configuration>& configurations,
                                const std::vector<Candidate>& candidates, const FilledTable* last,
                                ClassCache& classes, Team& team);

/// Canonical order of plans with the same micro-batch, dp, dp_inner and depth.
bool canonically_before(const cost::PlacedPlan& a, const cost::PlacedPlan& b);

/// The plan of a result, judged; where there is none the reason, if it is to be explained.
/// `result.plan` must be there if `result.total` is.
model::Plan to_plan(const Instance& instance, const SearchResult& result, bool explain = true);

/// The lattice of `graph`; nothing if `stop` says so before it is complete.
std::optional<Lattice> enumerate(const model::Graph& graph, const std::function<bool()>& stop);

/// What comes of a search that was stopped before it knew anything.
model::Plan stopped_at_once(const model::Problem& problem, double seconds);

/// Throws InvalidConfig for options that no search can satisfy by their form.
void check_options(const model::PlanOptions& options);

/// Why nothing fits, and the least change that would: a sentence with numbers.
struct Infeasibility {
  std::string reason;
  std::optional<model::MemoryShortfall> shortfall{};  ///< if it is for want of memory
};
Infeasibility explain_infeasible(const Instance& instance);

}  // namespace nestplan::solver
