#include "solver/interleaved.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"
#include "support/dice.hpp"
#include "support/random_problem.hpp"
#include "support/row_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::solver {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

/// Every way to cut the row into chunks, every option of every stage, every legal configuration.
class Enumeration {
 public:
  Enumeration(const model::Problem& problem, const network::Network& network)
      : problem_(problem), network_(network) {}

  double run() {
    for (std::size_t k = 0; k < problem_.graph.strategies.size(); ++k) {
      const model::Strategy& s = problem_.graph.strategies[k];
      if (!in(problem_.options.micro_batches, s.micro_batch) || !in(problem_.options.tp, s.tp) ||
          !in(problem_.options.cp, s.cp) || !in(problem_.options.ep, s.ep)) {
        continue;
      }
      for (std::int64_t dp = 1; dp <= network_.devices(); ++dp) {
        for (std::int64_t inner = 1; inner <= dp; ++inner) {
          if (dp % inner != 0 || !in(problem_.options.dp, dp) ||
              !in(problem_.options.dp_inner, inner)) {
            continue;
          }
          const std::int64_t unit = s.tp * s.cp * inner;
          for (std::int64_t p = 2; p * unit <= network_.devices() / (dp / inner); ++p) {
            cut(static_cast<int>(k), dp, inner, p, unit);
          }
        }
      }
    }
    return best_;
  }

 private:
  static bool in(const std::vector<std::int64_t>& list, std::int64_t value) {
    return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
  }

  void cut(int k, std::int64_t dp, std::int64_t inner, std::int64_t p, std::int64_t unit) {
    const auto layers = static_cast<std::int64_t>(problem_.graph.layers.size());
    const std::int64_t parts = p * problem_.options.vpp.front();
    std::vector<std::int64_t> sizes;
    const std::function<void(std::int64_t)> next = [&](std::int64_t left) {
      const auto missing = parts - static_cast<std::int64_t>(sizes.size());
      if (missing == 0) {
        if (left == 0 && allowed(sizes)) place(sizes, k, dp, inner, p, unit);
        return;
      }
      for (std::int64_t n = 1; n <= left - missing + 1; ++n) {
        sizes.push_back(n);
        next(left - n);
        sizes.pop_back();
      }
    };
    next(layers);
  }

  /// Even layouts hold equally many counted layers; one that is not counted follows the last.
  bool allowed(const std::vector<std::int64_t>& sizes) const {
    if (problem_.options.stages.layout != model::StageConstraints::Layout::kEven) return true;
    std::vector<std::int64_t> counted;
    std::size_t layer = 0;
    for (const std::int64_t size : sizes) {
      counted.push_back(0);
      for (std::int64_t n = 0; n < size; ++n, ++layer) {
        const bool counts = problem_.graph.layers[layer].counted;
        if (n == 0 && layer > 0 && !counts) return false;
        counted.back() += counts ? 1 : 0;
      }
    }
    return std::all_of(counted.begin(), counted.end(),
                       [&](std::int64_t n) { return n == counted.front(); });
  }

  void place(const std::vector<std::int64_t>& sizes, int k, std::int64_t dp, std::int64_t inner,
             std::int64_t p, std::int64_t unit) {
    cost::PlacedPlan plan;
    plan.dp = dp;
    plan.dp_inner = inner;
    plan.stages.resize(static_cast<std::size_t>(p));
    int layer = 0;
    for (std::size_t part = 0; part < sizes.size(); ++part) {
      cost::PlacedStage& stage = plan.stages[part % plan.stages.size()];
      stage.strategy = k;
      stage.position = static_cast<std::int64_t>(part % plan.stages.size()) * unit;
      auto& chunk = stage.chunks.emplace_back();
      for (std::int64_t n = 0; n < sizes[part]; ++n, ++layer) {
        if (!problem_.graph.layers[static_cast<std::size_t>(layer)]
                 .costs[static_cast<std::size_t>(k)]) {
          return;
        }
        chunk.push_back(layer);
        stage.layers.push_back(layer);
      }
    }
    options(plan, 0);
  }

  void options(cost::PlacedPlan& plan, std::size_t i) {
    if (i == plan.stages.size()) {
      const model::Plan costed = cost::evaluate(problem_, network_, plan);
      if (costed.status == model::Status::kOptimal)
        best_ = std::min(best_, costed.iteration_time_s);
      return;
    }
    for (const model::Recompute recompute : problem_.options.recompute) {
      for (const int zero : problem_.options.zero) {
        for (const model::ShardSpan shard : problem_.options.shard) {
          plan.stages[i].recompute = recompute;
          plan.stages[i].zero = zero;
          plan.stages[i].shard = zero == 0 ? model::ShardSpan::kAll : shard;
          options(plan, i + 1);
        }
      }
    }
  }

  const model::Problem& problem_;
  const network::Network& network_;
  double best_ = kNone;
};

/// So that the product over stages stays small.
void thin_out(model::Problem& problem, testing::Dice& dice) {
  if (problem.options.recompute.size() > 2) problem.options.recompute.pop_back();
  while (problem.options.zero.size() > 2) {
    problem.options.zero.erase(
        problem.options.zero.begin() +
        dice.between(0, static_cast<std::int64_t>(problem.options.zero.size()) - 1));
  }
  if (problem.options.shard.size() > 1) problem.options.zero.resize(1);
}

TEST(Interleaved, EqualsEveryLayoutTried) {
  int feasible = 0, deep = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(250) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::Dice dice(seed + 1'000'000);
    model::Problem problem = testing::row_problem(seed);
    thin_out(problem, dice);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solve(problem, *network);
    const double best = Enumeration(problem, *network).run();
    if (best == kNone) {
      EXPECT_EQ(plan.status, model::Status::kInfeasible);
      continue;
    }
    ++feasible;
    ASSERT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
    EXPECT_NEAR(plan.iteration_time_s, best, 1e-9 * best)
        << testing::describe(testing::placed(plan));
    EXPECT_EQ(plan.strategy.vpp, problem.options.vpp.front());
    deep += plan.strategy.pp > 2 ? 1 : 0;
  }
  EXPECT_GT(feasible, 0);
  EXPECT_GT(deep, 0);
}

TEST(Interleaved, IsChosenWhereItIsFaster) {
  int chosen = 0, plain = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(250) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    model::Problem problem = testing::row_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const auto best = [&](std::vector<std::int64_t> vpp) {
      model::Problem with = problem;
      with.options.vpp = std::move(vpp);
      return solve(with, *network);
    };
    const std::int64_t v = problem.options.vpp.front();
    const model::Plan both = best({1, v});
    double least = kNone;
    for (const model::Plan& one : {best({1}), best({v})}) {
      if (one.status == model::Status::kOptimal) least = std::min(least, one.iteration_time_s);
    }
    if (least == kNone) continue;
    ASSERT_EQ(both.status, model::Status::kOptimal);
    EXPECT_NEAR(both.iteration_time_s, least, 1e-9 * least);
    (both.strategy.vpp > 1 ? chosen : plain) += 1;
  }
  EXPECT_GT(chosen, 0);
  EXPECT_GT(plain, 0);
}

/// The evaluator's word on the plan, asked to choose again what a stage may choose.
TEST(Interleaved, PlansAreCompletedToThemselves) {
  int seen = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(150) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const model::Problem problem = testing::row_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solve(problem, *network);
    if (plan.status != model::Status::kOptimal) continue;
    ++seen;
    model::PartialPlan partial;
    partial.dp = plan.strategy.dp;
    partial.dp_inner = plan.strategy.dp_inner;
    for (const model::StagePlan& stage : plan.stages) {
      model::PartialStage part;
      part.layers = stage.layers;
      part.chunks = stage.chunks;
      part.strategy = stage.strategy;
      partial.stages.push_back(std::move(part));
    }
    const model::Plan again = complete(problem, *network, partial);
    ASSERT_EQ(again.status, model::Status::kOptimal) << again.reason;
    if (problem.options.objective == model::Objective::k1F1B) {
      EXPECT_NEAR(again.iteration_time_s, plan.iteration_time_s, 1e-9 * plan.iteration_time_s);
    }
  }
  EXPECT_GT(seen, 0);
}

}  // namespace
}  // namespace nestplan::solver
