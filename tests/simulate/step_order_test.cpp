#include "nestplan/simulate/step_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "nestplan/cost/memory.hpp"

namespace nestplan::simulate {
namespace {

using model::Schedule;

/// "F1 F2 B1 B2"; with chunks "F1a F2a F1b": micro-batches from 1, chunks from a.
std::string told(const StepOrder& order, bool chunks = false) {
  std::string text;
  for (std::int64_t i = 0; i < order.size(); ++i) {
    const Step step = order[i];
    text += i > 0 ? " " : "";
    text += step.kind == Step::Kind::kForward ? 'F' : 'B';
    text += std::to_string(step.microbatch + 1);
    if (chunks) text += static_cast<char>('a' + step.chunk);
  }
  return text;
}

TEST(StepOrder, OneForwardOneBackward) {
  EXPECT_EQ(told({Schedule::k1F1B, 3, 1, 4, 0}), "F1 F2 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(told({Schedule::k1F1B, 3, 1, 4, 1}), "F1 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(told({Schedule::k1F1B, 3, 1, 4, 2}), "F1 B1 F2 B2 F3 B3 F4 B4");
  EXPECT_EQ(told({Schedule::k1F1B, 5, 1, 2, 0}), "F1 F2 B1 B2");
}

TEST(StepOrder, GPipe) {
  for (const std::int64_t stage : {0, 1}) {
    EXPECT_EQ(told({Schedule::kGPipe, 2, 1, 3, stage}), "F1 F2 F3 B3 B2 B1");
  }
}

TEST(StepOrder, Interleaved) {
  EXPECT_EQ(told({Schedule::k1F1B, 2, 2, 4, 0}, true),
            "F1a F2a F1b F2b F3a B1b F4a B2b F3b B1a F4b B2a B3b B4b B3a B4a");
  EXPECT_EQ(told({Schedule::k1F1B, 2, 2, 4, 1}, true),
            "F1a F2a F1b B1b F2b B2b F3a B1a F4a B2a F3b B3b F4b B4b B3a B4a");
}

/// Every step once, backward after forward, turns in order, and as many micro-batches kept as the
/// memory of a plan counts.
TEST(StepOrder, TakesEveryStepOnceWithinMemory) {
  int orders = 0;
  for (const Schedule schedule : {Schedule::k1F1B, Schedule::kGPipe}) {
    for (std::int64_t p = 1; p <= 6; ++p) {
      for (std::int64_t v = 1; v <= (schedule == Schedule::k1F1B && p > 1 ? 4 : 1); ++v) {
        for (std::int64_t m = v > 1 ? p : 1; m <= 4 * p; m += v > 1 ? p : 1) {
          for (std::int64_t stage = 0; stage < p; ++stage, ++orders) {
            const StepOrder order(schedule, p, v, m, stage);
            ASSERT_EQ(order.size(), 2 * v * m);
            std::set<std::tuple<bool, std::int64_t, std::int64_t>> seen;
            std::int64_t kept = 0;
            std::int64_t most = 0;
            std::vector<std::int64_t> turns(static_cast<std::size_t>(2 * v), 0);
            for (std::int64_t i = 0; i < order.size(); ++i) {
              const Step step = order[i];
              const bool forward = step.kind == Step::Kind::kForward;
              ASSERT_EQ(turns[static_cast<std::size_t>(2 * step.chunk + forward)]++, step.turn);
              ASSERT_TRUE(step.microbatch >= 0 && step.microbatch < m);
              ASSERT_TRUE(seen.insert({forward, step.chunk, step.microbatch}).second);
              if (!forward) {
                ASSERT_TRUE(seen.contains({true, step.chunk, step.microbatch}));
              }
              kept += forward ? 1 : -1;
              most = std::max(most, kept);
            }
            const std::int64_t counted =
                v == 1 ? cost::in_flight(schedule, p - stage, m)
                       : cost::interleaved_in_flight(p - stage, p, v, m).chunks;
            EXPECT_EQ(most, counted) << p << ' ' << v << ' ' << m << ' ' << stage;
          }
        }
      }
    }
  }
  EXPECT_GT(orders, 500);
}

}  // namespace
}  // namespace nestplan::simulate
