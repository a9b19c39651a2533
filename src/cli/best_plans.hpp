#pragma once

#include <cstdint>
#include <vector>

#include "cli/flags.hpp"
#include "cli/inquiry.hpp"
#include "cli/strategy_space.hpp"

namespace nestplan::cli {

/// The K best plans of different strategies, after Lawler (A procedure for computing the K best
/// solutions to discrete optimization problems, Management Science 18, 1972): the space without the
/// best plan's strategy falls into parts that share its first degrees and differ in the next, and
/// the next best plan is the best of one of the parts.
class BestPlans {
 public:
  /// Searches until `count` plans are found, no other strategy has one, or time is up. Not for
  /// strategies per stage. *Collective.*
  BestPlans(const Flags& flags, const Inquiry& inquiry, std::int64_t count);

  /// The best plan of all, or what says that nothing fits. The problem is known on all ranks.
  const Finding& first() const { return found_.empty() ? open_.front().finding : found_.front(); }

  /// Ascending in time; the same number on all ranks.
  const std::vector<Finding>& found() const { return found_; }

  /// Before all was known. On the first rank.
  bool stopped() const { return stopped_; }

  /// Whether these are all strategies that have a plan. On the first rank.
  bool exhausted() const { return !stopped_ && std::ssize(found_) < wanted_; }

 private:
  /// The best plan of a part of the space.
  struct Part {
    StrategySpace space;
    Finding finding;
  };

  void ask_whole();
  std::int64_t fastest() const;
  void split(const Part& best);

  const Flags& flags_;
  const Inquiry& inquiry_;
  std::int64_t wanted_;
  std::vector<Finding> found_;
  std::vector<Part> open_;
  bool stopped_ = false;
};

}  // namespace nestplan::cli
