#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::placement {

/// The hosts of a cluster, place by place.
struct HostMap {
  std::vector<std::string> names;
  bool named = false;
  std::vector<std::int64_t> host_of;   ///< by place
  std::vector<std::int64_t> local_of;  ///< by place: the index of its device inside the host
};

/// `names`: instead of the cluster's own, if given. Throws InvalidInput for a wrong number of them.
HostMap map_hosts(const model::Cluster& cluster, const std::vector<std::string>& names);

}  // namespace nestplan::placement
