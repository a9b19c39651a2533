#include "baselines/alpa.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "nestplan/baselines/baselines.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "support/small_case.hpp"

namespace nestplan::baselines {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

const std::function<bool()> kNotOver = [] { return false; };

// Section 5.2: (1,1), (1,2), (1,4) … (1,M) and (2,M), (3,M) … (N,M).
TEST(Alpa, SubmeshesOfHostsInAMesh) {
  const std::vector<Submesh> eight{{1, 1}, {1, 2}, {1, 4}, {1, 8}, {2, 8}, {3, 8}, {4, 8}};
  EXPECT_EQ(submeshes({4, 8}), eight);
  EXPECT_EQ(submeshes({1, 1}), (std::vector<Submesh>{{1, 1}}));
}

/// Powers of two that do not divide a host could not fill it.
TEST(Alpa, SubmeshesOfHostsThatAreNoPowerOfTwo) {
  EXPECT_EQ(submeshes({2, 6}), (std::vector<Submesh>{{1, 1}, {1, 2}, {1, 6}, {2, 6}}));
}

TEST(Alpa, MeshOfACluster) {
  model::Cluster cluster;
  cluster.network =
      model::HierarchySpec{"hierarchical-ring", {{"node", 8, 1e11, 0, 1}, {"leaf", 4, 1e10, 0, 1}}};
  EXPECT_EQ(mesh_of(cluster).hosts, 4);
  EXPECT_EQ(mesh_of(cluster).per_host, 8);
  cluster.limit = 20;
  EXPECT_EQ(mesh_of(cluster).devices(), 16);
}

/// Layers of the same cost, which `size` devices share.
InterOperatorProblem even_problem(int layers, std::int64_t devices, std::int64_t microbatches,
                                  std::vector<std::int64_t> sizes) {
  InterOperatorProblem problem{layers, devices, microbatches, std::move(sizes), {}, {}};
  const std::size_t stages =
      static_cast<std::size_t>(layers) * static_cast<std::size_t>(layers) * problem.sizes.size();
  problem.seconds.assign(stages, kNever);
  problem.most_stages.assign(stages, layers);
  for (int begin = 0; begin < layers; ++begin) {
    for (int end = begin + 1; end <= layers; ++end) {
      for (int choice = 0; choice < static_cast<int>(problem.sizes.size()); ++choice) {
        problem.seconds[problem.index(begin, end, choice)] =
            static_cast<double>(end - begin) /
            static_cast<double>(problem.sizes[static_cast<std::size_t>(choice)]);
      }
    }
  }
  return problem;
}

// Four layers of 1 s on four devices, eight micro-batches: cut into four stages they take 4 + 7·1.
TEST(Alpa, EvenLayersOnSingleDevices) {
  const InterOperatorPlan plan = cut_into_stages(even_problem(4, 4, 8, {1}), kNever, kNotOver);
  EXPECT_DOUBLE_EQ(plan.seconds, 11);
  EXPECT_EQ(plan.stages.size(), 4U);
}

// One stage of all devices has no bubble: 1 + 7·1.
TEST(Alpa, AWholeMeshHasNoBubble) {
  const InterOperatorPlan plan = cut_into_stages(even_problem(4, 4, 8, {1, 4}), kNever, kNotOver);
  EXPECT_DOUBLE_EQ(plan.seconds, 8);
  ASSERT_EQ(plan.stages.size(), 1U);
  EXPECT_EQ(plan.stages[0].choice, 1);
}

TEST(Alpa, AllDevicesAreUsedOrThereIsNoPlan) {
  EXPECT_TRUE(cut_into_stages(even_problem(2, 4, 8, {1}), kNever, kNotOver).stages.empty());
  EXPECT_TRUE(cut_into_stages(even_problem(4, 3, 8, {2}), kNever, kNotOver).stages.empty());
  EXPECT_FALSE(cut_into_stages(even_problem(3, 4, 8, {1, 2}), kNever, kNotOver).stages.empty());
}

TEST(Alpa, NothingThatIsNotFasterIsFound) {
  const InterOperatorProblem problem = even_problem(4, 4, 8, {1});
  EXPECT_TRUE(cut_into_stages(problem, 11, kNotOver).stages.empty());
  EXPECT_FALSE(cut_into_stages(problem, 11.1, kNotOver).stages.empty());
}

// Once it is over, the program of the bound at hand is not finished either: a stage's layers are
// looked at one by one, so that the calls in between are few.
TEST(Alpa, TheDynamicProgramEndsWhenItIsOver) {
  const InterOperatorProblem problem = even_problem(40, 8, 8, {1, 2, 4});
  std::int64_t asked = 0;
  const auto after = [&](std::int64_t calls) {
    asked = 0;
    return cut_into_stages(problem, kNever, [&asked, calls] { return ++asked > calls; });
  };
  ASSERT_FALSE(after(std::numeric_limits<std::int64_t>::max()).stages.empty());
  const std::int64_t bounds = 40 * 3;  // stages of as many layers on as many devices, at most
  EXPECT_GT(asked, 20 * bounds);
  EXPECT_TRUE(after(3).stages.empty());
  EXPECT_LE(asked, 5);
}

// Stages are profiled for longer than they are cut: every one of them asks whether time is up.
TEST(Alpa, EveryProfiledStageAsksForTheTime) {
  testing::SmallCase c({testing::SmallCase::level(2, 1e9)}, 2);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  constexpr int kLayers = 12;
  for (int i = 0; i < kLayers; ++i) {
    const int layer = c.layer(cost);
    if (layer > 0) c.edge(layer - 1, layer, 1);
  }
  c.problem.options.dp = {1};
  c.problem.options.recompute = {model::Recompute::kNone};
  const auto network = network::make_network(c.problem.cluster);
  SearchBudget budget;
  std::int64_t asked = 0;
  budget.stop_requested = [&asked] { return ++asked < 0; };
  EXPECT_EQ(find_plan(Method::kAlpa, c.problem, *network, budget).status, model::Status::kOptimal);
  EXPECT_GE(asked, kLayers * (kLayers + 1) / 2);
  budget.stop_requested = [&asked] { return ++asked > 3; };
  asked = 0;
  EXPECT_TRUE(find_plan(Method::kAlpa, c.problem, *network, budget).search.stopped);
  EXPECT_EQ(asked, 4);
}

/// Every way to cut layers and devices, one after the other.
class Enumeration {
 public:
  explicit Enumeration(const InterOperatorProblem& problem) : problem_(problem) {}

  double best() {
    extend(0, 0);
    return best_;
  }

 private:
  void extend(int begin, std::int64_t devices) {
    if (begin == problem_.layers) {
      if (devices == problem_.devices) judge();
      return;
    }
    for (int end = begin + 1; end <= problem_.layers; ++end) {
      for (int choice = 0; choice < static_cast<int>(problem_.sizes.size()); ++choice) {
        stages_.push_back({begin, end, choice});
        extend(end, devices + problem_.sizes[static_cast<std::size_t>(choice)]);
        stages_.pop_back();
      }
    }
  }

  void judge() {
    double sum = 0;
    double slowest = 0;
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const std::size_t stage = problem_.index(stages_[i].begin, stages_[i].end, stages_[i].choice);
      if (problem_.most_stages[stage] < std::ssize(stages_) - static_cast<std::int64_t>(i)) return;
      sum += problem_.seconds[stage];
      slowest = std::max(slowest, problem_.seconds[stage]);
    }
    best_ = std::min(best_, sum + static_cast<double>(problem_.microbatches - 1) * slowest);
  }

  const InterOperatorProblem& problem_;
  std::vector<MeshStage> stages_;
  double best_ = kNever;
};

TEST(Alpa, TheDynamicProgramIsExact) {
  for (std::uint64_t seed = 0; seed < testing::seeds(300); ++seed) {
    testing::Dice dice(seed);
    const int layers = static_cast<int>(dice.between(1, 6));
    InterOperatorProblem problem = even_problem(
        layers, dice.between(1, 8), dice.between(1, 12),
        dice.pick(std::vector<std::vector<std::int64_t>>{{1}, {2}, {1, 2}, {2, 4}, {1, 2, 4}}));
    for (double& seconds : problem.seconds) {
      if (seconds < kNever) seconds = static_cast<double>(dice.between(1, 40)) * 1e-3;
      if (dice.chance(5)) seconds = kNever;
    }
    for (std::int64_t& stages : problem.most_stages) {
      if (dice.chance(30)) stages = dice.between(0, 3);
    }
    const double expected = Enumeration(problem).best();
    const InterOperatorPlan plan = cut_into_stages(problem, kNever, kNotOver);
    if (expected == kNever) {
      EXPECT_TRUE(plan.stages.empty()) << "seed " << seed;
    } else {
      EXPECT_NEAR(plan.seconds, expected, 1e-12) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace nestplan::baselines
