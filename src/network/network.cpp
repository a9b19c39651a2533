#include "nestplan/network/network.hpp"

#include <algorithm>

#include "network/hierarchy.hpp"

namespace nestplan::network {

int Network::link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                        std::int64_t unit) const {
  int worst = 0;
  for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
    const std::int64_t base = pod * pods.pod_size;
    const std::int64_t pairs = std::min(unit, pods.devices - (base + to));
    for (std::int64_t rank = 0; rank < pairs; ++rank) {
      worst = std::max(worst, level(base + from + rank, base + to + rank));
    }
  }
  return worst;
}

std::unique_ptr<Network> make_network(const model::Cluster& cluster) {
  return std::make_unique<HierarchicalNetwork>(std::get<model::HierarchySpec>(cluster.network),
                                               cluster.limit);
}

}  // namespace nestplan::network
