#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "network/hierarchy.hpp"

namespace nestplan::network {

/// A tree whose blocks differ in size, or whose level above the nodes has rails.
///
/// A stage after a gap starts at boundaries of the blocks that the first pod lies in. What `x`
/// devices of a block share is that of the worst block of the level: see LevelRates.
///
/// *Rails* (level 1): switch `i` of a level-1 block joins the devices that are `i`-th in their
/// level-0 blocks (nodes). Pairs of different nodes and different index are of another class:
/// - joined: what would meet on level 1 meets on level 2, which is its class. On the levels from
///   there on all rails meet.
/// - isolated: no switch joins two rails, on no level. The message takes one hop inside a node, to
///   the neighbour on the right rail or from it (as NCCL forwards with PXN; Wang et al.,
///   "Rail-only", arXiv 2307.12169), then its level: latency `a_0 + a_l`, bandwidth the least of
///   both. The class "l (other rail)" comes after `l` and before `l+1`, which is by slowness where
///   `a_(l+1) ≥ a_0 + a_l` and nodes are no narrower than what is above them. One of two nodes
///   always has a device on the other's rail.
///
/// A group over several nodes is *mixed* unless all of them have the same indices in it; then its
/// shape ends in 1, else in 0. Mixed groups take the formulas of their algorithm with
/// - joined: `β_1 := β_2`, `b_1, o_1 := b_2, o_2` where those are slower, `a_1 := max(a_1, a_2)`
/// - isolated: `β_i := min(β_0, β_i)`, `b_i, o_i := b_0, o_0` where those are slower, and
///   `a_i := a_0 + a_i`, for all `i ≥ 1`
///
/// and without reduction in switches of level 1 (joined) or any but level 0 (isolated).
///
/// Memory: 8 bytes per block. Time: O(log blocks) per member of a group.
class UnevenHierarchy final : public Hierarchy {
 public:
  /// Throws InvalidInput for an algorithm that is not known, for counts that do not add up from
  /// level to level, and for rails on another level than 1 or, joined, on the last one.
  explicit UnevenHierarchy(const model::HierarchySpec& spec,
                           std::optional<std::int64_t> limit = {});

  std::int64_t devices() const override { return devices_; }
  int levels() const override { return static_cast<int>(class_.size()); }
  std::string level_name(int level) const override;
  void append_starts(const PodLayout& pods, std::int64_t end,
                     std::vector<std::int64_t>& starts) const override;
  std::int64_t reach(int level) const override;
  int level(std::int64_t a, std::int64_t b) const override;
  double transfer_s(double bytes, int level, std::int64_t unit) const override;
  GroupShape shape(std::span<const std::int64_t> members) const override;
  CollectiveTime collective(model::CollectiveOp op, const GroupShape& shape) const override;
  int link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                 std::int64_t unit) const override;
  std::int64_t shape_period() const override { return period_; }
  bool shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const override;

  /// The blocks of one level: where each of them ends, ascending.
  struct Blocks {
    std::vector<std::int64_t> ends;
    std::int64_t smallest = 0;
    std::int64_t largest = 0;
    std::int64_t divisor = 0;  ///< the greatest of all ends

    bool alike() const { return smallest == largest; }
    std::int64_t end_of(std::int64_t device) const;    ///< of the block that holds it
    std::int64_t start_of(std::int64_t device) const;  ///< of the block that holds it
  };

 private:
  /// Of a pair: its lca, and whether it changes rails by way of a neighbour.
  struct Class {
    int lca = 0;
    bool forwarded = false;
  };

  UnevenHierarchy(const model::HierarchySpec& spec, std::vector<Blocks> blocks,
                  std::optional<std::int64_t> limit);
  int lca(std::int64_t a, std::int64_t b) const;
  int class_of(int lca, bool other_rail) const;
  bool mixes_rails(std::span<const std::int64_t> members) const;
  bool crosses(int level, const PodLayout& pods, std::int64_t from, std::int64_t shift,
               std::int64_t unit) const;
  std::int64_t find_period() const;

  std::vector<Blocks> blocks_;
  model::Rails rails_ = model::Rails::kNone;
  std::vector<Class> class_;
  std::vector<LevelRates> mixed_rates_;
  std::int64_t devices_ = 0;
  std::int64_t period_ = 1;
};

}  // namespace nestplan::network
