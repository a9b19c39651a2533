#include "nestplan/cost/shards.hpp"

#include <algorithm>
#include <string>

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {

RowShards shard_rows(std::int64_t rows, double row_elements, std::int64_t ranks) {
  if (rows < 0 || !(row_elements >= 0) || ranks < 1) {
    throw InvalidConfig("a tensor of " + std::to_string(rows) + " rows over " +
                        std::to_string(ranks) + " ranks: there is no such thing");
  }
  const std::int64_t fullest = rows / ranks + (rows % ranks != 0 ? 1 : 0);
  RowShards shards;
  shards.largest = static_cast<double>(fullest) * row_elements;
  shards.communicated = shards.largest * static_cast<double>(ranks);
  for (std::int64_t left = rows; std::ssize(shards.rows) < ranks;) {
    shards.rows.push_back(std::min(left, fullest));
    left -= shards.rows.back();
  }
  return shards;
}

}  // namespace nestplan::cost
