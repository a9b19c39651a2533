#pragma once

#include <algorithm>
#include <cmath>

#include "solver/ticks.hpp"

namespace nestplan::solver {

/// A share of a time in whole ticks: no more than the time. Of a longer time both the share and
/// what is left are no less.
inline Ticks part_of(Ticks ticks, double share) {
  return share > 0 ? std::nearbyint(share * ticks) : 0;
}

/// What is left of a time of which a share runs beside so much computation.
inline Ticks exposed(Ticks ticks, double share, Ticks compute) {
  return ticks - std::min(part_of(ticks, share), compute);
}

/// Communication, and how much of it runs beside computation of any length.
struct Traffic {
  Ticks total = 0;
  Ticks beside = 0;

  Traffic& operator+=(const Traffic& other) {
    total += other.total;
    beside += other.beside;
    return *this;
  }
  friend Traffic operator+(Traffic a, const Traffic& b) { return a += b; }
  friend Traffic operator*(double times, const Traffic& traffic) {
    return {times * traffic.total, times * traffic.beside};
  }

  /// What a stage takes that computes for so long.
  Ticks with(Ticks compute) const { return compute + total - std::min(beside, compute); }
};

}  // namespace nestplan::solver
