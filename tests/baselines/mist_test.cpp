#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "support/small_case.hpp"

/// Mist's search on rows of equal blocks, one copy and free transfers, where its view of a stage is
/// what the evaluator says: its plan is then the best of those it looks at, one by one.

namespace nestplan::baselines {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Equal blocks on two hosts of two devices, with one, two or four of them a stage.
model::Problem random_row(testing::Dice& dice) {
  testing::SmallCase c({testing::SmallCase::level(2, 1e12), testing::SmallCase::level(2, 1e12)},
                       dice.pick<std::int64_t>({1, 2, 4, 8}));
  for (const std::int64_t tp : {1, 2, 4}) c.strategy(tp);
  const std::int64_t blocks = dice.between(2, 6);
  std::vector<model::LayerCost> costs;
  for (std::size_t s = 0; s < c.problem.graph.strategies.size(); ++s) {
    model::LayerCost& cost = costs.emplace_back();
    cost.forward_s = static_cast<double>(dice.between(1, 9)) * 1e-3;
    cost.backward_s = 2 * cost.forward_s;
    cost.parameters = 1e6;
    cost.activation_bytes = static_cast<double>(dice.between(1, 40)) * 1e6;
    cost.checkpoint_bytes = 1e6;
  }
  for (std::int64_t i = 0; i < blocks; ++i) {
    const int layer = c.layer();
    for (std::size_t s = 0; s < costs.size(); ++s) {
      c.problem.graph.layers[static_cast<std::size_t>(layer)].costs[s] = costs[s];
    }
    if (layer > 0) c.edge(layer - 1, layer, 0);
  }
  model::Problem problem = std::move(c.problem);
  problem.options.dp = {1};
  problem.options.zero = {0};
  problem.options.recompute = {model::Recompute::kNone, model::Recompute::kFull};
  problem.cluster.device.memory_bytes = static_cast<double>(dice.between(30, 200)) * 1e6;
  return problem;
}

/// The best of all that Mist may choose: even shares of the devices, numbers of blocks within two
/// of the even share, recomputation stage by stage.
class Enumeration {
 public:
  Enumeration(const model::Problem& problem, const network::Network& network)
      : problem_(problem), network_(network) {}

  double best() {
    const auto& strategies = problem_.graph.strategies;
    for (int s = 0; s < static_cast<int>(strategies.size()); ++s) {
      strategy_ = s;
      unit_ = strategies[static_cast<std::size_t>(s)].tp;
      stages_ = problem_.cluster.devices() / unit_;
      const std::int64_t blocks = std::ssize(problem_.graph.layers);
      if (stages_ > blocks) continue;
      share_ = (2 * blocks + stages_) / (2 * stages_);  // rounded
      extend(0);
    }
    return best_;
  }

 private:
  void extend(int begin) {
    const auto blocks = static_cast<int>(problem_.graph.layers.size());
    if (std::ssize(plan_.stages) == stages_) {
      if (begin == blocks) judge();
      return;
    }
    for (int end = begin + 1; end <= blocks; ++end) {
      if (end - begin < share_ - 2 || end - begin > share_ + 2) continue;
      for (const model::Recompute recompute : problem_.options.recompute) {
        cost::PlacedStage& stage = plan_.stages.emplace_back();
        for (int layer = begin; layer < end; ++layer) stage.layers.push_back(layer);
        stage.strategy = strategy_;
        stage.position = (std::ssize(plan_.stages) - 1) * unit_;
        stage.recompute = recompute;
        extend(end);
        plan_.stages.pop_back();
      }
    }
  }

  void judge() {
    const model::Plan plan = cost::evaluate(problem_, network_, plan_);
    if (plan.status == model::Status::kOptimal) best_ = std::min(best_, plan.iteration_time_s);
  }

  const model::Problem& problem_;
  const network::Network& network_;
  cost::PlacedPlan plan_;
  int strategy_ = 0;
  std::int64_t unit_ = 1;
  std::int64_t stages_ = 1;
  std::int64_t share_ = 1;  ///< blocks of a stage, in the mean
  double best_ = kNever;
};

TEST(Mist, FindsTheBestOfItsPlansOnEqualBlocks) {
  std::int64_t with_plan = 0;
  std::int64_t tight = 0;
  const std::uint64_t rows = testing::seeds(150);
  for (std::uint64_t seed = 0; seed < rows; ++seed) {
    testing::Dice dice(seed);
    const model::Problem problem = random_row(dice);
    const auto network = network::make_network(problem.cluster);
    const double expected = Enumeration(problem, *network).best();
    const model::Plan plan = find_plan(Method::kMist, problem, *network);
    EXPECT_EQ(plan.search.limit, "") << "seed " << seed;
    ASSERT_EQ(plan.status == model::Status::kOptimal, expected < kNever)
        << "seed " << seed << ": " << plan.reason;
    if (plan.status != model::Status::kOptimal) continue;
    ++with_plan;
    EXPECT_NEAR(plan.iteration_time_s, expected, 1e-6 * expected) << "seed " << seed;
    for (const model::StagePlan& stage : plan.stages) {
      EXPECT_LE(stage.memory.total_bytes, stage.memory.limit_bytes) << "seed " << seed;
      tight += stage.recompute == model::Recompute::kFull ? 1 : 0;
    }
  }
  EXPECT_GT(2 * with_plan, static_cast<std::int64_t>(rows));
  EXPECT_LT(with_plan, static_cast<std::int64_t>(rows)) << "memory never binds";
  EXPECT_GT(tight, 0) << "memory never makes a stage recompute";
}

TEST(Mist, SaysWhereItsProgramsStopped) {
  SearchBudget budget;
  budget.mist_nodes = 0;
  std::int64_t limited = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(150); ++seed) {
    testing::Dice dice(seed);
    const model::Problem problem = random_row(dice);
    const auto network = network::make_network(problem.cluster);
    const std::string limit = find_plan(Method::kMist, problem, *network, budget).search.limit;
    if (limit.empty()) continue;
    ++limited;
    EXPECT_NE(limit.find(" stopped at 0 nodes"), std::string::npos) << limit;
  }
  EXPECT_GT(limited, 0);
}

}  // namespace
}  // namespace nestplan::baselines
