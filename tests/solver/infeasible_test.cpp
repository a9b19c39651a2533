#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "nestplan/cost/memory.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using model::Status;

/// The number of bytes behind `phrase`.
std::optional<double> bytes_behind(const std::string& text, const std::string& phrase) {
  const std::size_t begin = text.find(phrase + " ");
  if (begin == std::string::npos) return std::nullopt;
  std::istringstream in(text.substr(begin + phrase.size()));
  double bytes = 0;
  std::string unit;
  if (!(in >> bytes >> unit) || unit != "bytes") return std::nullopt;
  return bytes;
}

model::Problem tight_problem(std::uint64_t seed) {
  model::Problem problem = testing::random_problem(seed);
  model::Device& device = problem.cluster.device;
  device.memory_bytes = std::floor(device.memory_bytes / static_cast<double>(3 + seed % 10));
  problem.options.per_stage_strategies = seed % 2 == 0;
  return problem;
}

TEST(Infeasible, MemoryThatIsAskedForIsExactlyEnough) {
  int asked_for_memory = 0, asked_for_options = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(1500) && !HasFailure(); ++seed) {
    model::Problem problem = tight_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    if (plan.status != Status::kInfeasible) continue;
    ASSERT_FALSE(plan.reason.empty());
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.reason);
    if (const auto needed = bytes_behind(plan.reason, "devices with")) {
      ++asked_for_memory;
      problem.cluster.device.memory_bytes = *needed;
      EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal) << "not enough";
      problem.cluster.device.memory_bytes = *needed - 1;
      if (!problem.options.per_stage_strategies) {
        EXPECT_EQ(solver::solve(problem, *network).status, Status::kInfeasible) << "too much";
      }
    } else if (plan.reason.find("--zero 0,1,2,3") != std::string::npos) {
      ++asked_for_options;
      problem.options.recompute = {model::Recompute::kNone, model::Recompute::kSelective,
                                   model::Recompute::kFull};
      problem.options.zero = {0, 1, 2, 3};
      EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal);
    }
  }
  EXPECT_GT(asked_for_memory, 0);
  EXPECT_GT(asked_for_memory + asked_for_options, 0);
}

TEST(Infeasible, NumbersOfTheReasonAddUp) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(500) && !HasFailure(); ++seed) {
    const model::Problem problem = tight_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    const auto needed = bytes_behind(plan.reason, "needs");
    if (plan.status != Status::kInfeasible || !needed) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.reason);
    ++seen;
    const double usable =
        cost::memory_limit(problem.cluster.device.usable_bytes(), problem.options.reserve);
    EXPECT_GT(*needed, usable);
    EXPECT_NE(
        plan.reason.find(std::to_string(static_cast<std::int64_t>(*needed - usable)) + " bytes"),
        std::string::npos);
    EXPECT_EQ(plan.reason.find('\n'), std::string::npos);
  }
  EXPECT_GT(seen, 0);
}

TEST(Infeasible, ABatchThatNothingDividesIsNamed) {
  model::Problem problem = testing::random_problem(3);
  problem.options.allow_uneven_batch = false;
  problem.options.global_batch = 7;
  problem.options.dp = {2};
  const auto network = network::make_network(problem.cluster);
  const model::Plan plan = solver::solve(problem, *network);
  EXPECT_EQ(plan.status, Status::kInfeasible);
  EXPECT_NE(plan.reason.find("does not divide the global batch"), std::string::npos) << plan.reason;
}

}  // namespace
}  // namespace nestplan
