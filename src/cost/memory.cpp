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
                        const InFlight& in_flight) {
  const auto chunks = static_cast<double>(in_flight.chunks);
  const double kept = chunks * stage.kept(recompute);
  if (in_flight.vpp == 1) return std::ceil(kept + stage.extra(recompute));
  return ceil_of_sum(stage.extra(recompute), kept, static_cast<double>(in_flight.vpp));
}

std::int64_t in_flight(model::Schedule schedule, std::int64_t place, std::int64_t microbatches) {
  return schedule == model::Schedule::kGPipe ? microbatches : std::min(place, microbatches);
}

InFlight interleaved_in_flight(std::int64_t place, std::int64_t depth, std::int64_t vpp,
                               std::int64_t microbatches) {
  const std::int64_t warm_up = 2 * (place - 1) + (vpp - 1) * depth;
  return {std::min(warm_up + 1, microbatches * vpp), vpp};
}

ShardGroups shard_groups(model::ShardSpan span, std::int64_t dp, std::int64_t dp_inner,
                         std::int64_t cp, std::int64_t ep) {
  if (span == model::ShardSpan::kAll) return {dp * cp, dp * cp / ep};
  // Experts that are split over several pods have their copies in other pods only.
  return {dp_inner * cp, std::max<std::int64_t>(1, dp_inner * cp / ep)};
}

std::int64_t communicators(std::int64_t tp, std::int64_t cp, std::int64_t ep, std::int64_t dp,
                           bool pipeline) {
  return (tp > 1 ? 1 : 0) + (cp > 1 ? 1 : 0) + (ep > 1 ? 1 : 0) + (dp > 1 ? 1 : 0) +
         (pipeline ? 1 : 0);
}

double memory_limit(double usable, const model::MemoryReserve& reserve) {
  return std::floor(usable * (1 - reserve.margin));
}

double reserve_bytes(const model::MemoryReserve& reserve, std::int64_t communicators) {
  return std::ceil(reserve.context_bytes +
                   static_cast<double>(communicators) * reserve.communicator_bytes);
}

}  // namespace nestplan::cost
