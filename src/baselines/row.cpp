#include "baselines/row.hpp"

#include <algorithm>

namespace nestplan::baselines {

Mesh mesh_of(const model::Cluster& cluster) {
  const std::vector<std::int64_t> hosts = cluster.host_sizes();
  const std::int64_t devices = cluster.devices();
  Mesh mesh;
  mesh.per_host = std::min(devices, *std::max_element(hosts.begin(), hosts.end()));
  mesh.hosts = devices / mesh.per_host;
  return mesh;
}

cost::PlacedPlan placed(const RowPlan& plan, const std::vector<int>& row,
                        const model::Graph& graph) {
  cost::PlacedPlan result;
  result.dp = plan.dp;
  result.dp_inner = plan.dp_inner;
  std::int64_t position = 0;
  for (const RowStage& stage : plan.stages) {
    cost::PlacedStage& out = result.stages.emplace_back();
    out.layers.assign(row.begin() + stage.begin, row.begin() + stage.end);
    std::sort(out.layers.begin(), out.layers.end());
    out.strategy = stage.strategy;
    out.position = position;
    out.recompute = stage.recompute;
    out.zero = stage.zero;
    out.shard = stage.shard;
    position += plan.dp_inner *
                model_parallel_size(graph.strategies[static_cast<std::size_t>(stage.strategy)]);
  }
  return result;
}

std::int64_t model_parallel_size(const model::Strategy& strategy) {
  return strategy.tp * strategy.cp;
}

std::vector<std::int64_t> copy_counts(const model::Problem& problem, std::int64_t micro_batch,
                                      std::int64_t most) {
  const model::PlanOptions& options = problem.options;
  std::vector<std::int64_t> counts;
  for (std::int64_t dp = 1; dp <= std::min(most, options.global_batch / micro_batch); ++dp) {
    if (!options.allow_uneven_batch && options.global_batch % (dp * micro_batch) != 0) continue;
    if (allowed(options.dp, dp)) counts.push_back(dp);
  }
  return counts;
}

std::vector<int> offered_strategies(const model::Problem& problem) {
  const model::PlanOptions& options = problem.options;
  std::vector<int> offered;
  for (std::size_t k = 0; k < problem.graph.strategies.size(); ++k) {
    const model::Strategy& s = problem.graph.strategies[k];
    if (allowed(options.micro_batches, s.micro_batch) && allowed(options.tp, s.tp) &&
        allowed(options.cp, s.cp) && allowed(options.ep, s.ep)) {
      offered.push_back(static_cast<int>(k));
    }
  }
  return offered;
}

bool allowed(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

}  // namespace nestplan::baselines
