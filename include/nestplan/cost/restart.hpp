#pragma once

#include <cstdint>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::cost {

/// Host memory that the optimizer state takes while a run is loaded to go on, in bytes. A node is a
/// block of the nearest level; figures per node are those of the fullest one.
struct Restart {
  std::int64_t ranks_per_node = 0;
  /// If every rank reads the state of all copies of its stage, and keeps its part.
  double whole_bytes_per_rank = 0;
  double whole_bytes_per_node = 0;
  /// If what ranks of a node have in common is read once, and of shards only those of the node.
  double shard_bytes_per_node = 0;
};

/// Of a plan with stages, by the devices that it uses.
Restart restart(const model::Problem& problem, const model::Plan& plan);

}  // namespace nestplan::cost
