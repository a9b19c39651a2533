#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::network {

/// What a device gets from one level of a tree.
///
/// A block of level `l-1` has an uplink of `n·b_l/o_l`, with `n` its devices, or with `p` ports one
/// of `p·b_l/o_l`; other jobs leave `b_l = bandwidth·(1 - background)`. A device sends through one
/// port, or through `p/n` of them where there are more ports than devices, and `x` devices that
/// send at once share the uplink. Ports are therefore one port per device of
///
///     b'_l = b_l·max(1, p/n)   with   o'_l = o_l·max(1, n/p),
///
/// as `n·b'_l/o'_l = p·b_l/o_l` either way.
///
/// Where blocks differ in size the worst one counts. `x` devices of a block of `n` get
/// `B(x) = n·b/(o·min(x, n))`: never more in a smaller block, so the smallest one decides. With
/// ports it is `p·b/(o·min(x, n))`, and the largest one decides.
struct LevelRates {
  double port = 0;              ///< b'_l
  double oversubscription = 1;  ///< o'_l
  std::int64_t sharers = 1;     ///< devices behind the uplink that decides
  double latency_s = 0;
  bool in_network_reduction = false;
  double beta =
      0;  ///< what each of all devices gets up to here: β_0 = b'_0/o'_0, β_l = min_(1≤j≤l)
};

/// `smallest[l]` and `largest[l]`: the devices of blocks of level `l`.
std::vector<LevelRates> level_rates(std::span<const model::NetworkLevel> levels,
                                    std::span<const std::int64_t> smallest,
                                    std::span<const std::int64_t> largest);

/// The least bandwidth on the way between two devices with lca `level` while `unit` devices send:
/// `B_0`, or the least of `B_1 … B_level`.
double path_bandwidth(std::span<const LevelRates> rates, int level, std::int64_t unit);

}  // namespace nestplan::network
