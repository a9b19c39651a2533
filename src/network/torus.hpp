#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/network/torus.hpp"

namespace nestplan::network {

/// A torus or mesh (`"kind": "torus"`) whose places are ordered as TorusGrid says. A link of
/// dimension d carries `W_d` (bandwidth less background) in each direction; a hop takes `a_d`.
///
/// **Point to point.** Messages go dimension by dimension. When all devices of a box with extent
/// `e_d` send by the same offset of `h_d` hops, a link of dimension d lies on the way of those of
/// its row that are at most `h_d` upstream: of min(h_d, e_d); after the first dimensions the box
/// has only moved, so that this holds in all of them. Hence
/// `time(V) = Σ_d h_d·a_d + V·max_d min(h_d, e_d)/W_d`. A level stands for the offsets of equal
/// `c = max_d h_d/W_d` and equal `Σ_d h_d`, each rounded up to three significant bits (so exact up
/// to eight hops) to have few of them, and is ordered by c, then by hops: the worse of two pairs is
/// the slower one but for latency alone. It takes hops at the slowest dimension's latency and
/// V·min(c, max_d e_d/W_d), with the extents of the least aligned block that holds `unit` devices.
///
/// **Collectives.** A group that is a product of arithmetic progressions (TorusGrid::box) has a row
/// of `n` members of stride `s` in each of its dimensions, closed or not. The `s` groups of a stage
/// whose rows lie in each other run at once, so a row has `w = W/s` each way and hops of `s·a`.
/// All-gather of V; a reduce-scatter is the reverse, an all-reduce both:
/// - along a closed row, both ways round: `(n-1)/n·V/2w + ⌊n/2⌋·s·a`; along an open one, whose ends
///   have one link only: `(n-1)/n·V/w + (n-1)·s·a`. Let `B` be 2w or w.
///   (jax-ml, How to Scale Your Model, "Sharded matrices", 2025.)
/// - `dimension-wise`: one dimension after the other, `Σ_i (n_i-1)/(n_1·…·n_i)·V/B_i`, fastest
///   first, which is the best order (Jain and Sabharwal, Optimal bucket algorithms for large MPI
///   collectives on torus interconnects, ICS 2010; Chan et al., Collective communication: theory,
///   practice, and experience, 2007).
/// - `all-dimensions`: parts of the buffer take the dimensions in different orders, so that all
///   links are busy. Shares of the dimensions that some mix of orders gives are the base polytope
///   of `f(S) = V·(Π_S n - 1)/Π n`, which the dimensions S carry at least; the least maximum of
///   load over bandwidth is therefore `max over S of f(S)/Σ_S B_d`. With all dimensions in S and
///   alike it is V over the bandwidth of all axes, as in How to Scale Your Model.
/// - `ring`: one ring through all `N` members where has_cycle(), as a closed row with the least w;
///   else as an open one (a long step of a ring costs as much as walking it back).
///
/// All-to-all (V: what a device sends) along a row, by its middle links: closed
/// `V·⌊n²/4⌋/(2n·w)`, on average n/4 hops over 2n links, open `V·⌊n/2⌋·⌈n/2⌉/(n·w)`. The sum over
/// dimensions (`dimension-wise`), or their maximum (`all-dimensions`, whose messages follow
/// dimension order without waiting for each other).
///
/// Slices (TorusDimension::switched) are one more row, of `n` slices at `w` for every device:
/// all-gather takes `(n-1)/n·V/w + (n-1)·a`, all-to-all `(n-1)/n·V/w + (n-1)·a` too, as on a level
/// of a hierarchy. Pairs in different slices are of the last level and take `a + V/w`.
///
/// `auto` takes the least of the three for the bytes at hand.
///
/// Any other group is a ring in the order of its places, one way round, each step shared as a point
/// to point transfer of its largest offset is, and taking the most hops: an upper estimate.
/// All-to-all then takes the less of that ring and of N-1 exchanges over the farthest offset.
///
/// A group's shape is its domain, 1 and, sorted, `(link, n, s, closed)` of every row of two or
/// more; or its domain, 0, its members, the hops of the longest step and, sorted, `(link, largest
/// offset)`. `link` is the first dimension with the same latency and bandwidth.
class TorusNetwork final : public Network {
 public:
  explicit TorusNetwork(const model::TorusSpec& spec, std::optional<std::int64_t> limit = {});

  const TorusGrid& grid() const { return grid_; }

  std::int64_t devices() const override { return devices_; }
  int levels() const override { return static_cast<int>(level_.size()); }
  std::string level_name(int level) const override;
  int level(std::int64_t a, std::int64_t b) const override;
  double transfer_s(double bytes, int level, std::int64_t unit) const override;
  void append_starts(const PodLayout& pods, std::int64_t end,
                     std::vector<std::int64_t>& starts) const override;
  GroupShape shape(std::span<const std::int64_t> members) const override;
  CollectiveTime collective(model::CollectiveOp op, const GroupShape& shape) const override;
  std::vector<std::string> domains() const override;
  int domain(const GroupShape& shape) const override { return static_cast<int>(shape.front()); }
  int link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                 std::int64_t unit) const override;
  std::int64_t shape_period() const override;
  bool shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const override;

 private:
  enum class Algorithm : std::uint8_t { kAuto, kDimensionWise, kAllDimensions, kRing };
  struct Link {
    double bandwidth = 0;  ///< W
    double latency_s = 0;  ///< a
    bool switched = false;
    std::int64_t same_as = 0;
  };
  struct Level {
    double per_byte_s = 0;  ///< c
    std::int64_t hops = 1;
    std::int64_t offset = 1;  ///< the largest in one dimension
    bool between_slices = false;
  };
  struct Domain {
    std::string name;
    std::int64_t block = 1;
  };

  static Algorithm algorithm_of(const std::string& name);
  void find_levels();
  int innermost(std::int64_t first, std::int64_t last) const;
  GroupShape shape_of_ring(std::span<const std::int64_t> members) const;
  AffineTime ring_of_places(model::CollectiveOp op, const GroupShape& shape) const;
  bool translates(std::int64_t unit) const;

  TorusGrid grid_;
  Algorithm algorithm_;
  std::int64_t devices_ = 0;
  std::vector<Link> link_;
  double slowest_hop_s_ = 0;
  double farthest_per_byte_s_ = 0;         ///< the greatest c
  std::vector<double> widest_per_byte_s_;  ///< max_d e_d/W_d of the blocks of every size
  std::vector<Domain> domain_;
  std::vector<Level> level_;
  std::vector<std::vector<std::int32_t>> load_of_;  ///< by dimension and hops: rank of h/W
  std::vector<std::int32_t> first_level_;           ///< by rank of c, less its fewest hops' rank
};

}  // namespace nestplan::network
