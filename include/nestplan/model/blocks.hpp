#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::model {

/// Of every level, the nearest first, how many blocks of the level below (places for the first)
/// each of its blocks has, in order. Throws InvalidInput for a list of another length than the
/// levels above make blocks, and for more than 2^26 blocks.
std::vector<std::vector<std::int64_t>> block_counts(const HierarchySpec& network);

/// Of every level, the place behind each of its blocks, ascending. Throws as `block_counts`.
std::vector<std::vector<std::int64_t>> block_ends(const HierarchySpec& network);

/// Index of the host of every place, see Cluster::host_sizes.
std::vector<std::int64_t> hosts_of_places(const Cluster& cluster);

}  // namespace nestplan::model
