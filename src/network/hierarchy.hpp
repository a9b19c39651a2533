#pragma once

#include <optional>
#include <string>

#include "nestplan/network/network.hpp"

namespace nestplan::network {

/// A tree of levels (`"kind": "hierarchy"`), numbered so that every block is an interval.
///
/// Level `l` joins `f_l` blocks into blocks of `n_l = f_0·…·f_l` devices. A block of level `l-1`
/// has an uplink of `n_(l-1)·b_l/o_l`; `x` devices of it that send at once get `B_l(x) = min(b_l,
/// n_(l-1)·b_l/(o_l·x))` each. Traffic with lca `l ≥ 1` crosses levels `1 … l`.
///
/// A group's shape is `(m_0, …, m_(L-1))`: `m_0` the most members in one level-0 block, `m_i` the
/// most level-(i-1) blocks with members inside one level-i block.
///
/// Collectives, algorithm `hierarchical-ring` (ring per level from the inside out, as in the
/// two-level all-reduce of Jia et al., arXiv 1807.11205, generalised to any depth; bandwidth terms
/// of a ring: Patarasuk and Yuan, J. Parallel Distrib. Comput. 69, 2009), with `β_0 = b_0/o_0`,
/// `β_i = min_(1≤j≤i) b_j/o_j`:
/// - all_reduce(V) = Σ_i [2(m_i-1)/m_i·V_i/β_i + 2(m_i-1)·a_i], V_0 = V, V_(i+1) = V_i/m_i
/// - all_gather(V) = reduce_scatter(V) = all_reduce(V)/2
/// - all_to_all(V) = max_i [V(P_i-P_(i-1))/(P_(L-1)·β_i)] + Σ_i (m_i-1)·a_i, P_i = m_0·…·m_i
class HierarchicalNetwork final : public Network {
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
  std::vector<std::string> domains() const override;
  int domain(const GroupShape& shape) const override;
  int link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                 std::int64_t unit) const override;
  std::int64_t shape_period() const override;
  bool shapes_repeat(const PodLayout& pods, std::int64_t unit, bool across_pods) const override;

 private:
  std::vector<model::NetworkLevel> level_;
  std::vector<std::int64_t> block_;  ///< n_l
  std::int64_t devices_ = 0;
  std::vector<double> beta_;  ///< β_l
};

}  // namespace nestplan::network
