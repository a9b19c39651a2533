#include "nestplan/cost/update.hpp"

namespace nestplan::cost {

double update_bytes(const StageFootprint& stage, int zero, const model::StateBytes& per_parameter,
                    const ShardGroups& groups) {
  const double held = stage.parameters + stage.expert_parameters;
  const double shard = stage.parameters / static_cast<double>(groups.dense) +
                       stage.expert_parameters / static_cast<double>(groups.expert);
  const auto [w, g, o] = per_parameter;
  const double updated = (2 * g + 2 * o + w) * (zero >= 1 ? shard : held);
  return updated + g * (zero >= 2 ? shard : held);
}

model::UpdateRate update_rate(const CostModel& costs) {
  constexpr double kKernels = 3;
  constexpr double kGiga = 1e9;
  const double none = costs.seconds(MemoryBound{0});
  return {kKernels * none, (costs.seconds(MemoryBound{kGiga}) - none) / kGiga};
}

}  // namespace nestplan::cost
