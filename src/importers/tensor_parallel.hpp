#pragma once

#include <cstdint>
#include <vector>

#include "importers/kernels.hpp"

namespace nestplan::importers {

/// How the kernels of a graph are split over a tensor-parallel group, as in Megatron-LM (Shoeybi et
/// al., arXiv 1909.08053, section 3): products whose weights are split by columns, kernels that
/// work on the columns or heads of their device, and a product whose weight is split by rows, whose
/// partial sums are added up. What is not in such a region is whole on every device.
struct Sharding {
  enum class Role : std::uint8_t { kWhole, kColumns, kInside, kRows };
  std::vector<Role> roles;            ///< by kernel
  std::vector<bool> split_tensors;    ///< by tensor, constants included
  std::vector<double> sent_forward;   ///< by kernel: elements that it all-reduces
  std::vector<double> sent_backward;  ///< by kernel: elements of the gradient
  int regions = 0;

  bool is_split(int tensor) const { return split_tensors[static_cast<std::size_t>(tensor)]; }
};

/// Splits all regions that can be split `tp` ways:
///
/// - MLPs: from one product or several, through element-wise kernels as wide as their results, to
///   one product that alone reads them; `tp` divides their widths.
/// - Attention: from the products of Q, K and V, through element-wise kernels that do not mix
/// heads,
///   through the core, whose heads and key-value heads `tp` divides, to one product.
///
/// Nothing outside may read from inside, and no weight inside may be shared.
Sharding shard(const KernelGraph& graph, std::int64_t tp);

/// The largest degree below `tp` and the smallest above that split some region; none where there is
/// no such degree.
std::vector<std::int64_t> nearest_degrees(const KernelGraph& graph, std::int64_t tp);

}  // namespace nestplan::importers
