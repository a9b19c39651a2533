#include "nestplan/cost/device_times.hpp"

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

/// Calls `visit(layer, strategy, cost)` for all costs that there are.
template <typename Visit>
void for_each_cost(model::Graph& graph, Visit visit) {
  for (std::size_t layer = 0; layer < graph.layers.size(); ++layer) {
    for (std::size_t k = 0; k < graph.strategies.size(); ++k) {
      if (auto& cost = graph.layers[layer].costs[k]) visit(layer, k, *cost);
    }
  }
}

}  // namespace

model::Graph build_graph(const model::Model& model, const model::Cluster& cluster,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  model::Graph graph = build_graph(model, cluster.device, options, dropped);
  for (const model::Device& device : cluster.other_devices) {
    const model::Graph other = build_graph(model, device, options);
    if (other.strategies != graph.strategies || other.layers.size() != graph.layers.size()) {
      throw InternalError("the profile of a model has other layers on " + device.name);
    }
    graph.updates.push_back(other.updates.front());
    for_each_cost(graph, [&other](std::size_t layer, std::size_t k, model::LayerCost& cost) {
      cost.others.push_back(other.layers[layer].costs[k].value().times(0));
    });
  }
  return graph;
}

void scale_times(model::Graph& graph, const model::Cluster& cluster) {
  for (const model::Device& device : cluster.other_devices) {
    for_each_cost(graph, [&device](std::size_t, std::size_t, model::LayerCost& cost) {
      cost.others.push_back({cost.forward_s / device.speed, cost.backward_s / device.speed,
                             cost.selective_s / device.speed});
    });
  }
}

}  // namespace nestplan::cost
