#pragma once

#include <compare>
#include <cstdint>
#include <queue>
#include <vector>

namespace nestplan::solver {

/// An objective value in ticks: up to 2^53 times the number of micro-batches.
__extension__ using Total = __int128;

inline constexpr Total kNoTotal = static_cast<Total>(1) << 120;

/// Canonical order of configurations and depths with equal cost.
struct PlanKey {
  std::int64_t micro_batch = 0, dp = 0, dp_inner = 0, depth = 0, vpp = 1;
  auto operator<=>(const PlanKey&) const = default;
};

/// A configuration that waits for its turn.
struct BoardEntry {
  Total bound = 0;           ///< none of its plans costs less
  std::int64_t index = 0;    ///< in the list of configurations
  std::int64_t bounded = 0;  ///< whether `bound` is the one that it is visited with
  std::int64_t saved = -1;   ///< which saved visit to go on with; -1: a new one
  bool operator>(const BoardEntry& other) const {
    return bound != other.bound ? bound > other.bound : index > other.index;
  }
};

/// What to do next.
struct Ticket {
  std::vector<BoardEntry> entries;  ///< empty: nothing is left
  Total best = kNoTotal;            ///< best value anybody has found
  Total lower_bound = 0;            ///< no plan that was not yet looked for costs less
  std::int64_t waiting = 0;         ///< entries left
  bool stop = false;                ///< another group was stopped: so is this one
};

/// Why a group came to a meeting.
enum class Halt : std::int64_t {
  kDone,   ///< nothing is left
  kPause,  ///< the state is to be saved
  kStop,   ///< the search is to end
  kFailed  ///< a table does not fit into the memory of this group
};

/// Where a group stands when it comes to a meeting, and where all stand after it.
struct Standing {
  Total best = kNoTotal;         ///< the best value
  PlanKey key;                   ///< of the best value
  Total lower_bound = kNoTotal;  ///< of what was begun and not finished; of all that is left
  Halt halt = Halt::kDone;       ///< the gravest reason counts for all
};

/// The graver of two reasons, and the better of two plans.
Standing merge(const Standing& a, const Standing& b);

/// Where groups of ranks get their configurations, best bound first, and share the best value.
/// Called by the first rank of each group.
class Board {
 public:
  virtual ~Board() = default;

  /// What is to be done; every group posts the same. Called once, first.
  virtual void post(std::vector<BoardEntry> entries) = 0;

  /// Returns what came of the last ticket (entries bounded anew; the best value of this group) and
  /// takes the next one.
  virtual Ticket exchange(const std::vector<BoardEntry>& back, Total best) = 0;

  /// All groups come together: each when nothing is left for it or when it was stopped, which
  /// stops the others. `untaken`: what it was given and did not begin. Every group gets the best
  /// and the gravest of what all say. After a pause the search goes on as before.
  virtual Standing meet(const Standing& mine, const std::vector<BoardEntry>& untaken) = 0;

  /// What waits for its turn, after a meeting; of the first group only.
  virtual std::vector<BoardEntry> waiting() const = 0;
};

/// The queue behind a board: by rising bound; entries that cannot beat `best` are dropped.
class BoardQueue {
 public:
  void post(std::vector<BoardEntry> entries);
  void put_back(const BoardEntry& entry) { queue_.push(entry); }
  void offer(Total best) { best_ = best < best_ ? best : best_; }

  /// The next entry to visit, or up to `batch` entries that are to be bounded first.
  Ticket take(std::int64_t batch);

  /// The least bound of what waits; kNoTotal if nothing does.
  Total least_bound() const { return queue_.empty() ? kNoTotal : queue_.top().bound; }
  std::vector<BoardEntry> list() const;

 private:
  std::priority_queue<BoardEntry, std::vector<BoardEntry>, std::greater<>> queue_;
  Total best_ = kNoTotal;
};

/// The board of a single group.
class LocalBoard final : public Board {
 public:
  void post(std::vector<BoardEntry> entries) override { queue_.post(std::move(entries)); }
  Ticket exchange(const std::vector<BoardEntry>& back, Total best) override;
  Standing meet(const Standing& mine, const std::vector<BoardEntry>& untaken) override;
  std::vector<BoardEntry> waiting() const override { return queue_.list(); }

 private:
  BoardQueue queue_;
};

}  // namespace nestplan::solver
