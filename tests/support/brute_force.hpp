#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::testing {

/// Calls `visit` with the cost of `plan` for every recomputation, ZeRO stage and span of shards (of
/// the problem's), the same in all stages: a stage's time and memory depend on its own options
/// alone.
void each_option(const model::Problem& problem, const network::Network& network,
                 cost::PlacedPlan plan, const std::vector<model::Recompute>& recomputes,
                 const std::vector<int>& zeros,
                 const std::function<void(const model::Plan& costed)>& visit);

/// The best plan of one search. `value_s` is infinite when no plan is feasible.
struct Optimum {
  double value_s = std::numeric_limits<double>::infinity();
  std::int64_t micro_batch = 0;
  cost::PlacedPlan plan;

  bool feasible() const { return value_s < std::numeric_limits<double>::infinity(); }
};

/// Best plans for both objectives, with one strategy for all stages and with one per stage.
struct Optima {
  Optimum uniform_1f1b;
  Optimum uniform_paper;
  Optimum per_stage_1f1b;
  Optimum per_stage_paper;

  const Optimum& at(model::Objective objective, bool per_stage) const {
    if (objective == model::Objective::k1F1B) return per_stage ? per_stage_1f1b : uniform_1f1b;
    return per_stage ? per_stage_paper : uniform_paper;
  }
};

/// Enumerates every plan: micro-batches × dp × dp_inner × chains of downsets × strategies ×
/// positions × (recompute, ZeRO) of every stage, within the lists of `problem.options`
/// (`objective` and `per_stage_strategies` aside: all four answers come from one enumeration).
///
/// A placement (everything but recompute and ZeRO) is costed by `cost::evaluate` once per allowed
/// (recompute, ZeRO), used by all its stages. That is enough to cost their whole product, which is
/// then enumerated plainly: `t_i`, `sync_i` and the memory of a stage depend on the recompute and
/// the ZeRO stage of that stage alone. The winners are evaluated once more as they are, and a
/// different value is an InternalError.
///
/// Without `per_stage` the plans that mix strategies are not visited and their two answers are
/// those of the uniform ones.
///
/// Values within 1e-12 (relative) are equal; among equals the plan that `canonical_less` puts first
/// is returned. Exponential: a handful of layers and up to 16 devices.
Optima brute_force(const model::Problem& problem, const network::Network& network,
                   bool per_stage = true);

/// The order among equally good plans: (mbs, dp, dp_inner, p), then, stage by stage from the first,
/// (layers as sorted indices, strategy index, position, recompute, ZeRO).
bool canonical_less(std::int64_t micro_batch_a, const cost::PlacedPlan& a,
                    std::int64_t micro_batch_b, const cost::PlacedPlan& b);

using cost::placed;

}  // namespace nestplan::testing
