#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "nestplan/model/graph.hpp"
#include "nestplan/solver/board.hpp"

namespace nestplan::solver {

/// A time in the search: a whole number of ticks, held in a double.
///
/// There are 2520·10^j ticks in a second, as many as keep sums of the stage times that matter below
/// 2^53. Sums and differences are then exact in any order, equal costs compare equal (decimal
/// fractions and the thirds and sevenths of rings included: 0.1 ms + 0.2 ms is 0.3 ms), and a plan
/// cannot depend on how the work was split. Rounding a time to a tick changes it by far less than
/// 1e-9 of a stage.
using Ticks = double;

inline constexpr Ticks kNever = std::numeric_limits<double>::infinity();

inline Total to_total(Ticks ticks) { return static_cast<Total>(ticks); }

/// With ticks that were chosen by a plan, a layer or collective beyond this takes many times what
/// that plan takes in all. No plan that matters has it, and in sums over downsets it would drown
/// the others, so it counts as unusable.
inline constexpr Ticks kDrowning = 4503599627370496.0;  // 2^52

/// The largest time that is strictly less.
inline Ticks just_below(Ticks ticks) { return std::min(ticks - 1, std::nextafter(ticks, 0.0)); }

class TickScale {
 public:
  TickScale() = default;

  /// `horizon_s`: about the time of one micro-batch through the whole model. Eight times as much
  /// still adds up exactly.
  explicit TickScale(double horizon_s) {
    const double most = std::ldexp(1.0, 50) / (horizon_s > 0 ? horizon_s : 1);
    per_second_ = kDivisible * std::pow(10.0, std::floor(std::log10(most / kDivisible)));
  }

  Ticks ticks(double seconds) const { return std::nearbyint(seconds * per_second_); }

  /// An all-reduce is a reduce-scatter and an all-gather, also after rounding.
  Ticks ticks(model::CollectiveOp op, double seconds) const {
    return op == model::CollectiveOp::kAllReduce ? 2 * ticks(seconds / 2) : ticks(seconds);
  }

  double seconds(Ticks ticks) const { return ticks / per_second_; }
  double seconds(Total total) const { return static_cast<double>(total) / per_second_; }

 private:
  static constexpr double kDivisible = 2520;  // by 1 … 10
  double per_second_ = 1;
};

}  // namespace nestplan::solver
