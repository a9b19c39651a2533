#include "baselines/phaze.hpp"

#include <algorithm>
#include <limits>

#include "baselines/search.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/solver/solver.hpp"

/// The exact dynamic program over downsets on a network that it takes for flat, after Piper
/// (Tarnawski et al., Piper: Multidimensional Planner for DNN Parallelization, NeurIPS 2021,
/// section 4) and Phaze (Wang et al., Integrated Hardware Architecture and Device Placement Search,
/// ICML 2024, section 5), whose program has one constant for the bandwidth between any two devices
/// (`bandwidth` in Estimator/architecture.py of msr-fiddle/phaze). Devices are then taken in their
/// order.
///
/// What it finds on a flat network is the planner's own answer there, ZeRO stages and recomputation
/// of single stages included, which Phaze does not vary: what it loses is what it does not know of
/// the network.

namespace nestplan::baselines {
namespace {

/// What the first device's transfers to the others take in the mean, with nothing else under way.
network::AffineTime mean_transfer(const network::Network& network) {
  network::AffineTime mean;
  const std::int64_t peers = network.devices() - 1;
  constexpr double kBytes = 1e9;
  for (std::int64_t peer = 1; peer <= peers; ++peer) {
    const int level = network.level(0, peer);
    const double one = network.transfer_s(kBytes, level, 1);
    const double two = network.transfer_s(2 * kBytes, level, 1);
    mean.per_byte_s += (two - one) / kBytes / static_cast<double>(peers);
    mean.fixed_s += std::max(0.0, 2 * one - two) / static_cast<double>(peers);
  }
  return mean;
}

}  // namespace

model::Cluster flattened(const model::Cluster& cluster, const network::Network& network) {
  model::Cluster flat = cluster;
  model::NetworkLevel all{"flat", cluster.places(), std::numeric_limits<double>::max(), 0, 1};
  if (network.devices() > 1) {
    const network::AffineTime mean = mean_transfer(network);
    all.bandwidth = 1 / mean.per_byte_s;
    all.latency_s = mean.fixed_s;
  }
  flat.network = model::HierarchySpec{"hierarchical-ring", {std::move(all)}};
  return flat;
}

Finding find_phaze(const Task& task) {
  model::Problem flat = task.problem;
  flat.cluster = flattened(task.problem.cluster, task.network);
  flat.options.stages.confined.clear();
  const auto network = network::make_network(flat.cluster);
  solver::SearchSettings settings;
  settings.time_limit_s = task.budget.time_limit_s;
  settings.stop_requested = [&task] { return task.clock.over(); };
  const model::Plan plan = solver::solve(flat, *network, settings);
  if (plan.search.stopped) task.clock.over();  // by the solver's own clock, which started later
  if (plan.status == model::Status::kInfeasible) return {{}, plan.reason};
  return {judge(task, cost::placed(plan)), ""};
}

}  // namespace nestplan::baselines
