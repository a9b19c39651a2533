#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

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

std::vector<model::Device*> types_of(model::Cluster& cluster) {
  std::vector<model::Device*> types{&cluster.device};
  for (model::Device& other : cluster.other_devices) types.push_back(&other);
  return types;
}

void set_memory(model::Cluster& cluster, double bytes) {
  for (model::Device* device : types_of(cluster)) device->memory_bytes = bytes;
}

model::Problem tight_problem(std::uint64_t seed) {
  model::Problem problem = testing::random_problem(seed);
  for (model::Device* device : types_of(problem.cluster)) {
    device->memory_bytes = std::floor(device->memory_bytes / static_cast<double>(3 + seed % 10));
  }
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
    const model::StageConstraints& rules = problem.options.stages;
    if (!rules.confined.empty() || !rules.places.empty()) continue;  // it says what else it takes
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.reason);
    if (const auto needed = bytes_behind(plan.reason, "devices with")) {
      ++asked_for_memory;
      set_memory(problem.cluster, *needed);
      EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal) << "not enough";
      set_memory(problem.cluster, *needed - 1);
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
    double usable = 0;  // of the largest devices
    for (int type = 0; type < problem.cluster.type_count(); ++type) {
      usable = std::max(usable, cost::memory_limit(problem.cluster.type(type).usable_bytes(),
                                                   problem.options.reserve));
    }
    EXPECT_GT(*needed, usable);
    EXPECT_NE(
        plan.reason.find(std::to_string(static_cast<std::int64_t>(*needed - usable)) + " bytes"),
        std::string::npos);
    EXPECT_EQ(plan.reason.find('\n'), std::string::npos);
  }
  EXPECT_GT(seen, 0);
}

TEST(Infeasible, DemandsOnPlacesAreNamedWhereTheyAreWhatHinders) {
  int hindered = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(1500) && !HasFailure(); ++seed) {
    model::Problem problem = testing::random_problem(seed);
    model::StageConstraints& rules = problem.options.stages;
    if (rules.confined.empty() && rules.places.empty()) continue;
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    rules.confined.clear();
    rules.places.clear();
    const bool fits = solver::solve(problem, *network).status == Status::kOptimal;
    if (plan.status != Status::kInfeasible) {
      EXPECT_TRUE(fits);
      continue;
    }
    if (!fits) continue;
    EXPECT_EQ(plan.reason.find("demands: no plan"), 0U) << plan.reason;
    EXPECT_TRUE(plan.reason.find("--keep-inside") != std::string::npos ||
                plan.reason.find("--stage-at") != std::string::npos)
        << plan.reason;
    ++hindered;
  }
  EXPECT_GT(hindered, 0);
}

/// Layers in a row that two stages can hold, on devices with room for all of them.
model::Problem row_in_two_stages() {
  for (std::uint64_t seed = 0;; ++seed) {
    model::Problem problem = testing::random_problem(seed);
    if (problem.graph.layers.size() < 4 || problem.cluster.devices() < 2 ||
        !model::in_a_row(problem.graph)) {
      continue;
    }
    set_memory(problem.cluster, 1e15);
    problem.options = {};
    problem.options.global_batch = 8;
    const auto network = network::make_network(problem.cluster);
    problem.options.pp = {2};
    if (solver::solve(problem, *network).status == Status::kOptimal) return problem;
  }
}

TEST(Infeasible, ContradictingDemandsAreNamedAndDroppingOneIsEnough) {
  model::Problem problem = row_in_two_stages();
  const auto network = network::make_network(problem.cluster);
  const auto pin = [&](int layer, const char* stage) {
    return "--pin " + problem.graph.layers[static_cast<std::size_t>(layer)].id + "=" + stage;
  };
  const std::vector<model::StageConstraints::Pin> pins{{0, 0}, {1, -1}, {2, 0}};
  problem.options.stages.pins = pins;
  const std::string last = pin(1, "last"), first = pin(2, "first");
  EXPECT_EQ(solver::solve(problem, *network).reason,
            "demands: no plan satisfies " + last + ", " + first + " and --pp 2 together; " +
                "least change: drop " + last + ", or drop " + first + ", or drop --pp 2");
  for (const std::ptrdiff_t dropped : {1, 2}) {
    problem.options.stages.pins = pins;
    problem.options.stages.pins.erase(problem.options.stages.pins.begin() + dropped);
    EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal) << dropped;
  }
  problem.options.stages.pins = pins;
  problem.options.pp.clear();
  EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal);
}

TEST(Infeasible, BoundsOnLayersComeWithTheNearestThatIsEnough) {
  model::Problem problem = row_in_two_stages();
  const auto network = network::make_network(problem.cluster);
  const std::int64_t counted = model::counted_layers(problem.graph);
  problem.options.stages.most = 1;
  ASSERT_GT(counted, 2);
  const std::string reason = solver::solve(problem, *network).reason;
  const std::int64_t enough = (counted + 1) / 2;
  EXPECT_NE(reason.find("least change: --most-stage-layers " + std::to_string(enough)),
            std::string::npos)
      << reason;
  problem.options.stages.most = enough;
  EXPECT_EQ(solver::solve(problem, *network).status, Status::kOptimal);
  problem.options.stages.most = enough - 1;
  EXPECT_EQ(solver::solve(problem, *network).status, Status::kInfeasible);
}

TEST(Infeasible, AnUnevenBatchIsProposedOnlyWhereItIsEnough) {
  int proposed = 0, left_out = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(500) && !HasFailure(); ++seed) {
    model::Problem problem = seed % 2 == 0 ? tight_problem(seed) : testing::random_problem(seed);
    problem.options.allow_uneven_batch = false;
    problem.options.global_batch = 7;
    problem.options.dp = {2};
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    if (plan.status != Status::kInfeasible) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + plan.reason);
    const bool says = plan.reason.find("--allow-uneven-batch") != std::string::npos;
    problem.options.allow_uneven_batch = true;
    const bool enough = solver::solve(problem, *network).status == Status::kOptimal;
    EXPECT_TRUE(enough || !says);
    ++(says ? proposed : left_out);
  }
  EXPECT_GT(proposed, 0);
  EXPECT_GT(left_out, 0);
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
