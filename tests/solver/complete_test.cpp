#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/errors.hpp"
#include "solver/random_plan.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using model::Recompute;
using solver::at;

constexpr double kEqual = 1e-12;
constexpr double kRelative = 1e-9;

/// Every completion of a partial plan, by trial: dp_inner, positions, and recomputation and ZeRO of
/// every stage, each placement costed by the evaluator.
class Completions {
 public:
  Completions(const model::Problem& problem, const network::Network& network,
              const model::PartialPlan& partial)
      : problem_(problem), network_(network), partial_(partial) {}

  testing::Optimum best() {
    plan_.dp = partial_.dp;
    for (std::int64_t inner = 1; inner <= partial_.dp; ++inner) {
      if (partial_.dp % inner != 0 || inner != partial_.dp_inner.value_or(inner)) continue;
      plan_.dp_inner = inner;
      plan_.stages.clear();
      place(0);
    }
    return best_;
  }

 private:
  void place(std::int64_t end) {
    if (plan_.stages.size() == partial_.stages.size()) return cost_placement();
    const model::PartialStage& stage = partial_.stages[plan_.stages.size()];
    const model::Strategy& s = problem_.graph.strategies[at(stage.strategy)];
    const std::int64_t unit = s.tp * s.cp * plan_.dp_inner;
    std::set<std::int64_t> positions{end};
    if (!plan_.stages.empty()) {
      std::vector<std::int64_t> starts;
      const std::int64_t copies = plan_.dp / plan_.dp_inner;
      const network::PodLayout pods{network_.devices(), copies, network_.devices() / copies};
      network_.append_starts(pods, end, starts);
      positions.insert(starts.begin(), starts.end());
    }
    if (stage.position) positions = {*stage.position};
    for (const std::int64_t position : positions) {
      if (position < end || position + unit > network_.devices() / (plan_.dp / plan_.dp_inner)) {
        continue;
      }
      plan_.stages.push_back({stage.layers, stage.strategy, position, Recompute::kNone, 0});
      place(position + unit);
      plan_.stages.pop_back();
    }
  }

  /// A stage's time and memory depend on its own recomputation and ZeRO stage alone.
  void cost_placement() {
    options_.assign(plan_.stages.size(), {});
    testing::each_option(
        problem_, network_, plan_, {Recompute::kNone, Recompute::kSelective, Recompute::kFull},
        {0, 1, 2, 3}, [&](const model::Plan& costed) {
          microbatches_ = static_cast<double>(costed.strategy.microbatches);
          for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
            const model::StagePlan& stage = costed.stages[i];
            if (allows(partial_.stages[i], stage.recompute, stage.zero)) {
              options_[i].push_back({stage.recompute, stage.zero, stage.shard, stage});
            }
          }
        });
    choose(0, 0, 0, 0);
  }

  bool allows(const model::PartialStage& stage, Recompute recompute, int zero) const {
    const auto& recomputes = problem_.options.recompute;
    const auto& zeros = problem_.options.zero;
    const bool recompute_fits = stage.recompute ? *stage.recompute == recompute
                                                : std::find(recomputes.begin(), recomputes.end(),
                                                            recompute) != recomputes.end();
    const bool zero_fits = stage.zero ? *stage.zero == zero
                                      : std::find(zeros.begin(), zeros.end(), zero) != zeros.end();
    return recompute_fits && zero_fits;
  }

  void choose(std::size_t i, double sum, double slowest, double ties) {
    if (i == plan_.stages.size()) return offer(sum, slowest, ties);
    for (const Option& option : options_[i]) {
      if (option.cost.memory.total_bytes > option.cost.memory.limit_bytes) continue;
      plan_.stages[i].recompute = option.recompute;
      plan_.stages[i].zero = option.zero;
      plan_.stages[i].shard = option.shard;
      if (i == 0) sync_ = option.cost.time.sync_s;
      choose(i + 1, sum + option.cost.time.total_s, std::max(slowest, option.cost.time.total_s),
             ties + option.cost.time.tie_s);
    }
  }

  void offer(double sum, double slowest, double ties) {
    const auto p = static_cast<double>(plan_.stages.size());
    const double value = problem_.options.objective == model::Objective::k1F1B
                             ? sum + (microbatches_ - 1) * slowest + sync_ + ties
                             : (microbatches_ + p - 1) * slowest + sync_;
    const double margin = kEqual * value;
    if (best_.feasible()) {
      if (value > best_.value_s + margin) return;
      if (value >= best_.value_s - margin && !testing::canonical_less(1, plan_, 1, best_.plan)) {
        return;
      }
    }
    // Legal also in what depends on the whole plan: the batch and the expert groups.
    if (cost::evaluate(problem_, network_, plan_).status != model::Status::kOptimal) return;
    best_.value_s = std::min(best_.value_s, value);
    best_.plan = plan_;
  }

  struct Option {
    Recompute recompute;
    int zero;
    model::ShardSpan shard;
    model::StagePlan cost;
  };

  const model::Problem& problem_;
  const network::Network& network_;
  const model::PartialPlan& partial_;
  cost::PlacedPlan plan_;
  std::vector<std::vector<Option>> options_;
  double microbatches_ = 0;
  double sync_ = 0;
  testing::Optimum best_;
};

/// Keeps layers and strategies of `plan` and, by the dice, some of its other choices.
model::PartialPlan forget(const cost::PlacedPlan& plan, testing::Dice& dice) {
  model::PartialPlan partial;
  partial.dp = plan.dp;
  if (dice.chance(50)) partial.dp_inner = plan.dp_inner;
  const int kept = static_cast<int>(dice.pick({0, 30, 100}));
  for (const cost::PlacedStage& stage : plan.stages) {
    model::PartialStage part{stage.layers, stage.strategy, {}, {}, {}};
    if (dice.chance(kept)) part.position = stage.position;
    if (dice.chance(kept)) part.recompute = stage.recompute;
    if (dice.chance(kept)) part.zero = stage.zero;
    partial.stages.push_back(part);
  }
  return partial;
}

void expect_kept(const model::Plan& plan, const model::PartialPlan& partial,
                 const std::string& where) {
  EXPECT_EQ(plan.strategy.dp, partial.dp) << where;
  EXPECT_EQ(plan.strategy.dp_inner, partial.dp_inner.value_or(plan.strategy.dp_inner)) << where;
  ASSERT_EQ(plan.stages.size(), partial.stages.size()) << where;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const model::StagePlan& stage = plan.stages[i];
    const model::PartialStage& asked = partial.stages[i];
    EXPECT_EQ(stage.layers, asked.layers) << where;
    EXPECT_EQ(stage.strategy, asked.strategy) << where;
    EXPECT_EQ(stage.position, asked.position.value_or(stage.position)) << where;
    EXPECT_EQ(stage.recompute, asked.recompute.value_or(stage.recompute)) << where;
    EXPECT_EQ(stage.zero, asked.zero.value_or(stage.zero)) << where;
  }
}

/// Each case takes its own block of seeds, so that cases run side by side.
class Complete : public ::testing::TestWithParam<int> {};

TEST_P(Complete, FillsInOptimally) {
  int feasible = 0, infeasible = 0;
  const auto block = static_cast<std::uint64_t>(GetParam()) * 1'000'000;
  for (std::uint64_t seed = block; seed < block + testing::seeds(250) && !HasFailure(); ++seed) {
    testing::Dice dice(seed);
    model::Problem problem = testing::random_problem(seed);
    problem.options.objective =
        dice.chance(50) ? model::Objective::k1F1B : model::Objective::kPaper;
    problem.options.per_stage_strategies = dice.chance(70);
    const auto network = network::make_network(problem.cluster);
    const solver::Instance instance(problem, *network, lattice::Lattice::enumerate(problem.graph));
    const auto configurations = solver::ConfigurationSpace(instance).list();
    if (configurations.empty()) continue;
    for (int draw = 0; draw < 4; ++draw) {
      const auto drawn = testing::random_plan(instance, dice.pick(configurations), dice);
      if (!drawn) continue;
      const model::PartialPlan partial = forget(*drawn, dice);
      const std::string where = "seed " + std::to_string(seed) + ": " + testing::describe(*drawn);
      const testing::Optimum best = Completions(problem, *network, partial).best();
      SCOPED_TRACE(where);
      const model::Plan plan = solver::complete(problem, *network, partial);
      if (!best.feasible()) {
        EXPECT_EQ(plan.status, model::Status::kInfeasible) << where;
        EXPECT_FALSE(plan.reason.empty()) << where;
        EXPECT_GT(plan.stages.front().memory.total_bytes, 0)
            << where << ": no breakdown: " << plan.reason;
        ++infeasible;
      } else {
        ASSERT_EQ(plan.status, model::Status::kOptimal) << where << ": " << plan.reason;
        EXPECT_NEAR(plan.iteration_time_s, best.value_s, kRelative * best.value_s) << where;
        EXPECT_EQ(testing::describe(testing::placed(plan)), testing::describe(best.plan)) << where;
        ++feasible;
      }
      expect_kept(plan, partial, where);
    }
  }
  EXPECT_GT(feasible, 0);
  EXPECT_GT(feasible, infeasible / 4);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Complete, ::testing::Range(0, 2));

TEST(CompleteErrors, AreTheUsers) {
  const model::Problem problem = testing::random_problem(1);
  const auto network = network::make_network(problem.cluster);
  EXPECT_THROW(solver::complete(problem, *network, {}), InvalidInput);
}

}  // namespace
}  // namespace nestplan
