#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::baselines {

/// The cluster as searches see it that know of hosts and of nothing above them: `hosts` of
/// `per_host` devices each, in the order of the devices. What is left over is not used.
struct Mesh {
  std::int64_t hosts = 1;
  std::int64_t per_host = 1;
  std::int64_t devices() const { return hosts * per_host; }
};
Mesh mesh_of(const model::Cluster& cluster);

/// A stage of layers in a row, side by side with its neighbours.
struct RowStage {
  int begin = 0;  ///< of the layers in the row, and behind the last of them
  int end = 0;
  int strategy = 0;
  model::Recompute recompute = model::Recompute::kNone;
  int zero = 0;
  model::ShardSpan shard = model::ShardSpan::kAll;
};

/// A pipeline of layers in a row.
struct RowPlan {
  std::int64_t dp = 1;
  std::int64_t dp_inner = 1;
  std::vector<RowStage> stages;
};

/// Where the `row` (every layer after those that feed it) is cut, as the evaluator takes it.
cost::PlacedPlan placed(const RowPlan& plan, const std::vector<int>& row,
                        const model::Graph& graph);

/// Devices that one copy of a stage takes.
std::int64_t model_parallel_size(const model::Strategy& strategy);

/// Numbers of copies that the batch can be dealt to, and for which there are devices; ascending.
std::vector<std::int64_t> copy_counts(const model::Problem& problem, std::int64_t micro_batch,
                                      std::int64_t most);

/// Strategies that the lists of the options leave, ascending.
std::vector<int> offered_strategies(const model::Problem& problem);

/// Whether `list` is empty or has `value`.
bool allowed(const std::vector<std::int64_t>& list, std::int64_t value);

}  // namespace nestplan::baselines
