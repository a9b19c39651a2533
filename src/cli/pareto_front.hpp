#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nestplan/model/problem.hpp"

namespace nestplan::cli {

/// What a plan costs in the three ways that are weighed against each other.
struct FrontPoint {
  std::int64_t devices = 0;  ///< it may use
  double iteration_time_s = 0;
  double memory_bytes = 0;  ///< per device, of its fullest stage

  /// No worse in any way and better in one. Times that differ by rounding alone are equal.
  bool dominates(const FrontPoint& other) const;
};

/// The fastest plans under ever less memory: the ε-constraint method (Haimes, Lasdon and Wismer, On
/// a bicriterion formulation of the problems of integrated system identification and system
/// optimization, IEEE Transactions on Systems, Man, and Cybernetics 1, 1971). `fastest` finds the
/// fastest plan whose stages take at most so many bytes (nothing: no limit but the devices') and
/// returns the whole bytes of its fullest stage, or nothing where no plan fits. Memory comes in
/// whole bytes, so that with a limit one byte below each answer no plan of the front is missed;
/// some answers may be as fast as, and thus dominated by, the next.
void walk_front(
    const std::function<std::optional<std::int64_t>(std::optional<std::int64_t> limit)>& fastest);

/// Leaves the plans of `problem` whose stages take at most `bytes`.
void limit_memory(model::Problem& problem, std::int64_t bytes);

/// Indices of the points that no other one dominates, in their order; of equal ones the first.
std::vector<std::size_t> undominated(const std::vector<FrontPoint>& points);

/// `count` (≥ 2) indices below `size`, evenly spread from the first to the last; all of them where
/// there are no more.
std::vector<std::size_t> spread(std::size_t size, std::size_t count);

/// `devices`, half of it, half of that, and so on to 1, rounded down.
std::vector<std::int64_t> halves(std::int64_t devices);

}  // namespace nestplan::cli
