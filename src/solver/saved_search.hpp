#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/board.hpp"
#include "nestplan/solver/snapshot.hpp"
#include "solver/visit.hpp"

namespace nestplan::solver {

/// A visit that was begun and not finished, with the table it was at.
struct SavedVisit {
  std::int64_t configuration = 0;  ///< in the list of configurations
  Total bound = 0;
  VisitState state;
  std::int64_t next = -1;     ///< Table::next; -1: the table was not begun
  std::int64_t capacity = 0;  ///< Table::capacity
};

/// What one group of ranks knows of a search.
struct GroupState {
  std::vector<Candidate> best;
  std::vector<BoardEntry> waiting;  ///< of the first group: the board
  std::optional<SavedVisit> visit;
  std::int64_t visited = 0, tables = 0;
  std::vector<std::pair<std::string, std::int64_t>> rejected;
};

/// A search between two steps: all that it takes to go on, with any number of ranks, but for the
/// cells of its tables (`cells_name`).
struct SavedSearch {
  std::int64_t rung = 0;                 ///< which of the searches that lead to the answer
  std::int64_t rungs = 1;                ///< how many there are
  std::int64_t attempt = 0;              ///< how often the first one was begun anew
  double horizon_s = 0;                  ///< what the ticks were chosen by; 0: the graph
  Total known = kNoTotal;                ///< what the searches before this one found
  std::vector<std::int64_t> known_plan;  ///< their plan, as `to_numbers`; empty if there is none
  double spent_s = 0;                    ///< of all runs so far
  double best_s = 0;                     ///< iteration time of the best plan so far; 0: none yet
  double lower_bound_s = 0;              ///< no plan can be faster; 0: nothing is known
  std::int64_t listed = 0;               ///< configurations of this rung
  std::int64_t downsets = 0;             ///< of its lattice
  std::vector<Candidate> best;
  std::vector<BoardEntry> waiting;  ///< but for those that go on with a saved visit
  std::vector<SavedVisit> visits;
  std::int64_t visited = 0;                  ///< of this rung
  std::int64_t tables = 0, relaxations = 0;  ///< of all rungs so far
  std::vector<std::pair<std::string, std::int64_t>> rejected;

  void write(SnapshotWriter& out) const;
  static SavedSearch read(const SnapshotReader& in);

  /// Where the cells of the table of visit `i` are.
  static std::string cells_name(std::size_t i);
};

/// The states of all groups together; visits and their tables in the order of the groups. What
/// waits with a visit of `earlier`, which nobody took up, is taken over from there; `earlier_visit`
/// says for each visit which one of `earlier` it is, or -1.
void gather(const std::vector<GroupState>& groups, const SavedSearch* earlier, SavedSearch& search,
            std::vector<std::int64_t>& earlier_visit);

/// As a message between ranks.
std::vector<std::byte> to_bytes(const GroupState& state);
GroupState to_group_state(std::span<const std::byte> bytes);

/// A plan as numbers, and back.
std::vector<std::int64_t> to_numbers(const cost::PlacedPlan& plan);
cost::PlacedPlan to_placed_plan(std::span<const std::int64_t> numbers);

}  // namespace nestplan::solver
