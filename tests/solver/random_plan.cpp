#include "solver/random_plan.hpp"

#include <vector>

namespace nestplan::testing {
namespace {

using solver::at;
using solver::DownsetId;

/// Any downset inside `outer` but itself.
DownsetId random_inner(const lattice::Lattice& lattice, DownsetId outer, Dice& dice) {
  std::vector<DownsetId> inside;
  for (DownsetId d = 0; d < outer; ++d) {
    if (lattice.subset(d, outer)) inside.push_back(d);
  }
  return dice.pick(inside);
}

std::int64_t random_start(const network::Network& network, const network::PodLayout& pods,
                          std::int64_t end, Dice& dice) {
  if (end == 0 || dice.chance(60)) return end;
  std::vector<std::int64_t> starts;
  network.append_starts(pods, end, starts);
  return starts.empty() ? end : dice.pick(starts);
}

}  // namespace

std::optional<cost::PlacedPlan> random_plan(const solver::Instance& instance,
                                            const solver::Configuration& configuration,
                                            Dice& dice) {
  const lattice::Lattice& lattice = instance.lattice();
  cost::PlacedPlan plan;
  plan.dp = configuration.dp;
  plan.dp_inner = configuration.dp_inner;
  const std::int64_t depth = dice.between(1, configuration.max_depth);
  std::int64_t end = 0;
  DownsetId outer = lattice.whole();
  while (outer != 0) {
    const bool last = static_cast<std::int64_t>(plan.stages.size()) + 1 == depth;
    const DownsetId inner = last ? 0 : random_inner(lattice, outer, dice);
    cost::PlacedStage stage;
    stage.layers = lattice.difference(outer, inner);
    stage.strategy = dice.pick(configuration.strategies);
    stage.position = random_start(instance.network(), configuration.pods, end, dice);
    stage.recompute = configuration.recompute.value_or(dice.pick(instance.options().recompute));
    stage.zero = dice.pick(instance.options().zero);
    if (stage.zero > 0) stage.shard = dice.pick(instance.options().shard);
    if (configuration.shard) {
      const solver::ShardChoice& alike = solver::kShardChoices[at(*configuration.shard)];
      stage.zero = alike.zero;
      stage.shard = alike.span;
    }
    for (const int layer : stage.layers) {
      const auto& costs = instance.problem().graph.layers[at(layer)].costs;
      if (!costs[at(stage.strategy)]) return std::nullopt;
    }
    end = stage.position +
          configuration.unit(instance.problem().graph.strategies[at(stage.strategy)]);
    if (end > configuration.pods.pod_size) return std::nullopt;
    plan.stages.push_back(std::move(stage));
    outer = inner;
  }
  return plan;
}

}  // namespace nestplan::testing
