#include "nestplan/cost/memory.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

/// `⌈whole + numerator/divisor⌉`, exact for counts that are multiples of 2^-10: integers and
/// fractions are added apart, so that no rounding error is lifted to a byte.
double ceil_of_sum(double whole, double numerator, double divisor) {
  const double rest = std::fmod(numerator, divisor);
  const double quotient = (numerator - rest) / divisor;
  const double floor = std::floor(whole);
  return floor + quotient + std::ceil((whole - floor) + rest / divisor);
}

}  // namespace

double state_bytes(const StageFootprint& stage, int zero, const model::StateBytes& per_parameter,
                   const ShardGroups& groups) {
  const double all = stage.parameters + stage.expert_parameters;
  // Shards of experts are brought to the denominator G: P/(G/ep) = P·ep/G.
  const auto group = static_cast<double>(groups.dense);
  const double experts_per_group = group / static_cast<double>(groups.expert);
  const double sharded = stage.parameters + stage.expert_parameters * experts_per_group;
  const auto [w, g, o] = per_parameter;
  switch (zero) {
    case 0:
      return std::ceil(all * w + all * g + all * o);
    case 1:
      return ceil_of_sum(all * w + all * g, sharded * o, group);
    case 2:
      return ceil_of_sum(all * w, sharded * g + sharded * o, group);
    case 3:
      return ceil_of_sum(stage.largest_layer * w, sharded * w + sharded * g + sharded * o, group);
    default:
      throw InternalError("state_bytes: there is no ZeRO stage " + std::to_string(zero));
  }
}

double activation_bytes(const StageFootprint& stage, model::Recompute recompute,
                        std::int64_t in_flight) {
  const auto f = static_cast<double>(in_flight);
  if (recompute == model::Recompute::kNone) return std::ceil(f * stage.activation_bytes);
  return std::ceil(f * stage.checkpoint_bytes + stage.largest_activation);
}

std::int64_t in_flight(model::Schedule schedule, std::int64_t place, std::int64_t microbatches) {
  return schedule == model::Schedule::kGPipe ? microbatches : std::min(place, microbatches);
}

}  // namespace nestplan::cost
