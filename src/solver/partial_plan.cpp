#include "solver/partial_plan.hpp"

#include <utility>
#include <vector>

namespace nestplan::solver {
namespace {

template <typename Value>
std::vector<Value> one_or(const std::optional<Value>& one, const std::vector<Value>& all) {
  return one ? std::vector<Value>{*one} : all;
}

}  // namespace

cost::PlacedPlan one_behind_another(const model::Problem& problem,
                                    const model::PartialPlan& partial, std::int64_t dp_inner) {
  cost::PlacedPlan plan;
  plan.dp = partial.dp;
  plan.dp_inner = dp_inner;
  std::int64_t next = 0;
  for (const model::PartialStage& stage : partial.stages) {
    const model::Strategy& strategy = problem.graph.strategies[at(stage.strategy)];
    cost::PlacedStage placed{stage.layers,
                             stage.strategy,
                             stage.position.value_or(next),
                             stage.recompute.value_or(problem.options.recompute.front()),
                             stage.zero.value_or(problem.options.zero.front()),
                             stage.shard.value_or(problem.options.shard.front()),
                             stage.chunks};
    next = placed.position + strategy.tp * strategy.cp * dp_inner;
    plan.stages.push_back(std::move(placed));
  }
  return plan;
}

StageRule rule_of(const model::PartialStage& stage, const model::PlanOptions& options) {
  return {one_or(stage.recompute, options.recompute), one_or(stage.zero, options.zero),
          one_or(stage.shard, options.shard), stage.position.value_or(-1)};
}

}  // namespace nestplan::solver
