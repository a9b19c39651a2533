#include "placement/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "nestplan/model/blocks.hpp"
#include "nestplan/placement/placement.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::placement {
namespace {

/// Fills in `names`; they must be as many as there are hosts, and different.
void name_hosts(const model::Cluster& cluster, std::size_t hosts,
                const std::vector<std::string>& names, HostMap& map) {
  map.names = names;
  if (names.empty()) {
    for (const model::Host& host : cluster.hosts) map.names.push_back(host.name);
    if (std::find(map.names.begin(), map.names.end(), "") != map.names.end()) map.names.clear();
  } else if (names.size() != hosts) {
    throw InvalidInput(
        fmt::format("{} host names are given, but the cluster has {} hosts", names.size(), hosts));
  }
  map.named = !map.names.empty();
  std::unordered_set<std::string> seen;
  for (const std::string& name : map.names) {
    if (seen.insert(name).second) continue;
    throw InvalidInput(fmt::format("host {} is named twice", util::quoted(name)));
  }
  for (std::size_t h = map.names.size(); h < hosts; ++h) {
    map.names.push_back(fmt::format("host{}", h));
  }
}

}  // namespace

HostMap map_hosts(const model::Cluster& cluster, const std::vector<std::string>& names) {
  HostMap map;
  map.host_of = model::hosts_of_places(cluster);
  const std::vector<std::int64_t> sizes = cluster.host_sizes();
  for (std::size_t h = 0; h < sizes.size(); ++h) {
    const auto* order = cluster.hosts.empty() ? nullptr : &cluster.hosts[h].local;
    for (std::int64_t i = 0; i < sizes[h]; ++i) {
      const bool natural = order == nullptr || order->empty();
      map.local_of.push_back(natural ? i : (*order)[static_cast<std::size_t>(i)]);
    }
  }
  name_hosts(cluster, sizes.size(), names, map);
  return map;
}

std::string host_list(const Placement& placement) {
  if (!placement.named_hosts) return "";
  std::vector<std::string> names;
  for (const std::int64_t host : placement.used_hosts()) {
    names.push_back(placement.hosts[static_cast<std::size_t>(host)].name);
  }
  try {
    return util::compress_hosts(names);
  } catch (const InvalidInput&) {
    return "";
  }
}

}  // namespace nestplan::placement
