#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "network/algorithms.hpp"
#include "network/level_rates.hpp"

namespace nestplan::network {

/// What trees of levels (`"kind": "hierarchy"`) have in common, whether or not their blocks are of
/// one size. Every block is an interval of devices; the last level is one block.
///
/// A group's shape begins with `(m_0, …, m_(L-1))`: `m_0` the most members in one level-0 block,
/// `m_i` the most level-(i-1) blocks with members inside one level-i block.
class Hierarchy : public Network {
 public:
  std::vector<std::string> domains() const override;
  int domain(const GroupShape& shape) const override;

 protected:
  /// `smallest[l]` and `largest[l]`: the devices of blocks of level `l`. Throws InvalidInput for an
  /// algorithm that is not known or that the levels cannot carry out.
  Hierarchy(const model::HierarchySpec& spec, std::span<const std::int64_t> smallest,
            std::span<const std::int64_t> largest);

  int tree_levels() const { return static_cast<int>(level_.size()); }
  const model::NetworkLevel& tree_level(int level) const {
    return level_[static_cast<std::size_t>(level)];
  }
  std::span<const LevelRates> rates() const { return rates_; }
  Algorithm algorithm() const { return algorithm_; }

  /// `m_0 … m_(L-1)` of a group in ascending order. `end_of(level, device, last_end)`: where the
  /// block of `device` ends, that of the member before having ended at `last_end` (0: there is
  /// none).
  template <typename EndOf>
  static GroupShape count_blocks(std::span<const std::int64_t> members, std::size_t levels,
                                 EndOf end_of) {
    GroupShape most(levels, 0);
    GroupShape count(levels, 0);
    GroupShape end(levels, 0);  // of the block, level by level, that the last member is in
    for (const std::int64_t device : members) {
      // A new block at some level is counted one level up, and its inside from the start.
      std::size_t level = 0;
      for (; level + 1 < levels && device >= end[level]; ++level) {
        end[level] = end_of(level, device, end[level]);
        count[level] = 1;
        most[level] = std::max<std::int64_t>(most[level], 1);
      }
      most[level] = std::max(most[level], ++count[level]);
    }
    return most;
  }

 private:
  std::vector<model::NetworkLevel> level_;
  std::vector<LevelRates> rates_;
  Algorithm algorithm_;
};

/// A tree whose blocks are all alike.
///
/// Level `l` joins `f_l` blocks into blocks of `n_l = f_0·…·f_l` devices. A block of level `l-1`
/// has an uplink of `n_(l-1)·b_l/o_l`; `x` devices of it that send at once get `B_l(x) = min(b_l,
/// n_(l-1)·b_l/(o_l·x))` each. Traffic with lca `l ≥ 1` crosses levels `1 … l`. For ports and
/// background traffic see LevelRates, for collectives Algorithm.
class HierarchicalNetwork final : public Hierarchy {
 public:
  /// Of a network with a limit, the first devices are there, in blocks that may be partly empty.
  /// Throws InvalidInput for an algorithm that is not known.
  explicit HierarchicalNetwork(const model::HierarchySpec& spec,
                               std::optional<std::int64_t> limit = {});

  std::int64_t devices() const override { return devices_; }
  int levels() const override { return static_cast<int>(block_.size()); }
  std::string level_name(int level) const override;
  /// Block sizes `n_0 … n_(L-1)`.
  std::span<const std::int64_t> block_sizes() const { return block_; }
  void append_starts(const PodLayout& pods, std::int64_t end,
                     std::vector<std::int64_t>& starts) const override;
  std::int64_t reach(int level) const override;
  int level(std::int64_t a, std::int64_t b) const override;
  double transfer_s(double bytes, int level, std::int64_t unit) const override;
  GroupShape shape(std::span<const std::int64_t> members) const override;
  CollectiveTime collective(model::CollectiveOp op, const GroupShape& shape) const override;
  int link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                 std::int64_t unit) const override;
  std::int64_t shape_period() const override;
  bool shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const override;

 private:
  HierarchicalNetwork(const model::HierarchySpec& spec, std::vector<std::int64_t> blocks,
                      std::optional<std::int64_t> limit);

  std::vector<std::int64_t> block_;  ///< n_l
  std::int64_t devices_ = 0;
};

/// The network of a hierarchy: a HierarchicalNetwork where blocks are alike and no level has rails,
/// else an UnevenHierarchy.
std::unique_ptr<Network> make_hierarchy(const model::HierarchySpec& spec,
                                        std::optional<std::int64_t> limit);

}  // namespace nestplan::network
