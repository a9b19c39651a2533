#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <numeric>

#include "nestplan/placement/launch_files.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::placement {
namespace {

constexpr std::size_t kWidth = 100;

using util::idx;

/// `words` as a bash array, in lines that are not too long.
std::string bash_array(const char* name, const std::vector<std::string>& words) {
  std::string out = fmt::format("{}=(", name);
  std::size_t column = out.size();
  for (std::size_t w = 0; w < words.size(); ++w) {
    if (w > 0 && column + 1 + words[w].size() > kWidth) {
      out += "\n ";
      column = 1;
    }
    const bool first = w == 0;
    out += (first ? "" : " ") + words[w];
    column += words[w].size() + 1;
  }
  return out + ")\n";
}

class Script {
 public:
  explicit Script(const Placement& placement)
      : placement_(placement), used_(placement.used_hosts()), order_(device_order(placement)) {
    node_of_host_.assign(placement.hosts.size(), 0);
    for (std::size_t n = 0; n < used_.size(); ++n) {
      node_of_host_[idx(used_[n])] = static_cast<std::int64_t>(n);
    }
  }

  std::string text() const {
    return "#!/usr/bin/env bash\n" + request() + usage() + nodes() + ranks() + launch();
  }

 private:
  std::string request() const {
    std::int64_t most = 0;
    for (const std::int64_t host : used_) {
      most = std::max(most, placement_.hosts[idx(host)].used);
    }
    std::string out =
        fmt::format("#SBATCH --job-name={}\n#SBATCH --nodes={}\n", job_name(), used_.size());
    const std::string hosts = host_list(placement_);
    if (!hosts.empty()) out += fmt::format("#SBATCH --nodelist={}\n", hosts);
    out += fmt::format("#SBATCH --ntasks={}\n#SBATCH --ntasks-per-node={}\n#SBATCH --exclusive\n",
                       placement_.seats.size(), most);
    const Segment blocks = segment(placement_);
    if (blocks.nodes > 0) out += fmt::format("#SBATCH --segment={}\n", blocks.nodes);
    return out;
  }

  std::string job_name() const {
    std::string name;
    for (const char c : placement_.plan.model) {
      const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-';
      name += plain ? c : '_';
    }
    return name.empty() ? "nestplan" : name;
  }

  std::string usage() const {
    return "#\n"
           "# Runs a command on every device of a plan: sbatch FILE COMMAND ARGUMENT…\n"
           "# It finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.\n"
           "set -euo pipefail\n"
           "[ $# -gt 0 ] || { echo \"usage: sbatch $0 COMMAND ARGUMENT…\" >&2; exit 2; }\n\n";
  }

  std::string nodes() const {
    if (!placement_.named_hosts) {
      return "# The plan knows its nodes by their order alone.\n"
             "mapfile -t nodes < <(scontrol show hostnames \"$SLURM_JOB_NODELIST\")\n";
    }
    std::vector<std::string> names;
    for (const std::int64_t host : used_) names.push_back(placement_.hosts[idx(host)].name);
    return bash_array("nodes", names);
  }

  /// The file with the host of every rank, from runs of ranks on one node.
  std::string ranks() const {
    std::vector<std::string> runs;
    for (std::size_t begin = 0; begin < placement_.seats.size();) {
      std::size_t end = begin;
      const std::int64_t host = placement_.seats[begin].host;
      while (end < placement_.seats.size() && placement_.seats[end].host == host) ++end;
      runs.push_back(fmt::format("{}:{}", node_of_host_[idx(host)], end - begin));
      begin = end;
    }
    return "# Ranks in turn: NODE:COUNT.\n" + bash_array("runs", runs) +
           "\n"
           "SLURM_HOSTFILE=$(mktemp)\n"
           "trap 'rm -f \"$SLURM_HOSTFILE\"' EXIT\n"
           "for run in \"${runs[@]}\"; do\n"
           "  for ((i = 0; i < ${run#*:}; ++i)); do echo \"${nodes[${run%:*}]}\"; done\n"
           "done >\"$SLURM_HOSTFILE\"\n"
           "export SLURM_HOSTFILE\n";
  }

  /// The order of devices of most nodes, and those of the others by node.
  struct DeviceOrders {
    std::vector<std::int64_t> usual;
    std::vector<std::int64_t> others;  ///< hosts
  };

  DeviceOrders device_orders() const {
    std::map<std::vector<std::int64_t>, std::int64_t> counts;
    for (const std::int64_t host : used_) ++counts[order_[idx(host)]];
    DeviceOrders orders;
    std::int64_t most = 0;
    for (const auto& [order, count] : counts) {
      if (count <= most) continue;
      most = count;
      orders.usual = order;
    }
    for (const std::int64_t host : used_) {
      if (order_[idx(host)] != orders.usual) orders.others.push_back(host);
    }
    return orders;
  }

  /// Whether local rank `i` runs on device `i` on every node.
  bool natural() const {
    return std::all_of(used_.begin(), used_.end(), [&](std::int64_t host) {
      const auto& order = order_[idx(host)];
      std::vector<std::int64_t> ascending(order.size());
      std::iota(ascending.begin(), ascending.end(), std::int64_t{0});
      return order == ascending;
    });
  }

  std::string launch() const {
    std::string out =
        "MASTER_ADDR=${nodes[${runs[0]%:*}]}\n"
        "MASTER_PORT=${MASTER_PORT:-29500}\n"
        "WORLD_SIZE=$SLURM_NTASKS\n"
        "export MASTER_ADDR MASTER_PORT WORLD_SIZE\n";
    std::string visible;
    if (!natural()) {
      const DeviceOrders orders = device_orders();
      out += fmt::format(
          "\n# Devices in the order of a node's ranks, and where it is another one.\n"
          "export DEVICE_ORDER={}\n",
          fmt::join(orders.usual, ","));
      std::vector<std::string> others;
      for (const std::int64_t host : orders.others) {
        others.push_back(fmt::format("\"${{nodes[{}]}}={}\"", node_of_host_[idx(host)],
                                     fmt::join(order_[idx(host)], ",")));
      }
      out += bash_array("others", others) + "export OTHER_ORDERS=\"${others[*]-}\"\n";
      visible =
          "order=$DEVICE_ORDER\n"
          "for other in $OTHER_ORDERS; do\n"
          "  [ \"${other%%=*}\" != \"$SLURMD_NODENAME\" ] || order=${other#*=}\n"
          "done\n"
          "export CUDA_VISIBLE_DEVICES=$order\n";
    }
    out +=
        "\n# shellcheck disable=SC2016  # the tasks expand it\n"
        "launch='\n"
        "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID\n" +
        visible +
        "exec \"$@\"\n"
        "'\n"
        "srun --distribution=arbitrary --ntasks=\"$SLURM_NTASKS\" bash -c \"$launch\" bash "
        "\"$@\"\n";
    return out;
  }

  const Placement& placement_;
  std::vector<std::int64_t> used_;
  std::vector<std::vector<std::int64_t>> order_;  ///< by host
  std::vector<std::int64_t> node_of_host_;
};

}  // namespace

std::string slurm_script(const Placement& placement) { return Script(placement).text(); }

}  // namespace nestplan::placement
