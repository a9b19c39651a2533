#include "nestplan/model/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::model {
namespace {

constexpr double kCountsPerUnit = 1024;

/// Multiplying by a power of two is exact; counts of 2^53 and more are whole already.
double quantised(double count) { return std::ceil(count * kCountsPerUnit) / kCountsPerUnit; }

void quantise(LayerCost& cost) {
  cost.parameters = quantised(cost.parameters);
  cost.expert_parameters = quantised(cost.expert_parameters);
  cost.activation_bytes = quantised(cost.activation_bytes);
  cost.checkpoint_bytes = quantised(cost.checkpoint_bytes);
  if (cost.selective_bytes) cost.selective_bytes = quantised(*cost.selective_bytes);
  cost.working_bytes = quantised(cost.working_bytes);
  cost.table_parameters = quantised(cost.table_parameters);
  for (Collective& collective : cost.collectives) collective.bytes = quantised(collective.bytes);
}

std::size_t index(int layer) { return static_cast<std::size_t>(layer); }

/// A layer on a cycle: every layer that is left has a predecessor that is left, so walking
/// backwards must come round.
int layer_on_cycle(const Graph& graph, const std::vector<int>& missing_inputs) {
  std::vector<int> left_predecessor(graph.layers.size(), -1);
  for (const Edge& edge : graph.edges) {
    if (missing_inputs[index(edge.from)] > 0) left_predecessor[index(edge.to)] = edge.from;
  }
  int layer = 0;
  while (missing_inputs[index(layer)] == 0) ++layer;
  std::vector<bool> seen(graph.layers.size(), false);
  while (!seen[index(layer)]) {
    seen[index(layer)] = true;
    layer = left_predecessor[index(layer)];
  }
  return layer;
}

}  // namespace

void quantise_counts(Graph& graph) {
  for (Layer& layer : graph.layers) {
    for (auto& cost : layer.costs) {
      if (cost) quantise(*cost);
    }
  }
  for (Edge& edge : graph.edges) {
    for (double& bytes : edge.bytes) bytes = quantised(bytes);
  }
  for (Tie& tie : graph.ties) {
    for (double& parameters : tie.parameters) parameters = quantised(parameters);
  }
}

std::vector<int> topological_order(const Graph& graph) {
  const std::size_t count = graph.layers.size();
  std::vector<std::vector<int>> successors(count);
  std::vector<int> missing_inputs(count, 0);
  for (const Edge& edge : graph.edges) {
    successors[index(edge.from)].push_back(edge.to);
    ++missing_inputs[index(edge.to)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < count; ++i) {
    if (missing_inputs[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  order.reserve(count);
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    order.push_back(layer);
    for (const int next : successors[index(layer)]) {
      if (--missing_inputs[index(next)] == 0) ready.push(next);
    }
  }
  if (order.size() < count) {
    const int layer = layer_on_cycle(graph, missing_inputs);
    throw InvalidInput(
        fmt::format("layer {} is on a cycle", util::quoted(graph.layers[index(layer)].id)));
  }
  return order;
}

bool in_a_row(const Graph& graph) {
  const std::vector<int> order = topological_order(graph);
  std::vector<std::size_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[index(order[i])] = i;
  std::vector<bool> feeds_next(order.size(), false);
  for (const Edge& edge : graph.edges) {
    if (place[index(edge.from)] + 1 == place[index(edge.to)])
      feeds_next[place[index(edge.from)]] = true;
  }
  return std::count(feeds_next.begin(), feeds_next.end(), true) + 1 ==
         static_cast<std::ptrdiff_t>(order.size());
}

std::int64_t counted_layers(const Graph& graph, const std::vector<int>& layers) {
  return std::count_if(layers.begin(), layers.end(),
                       [&](int layer) { return graph.layers[index(layer)].counted; });
}

std::int64_t counted_layers(const Graph& graph) {
  return std::count_if(graph.layers.begin(), graph.layers.end(),
                       [](const Layer& layer) { return layer.counted; });
}

}  // namespace nestplan::model
