#include "bench/chain.hpp"

#include <string>

namespace nestplan::bench {

using model::CollectiveOp;
using model::GroupKind;
using model::Phase;

model::Problem chain(std::int64_t layers, std::int64_t devices, std::int64_t global_batch) {
  model::Problem problem;
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    model::Strategy strategy;
    strategy.id = "tp" + std::to_string(tp);
    strategy.tp = tp;
    problem.graph.strategies.push_back(strategy);
  }
  for (std::int64_t i = 0; i < layers; ++i) {
    model::Layer layer;
    layer.id = std::to_string(i);
    for (const model::Strategy& strategy : problem.graph.strategies) {
      const auto tp = static_cast<double>(strategy.tp);
      model::LayerCost cost;
      cost.forward_s = 0.01 / tp;
      cost.backward_s = 0.02 / tp;
      cost.parameters = 8e8 / tp;
      cost.activation_bytes = 4e9 / tp;
      cost.checkpoint_bytes = 1e8 / tp;
      if (strategy.tp > 1) {
        cost.collectives = {{Phase::kForward, CollectiveOp::kAllReduce, GroupKind::kTensor, 1e8},
                            {Phase::kBackward, CollectiveOp::kAllReduce, GroupKind::kTensor, 1e8}};
      }
      layer.costs.emplace_back(cost);
    }
    problem.graph.layers.push_back(layer);
    if (i > 0) {
      problem.graph.edges.push_back(
          {static_cast<int>(i) - 1, static_cast<int>(i), {1e8, 5e7, 2.5e7, 1.25e7}});
    }
  }
  model::quantise_counts(problem.graph);
  problem.cluster.device.memory_bytes = 8e10;
  problem.cluster.hierarchy().levels = {{"node", 8, 450e9, 1e-6, 1},
                                        {"leaf", 4, 12.5e9, 5e-6, 1},
                                        {"spine", devices / 32, 12.5e9, 1e-5, 2}};
  problem.options.global_batch = global_batch;
  return problem;
}

}  // namespace nestplan::bench
