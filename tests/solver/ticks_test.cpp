#include "solver/ticks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace nestplan::solver {
namespace {

using model::CollectiveOp;

constexpr double kLargestExact = 9007199254740992.0;  // 2^53

/// From a microsecond to an hour of one micro-batch, each with a decimal fraction of about a tenth.
struct Horizon {
  double seconds;
  double tenth;
};
const std::vector<Horizon> kHorizons{{1e-6, 1e-7}, {3.7e-4, 1e-5}, {1e-3, 1e-4},
                                     {0.02, 1e-3}, {0.5, 0.1},     {1, 0.1},
                                     {7, 1},       {100, 10},      {3600, 100}};

TEST(TickScale, DecimalFractionsAddUp) {
  const TickScale usual(1);
  EXPECT_EQ(usual.ticks(0.1e-3) + usual.ticks(0.2e-3), usual.ticks(0.3e-3));
  EXPECT_NE(0.1 + 0.2, 0.3) << "seconds do not, which is what ticks are for";
  for (const auto& [horizon, tenth] : kHorizons) {
    const TickScale scale(horizon);
    for (int tenths = 1; tenths <= 80; ++tenths) {
      EXPECT_EQ(tenths * scale.ticks(tenth), scale.ticks(tenths * tenth)) << horizon;
    }
  }
}

TEST(TickScale, PartsOfRingsAddUp) {
  for (const auto& [horizon, tenth] : kHorizons) {
    const TickScale scale(horizon);
    for (int members = 2; members <= 10; ++members) {
      EXPECT_EQ(members * scale.ticks(tenth / members), scale.ticks(tenth)) << horizon;
      const double most = tenth * (members - 1) / members;
      EXPECT_EQ(scale.ticks(most) + scale.ticks(tenth / members), scale.ticks(tenth)) << horizon;
    }
  }
}

TEST(TickScale, AnAllReduceIsAReduceScatterAndAnAllGather) {
  for (const auto& [horizon, tenth] : kHorizons) {
    const TickScale scale(horizon);
    for (int i = 1; i < 200; ++i) {
      const double half = std::sqrt(i) * tenth / 10;  // nothing that is a whole number of ticks
      EXPECT_EQ(scale.ticks(CollectiveOp::kAllReduce, 2 * half),
                scale.ticks(CollectiveOp::kReduceScatter, half) +
                    scale.ticks(CollectiveOp::kAllGather, half));
    }
  }
}

TEST(TickScale, IsFineAndStaysExact) {
  for (const auto& [horizon, tenth] : kHorizons) {
    const TickScale scale(horizon);
    EXPECT_LE(scale.ticks(8 * horizon), kLargestExact) << horizon;
    for (const double seconds : {horizon, tenth, horizon / 3, tenth / 77}) {
      const Ticks ticks = scale.ticks(seconds);
      EXPECT_EQ(ticks, std::floor(ticks));
      EXPECT_NEAR(scale.seconds(ticks), seconds, 1e-13 * horizon);
      EXPECT_DOUBLE_EQ(scale.seconds(to_total(ticks)), scale.seconds(ticks));
    }
  }
}

TEST(TickScale, TakesAModelThatTakesNoTime) {
  const TickScale scale(0);
  EXPECT_EQ(scale.ticks(0), 0);
  EXPECT_GT(scale.ticks(1e-3), 0);
}

TEST(JustBelow, IsTheNextSmallerTime) {
  EXPECT_EQ(just_below(1), 0);
  EXPECT_EQ(just_below(1000), 999);
  EXPECT_EQ(just_below(kLargestExact), kLargestExact - 1);
  for (const Ticks large : {kLargestExact * 2, kLargestExact * 1024}) {
    EXPECT_LT(just_below(large), large);
    EXPECT_GE(just_below(large), large * (1 - 1e-15));
  }
}

}  // namespace
}  // namespace nestplan::solver
