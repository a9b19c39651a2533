#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nestplan/network/network.hpp"

namespace nestplan::simulate {

/// A stage and the one behind it, as positions in a pod. `unit` devices of the first are joined,
/// rank by rank, with devices of the second.
struct Boundary {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t unit = 0;
};

/// Devices of a block that are joined with devices outside of it.
struct Crossing {
  int level = 0;           ///< that the block's uplink leads to, from 1
  std::int64_t block = 0;  ///< its first device
  std::int64_t size = 0;
  std::int64_t devices = 0;  ///< of all pods, at the same boundary
};

/// One boundary in one pod.
struct PodBoundary {
  int level = 0;               ///< the worst of its pairs
  std::int64_t pairs = 0;      ///< that are inside the cluster
  std::vector<Crossing> near;  ///< blocks on the side of the first stage
  std::vector<Crossing> far;
};

/// How pairs of neighbouring stages lie in the network. Blocks below level `l` are the longest runs
/// of devices in which every device is nearer than `l` to the next one.
class StageLinks {
 public:
  StageLinks(const network::Network& network, const network::PodLayout& pods,
             std::span<const Boundary> boundaries);

  /// Whether every pair lies in different blocks below its own level, as in a tree. If not, there
  /// are no crossings.
  bool has_uplinks() const { return has_uplinks_; }
  /// By pod and boundary.
  std::span<const PodBoundary> pod(std::int64_t pod) const;
  /// Equal for pods that differ in nothing but which blocks they lie in.
  std::vector<std::int64_t> signature(std::int64_t pod) const;

 private:
  void find_levels(const network::Network& network);
  void find_blocks(const network::Network& network);
  bool find_crossings(const network::Network& network);
  void count_all_pods();
  template <typename Visit>
  void for_pairs(std::int64_t pod, const Boundary& boundary, Visit visit) const;

  network::PodLayout layout_;
  std::vector<Boundary> boundaries_;
  std::vector<PodBoundary> at_;  ///< by pod, then boundary
  bool has_uplinks_ = true;
  std::vector<std::vector<std::int64_t>> start_;  ///< by level: first device of a device's block
  std::vector<std::vector<std::int64_t>> size_;   ///< by level and first device
};

}  // namespace nestplan::simulate
