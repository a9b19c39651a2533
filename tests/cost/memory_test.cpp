#include "nestplan/cost/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

constexpr model::StateBytes kMixed{2, 4, 12};

StageFootprint footprint(double dense, double expert, double largest) {
  StageFootprint stage;
  stage.parameters = dense;
  stage.expert_parameters = expert;
  stage.largest_layer = largest;
  return stage;
}

TEST(StateBytes, FormulaOfEveryZeroStage) {
  const StageFootprint stage = footprint(1000, 0, 400);
  const ShardGroups groups{8, 8};
  EXPECT_EQ(state_bytes(stage, 0, kMixed, groups), 1000 * (2 + 4 + 12));
  EXPECT_EQ(state_bytes(stage, 1, kMixed, groups), 1000 * (2 + 4) + 1000 * 12 / 8);
  EXPECT_EQ(state_bytes(stage, 2, kMixed, groups), 1000 * 2 + 1000 * (4 + 12) / 8);
  EXPECT_EQ(state_bytes(stage, 3, kMixed, groups), 1000 * 18 / 8 + 2 * 400);
}

TEST(StateBytes, ExpertsAreShardedOverTheirOwnGroup) {
  const StageFootprint stage = footprint(1000, 600, 700);
  const ShardGroups groups{8, 2};
  EXPECT_EQ(state_bytes(stage, 0, kMixed, groups), 1600 * 18);
  EXPECT_EQ(state_bytes(stage, 1, kMixed, groups), 1600 * 6 + 1000 * 12 / 8 + 600 * 12 / 2);
  EXPECT_EQ(state_bytes(stage, 2, kMixed, groups), 1600 * 2 + 1000 * 16 / 8 + 600 * 16 / 2);
  EXPECT_EQ(state_bytes(stage, 3, kMixed, groups), 1000 * 18 / 8 + 600 * 18 / 2 + 2 * 700);
}

TEST(StateBytes, RoundedUpOnceAfterAllTerms) {
  // 10·12/16 + 2·12/8 = 7.5 + 3: one ceil of 10·6 + 2·6 + 10.5, not one per term.
  EXPECT_EQ(state_bytes(footprint(10, 2, 10), 1, kMixed, {16, 8}), 72 + 11);
  // 7.5 + 1.5 is whole: rounding each term up would give one byte more.
  EXPECT_EQ(state_bytes(footprint(10, 2, 10), 1, kMixed, {16, 16}), 72 + 9);
}

TEST(StateBytes, WholeNumbersStayWhole) {
  // Thirds and sevenths that add up to whole bytes, on sizes where 18/7 is not exact.
  for (const double g : {3.0, 7.0, 11.0, 48.0, 1536.0}) {
    const double parameters = g * 1e7;
    const auto group = static_cast<std::int64_t>(g);
    EXPECT_EQ(state_bytes(footprint(parameters, 0, 0), 1, kMixed, {group, group}),
              6 * parameters + 12e7)
        << g;
    EXPECT_EQ(state_bytes(footprint(parameters, 0, 0), 3, kMixed, {group, group}), 18e7) << g;
  }
  // A dense part of 2/3 and an expert part of 4/3 bytes.
  EXPECT_EQ(state_bytes(footprint(2, 4, 0), 1, {0, 0, 1}, {3, 3}), 2);
}

TEST(StateBytes, SmallestFractionIsAByte) {
  // 1e8 + 2^-10/32768 bytes of shards on top of 1e12: a plain sum of doubles loses the fraction.
  const StageFootprint stage = footprint(32768 * 1e8 + 1.0 / 1024, 0, 1e12);
  EXPECT_EQ(state_bytes(stage, 3, {1, 0, 0}, {32768, 32768}), 1e12 + 1e8 + 1);
}

TEST(StateBytes, FractionalBytesPerParameter) {
  EXPECT_EQ(state_bytes(footprint(5, 0, 0), 0, {0.5, 1, 1.25}, {1, 1}), 14);  // ⌈13.75⌉
}

TEST(StateBytes, UnknownZeroStageIsABug) {
  EXPECT_THROW(state_bytes(footprint(1, 0, 1), 4, kMixed, {1, 1}), InternalError);
}

TEST(ActivationBytes, FormulasAndRounding) {
  StageFootprint stage;
  stage.activation_bytes = 100.25;
  stage.checkpoint_bytes = 10.25;
  stage.largest_activation = 60;
  EXPECT_EQ(activation_bytes(stage, model::Recompute::kNone, 3), 301);  // ⌈300.75⌉
  EXPECT_EQ(activation_bytes(stage, model::Recompute::kNone, 4), 401);  // exact
  EXPECT_EQ(activation_bytes(stage, model::Recompute::kFull, 3), 91);   // ⌈30.75 + 60⌉
  EXPECT_EQ(activation_bytes(stage, model::Recompute::kFull, 4), 101);  // exact
}

TEST(InFlight, PlaceFromTheEndOrAllForGPipe) {
  EXPECT_EQ(in_flight(model::Schedule::k1F1B, 1, 8), 1);
  EXPECT_EQ(in_flight(model::Schedule::k1F1B, 5, 8), 5);
  EXPECT_EQ(in_flight(model::Schedule::k1F1B, 9, 8), 8);
  EXPECT_EQ(in_flight(model::Schedule::kGPipe, 1, 8), 8);
  EXPECT_EQ(in_flight(model::Schedule::kGPipe, 9, 8), 8);
}

}  // namespace
}  // namespace nestplan::cost
