#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nestplan/model/graph.hpp"
#include "nestplan/network/network.hpp"
#include "network/level_rates.hpp"

namespace nestplan::network {

/// How the collectives of a hierarchy are carried out (`"collectives"` of a cluster file).
///
/// `V` are the bytes of the full buffer (for all_to_all: what a device sends), `m_0 … m_(L-1)` the
/// group's shape, `P_i = m_0·…·m_i` with `P_(-1) = 1`, `P = P_(L-1)` members, `top` the last level
/// with `m_i > 1`, `V_0 = V`, `V_(i+1) = V_i/m_i`, `a_i` latencies; for `b_i, o_i, β_i` see
/// LevelRates. all_gather and reduce_scatter take the same time, half of an all_reduce unless said
/// otherwise.
///
/// **hierarchical-ring** (the default): a ring on every level, from the inside out, as the
/// two-level all-reduce of Jia et al. (arXiv 1807.11205) at any depth; a ring's terms are those of
/// Patarasuk and Yuan (J. Parallel Distrib. Comput. 69, 2009).
/// - all_reduce = Σ_i [2(m_i-1)/m_i·V_i/β_i + 2(m_i-1)·a_i]
/// - all_to_all = max_i [V(P_i-P_(i-1))/(P·β_i)] + Σ_i (m_i-1)·a_i
///
/// **ring**: one ring through all members in the order of devices (Patarasuk and Yuan), with as
/// many hops on each level as that order has.
/// - all_reduce = 2(P-1)/P·V/ρ + 2·Σ_i (m_i-1)·P/P_i·a_i
/// - all_to_all pairwise, one peer after another (Thakur et al., Int. J. High Perform. Comput.
/// Appl.
///   19, 2005) = max_i [V(P_i-P_(i-1))/(P·β_i)] + Σ_i (P_i-P_(i-1))·a_i
///
/// `ρ` is the narrowest place of the ring: `b_0/o_0` where it has hops on level 0, and
/// `b_l·min(1, P_(l-1)/o_l)` for `1 ≤ l ≤ top`. A ring leaves a block of level `l-1` once, whereas
/// in a hierarchical ring all its members do; with every device in some such group the uplink
/// `n·b_l/o_l` carries `n/P_(l-1)` flows.
///
/// **tree**: two binary trees that carry half of the buffer each and in which every member is an
/// inner node once (Sanders, Speck and Träff, Parallel Computing 35, 2009), reduction and broadcast
/// overlapped; the trees are built block by block.
/// - all_reduce = 2V/ρ + 2·Σ_i ⌈log2 m_i⌉·a_i
/// - all_gather, by recursive doubling (Thakur et al. 2005) = (P-1)/P·V/β + Σ_i ⌈log2 m_i⌉·a_i, `β`
///   the least β_i with `m_i > 1`
/// - all_to_all (Bruck et al., IEEE Trans. Parallel Distrib. Syst. 8, 1997) = ⌈log2 P⌉·(V/(2β) +
///   a_top): half of the buffer moves in every round
///
/// **hierarchical-tree**: hierarchical-ring with recursive halving and doubling (Rabenseifner;
/// Thakur et al. 2005; for any number of members Bruck et al. 1997) in place of each ring.
/// - all_reduce = Σ_i [2(m_i-1)/m_i·V_i/β_i + 2⌈log2 m_i⌉·a_i]
/// - all_to_all, gathered block by block = Σ_i ⌈log2 m_i⌉·(V/(2β_i) + a_i)
///
/// **in-network**: hierarchical-ring but for the levels whose switches reduce. There everything
/// goes up once and comes down once (SHARP: Graham et al., COMHPC 2016): V_i/β_i + 2a_i of an
/// all_reduce; all_gather and reduce_scatter still receive or send (m_i-1)/m_i·V_i, in one step of
/// `a_i`. all_to_all as hierarchical-ring.
///
/// **auto**: the least of the ways that a library like NCCL has, at the rates that it gets out of
/// links; see algorithms.cpp for the ways and the constants.
///
/// A dragonfly's levels are router, group and global: in a group all routers are joined, so traffic
/// with that lca takes one hop, and what a group has of global links against what its devices can
/// send is the oversubscription of the last level (minimal routes; Kim et al., ISCA 2008).
enum class Algorithm : std::uint8_t {
  kHierarchicalRing,
  kRing,
  kTree,
  kHierarchicalTree,
  kInNetwork,
  kAuto
};

/// Throws InvalidInput with the known names for any other.
Algorithm parse_algorithm(const std::string& name);

/// `shape` has as many numbers as there are levels.
CollectiveTime collective_time(Algorithm algorithm, std::span<const LevelRates> levels,
                               model::CollectiveOp op, std::span<const std::int64_t> shape);

}  // namespace nestplan::network
