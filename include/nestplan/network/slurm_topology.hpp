#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::network {

/// Slurm's `topology.conf`: which hosts are near each other. It says nothing about rates.
/// Sources: topology.conf(5); how the plugins read it, src/plugins/topology/{tree,block} of
/// SchedMD/slurm.

/// Hosts in blocks inside of blocks, those of a block next to each other.
struct SlurmTopology {
  struct Level {
    std::vector<std::string> names;   ///< of its blocks; empty where a block has none
    std::vector<std::int32_t> block;  ///< of every host, ascending
  };
  std::vector<std::string> hosts;
  std::vector<Level> levels;  ///< from the leaves up; the last one may have several blocks
  /// Hosts that the file does not mention: nothing is known about where they are.
  std::vector<std::string> unknown;

  std::int32_t roots() const { return levels.back().block.back() + 1; }
};

/// Reads the tree plugin's format (SwitchName, Switches, Nodes, LinkSpeed) or the block plugin's
/// (BlockName, Nodes, BlockSizes). Keys are case-insensitive, "#" starts a comment and "\" at the
/// end of a line continues it.
///
/// A switch is at the level above its highest child; where a branch of the tree is shorter, its
/// blocks are alone on the levels between. LinkSpeed is read and not used, as by Slurm. Blocks of
/// BlockSizes `s_0, s_1, …` are joined in the order of the file, `s_i/s_0` of them on level `i`,
/// and all of them on one more level unless the last size does that; `s_0` may be less than a block
/// has.
///
/// Throws InvalidInput with file and line for what Slurm refuses too (a name given twice, nodes and
/// switches at one switch, an unknown child, a cycle, sizes that are no power of two apart), and
/// for a host at two switches, which has no single place.
SlurmTopology parse_slurm_topology(std::string_view text, const std::string& file);

/// Whether a text is a topology.conf rather than JSON.
bool is_slurm_topology(std::string_view text);

/// The topology of these hosts alone, those that it does not mention as unknown ones, in the order
/// given. Throws InvalidInput for a host that is given twice.
SlurmTopology with_hosts(const SlurmTopology& topology, std::span<const std::string> hosts);

/// Name of the outermost level in a cluster that has hosts of unknown place.
inline constexpr const char* kUnknownPlace = "unknown place";

/// Levels of rates that the topology needs above its hosts: one for each of its own, and one more
/// where several roots have to be joined.
int levels_above_hosts(const SlurmTopology& topology);

/// A network of `devices_per_host` devices in each host: `node` is the level inside of them and
/// `levels` those above, levels_above_hosts() of them (fan-outs are filled in here). Hosts of
/// unknown place come last, each a block of its own below one more level, kUnknownPlace, with the
/// rates of the last one, or those of a further one in `levels`.
void set_slurm_topology(model::Cluster& cluster, const SlurmTopology& topology,
                        std::int64_t devices_per_host, const model::NetworkLevel& node,
                        std::vector<model::NetworkLevel> levels);

}  // namespace nestplan::network
