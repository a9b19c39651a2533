#pragma once

#include "nestplan/model/cluster.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::baselines {

/// The same devices on a network of one level: every pair has the mean of what the first device has
/// to the others, of seconds per byte and of latencies.
model::Cluster flattened(const model::Cluster& cluster, const network::Network& network);

}  // namespace nestplan::baselines
