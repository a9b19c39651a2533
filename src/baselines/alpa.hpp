#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "baselines/row.hpp"

namespace nestplan::baselines {

/// Part of a mesh: so many devices of each of so many hosts.
struct Submesh {
  std::int64_t hosts = 1;
  std::int64_t per_host = 1;
  std::int64_t devices() const { return hosts * per_host; }
  bool operator==(const Submesh&) const = default;
};

/// The submeshes that a stage can have, by rising size: 1, 2, 4, … devices of one host, all of a
/// host, all of several hosts (Alpa, OSDI 2022, section 5.2).
std::vector<Submesh> submeshes(const Mesh& mesh);

/// A stage of layers `[begin, end)` on a submesh.
struct MeshStage {
  int begin = 0;
  int end = 0;
  int choice = 0;  ///< of InterOperatorProblem::sizes
};

/// How to cut `layers` in a row into stages and a cluster into submeshes.
struct InterOperatorProblem {
  int layers = 0;
  std::int64_t devices = 0;         ///< all of them are to be used
  std::int64_t microbatches = 1;    ///< B
  std::vector<std::int64_t> sizes;  ///< devices of a stage, by choice
  /// Seconds per micro-batch of layers `[begin, end)`; infinite if they cannot be a stage.
  std::vector<double> seconds;
  /// The most stages from that stage on for which its memory suffices.
  std::vector<std::int64_t> most_stages;

  std::size_t index(int begin, int end, int choice) const {
    const auto n = static_cast<std::size_t>(layers);
    return (static_cast<std::size_t>(begin) * n + static_cast<std::size_t>(end - 1)) *
               sizes.size() +
           static_cast<std::size_t>(choice);
  }
};

struct InterOperatorPlan {
  double seconds = std::numeric_limits<double>::infinity();  ///< Σ t_i + (B-1)·max t_i
  std::vector<MeshStage> stages;
};

/// The least `Σ t_i + (B-1)·max t_i` over all cuts and submeshes that use all devices (Alpa,
/// equations 2 to 4): for every bound on max t_i, by rising value as long as B times it is less
/// than the best, a dynamic program over (stages, layers, devices) for the sum. Bounds nearer than
/// 1 us to the last are skipped (section 5.2). O(bounds · stages · layers² · devices · choices).
/// Nothing that is not faster than `better_than_s` is looked for. `over` ends it early.
InterOperatorPlan cut_into_stages(const InterOperatorProblem& problem, double better_than_s,
                                  const std::function<bool()>& over);

}  // namespace nestplan::baselines
