#pragma once

#include <algorithm>
#include <vector>

#include "nestplan/solver/board.hpp"
#include "solver/configuration.hpp"

namespace nestplan::solver {

/// A place where the optimum may be: all plans of a configuration and depth whose slowest stage
/// takes at most `cap`, the best of which cost `total`.
struct Candidate {
  Total total = kNoTotal;
  PlanKey key;
  std::int64_t configuration = 0;  ///< in the list of configurations
  Ticks cap = kNever;
};

inline PlanKey key_of(const Configuration& configuration, std::int64_t depth) {
  return {configuration.micro_batch, configuration.dp, configuration.dp_inner, depth,
          configuration.vpp};
}

/// The best that is known. Only what is strictly worse, or equal and later in canonical order, is
/// beaten.
class Incumbent {
 public:
  /// The best total, of this group or as heard of others; kNoTotal if there is none.
  Total value() const { return std::min(heard_, own()); }
  Total own() const { return best_.empty() ? kNoTotal : best_.front().total; }

  /// Somebody has a plan with this total.
  void hear(Total total) { heard_ = std::min(heard_, total); }

  bool beaten(Total total, const PlanKey& key) const {
    if (total >= kNoTotal || total > heard_) return true;
    if (best_.empty()) return false;
    return total > best_.front().total || (total == best_.front().total && key > best_.front().key);
  }

  void offer(const Candidate& candidate) {
    if (beaten(candidate.total, candidate.key)) return;
    if (!best_.empty() &&
        (candidate.total < best_.front().total || candidate.key < best_.front().key)) {
      best_.clear();
    }
    best_.push_back(candidate);
  }

  /// All of them equal in total and key.
  const std::vector<Candidate>& candidates() const { return best_; }

 private:
  std::vector<Candidate> best_;
  Total heard_ = kNoTotal;
};

}  // namespace nestplan::solver
