#include "nestplan/network/network.hpp"

#include <algorithm>

#include "nestplan/network/torus.hpp"
#include "network/available.hpp"
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

namespace {

/// The network between all places, or the first so many of them.
std::unique_ptr<Network> make_whole(const model::Cluster& cluster,
                                    std::optional<std::int64_t> limit) {
  if (const auto* torus = std::get_if<model::TorusSpec>(&cluster.network)) {
    return make_torus(*torus, limit);
  }
  return make_hierarchy(cluster.hierarchy(), limit);
}

}  // namespace

std::unique_ptr<Network> make_network(const model::Cluster& cluster) {
  if (cluster.unavailable.empty()) return make_whole(cluster, cluster.limit);
  return std::make_unique<AvailableNetwork>(make_whole(cluster, std::nullopt),
                                            cluster.places_of_devices());
}

}  // namespace nestplan::network
