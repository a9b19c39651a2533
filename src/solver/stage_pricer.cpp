#include "solver/stage_pricer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "nestplan/cost/update.hpp"
#include "solver/rules.hpp"

namespace nestplan::solver {

using model::Recompute;

namespace {

/// More micro-batches than any schedule has in flight.
constexpr double kManyInFlight = 1e15;

}  // namespace

Ticks StageWork::recomputed(Recompute recompute) const {
  switch (recompute) {
    case Recompute::kNone:
      return 0;
    case Recompute::kSelective:
      return compute.selective;
    case Recompute::kFull:
      return compute.forward;
  }
  return 0;
}

Ticks StageWork::time(Recompute recompute, const Traffic& zero) const {
  Traffic traffic = forward + backward + zero;
  if (recompute == Recompute::kFull) traffic += forward;
  return traffic.with(compute.forward + compute.backward + recomputed(recompute));
}

StagePricer::StagePricer(const Instance& instance, const Placement& placement, int choice)
    : instance_(instance),
      sums_(instance.strategies()[at(placement.configuration().strategies[at(choice)])]),
      classes_(placement.classes(choice)),
      strategy_(placement.configuration().strategies[at(choice)]) {
  const Configuration& configuration = placement.configuration();
  const model::Strategy& s = sums_.strategy;
  one_pod_ = configuration.pods.pods == 1;
  if (configuration.recompute) only_recompute_ = {*configuration.recompute};
  if (configuration.shard) only_shard_ = {*configuration.shard};
  for (const model::ShardSpan span : {model::ShardSpan::kAll, model::ShardSpan::kPod}) {
    shard_groups_[static_cast<std::size_t>(span)] =
        cost::shard_groups(span, configuration.dp, configuration.dp_inner, s.cp, s.ep);
  }
  const auto [w, g, o] = instance.options().state_bytes;
  for (std::size_t i = 0; i < kChoices; ++i) {
    const cost::ShardGroups& groups =
        shard_groups_[static_cast<std::size_t>(kShardChoices[i].span)];
    const auto dense = static_cast<double>(groups.dense);
    const auto expert = static_cast<double>(groups.expert);
    const std::array<StateRates, 4> by_zero{{{w + g + o, w + g + o, 0},
                                             {w + g + o / dense, w + g + o / expert, 0},
                                             {w + (g + o) / dense, w + (g + o) / expert, 0},
                                             {(w + g + o) / dense, (w + g + o) / expert, w}}};
    rates_[i] = by_zero[at(kShardChoices[i].zero)];
  }
  find_permitted(configuration);
  const auto reserve = [&](bool pipeline) {
    return cost::reserve_bytes(instance.options().reserve,
                               cost::communicators(s.tp, s.cp, s.ep, configuration.dp, pipeline));
  };
  reserve_alone_ = reserve(false);
  reserve_in_pipeline_ = reserve(true);
  for (const SharedClass& position_class : classes_) {
    const auto known = std::find_if(
        machines_.begin(), machines_.end(),
        [&](const Machine& machine) { return machine.types == position_class->types; });
    machine_of_.push_back(static_cast<int>(known - machines_.begin()));
    if (known != machines_.end()) continue;
    Machine& machine = machines_.emplace_back();
    machine.types = position_class->types;
    const double usable = instance.usable_bytes(machine.types);
    machine.room_alone = usable - reserve_alone_;
    machine.room_in_pipeline = usable - reserve_in_pipeline_;
  }
}

bool StagePricer::load(DownsetId outer, DownsetId inner) {
  if (sums_.unusable[at(outer)] != sums_.unusable[at(inner)]) return false;
  outer_ = outer;
  inner_ = inner;
  alone_ = inner == 0 && outer == instance_.lattice().whole();
  stage_ = instance_.footprint(strategy_, outer, inner);
  for (Machine& machine : machines_) {
    machine.room = alone_ ? machine.room_alone : machine.room_in_pipeline;
    machine.compute = instance_.compute(strategy_, outer, inner, machine.types);
    for (auto& by_choice : machine.most_in_flight) by_choice.fill(kNotYetKnown);
  }
  outer_mix_ = at(sums_.mixes.of[at(outer)]);
  inner_mix_ = at(sums_.mixes.of[at(inner)]);
  decided_until_ = -1;
  return true;
}

const std::vector<Recompute>& StagePricer::recomputations() const {
  return only_recompute_.empty() ? instance_.rule(outer_).recompute : only_recompute_;
}

void StagePricer::find_permitted(const Configuration& configuration) {
  constexpr unsigned kAllChoices = (1U << kChoices) - 1;
  for (auto& by_recompute : permitted_) by_recompute.fill(kAllChoices);
  const Rules& rules = instance_.rules();
  if (!rules.has(targets::Scope::kStage)) return;
  for (const bool alone : {false, true}) {
    for (std::size_t r = 0; r < kRecomputations; ++r) {
      for (std::size_t i = 0; i < kChoices; ++i) {
        if (rules.broken_by_stage(configuration, sums_.strategy, alone ? 1 : 2,
                                  static_cast<Recompute>(r), kShardChoices[i]) != nullptr) {
          permitted_[alone ? 1 : 0][r] &= ~(1U << i);
        }
      }
    }
  }
}

const std::vector<int>& StagePricer::shards() const {
  if (!only_shard_.empty()) return only_shard_;
  const StageRule& rule = instance_.rule(outer_);
  return one_pod_ ? rule.shards_in_one_pod : rule.shards;
}

double StagePricer::state_bytes(int choice) const {
  const ShardChoice& shard = kShardChoices[at(choice)];
  return cost::state_bytes(stage_, shard.zero, instance_.options().state_bytes,
                           shard_groups_[static_cast<std::size_t>(shard.span)]);
}

// By a division first; only where the rounding of bytes could decide, by the function that the
// evaluator uses too.
std::int64_t StagePricer::most_in_flight(Machine& machine, Recompute recompute, int choice) const {
  std::int64_t& most = machine.most_in_flight[static_cast<std::size_t>(recompute)][at(choice)];
  if (most != kNotYetKnown) return most;
  const StateRates& rate = rates_[at(choice)];
  const double state = rate.dense * stage_.parameters + rate.expert * stage_.expert_parameters +
                       rate.gathered * stage_.largest_layer;
  const double each = stage_.kept(recompute);
  const double once = stage_.extra(recompute);
  const double room = machine.room - state - once;
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
  return most = count_in_flight(machine, recompute, choice);
}

std::int64_t StagePricer::count_in_flight(const Machine& machine, Recompute recompute,
                                          int choice) const {
  const double room = machine.room - state_bytes(choice);
  const auto fits = [&](std::int64_t in_flight) {
    return cost::activation_bytes(stage_, recompute, in_flight) <= room;
  };
  if (!fits(1)) return 0;
  const double each = stage_.kept(recompute);
  const double once = stage_.extra(recompute);
  if (each * kManyInFlight <= room - once) return static_cast<std::int64_t>(kManyInFlight);
  auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>((room - once) / each));
  while (!fits(most)) --most;
  while (fits(most + 1)) ++most;
  return most;
}

/// Choices that fit and may be the fastest with a given recomputation. Traffic does not fall from
/// one ZeRO stage to the next with shards of the same span, nor does what is exposed of it, so of
/// each span the least that fits will do; without any traffic nothing else is needed.
unsigned StagePricer::worthwhile(Machine& machine, Recompute recompute,
                                 std::int64_t in_flight) const {
  unsigned choices = 0;
  std::array<bool, 2> seen{};
  for (const int choice : shards()) {
    const ShardChoice& shard = kShardChoices[at(choice)];
    bool& have = seen[static_cast<std::size_t>(shard.span)];
    if (have || !permitted(recompute, choice) ||
        most_in_flight(machine, recompute, choice) < in_flight) {
      continue;
    }
    have = true;
    choices |= 1U << choice;
    if (shard.zero < 2) break;
  }
  return choices;
}

std::optional<StageWork> StagePricer::work(int position_class) const {
  const ClassSums& sums = *classes_[at(position_class)]->sums;
  if (sums.drowns(outer_mix_, inner_mix_)) return std::nullopt;
  return StageWork{machine(position_class).compute, sums.forward_of(outer_mix_, inner_mix_),
                   sums.backward_of(outer_mix_, inner_mix_)};
}

Traffic StagePricer::zero_traffic(int position_class, int choice) const {
  const Ticks ticks = classes_[at(position_class)]->data_parallel.zero_traffic(
      instance_, kShardChoices[at(choice)], stage_.parameters, stage_.expert_parameters);
  return {ticks, part_of(ticks, instance_.options().overlap.shards)};
}

StageOption StagePricer::option(int position_class, Recompute recompute, int choice,
                                const StageWork& work) const {
  const ShardChoice& shard = kShardChoices[at(choice)];
  const SyncTicks sync = classes_[at(position_class)]->data_parallel.sync(
      instance_, shard, stage_.parameters, stage_.expert_parameters);
  const Ticks exchange =
      sync.exposed(instance_.options().overlap.sync,
                   work.compute.backward + work.recomputed(recompute), work.compute.forward);
  const double bytes = cost::update_bytes(stage_, shard.zero, instance_.options().state_bytes,
                                          shard_groups_[static_cast<std::size_t>(shard.span)]);
  return {recompute, shard, work.time(recompute, zero_traffic(position_class, choice)),
          exchange + instance_.update(bytes, machine(position_class).types)};
}

StagePricer::Decision StagePricer::decide(std::int64_t in_flight) {
  if (decided_from_ <= in_flight && in_flight <= decided_until_) return Decision::kSame;
  decided_from_ = in_flight;
  decided_until_ = std::numeric_limits<std::int64_t>::max();
  bool any = false;
  for (Machine& machine : machines_) any = decide(machine, in_flight) || any;
  if (any) return Decision::kNew;
  decided_until_ = -1;
  return Decision::kNone;
}

/// On some types of devices. False if nothing fits.
bool StagePricer::decide(Machine& machine, std::int64_t in_flight) {
  machine.decided.fill(0);
  bool any = false;
  for (const Recompute recompute : recomputations()) {
    if (!offers(recompute)) continue;
    const unsigned choices = worthwhile(machine, recompute, in_flight);
    machine.decided[static_cast<std::size_t>(recompute)] = choices;
    for (int choice = 0; choice < static_cast<int>(kChoices); ++choice) {
      if ((choices >> choice & 1U) == 0) continue;
      any = true;
      decided_until_ = std::min(decided_until_, most_in_flight(machine, recompute, choice));
    }
    constexpr unsigned kWithoutTraffic = 0b111;
    if (recompute == Recompute::kNone && (choices & kWithoutTraffic) != 0) break;
  }
  return any;
}

Ticks StagePricer::least_time(int position_class) const {
  Ticks least = kNever;
  if (!classes_[at(position_class)]->allowed) return least;
  const std::optional<StageWork> stage = work(position_class);
  if (!stage) return least;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    const unsigned choices = machine(position_class).decided[static_cast<std::size_t>(recompute)];
    if (choices == 0) continue;
    for (int choice = 0; choice < static_cast<int>(kChoices); ++choice) {
      if ((choices >> choice & 1U) == 0) continue;
      least = std::min(least, stage->time(recompute, zero_traffic(position_class, choice)));
    }
  }
  return least;
}

std::vector<StageOption> StagePricer::options(int position_class, std::int64_t in_flight) {
  std::vector<StageOption> result;
  if (!classes_[at(position_class)]->allowed) return result;
  const std::optional<StageWork> stage = work(position_class);
  if (!stage) return result;
  Machine& on = machine(position_class);
  for (const Recompute recompute : recomputations()) {
    if (!offers(recompute)) continue;
    for (const int choice : shards()) {
      if (!permitted(recompute, choice) || most_in_flight(on, recompute, choice) < in_flight) {
        continue;
      }
      result.push_back(option(position_class, recompute, choice, *stage));
    }
  }
  return result;
}

std::vector<StageOption> StagePricer::options(int position_class, const cost::StageFootprint& stage,
                                              const StageWork& work,
                                              const cost::InFlight& in_flight) {
  outer_ = instance_.lattice().whole();
  stage_ = stage;
  alone_ = false;
  std::vector<StageOption> result;
  if (!classes_[at(position_class)]->allowed) return result;
  const double room = machine(position_class).room_in_pipeline;
  for (const Recompute recompute : recomputations()) {
    if (!offers(recompute)) continue;
    const double activations = cost::activation_bytes(stage, recompute, in_flight);
    for (const int choice : shards()) {
      if (!permitted(recompute, choice)) continue;
      if (state_bytes(choice) + activations > room) continue;
      result.push_back(option(position_class, recompute, choice, work));
    }
  }
  return result;
}

double StagePricer::share_of_layer(const model::LayerCost& layer, double tied_parameters) const {
  double state = std::numeric_limits<double>::infinity();
  for (const int choice : instance_.rule(instance_.lattice().whole()).shards) {
    const StateRates& rate = rates_[at(choice)];
    state = std::min(state, rate.dense * (layer.parameters - tied_parameters) +
                                rate.expert * layer.expert_parameters);
  }
  return state +
         std::min({layer.activation_bytes, layer.selectively_kept(), layer.checkpoint_bytes});
}

double StagePricer::least_bytes(std::int64_t in_flight) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Recompute recompute : recomputations()) {
    for (const int choice : shards()) {
      if (!permitted(recompute, choice)) continue;
      least = std::min(least,
                       state_bytes(choice) + cost::activation_bytes(stage_, recompute, in_flight));
    }
  }
  return least + (alone_ ? reserve_alone_ : reserve_in_pipeline_);
}

}  // namespace nestplan::solver
