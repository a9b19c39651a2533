#include "baselines/stage_costs.hpp"

namespace nestplan::baselines {

using solver::at;

StageCosts::StageCosts(const solver::Instance& instance, const solver::Configuration& configuration,
                       solver::ClassCache& cache)
    : instance_(instance),
      configuration_(configuration),
      placement_(instance, configuration, cache),
      usable_bytes_(instance.usable_bytes(instance.types(0, configuration.pods.devices))) {
  for (int choice = 0; choice < choices(); ++choice) {
    pricers_.emplace_back(instance, placement_, choice);
  }
}

std::int64_t StageCosts::devices(int choice) const {
  return configuration_.unit(instance_.strategies()[at(strategy(choice))].strategy);
}

std::vector<StageOption> StageCosts::options(int choice, int begin, int end) {
  const auto outer = static_cast<solver::DownsetId>(layers() - begin);
  const auto inner = static_cast<solver::DownsetId>(layers() - end);
  std::vector<StageOption> result;
  if (instance_.admits(outer, inner, configuration_.middle) != solver::Verdict::kAdmitted ||
      !pricers_[at(choice)].load(outer, inner)) {
    return result;
  }
  const cost::StageFootprint stage = instance_.footprint(strategy(choice), outer, inner);
  const bool alone = end - begin == layers();
  const int origin = placement_.class_of(choice, placement_.origin());
  constexpr std::int64_t kWhateverFits = 0;
  for (const solver::StageOption& option : pricers_[at(choice)].options(origin, kWhateverFits)) {
    result.push_back({option.recompute, option.shard, instance_.scale().seconds(option.time),
                      instance_.scale().seconds(option.sync),
                      most_in_flight(stage, choice, option, alone)});
  }
  return result;
}

std::int64_t StageCosts::most_in_flight(const cost::StageFootprint& stage, int choice,
                                        const solver::StageOption& option, bool alone) const {
  const model::Strategy& s = instance_.strategies()[at(strategy(choice))].strategy;
  const model::PlanOptions& options = instance_.options();
  const cost::ShardGroups groups =
      cost::shard_groups(option.shard.span, configuration_.dp, configuration_.dp_inner, s.cp, s.ep);
  const double room =
      usable_bytes_ -
      cost::reserve_bytes(options.reserve,
                          cost::communicators(s.tp, s.cp, s.ep, configuration_.dp, !alone)) -
      cost::state_bytes(stage, option.shard.zero, options.state_bytes, groups);
  std::int64_t fits = 0;
  std::int64_t too_many = configuration_.microbatches + 1;
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    const bool fit = cost::activation_bytes(stage, option.recompute, middle) <= room;
    (fit ? fits : too_many) = middle;
  }
  return fits;
}

double StageCosts::receive_s(int choice, int cut) const {
  if (cut == 0 || cut == layers()) return 0;
  const std::int64_t unit = devices(choice);
  const network::Network& network = instance_.network();
  if (2 * unit > network.devices()) return 0;
  const solver::StrategySums& sums = instance_.strategies()[at(strategy(choice))];
  const double bytes = sums.cut[at(sums.cuts.of[at(layers() - cut)])];
  const network::PodLayout& pods = configuration_.pods;
  return network.transfer_s(bytes, network.link_level(pods, 0, unit, unit), unit);
}

std::int64_t StageCosts::in_flight(std::int64_t place) const {
  return cost::in_flight(instance_.options().schedule, place, configuration_.microbatches);
}

}  // namespace nestplan::baselines
