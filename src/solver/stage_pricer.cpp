#include "solver/stage_pricer.hpp"

#include <algorithm>
#include <limits>

namespace nestplan::solver {

using model::Recompute;

StagePricer::StagePricer(const Instance& instance, const Placement& placement, int choice)
    : instance_(instance),
      sums_(instance.strategies()[at(placement.configuration().strategies[at(choice)])]),
      classes_(placement.classes(choice)),
      strategy_(placement.configuration().strategies[at(choice)]) {
  shard_groups_.dense = placement.configuration().dp * sums_.strategy.cp;
  shard_groups_.expert = shard_groups_.dense / sums_.strategy.ep;
}

bool StagePricer::load(DownsetId outer, DownsetId inner) {
  if (sums_.unusable[at(outer)] != sums_.unusable[at(inner)]) return false;
  outer_ = outer;
  inner_ = inner;
  stage_ = instance_.footprint(strategy_, outer, inner);
  for (auto& by_zero : most_in_flight_) by_zero.fill(kNotYetKnown);
  return true;
}

std::int64_t StagePricer::most_in_flight(Recompute recompute, int zero) {
  std::int64_t& most = most_in_flight_[static_cast<std::size_t>(recompute)][at(zero)];
  if (most != kNotYetKnown) return most;
  const double room =
      instance_.usable_bytes() -
      cost::state_bytes(stage_, zero, instance_.options().state_bytes, shard_groups_);
  const auto fits = [&](std::int64_t in_flight) {
    return cost::activation_bytes(stage_, recompute, in_flight) <= room;
  };
  if (!fits(1)) return most = 0;
  // By division first, then exactly: rounding may be off by one.
  const double each = recompute == Recompute::kNone ? stage_.activation_bytes
                                                    : stage_.checkpoint_bytes;
  const double once = recompute == Recompute::kNone ? 0 : stage_.largest_activation;
  constexpr double kUnbounded = 1e15;
  const double estimate = each > 0 ? (room - once) / each : kUnbounded;
  most = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(estimate, kUnbounded)));
  while (!fits(most)) --most;
  while (estimate < kUnbounded && fits(most + 1)) ++most;
  return most;
}

int StagePricer::least_zero(Recompute recompute, std::int64_t in_flight) {
  for (const int zero : instance_.rule(outer_).zero) {
    if (most_in_flight(recompute, zero) >= in_flight) return zero;
  }
  return -1;
}

Ticks StagePricer::forward(int position_class) const {
  const auto& forward = classes_[at(position_class)].sums->forward;
  return forward[at(outer_)] - forward[at(inner_)];
}

Ticks StagePricer::base(int position_class) const {
  const ClassSums& sums = *classes_[at(position_class)].sums;
  return sums.forward[at(outer_)] - sums.forward[at(inner_)] + sums.backward[at(outer_)] -
         sums.backward[at(inner_)];
}

Ticks StagePricer::sharded(SlowestGroup ShardTimes::*collective, int position_class,
                           double bytes_each) const {
  const PositionClass& where = classes_[at(position_class)];
  return (where.dense.*collective).ticks(instance_.scale(), stage_.parameters, bytes_each) +
         (where.expert.*collective)
             .ticks(instance_.scale(), stage_.expert_parameters, bytes_each);
}

Ticks StagePricer::zero_traffic(int position_class, int zero) const {
  if (zero < 2) return 0;
  const model::StateBytes& bytes = instance_.options().state_bytes;
  Ticks ticks = sharded(&ShardTimes::reduce_scatter, position_class, bytes.gradient);
  if (zero == 3) ticks += 2 * sharded(&ShardTimes::all_gather, position_class, bytes.weight);
  return ticks;
}

Ticks StagePricer::sync(int position_class, int zero) const {
  const model::StateBytes& bytes = instance_.options().state_bytes;
  switch (zero) {
    case 0:
      return sharded(&ShardTimes::all_reduce, position_class, bytes.gradient);
    case 1:
      return sharded(&ShardTimes::reduce_scatter, position_class, bytes.gradient) +
             sharded(&ShardTimes::all_gather, position_class, bytes.weight);
    case 2:
      return sharded(&ShardTimes::all_gather, position_class, bytes.weight);
    default:
      return 0;
  }
}

// ZeRO traffic does not fall from one stage to the next, so of the ZeRO stages that fit with a
// given recomputation the least is also the fastest.
Ticks StagePricer::least_time(int position_class, std::int64_t in_flight) {
  Ticks least = kNever;
  for (const Recompute recompute : instance_.rule(outer_).recompute) {
    const int zero = least_zero(recompute, in_flight);
    if (zero < 0) continue;
    Ticks ticks = base(position_class) + zero_traffic(position_class, zero);
    if (recompute == Recompute::kFull) ticks += forward(position_class);
    least = std::min(least, ticks);
    if (recompute == Recompute::kNone && zero < 2) break;
  }
  return least;
}

std::vector<StageOption> StagePricer::options(int position_class, std::int64_t in_flight) {
  std::vector<StageOption> result;
  for (const Recompute recompute : instance_.rule(outer_).recompute) {
    for (const int zero : instance_.rule(outer_).zero) {
      if (most_in_flight(recompute, zero) < in_flight) continue;
      StageOption option{recompute, zero, 0, sync(position_class, zero)};
      option.time = base(position_class) + zero_traffic(position_class, zero);
      if (recompute == Recompute::kFull) option.time += forward(position_class);
      result.push_back(option);
    }
  }
  return result;
}

std::vector<FirstStageCost> StagePricer::first_stage_costs(int position_class) const {
  std::vector<FirstStageCost> result;
  for (const int zero : instance_.rule(outer_).zero) {
    result.push_back({base(position_class), zero_traffic(position_class, zero),
                      sync(position_class, zero)});
  }
  return result;
}

double StagePricer::least_bytes(std::int64_t in_flight) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Recompute recompute : instance_.rule(outer_).recompute) {
    for (const int zero : instance_.rule(outer_).zero) {
      least = std::min(least, cost::state_bytes(stage_, zero, instance_.options().state_bytes,
                                                shard_groups_) +
                                  cost::activation_bytes(stage_, recompute, in_flight));
    }
  }
  return least;
}

}  // namespace nestplan::solver
