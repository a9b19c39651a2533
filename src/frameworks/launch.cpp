#include "frameworks/launch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "nestplan/util/host_list.hpp"

namespace nestplan::frameworks {
namespace {

/// See Launch::per_node.
std::int64_t ranks_per_node(const placement::Placement& placement) {
  const std::int64_t per_node =
      placement.hosts[static_cast<std::size_t>(placement.seats.front().host)].used;
  const bool in_order =
      std::all_of(placement.seats.begin(), placement.seats.end(), [&](const placement::Seat& seat) {
        const auto first = static_cast<std::size_t>(seat.rank / per_node * per_node);
        return placement.seats[first].host == seat.host && seat.local == seat.rank % per_node &&
               placement.hosts[static_cast<std::size_t>(seat.host)].used == per_node;
      });
  return in_order ? per_node : 0;
}

/// Whether the ranks go through the hosts in the order of their places.
bool ascending_hosts(const placement::Placement& placement) {
  return std::is_sorted(
      placement.seats.begin(), placement.seats.end(),
      [](const placement::Seat& a, const placement::Seat& b) { return a.host < b.host; });
}

std::vector<std::string> used_names(const placement::Placement& placement) {
  std::vector<std::string> names;
  for (const std::int64_t host : placement.used_hosts()) {
    names.push_back(placement.hosts[static_cast<std::size_t>(host)].name);
  }
  return names;
}

}  // namespace

Launch launch_of(const placement::Placement& placement) {
  Launch launch;
  launch.ranks = std::ssize(placement.seats);
  launch.nodes = std::ssize(placement.used_hosts());
  if (ascending_hosts(placement)) launch.per_node = ranks_per_node(placement);
  launch.hosts = placement::host_list(placement);
  if (!launch.hosts.empty() && util::expand_hosts(launch.hosts) != used_names(placement)) {
    launch.hosts.clear();
  }
  return launch;
}

std::vector<std::string> launch_lines(const Launch& launch, const std::string& program) {
  std::vector<std::string> lines;
  const std::string nodes =
      launch.hosts.empty() ? fmt::format("{} node{}", launch.nodes, launch.nodes == 1 ? "" : "s")
                           : launch.hosts;
  if (launch.per_node > 0) {
    lines.push_back(fmt::format("Launch on node I, from 0, of {}:", nodes));
    lines.push_back(
        fmt::format("  torchrun --nnodes={} --nproc-per-node={} --node-rank=I --master-addr=NODE_0 "
                    "--master-port=29500 {}",
                    launch.nodes, launch.per_node, program));
    lines.push_back("or by Slurm, from the same plan and cluster:");
  } else {
    lines.push_back(fmt::format("Launch on {} by Slurm, from the same plan and cluster:", nodes));
  }
  lines.push_back("  nestplan export PLAN --cluster CLUSTER --to slurm -o job.sh");
  lines.push_back(fmt::format("  sbatch job.sh python {}", program));
  lines.push_back("or with --to rankfile, hostfile or slurm-hosts by mpirun and srun.");
  return lines;
}

}  // namespace nestplan::frameworks
