#pragma once

#include <cstdint>
#include <vector>

namespace nestplan::cost {

/// How the rows of a tensor fall to the ranks that share it, where whole rows are dealt out, as
/// FSDP2 does along dimension 0 (torch/distributed/fsdp/_fully_shard/_fsdp_param.py of
/// pytorch/pytorch): every rank takes the next ⌈rows / ranks⌉, until there are none left.
struct RowShards {
  std::vector<std::int64_t> rows;  ///< of every rank
  double largest = 0;              ///< elements of the fullest rank
  double communicated = 0;         ///< elements of the padded tensor, which collectives move
};

/// Of `rows` rows of `row_elements` each over `ranks`. Throws InvalidConfig unless rows ≥ 0,
/// row_elements ≥ 0 and ranks ≥ 1.
RowShards shard_rows(std::int64_t rows, double row_elements, std::int64_t ranks);

}  // namespace nestplan::cost
