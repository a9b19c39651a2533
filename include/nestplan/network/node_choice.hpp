#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::network {

/// Which of the hosts of a cluster to ask for, and which to leave out. Hosts are numbered in the
/// order of their places, from 0.
///
/// A *lowest block* is a block of the lowest level of which one holds several hosts: hosts of a
/// leaf switch, trays of an NVLink rack. A network without levels is one block.

struct NodeRequest {
  std::vector<std::int64_t> available;  ///< hosts, ascending
  std::int64_t nodes = 1;
  /// Hosts that have to share a lowest block, such as those of an expert group (expert degree ·
  /// expert tensor degree / devices of a host). It divides `nodes`.
  std::int64_t segment = 1;
};

struct BlockUse {
  std::vector<std::int64_t> chosen;
  std::vector<std::int64_t> idle;  ///< available and not chosen
};

struct NodeChoice {
  /// `nodes` of them, segment by segment: first those inside of lowest blocks, in the order of
  /// places, then those that straddle.
  std::vector<std::int64_t> hosts;
  /// The lowest level of which one block holds all of them; -1: it is a single host.
  int level = 0;
  std::vector<BlockUse> blocks;  ///< lowest blocks with available hosts, in order
  std::int64_t straddling = 0;   ///< segments with hosts of several lowest blocks
  /// Hosts of unknown place (see slurm_topology.hpp): those chosen, only for want of others, and
  /// those left to fall back on.
  std::vector<std::int64_t> chosen_unknown, fallback;
};

/// Chooses the tightest domain: the lowest level of which one block has room for all segments,
/// there the block with fewest hosts to spare, inside of it as few blocks as possible (the largest
/// ones whole, the rest where fewest are left over), level by level. Segments are whole in lowest
/// blocks as long as there is room, and hosts of unknown place come last. Ties go to the first.
/// Throws InvalidConfig if there are too few hosts, or `segment` does not divide `nodes`.
NodeChoice choose_nodes(const model::Cluster& cluster, const NodeRequest& request);

/// Hosts of which all places are available.
std::vector<std::int64_t> available_hosts(const model::Cluster& cluster);

/// Hosts of which some places are available, but not all.
std::int64_t partial_hosts(const model::Cluster& cluster);

/// Makes all places of such hosts unavailable. Throws InvalidConfig if that leaves none.
void without_partial_hosts(model::Cluster& cluster);

/// The places of these hosts, host by host.
std::vector<std::int64_t> places_of_hosts(const model::Cluster& cluster,
                                          std::span<const std::int64_t> hosts);

/// How groups of `size` places, one after the other, fall into the blocks of a level: for each
/// group its members in each block that it meets, in order. A group with several entries straddles.
/// The last group may be smaller. The cluster has a hierarchy.
std::vector<std::vector<std::int64_t>> pieces_of_groups(const model::Cluster& cluster, int level,
                                                        std::span<const std::int64_t> places,
                                                        std::int64_t size);

/// Makes the places of all other hosts, or of these, unavailable. Throws InvalidConfig for a name
/// that no host has, for a cluster that does not name its hosts, and if nothing is left.
void restrict_to_hosts(model::Cluster& cluster, std::span<const std::string> names);
void without_hosts(model::Cluster& cluster, std::span<const std::string> names);

}  // namespace nestplan::network
