#include "solver/kernels.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "solver/instance.hpp"
#include "support/dice.hpp"

namespace nestplan::solver {
namespace {

using Row = std::vector<Ticks>;

constexpr std::int64_t kLongest = 70;

/// Whole ticks of every magnitude, with equal ones, zeros and infinities among them.
Row random_row(testing::Dice& dice, std::int64_t length) {
  Row row;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto ticks = static_cast<double>(dice.between(0, std::int64_t{1} << dice.between(0, 52)));
    row.push_back(dice.chance(25) ? kNever : ticks);
  }
  return row;
}

bool same_bits(const Row& a, const Row& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Ticks)) == 0);
}

/// Runs `kernel(row, next, n)` on every length and at every offset within a vector register, and
/// compares it with `expected(row value, next value)`, element by element.
template <class Kernel, class Expected>
void expect_same(Kernel&& kernel, Expected&& expected) {
  testing::Dice dice(1);
  for (std::int64_t length = 0; length <= kLongest; ++length) {
    for (std::int64_t shift = 0; shift < 4; ++shift) {
      const Row before = random_row(dice, length + shift + 1);
      const Row next = random_row(dice, length + shift + 1);
      Row plain = before;
      for (std::int64_t i = shift; i < shift + length; ++i) {
        plain[at(i)] = expected(before[at(i)], next[at(i)]);
      }
      Row row = before;
      kernel(row.data() + shift, next.data() + shift, length);
      ASSERT_TRUE(same_bits(row, plain)) << "length " << length << ", shift " << shift;
    }
  }
}

TEST(Kernels, SumGivesTheBitsOfAPlainLoop) {
  for (const Ticks add : {0.0, 1.0, 123456789.0, kNever}) {
    expect_same(
        [add](Ticks* row, const Ticks* next, std::int64_t n) { relax_sum(row, next, add, n); },
        [add](Ticks value, Ticks behind) { return std::min(value, behind + add); });
  }
}

TEST(Kernels, BottleneckGivesTheBitsOfAPlainLoop) {
  for (const Ticks stage : {0.0, 1.0, 123456789.0, kNever}) {
    expect_same(
        [stage](Ticks* row, const Ticks* next, std::int64_t n) {
          relax_bottleneck(row, next, stage, n);
        },
        [stage](Ticks value, Ticks behind) { return std::min(value, std::max(behind, stage)); });
  }
}

TEST(Kernels, MinimumGivesTheBitsOfAPlainLoop) {
  expect_same([](Ticks* row, const Ticks* next, std::int64_t n) { relax(row, next, n); },
              [](Ticks value, Ticks behind) { return std::min(value, behind); });
}

}  // namespace
}  // namespace nestplan::solver
