#include "baselines/inter_stage.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::baselines {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kNodes = 100000;

std::optional<InterStagePlan> solved(const InterStageProgram& program,
                                     double better_than_s = kNever) {
  return solve(program, better_than_s, kNever, kNodes).plan;
}

// The second stage's extra work is hidden by the first stage's micro-batch, that of the first stage
// is not: 3·2 + (2 + 2) + max(1, 3 - 2).
TEST(InterStage, ExtraWorkWaitsForTheStagesBefore) {
  InterStageProgram program{4, 2, {{{{2, 1}}}, {{{2, 3}}}}, 1};
  EXPECT_DOUBLE_EQ(objective_s(program, {{1, 0}, {1, 0}}), 11);
  const auto plan = solved(program);
  ASSERT_TRUE(plan);
  EXPECT_DOUBLE_EQ(plan->seconds, 11);
}

// A slower micro-batch pays where there are few of them, and not where there are many.
TEST(InterStage, ManyMicroBatchesWantTheFasterOne) {
  InterStageProgram program{1, 1, {{{{2, 1}, {1, 4}}}}, 1};
  EXPECT_EQ(solved(program)->stages[0].point, 0);
  program.microbatches = 10;
  EXPECT_EQ(solved(program)->stages[0].point, 1);
}

TEST(InterStage, BlocksThatCannotBeDealtOut) {
  const InterStageProgram program{4, 5, {{{{1, 0}}, {{2, 0}}}, {{{1, 0}}, {{2, 0}}}}, 1};
  EXPECT_FALSE(solved(program));
}

TEST(InterStage, AStageThatFitsNowhere) {
  const InterStageProgram program{4, 2, {{{{1, 0}}}, {{}}}, 1};
  EXPECT_FALSE(solved(program));
}

TEST(InterStage, NothingThatIsNotFasterIsFound) {
  const InterStageProgram program{4, 2, {{{{2, 1}}}, {{{2, 3}}}}, 1};
  EXPECT_FALSE(solved(program, 10.5));
  EXPECT_TRUE(solved(program, 11.5));
}

/// The least objective of all choices.
double enumerated(const InterStageProgram& program, std::vector<InterStageChoice>& stages,
                  std::int64_t left) {
  const std::size_t i = stages.size();
  if (i == program.points.size()) return left == 0 ? objective_s(program, stages) : kNever;
  double best = kNever;
  for (std::size_t j = 0; j < program.points[i].size(); ++j) {
    const std::int64_t blocks = program.least_blocks + static_cast<std::int64_t>(j);
    for (std::size_t k = 0; k < program.points[i][j].size(); ++k) {
      stages.push_back({blocks, static_cast<int>(k)});
      best = std::min(best, enumerated(program, stages, left - blocks));
      stages.pop_back();
    }
  }
  return best;
}

InterStageProgram random_program(testing::Dice& dice) {
  InterStageProgram program;
  const std::int64_t stages = dice.between(1, 4);
  program.microbatches = dice.pick<std::int64_t>({1, 2, 8, 64});
  program.least_blocks = dice.between(1, 2);
  program.blocks = stages * (program.least_blocks + 1);
  program.points.resize(static_cast<std::size_t>(stages));
  for (auto& stage : program.points) {
    stage.resize(3);
    for (auto& ways : stage) {
      for (std::int64_t k = dice.between(0, 3); k > 0; --k) {
        ways.push_back({static_cast<double>(dice.between(1, 200)) * 1e-4,
                        static_cast<double>(dice.between(0, 800)) * 1e-4});
      }
    }
  }
  return program;
}

TEST(InterStage, IsSolvedToOptimality) {
  std::int64_t with_plan = 0;
  const std::uint64_t programs = testing::seeds(150);
  for (std::uint64_t seed = 0; seed < programs; ++seed) {
    testing::Dice dice(seed);
    const InterStageProgram program = random_program(dice);
    std::vector<InterStageChoice> stages;
    const double expected = enumerated(program, stages, program.blocks);
    const InterStageAnswer answer = solve(program, kNever, kNever, kNodes);
    EXPECT_EQ(answer.end, InterStageAnswer::End::kProven) << "seed " << seed;
    const auto& plan = answer.plan;
    ASSERT_EQ(plan.has_value(), expected < kNever) << "seed " << seed;
    if (!plan) continue;
    ++with_plan;
    EXPECT_NEAR(plan->seconds, expected, 1e-6 * expected) << "seed " << seed;
  }
  EXPECT_GT(4 * with_plan, static_cast<std::int64_t>(programs));
}

TEST(InterStage, LimitsThatEndItAreTold) {
  std::int64_t at_nodes = 0;
  std::int64_t at_time = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(150); ++seed) {
    testing::Dice dice(seed);
    const InterStageProgram program = random_program(dice);
    std::vector<InterStageChoice> stages;
    const double best = enumerated(program, stages, program.blocks);
    for (const auto& answer :
         {solve(program, kNever, kNever, 0), solve(program, kNever, 0, kNodes)}) {
      at_nodes += answer.end == InterStageAnswer::End::kNodes ? 1 : 0;
      at_time += answer.end == InterStageAnswer::End::kTime ? 1 : 0;
      if (answer.end == InterStageAnswer::End::kProven) {
        EXPECT_EQ(answer.plan.has_value(), best < kNever) << "seed " << seed;
      }
      if (answer.plan) {
        EXPECT_GE(answer.plan->seconds, best * (1 - 1e-6)) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(at_nodes, 0);
  EXPECT_GT(at_time, 0);
}

}  // namespace
}  // namespace nestplan::baselines
