#include "network/algorithms.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using Levels = std::span<const LevelRates>;
using Shape = std::span<const std::int64_t>;

struct Named {
  const char* name;
  Algorithm algorithm;
};
constexpr std::array<Named, 6> kAlgorithms{{{"hierarchical-ring", Algorithm::kHierarchicalRing},
                                            {"ring", Algorithm::kRing},
                                            {"tree", Algorithm::kTree},
                                            {"hierarchical-tree", Algorithm::kHierarchicalTree},
                                            {"in-network", Algorithm::kInNetwork},
                                            {"auto", Algorithm::kAuto}}};

double rounds(double members) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(members) - 1));
}

double members_of(Shape shape) {
  double members = 1;
  for (const std::int64_t m : shape) members *= static_cast<double>(m);
  return members;
}

std::size_t top_of(Shape shape) {
  std::size_t top = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) top = i;
  }
  return top;
}

AffineTime twice(AffineTime time) { return {2 * time.fixed_s, 2 * time.per_byte_s}; }

/// One pass: what all_gather and reduce_scatter take; all_reduce takes two.
AffineTime hierarchical_ring(Levels levels, Shape shape) {
  AffineTime time;
  double share = 1;  // V_i / V
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    time.per_byte_s += (m - 1) / m * share / levels[i].beta;
    time.fixed_s += (m - 1) * levels[i].latency_s;
    share /= m;
  }
  return time;
}

/// Seconds per byte of an all_to_all in which every member sends to every other directly.
double pairwise_per_byte(Levels levels, Shape shape) {
  const double members = members_of(shape);
  double per_byte = 0;
  double inside = 1;  // P_(i-1), with P_(-1) = 1: the device itself
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    per_byte = std::max(per_byte, (inside * m - inside) / (members * levels[i].beta));
    inside *= m;
  }
  return per_byte;
}

/// Σ_i (m_i-1)·a_i
double ring_steps(Levels levels, Shape shape) {
  double seconds = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    seconds += (static_cast<double>(shape[i]) - 1) * levels[i].latency_s;
  }
  return seconds;
}

/// Σ_i ⌈log2 m_i⌉·a_i
double tree_steps(Levels levels, Shape shape) {
  double seconds = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    seconds += rounds(static_cast<double>(shape[i])) * levels[i].latency_s;
  }
  return seconds;
}

/// Hops of a ring in the order of devices, level by level, but for the one that closes it.
double flat_ring_steps(Levels levels, Shape shape) {
  double blocks = members_of(shape);  // P / P_i
  double seconds = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    blocks /= m;
    seconds += (m - 1) * blocks * levels[i].latency_s;
  }
  return seconds;
}

/// ρ for `rings` rings at once that leave a block by different devices.
double flat_ring_bandwidth(Levels levels, Shape shape, double rings) {
  double bandwidth = std::numeric_limits<double>::infinity();
  if (shape[0] > 1) bandwidth = levels[0].port / levels[0].oversubscription;
  const std::size_t top = top_of(shape);
  double inside = static_cast<double>(shape[0]);
  for (std::size_t l = 1; l <= top; ++l) {
    bandwidth =
        std::min(bandwidth, levels[l].port * std::min(rings, inside / levels[l].oversubscription));
    inside *= static_cast<double>(shape[l]);
  }
  return bandwidth;
}

/// The least β_i of the levels that the group is on.
double least_beta(Levels levels, Shape shape) {
  double beta = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1) beta = std::min(beta, levels[i].beta);
  }
  return beta;
}

AffineTime all_to_all(Algorithm algorithm, Levels levels, Shape shape) {
  AffineTime time;
  switch (algorithm) {
    case Algorithm::kRing: {
      time.per_byte_s = pairwise_per_byte(levels, shape);
      double inside = 1;
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const auto m = static_cast<double>(shape[i]);
        time.fixed_s += (inside * m - inside) * levels[i].latency_s;
        inside *= m;
      }
      return time;
    }
    case Algorithm::kTree: {
      const double count = rounds(members_of(shape));
      return {count * levels[top_of(shape)].latency_s, count / (2 * least_beta(levels, shape))};
    }
    case Algorithm::kHierarchicalTree:
      for (std::size_t i = 0; i < shape.size(); ++i) {
        const double count = rounds(static_cast<double>(shape[i]));
        time.fixed_s += count * levels[i].latency_s;
        time.per_byte_s += count / (2 * levels[i].beta);
      }
      return time;
    default:
      return {ring_steps(levels, shape), pairwise_per_byte(levels, shape)};
  }
}

AffineTime in_network(Levels levels, Shape shape, bool all_reduce) {
  AffineTime time;
  const double passes = all_reduce ? 2 : 1;
  double share = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    const bool reduces = levels[i].in_network_reduction && m > 1;
    const double parts = reduces && all_reduce ? 1 : passes * (m - 1) / m;
    time.per_byte_s += parts * share / levels[i].beta;
    time.fixed_s += passes * (reduces ? 1 : m - 1) * levels[i].latency_s;
    share /= m;
  }
  return time;
}

AffineTime named(Algorithm algorithm, Levels levels, CollectiveOp op, Shape shape) {
  if (op == CollectiveOp::kAllToAll) return all_to_all(algorithm, levels, shape);
  const bool all_reduce = op == CollectiveOp::kAllReduce;
  const double members = members_of(shape);
  AffineTime pass;
  switch (algorithm) {
    case Algorithm::kRing:
      pass = {flat_ring_steps(levels, shape),
              (members - 1) / members / flat_ring_bandwidth(levels, shape, 1)};
      break;
    case Algorithm::kTree:
      pass = {tree_steps(levels, shape), all_reduce
                                             ? 1 / flat_ring_bandwidth(levels, shape, 1)
                                             : (members - 1) / members / least_beta(levels, shape)};
      break;
    case Algorithm::kHierarchicalTree:
      pass = {tree_steps(levels, shape), hierarchical_ring(levels, shape).per_byte_s};
      break;
    case Algorithm::kInNetwork:
      return in_network(levels, shape, all_reduce);
    default:
      pass = hierarchical_ring(levels, shape);
  }
  return all_reduce ? twice(pass) : pass;
}

// The constants of `auto`. Those of NCCL are in its src/graph/tuning.cc and src/graph/topo.h
// (2.26), where they rank algorithms.

/// What a library gets out of the wires: NCCL counts 20 of the 25 GB/s of an NVLink of Ampere (20.6
/// on Hopper, 40.1 of 50 on Blackwell) and 12 of the 12.5 GB/s of a 100 Gb/s port.
constexpr double kNearEfficiency = 0.80;
constexpr double kFarEfficiency = 0.96;

/// From the call to the first byte and back: launch of the kernel and meeting of the members. The
/// shortest calls on a node of eight H200 take 39 us (ml-engineering, network/README.md), of which
/// NCCL's constants for a ring of LL explain 15.
constexpr double kCallSeconds = 25e-6;

/// How data are packed so that the receiver sees that they are there: NCCL's LL, LL128 and Simple.
/// Hops that take `a` with LL take longer with the others, more so in networks.
struct Protocol {
  double base_s;
  double near_hop_s;  ///< on level 0, beyond its latency
  double far_hop_s;
  double ring_share;  ///< of the bandwidth
  double tree_share;
};
constexpr double kTreeEfficiency = 0.92;
constexpr std::array<Protocol, 3> kProtocols{
    {{6.6e-6, 0, 0, 0.25, kTreeEfficiency / 3.8},
     {14.0e-6, 1.3e-6, 1.3e-6, 0.92, kTreeEfficiency * 0.92},
     {8.4e-6, 2.8e-6, 11.3e-6, 1, kTreeEfficiency}}};
constexpr const Protocol& kSimple = kProtocols.back();

/// NCCL's parallel aggregated trees (Jeaugey, arXiv 2506.20252): all_gather and reduce_scatter in
/// ⌈log2⌉ steps.
constexpr double kAggregatedTreeShare = 0.75;

/// Reduction in switches: NCCL's latencies of NVLS and of CollNet, and its shares of the bandwidth
/// (NVLS: 0.85 on Hopper, 0.74 on Blackwell).
constexpr double kNearReductionSeconds = 25e-6;
constexpr double kFarReductionSeconds = 31e-6;
constexpr double kNearReductionShare = 0.80;
constexpr double kFarReductionShare = 0.90;

std::vector<LevelRates> with_protocol(Levels levels, const Protocol& protocol) {
  std::vector<LevelRates> result(levels.begin(), levels.end());
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i].latency_s += i == 0 ? protocol.near_hop_s : protocol.far_hop_s;
    const double efficiency = i == 0 ? kNearEfficiency : kFarEfficiency;
    result[i].port *= efficiency;
    result[i].beta *= efficiency;
  }
  return result;
}

/// Level by level, from the inside out: in the switches that reduce, by halving and doubling on the
/// other levels. Inside a node that reduces, the members fetch what the switch sums and store it to
/// all: (m+1)/m·V pass a port (NVLS).
AffineTime level_by_level(Levels plain, Shape shape, bool all_reduce) {
  const std::vector<LevelRates> levels = with_protocol(plain, kSimple);
  const double passes = all_reduce ? 2 : 1;
  const double efficiency = all_reduce ? kTreeEfficiency : kAggregatedTreeShare;
  AffineTime time{kCallSeconds, 0};
  bool by_messages = false;
  double share = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    if (m == 1) continue;
    if (!plain[i].in_network_reduction || !all_reduce) {
      by_messages = true;
      time.fixed_s += passes * rounds(m) * levels[i].latency_s;
      time.per_byte_s += passes * (m - 1) / m * share / (levels[i].beta * efficiency);
    } else if (i == 0) {
      time.fixed_s += kNearReductionSeconds + 2 * plain[i].latency_s;
      time.per_byte_s += (m + 1) / m * share / (levels[i].beta * kNearReductionShare);
    } else {
      time.fixed_s += kFarReductionSeconds + 2 * plain[i].latency_s;
      time.per_byte_s += share / (levels[i].beta * kFarReductionShare);
    }
    share /= m;
  }
  if (by_messages) time.fixed_s += kSimple.base_s;
  return time;
}

/// Adds a way unless there is one that is never slower, and removes those that it makes useless.
void add_way(std::vector<AffineTime>& ways, AffineTime way) {
  const auto no_faster = [](const AffineTime& a, const AffineTime& b) {
    return a.fixed_s >= b.fixed_s && a.per_byte_s >= b.per_byte_s;
  };
  if (std::any_of(ways.begin(), ways.end(),
                  [&](const AffineTime& other) { return no_faster(way, other); })) {
    return;
  }
  std::erase_if(ways, [&](const AffineTime& other) { return no_faster(other, way); });
  ways.push_back(way);
}

/// The ways of `auto`:
/// - by each protocol, as many rings at once as a block of the nearest level has members, leaving
///   it by different devices (ρ with `min(m_0, P_(l-1)/o_l)`), as NCCL's channels do
/// - all_reduce by each protocol over two trees, with that ρ
/// - all_gather and reduce_scatter over parallel aggregated trees
/// - level by level, where a group spans several or the nearest one reduces
/// - all_to_all pairwise and gathered block by block
CollectiveTime fastest(Levels plain, CollectiveOp op, Shape shape) {
  const double members = members_of(shape);
  if (members <= 1) return {};
  std::vector<AffineTime> ways;
  if (op == CollectiveOp::kAllToAll) {
    const std::vector<LevelRates> levels = with_protocol(plain, kSimple);
    const double start = kCallSeconds + kSimple.base_s;
    for (const Algorithm way : {Algorithm::kHierarchicalRing, Algorithm::kHierarchicalTree}) {
      const AffineTime time = all_to_all(way, levels, shape);
      add_way(ways, {start + time.fixed_s, time.per_byte_s});
    }
  } else {
    const bool all_reduce = op == CollectiveOp::kAllReduce;
    const double passes = all_reduce ? 2 : 1;
    for (const Protocol& protocol : kProtocols) {
      const std::vector<LevelRates> levels = with_protocol(plain, protocol);
      const double start = kCallSeconds + protocol.base_s;
      const double rho = flat_ring_bandwidth(levels, shape, static_cast<double>(shape[0]));
      add_way(ways, {start + passes * flat_ring_steps(levels, shape),
                     passes * (members - 1) / members / (rho * protocol.ring_share)});
      if (all_reduce) {
        add_way(ways, {start + 2 * tree_steps(levels, shape), 2 / (rho * protocol.tree_share)});
      }
    }
    if (top_of(shape) > 0 || (all_reduce && plain[0].in_network_reduction)) {
      add_way(ways, level_by_level(plain, shape, all_reduce));
    }
    if (!all_reduce) {
      const std::vector<LevelRates> levels = with_protocol(plain, kSimple);
      add_way(ways, {kCallSeconds + kSimple.base_s + tree_steps(levels, shape),
                     (members - 1) / members / (least_beta(levels, shape) * kAggregatedTreeShare)});
    }
  }
  CollectiveTime time;
  for (const AffineTime& way : ways) time.add(way);
  return time;
}

}  // namespace

Algorithm parse_algorithm(const std::string& name) {
  std::vector<std::string> known;
  for (const Named& entry : kAlgorithms) {
    if (name == entry.name) return entry.algorithm;
    known.emplace_back(entry.name);
  }
  std::string all;
  for (const std::string& other : known) all += (all.empty() ? "" : ", ") + util::quoted(other);
  const std::string nearest = util::nearest(name, known) ? util::hint(name, known) : "";
  throw InvalidInput("network.collectives: unknown algorithm " + util::quoted(name) + nearest +
                     "; known: " + all);
}

CollectiveTime collective_time(Algorithm algorithm, std::span<const LevelRates> levels,
                               CollectiveOp op, std::span<const std::int64_t> shape) {
  if (algorithm == Algorithm::kAuto) return fastest(levels, op, shape);
  if (algorithm != Algorithm::kHierarchicalRing && members_of(shape) <= 1) return {};
  return named(algorithm, levels, op, shape);
}

}  // namespace nestplan::network
