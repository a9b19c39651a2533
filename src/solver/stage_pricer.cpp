#include "solver/stage_pricer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace nestplan::solver {

using model::Recompute;

namespace {

/// More micro-batches than any schedule has in flight.
constexpr double kManyInFlight = 1e15;

}  // namespace

StagePricer::StagePricer(const Instance& instance, const Placement& placement, int choice)
    : instance_(instance),
      sums_(instance.strategies()[at(placement.configuration().strategies[at(choice)])]),
      classes_(placement.classes(choice)),
      strategy_(placement.configuration().strategies[at(choice)]) {
  shard_groups_.dense = placement.configuration().dp * sums_.strategy.cp;
  shard_groups_.expert = shard_groups_.dense / sums_.strategy.ep;
  const auto [w, g, o] = instance.options().state_bytes;
  const auto dense = static_cast<double>(shard_groups_.dense);
  const auto expert = static_cast<double>(shard_groups_.expert);
  rates_ = {{{w + g + o, w + g + o, 0},
             {w + g + o / dense, w + g + o / expert, 0},
             {w + (g + o) / dense, w + (g + o) / expert, 0},
             {(w + g + o) / dense, (w + g + o) / expert, w}}};
}

bool StagePricer::load(DownsetId outer, DownsetId inner) {
  if (sums_.unusable[at(outer)] != sums_.unusable[at(inner)]) return false;
  outer_ = outer;
  inner_ = inner;
  stage_ = instance_.footprint(strategy_, outer, inner);
  compute_forward_ = sums_.forward[at(outer)] - sums_.forward[at(inner)];
  compute_ = compute_forward_ + (sums_.backward[at(outer)] - sums_.backward[at(inner)]);
  outer_mix_ = at(sums_.mixes.of[at(outer)]);
  inner_mix_ = at(sums_.mixes.of[at(inner)]);
  for (auto& by_zero : most_in_flight_) by_zero.fill(kNotYetKnown);
  decided_until_ = -1;
  return true;
}

// By a division first; only where the rounding of bytes could decide, by the function that the
// evaluator uses too.
std::int64_t StagePricer::most_in_flight(Recompute recompute, int zero) {
  std::int64_t& most = most_in_flight_[static_cast<std::size_t>(recompute)][at(zero)];
  if (most != kNotYetKnown) return most;
  const StateRates& rate = rates_[at(zero)];
  const double state = rate.dense * stage_.parameters + rate.expert * stage_.expert_parameters +
                       rate.gathered * stage_.largest_layer;
  const bool keeps_all = recompute == Recompute::kNone;
  const double each = keeps_all ? stage_.activation_bytes : stage_.checkpoint_bytes;
  const double once = keeps_all ? 0 : stage_.largest_activation;
  const double room = instance_.usable_bytes() - state - once;
  constexpr double kRelative = 1e-12;
  constexpr double kBytes = 4;
  const double doubt = kBytes + kRelative * (state + once + instance_.usable_bytes());
  if (room < -doubt) return most = 0;
  if (each > 0 && room > doubt) {
    const double count = std::floor(room / each);
    if (count * each <= room - doubt && (count + 1) * each > room + doubt &&
        count < kManyInFlight) {
      return most = static_cast<std::int64_t>(count);
    }
  }
  return most = count_in_flight(recompute, zero);
}

std::int64_t StagePricer::count_in_flight(Recompute recompute, int zero) const {
  const double room =
      instance_.usable_bytes() -
      cost::state_bytes(stage_, zero, instance_.options().state_bytes, shard_groups_);
  const auto fits = [&](std::int64_t in_flight) {
    return cost::activation_bytes(stage_, recompute, in_flight) <= room;
  };
  if (!fits(1)) return 0;
  const bool keeps_all = recompute == Recompute::kNone;
  const double each = keeps_all ? stage_.activation_bytes : stage_.checkpoint_bytes;
  const double once = keeps_all ? 0 : stage_.largest_activation;
  if (each * kManyInFlight <= room - once) return static_cast<std::int64_t>(kManyInFlight);
  auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>((room - once) / each));
  while (!fits(most)) --most;
  while (fits(most + 1)) ++most;
  return most;
}

int StagePricer::least_zero(Recompute recompute, std::int64_t in_flight) {
  for (const int zero : instance_.rule(outer_).zero) {
    if (most_in_flight(recompute, zero) >= in_flight) return zero;
  }
  return -1;
}

Ticks StagePricer::forward(int position_class) const {
  const auto& collectives = classes_[at(position_class)].sums->forward;
  return compute_forward_ + (collectives[outer_mix_] - collectives[inner_mix_]);
}

Ticks StagePricer::base(int position_class) const {
  const ClassSums& sums = *classes_[at(position_class)].sums;
  if (!sums.drowned.empty() && sums.drowned[outer_mix_] != sums.drowned[inner_mix_]) return kNever;
  return compute_ + (sums.forward[outer_mix_] - sums.forward[inner_mix_]) +
         (sums.backward[outer_mix_] - sums.backward[inner_mix_]);
}

Ticks StagePricer::zero_traffic(int position_class, int zero) const {
  return classes_[at(position_class)].data_parallel.zero_traffic(instance_, zero, stage_.parameters,
                                                                 stage_.expert_parameters);
}

Ticks StagePricer::sync(int position_class, int zero) const {
  return classes_[at(position_class)].data_parallel.sync(instance_, zero, stage_.parameters,
                                                         stage_.expert_parameters);
}

// ZeRO traffic does not fall from one stage to the next, so of the ZeRO stages that fit with a
// given recomputation the least is also the fastest.
StagePricer::Decision StagePricer::decide(std::int64_t in_flight) {
  if (decided_from_ <= in_flight && in_flight <= decided_until_) return Decision::kSame;
  decided_zero_.fill(-1);
  decided_from_ = in_flight;
  decided_until_ = std::numeric_limits<std::int64_t>::max();
  bool any = false;
  for (const Recompute recompute : instance_.rule(outer_).recompute) {
    const int zero = least_zero(recompute, in_flight);
    if (zero < 0) continue;
    any = true;
    decided_zero_[static_cast<std::size_t>(recompute)] = zero;
    decided_until_ = std::min(decided_until_, most_in_flight(recompute, zero));
    if (recompute == Recompute::kNone && zero < 2) break;  // no traffic: nothing is faster
  }
  if (any) return Decision::kNew;
  decided_until_ = -1;
  return Decision::kNone;
}

Ticks StagePricer::least_time(int position_class) const {
  Ticks least = kNever;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    const int zero = decided_zero_[static_cast<std::size_t>(recompute)];
    if (zero < 0) continue;
    Ticks ticks = base(position_class) + zero_traffic(position_class, zero);
    if (recompute == Recompute::kFull) ticks += forward(position_class);
    least = std::min(least, ticks);
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

double StagePricer::share_of_layer(const model::LayerCost& layer) const {
  double state = std::numeric_limits<double>::infinity();
  for (const int zero : instance_.options().zero) {
    const StateRates& rate = rates_[at(zero)];
    state = std::min(state, rate.dense * layer.parameters + rate.expert * layer.expert_parameters);
  }
  return state + std::min(layer.activation_bytes, layer.checkpoint_bytes);
}

double StagePricer::least_bytes(std::int64_t in_flight) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Recompute recompute : instance_.rule(outer_).recompute) {
    for (const int zero : instance_.rule(outer_).zero) {
      least = std::min(
          least, cost::state_bytes(stage_, zero, instance_.options().state_bytes, shard_groups_) +
                     cost::activation_bytes(stage_, recompute, in_flight));
    }
  }
  return least;
}

}  // namespace nestplan::solver
