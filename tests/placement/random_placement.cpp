#include "placement/random_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace nestplan::testing {
namespace {

void add_hosts(Dice& dice, model::Cluster& cluster) {
  const std::int64_t size = cluster.hierarchy().levels.front().fanout;
  for (std::int64_t h = 0; h < cluster.places() / size; ++h) {
    model::Host host{fmt::format("node{}", h + 1), size, {}};
    if (dice.chance(50)) {
      host.local.resize(static_cast<std::size_t>(size));
      std::iota(host.local.begin(), host.local.end(), 0);
      for (std::size_t i = host.local.size(); i > 1; --i) {
        std::swap(
            host.local[i - 1],
            host.local[static_cast<std::size_t>(dice.between(0, std::ssize(host.local) - 1)) % i]);
      }
    }
    cluster.hosts.push_back(std::move(host));
  }
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> list;
  for (std::int64_t d = 1; d <= n; ++d) {
    if (n % d == 0) list.push_back(d);
  }
  return list;
}

model::StageOutline random_split(Dice& dice, const model::PlanOutline& plan) {
  model::StageOutline stage;
  stage.tp = dice.pick({1, 1, 2, 3, 4});
  stage.cp = dice.pick({1, 1, 2});
  const std::int64_t per_pod = stage.cp * plan.dp_inner;
  stage.ep =
      dice.chance(20) ? per_pod * dice.pick(divisors(plan.dp_outer)) : dice.pick(divisors(per_pod));
  stage.etp = dice.pick(divisors(stage.tp));
  return stage;
}

}  // namespace

model::Cluster cluster_of(const std::vector<std::int64_t>& fanouts) {
  model::Cluster cluster;
  cluster.name = "c";
  cluster.device.name = "d";
  cluster.device.memory_bytes = 1e9;
  model::HierarchySpec network;
  double bandwidth = 100e9;
  for (std::size_t l = 0; l < fanouts.size(); ++l) {
    model::NetworkLevel level;
    level.name = fmt::format("l{}", l);
    level.fanout = fanouts[l];
    level.bandwidth = bandwidth;
    level.latency_s = 1e-6;
    network.levels.push_back(level);
    bandwidth /= 4;
  }
  cluster.network = network;
  return cluster;
}

model::Cluster random_cluster(Dice& dice) {
  std::vector<std::int64_t> fanouts;
  const std::int64_t levels = dice.between(1, 3);
  for (std::int64_t l = 0; l < levels; ++l) fanouts.push_back(dice.between(2, 6));
  model::Cluster cluster = cluster_of(fanouts);
  if (dice.chance(40)) {
    const std::int64_t first = dice.between(0, cluster.places() - 2);
    const std::int64_t most = std::min<std::int64_t>(3, cluster.places() - 1 - first);
    cluster.unavailable.push_back({first, dice.between(1, most)});
  } else if (dice.chance(30)) {
    cluster.limit = dice.between(1, cluster.places());
  }
  if (dice.chance(50)) add_hosts(dice, cluster);
  return cluster;
}

model::PlanOutline random_outline(Dice& dice, const model::Cluster& cluster, bool different) {
  const std::int64_t devices = cluster.devices();
  for (;;) {
    model::PlanOutline plan;
    plan.dp_inner = dice.pick({1, 1, 2, 3});
    plan.dp_outer = dice.pick({1, 1, 2, 3, 4});
    const std::int64_t pod = devices / plan.dp_outer;
    const std::int64_t stages = dice.between(1, 4);
    const model::StageOutline common = random_split(dice, plan);
    std::int64_t end = 0;
    for (std::int64_t s = 0; s < stages; ++s) {
      model::StageOutline stage = different ? random_split(dice, plan) : common;
      if (s > 0 && dice.chance(20)) ++end;
      stage.position = end;
      end += stage.tp * stage.cp * plan.dp_inner;
      if (end > pod) break;
      plan.stages.push_back(stage);
    }
    if (!plan.stages.empty()) return plan;
  }
}

}  // namespace nestplan::testing
