#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::network {

/// Networks that are given link by link or pair by pair, turned into a hierarchy.
///
/// The level of a pair is its distance in an ultrametric: vertices are merged into blocks by single
/// linkage, from the fastest links to the slowest, so that two devices meet at the bandwidth of the
/// best path's slowest link, both ways (a maximum spanning tree, Gower and Ross, Applied Statistics
/// 18, 1969; with links of one direction, strongly connected components, as Tarjan, Inf. Process.
/// Lett. 14, 1982). Three things are added:
///
/// - Capacity. What leaves a block of `d` devices over links of `c` bytes/s in all (the slower
///   direction) is a share of `c/d` for each when all send; of the largest block, `c` divided by
///   the devices outside whose own share is as much, if that is more. A link counts with the least
///   of its own bandwidth and the shares of the blocks it joins. So a block with less uplink than
///   its neighbours joins them at a level of its own, and they do not wait for it. A level's
///   `bandwidth` is what one device gets alone, the slowest link of its path; `bandwidth /
///   oversubscription` is the share.
/// - Tiers. A switch's tier is its least number of links to a device. At equal bandwidth, blocks
///   meet over switches of lower tiers first: devices of a leaf before those of a spine.
/// - Hosts. Devices of a host stay together: a block holds whole hosts, or devices of one. Where a
///   host's devices are nearer to another host's than to each other, they count as no nearer.
///
/// Values of a level are within 5 % of its fastest (per tier), and the slowest stands for all. A
/// level's latency is the worst over its pairs, each over its quickest path; with links, sources
/// are a regular sample where all of them would be more than 2^23 steps over links.
///
/// A level never has more bandwidth than the one inside it. In a mesh of links between devices a
/// device may send over several at once; a level counts one of them, as its slowest pair has.
/// Places are in the order of the tree, children by their first host and device as given.
/// Deterministic; O(B·T·E) for E links, T tiers and B levels of bandwidth, O(N²) for a matrix of N
/// devices.

/// Devices, and what connects them.
struct LinkGraph {
  /// Vertices are devices 0 … N-1, then switches.
  struct Link {
    std::int64_t a = 0, b = 0;
    double forward = 0;   ///< bytes/s from a to b; 0: nothing goes that way
    double backward = 0;  ///< bytes/s from b to a
    double latency_s = 0;
  };
  std::vector<std::string> devices;  ///< their names, distinct
  std::vector<std::string> hosts;
  std::vector<std::int32_t> host_of_device;  ///< index into hosts; empty: hosts are not known
  std::vector<std::string> switches;
  std::vector<Link> links;  ///< several between two vertices add up
};

/// What was measured between every two devices.
struct PairMatrix {
  std::vector<std::string> devices;
  std::vector<std::string> hosts;
  std::vector<std::int32_t> host_of_device;
  std::vector<double> bandwidth;  ///< bytes/s from i to j at [i·N + j]; the diagonal is not read
  std::vector<double> latency_s;  ///< likewise, or one for all
};

/// A hierarchy and which device is where in it.
struct LinkHierarchy {
  std::vector<model::NetworkLevel> levels;
  std::vector<std::int64_t> order;  ///< device at each place
  std::vector<model::Host> hosts;   ///< in the order of their places; empty: not known
};

/// Throws InvalidInput that names the devices that others cannot reach, and for fewer than two.
LinkHierarchy hierarchy_of(const LinkGraph& graph);
LinkHierarchy hierarchy_of(const PairMatrix& matrix);

}  // namespace nestplan::network
