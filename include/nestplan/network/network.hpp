#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::network {

/// How a group of devices lies in the network, as far as a collective's time depends on it. What
/// the numbers mean is the network's own affair (for a hierarchy: m_0 … m_(L-1)); equal shapes have
/// equal times.
using GroupShape = std::vector<std::int64_t>;

/// A time that grows with the bytes: `fixed_s + per_byte_s · bytes` for `bytes > 0`.
struct AffineTime {
  double fixed_s = 0;
  double per_byte_s = 0;
  double seconds(double bytes) const { return bytes > 0 ? fixed_s + per_byte_s * bytes : 0; }
  auto operator<=>(const AffineTime&) const = default;
};

/// Time of a collective as a function of its bytes: the least over the ways to carry it out, each
/// an affine time. No way: it takes no time (a single member).
class CollectiveTime {
 public:
  CollectiveTime() = default;
  CollectiveTime(AffineTime way) : ways_{way} {}  // NOLINT(google-explicit-constructor)

  void add(AffineTime way) { ways_.push_back(way); }
  const std::vector<AffineTime>& ways() const { return ways_; }
  double seconds(double bytes) const {
    if (ways_.empty() || bytes <= 0) return 0;
    double least = ways_.front().seconds(bytes);
    for (const AffineTime& way : ways_) least = std::min(least, way.seconds(bytes));
    return least;
  }

 private:
  std::vector<AffineTime> ways_;
};

/// How the pods lie on the devices: pod `j` is `[j·pod_size, (j+1)·pod_size)`.
struct PodLayout {
  std::int64_t devices = 0;   ///< N
  std::int64_t pods = 1;      ///< dp_outer
  std::int64_t pod_size = 0;  ///< K = floor(N / pods)
};

/// A network as the planner sees it: a level for a pair of devices, a time for a transfer, a time
/// for a collective over a group. The solver knows nothing else about it.
class Network {
 public:
  virtual ~Network() = default;

  virtual std::int64_t devices() const = 0;
  virtual int levels() const = 0;
  virtual std::string level_name(int level) const = 0;

  /// Level of the pair `a ≠ b`: 0 (nearest) … levels()-1.
  virtual int level(std::int64_t a, std::int64_t b) const = 0;

  /// Seconds of a point-to-point transfer of `bytes` per device over `level` while all `unit`
  /// devices of the producer stage send. 0 for no bytes. Never falls when `unit` grows.
  virtual double transfer_s(double bytes, int level, std::int64_t unit) const = 0;

  /// Appends where in its pod a stage may start after a gap, behind one that ends at `end`: at
  /// boundaries of blocks of the network, `end` or more, in any order.
  virtual void append_starts(const PodLayout& pods, std::int64_t end,
                             std::vector<std::int64_t>& starts) const = 0;

  /// A row of stages that are neighbours over links below `level` only (≥ 1) lies within so many
  /// devices. devices() is always a safe answer.
  virtual std::int64_t reach(int level) const {
    (void)level;
    return devices();
  }

  /// Shape of the group `members` (ascending, distinct).
  virtual GroupShape shape(std::span<const std::int64_t> members) const = 0;

  /// Time of a collective on a group of that shape as a function of its bytes (which bytes: see
  /// model::Collective). Zero for one member.
  virtual CollectiveTime collective(model::CollectiveOp op, const GroupShape& shape) const = 0;

  /// Seconds of a collective of `bytes`. 0 for no bytes or one member.
  double collective_s(model::CollectiveOp op, double bytes, const GroupShape& shape) const {
    return collective(op, shape).seconds(bytes);
  }

  /// Names of the nested domains that a group can be asked to stay in, innermost first; the last
  /// one is the whole network.
  virtual std::vector<std::string> domains() const = 0;

  /// The innermost of domains() of which one holds the whole of a group of that shape.
  virtual int domain(const GroupShape& shape) const = 0;

  /// The level of the link from the stage at `[from, from+unit)` to the stage at `to`, the worst
  /// over all pods and ranks; devices beyond the cluster are left out. `to >= from + unit`.
  /// The default compares every pair; a network overrides it with a closed form.
  virtual int link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                         std::int64_t unit) const;

  /// Shapes of groups do not change when all members are shifted by a multiple of this.
  virtual std::int64_t shape_period() const { return devices(); }

  /// Whether every stage of `unit` devices that starts at a multiple of `unit` in its pod lies in
  /// the network as the one at the start of pod 0 does: then its groups have the same shapes, both
  /// inside pods and, where `across_pods`, over all pods. `false` is always a safe answer.
  virtual bool shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const {
    (void)pods, (void)unit, (void)across_pods;
    return false;
  }
};

/// Builds the network between the devices of a cluster (of the places that are there). Throws
/// InvalidInput for an unknown collective algorithm and for a network that cannot be built.
std::unique_ptr<Network> make_network(const model::Cluster& cluster);

}  // namespace nestplan::network
