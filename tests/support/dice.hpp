#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace nestplan::testing {

/// Random choices that are the same for the same seed on every platform (the distributions of the
/// standard library are not).
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  /// Uniform in `[low, high]`.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(high - low + 1));
  }

  bool chance(int percent) { return between(1, 100) <= percent; }

  template <typename T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(from.size()) - 1))];
  }
  template <typename T>
  T pick(std::initializer_list<T> from) {
    return pick(std::vector<T>(from));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace nestplan::testing
