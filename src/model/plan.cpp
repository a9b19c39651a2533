#include "nestplan/model/plan.hpp"

namespace nestplan::model {

std::int64_t devices_used(const Plan& plan) {
  std::int64_t pod = 0;
  for (const StagePlan& stage : plan.stages) pod += stage.devices;
  return pod * plan.strategy.dp_outer;
}

}  // namespace nestplan::model
