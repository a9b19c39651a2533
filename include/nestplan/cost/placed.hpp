#pragma once

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cost {

/// The choices of a costed plan alone.
inline PlacedPlan placed(const model::Plan& plan) {
  PlacedPlan choices{plan.strategy.dp, plan.strategy.dp_inner, {}};
  for (const model::StagePlan& stage : plan.stages) {
    choices.stages.push_back({stage.layers, stage.strategy, stage.position, stage.recompute,
                              stage.zero, stage.shard, stage.chunks});
  }
  return choices;
}

}  // namespace nestplan::cost
