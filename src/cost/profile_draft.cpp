#include "cost/profile_draft.hpp"

#include <algorithm>

namespace nestplan::cost {
namespace {

std::string joined(const std::string& layer, const std::string& part) {
  return part.empty() ? layer : layer + "." + part;
}

}  // namespace

Op Draft::add(const std::string& layer, const std::string& block, const std::string& name) {
  std::string id = layer;
  const auto part = of_part_.find(layer.substr(0, layer.find('.')));
  const Granularity granularity = part == of_part_.end() ? granularity_ : part->second;
  if (granularity == Granularity::kBlock) id = joined(layer, block);
  if (granularity == Granularity::kOperator) id = joined(layer, name);
  const auto [entry, inserted] = index_.emplace(std::move(id), static_cast<int>(layers_.size()));
  if (inserted) layers_.push_back({entry->first, {}, 0, false});
  return {operators_++, entry->second};
}

void Draft::connect(const Tensor& tensor, Op to) {
  if (tensor.producer.layer == to.layer) return;
  double& bytes = tensors_[{tensor.producer.layer, to.layer}][tensor.producer.id];
  bytes = std::max(bytes, tensor.bytes);
}

std::vector<Draft::Edge> Draft::edges() const {
  std::vector<Edge> edges;
  for (const auto& [ends, tensors] : tensors_) {
    Edge edge{ends.first, ends.second, 0};
    for (const auto& [producer, bytes] : tensors) edge.bytes += bytes;
    edges.push_back(edge);
  }
  return edges;
}

void Draft::keep_unless_selective(Op op, double bytes) {
  cost(op).activation_bytes += bytes;
  layers_[static_cast<std::size_t>(op.layer)].dropped_bytes += bytes;
}

void Draft::share(const std::string& name, Op op, double parameters) {
  Tie& table = tables_[name];
  table.layers.insert(op.layer);
  table.parameters = parameters;
}

std::vector<Draft::Tie> Draft::ties() const {
  std::vector<Tie> ties;
  for (const auto& [name, table] : tables_) {
    if (table.layers.size() > 1) ties.push_back(table);
  }
  return ties;
}

void Draft::finish() {
  for (Layer& layer : layers_) {
    if (layer.dropped_bytes == 0) continue;
    layer.cost.selective_bytes = layer.cost.activation_bytes - layer.dropped_bytes;
  }
  for (const Edge& edge : edges()) {
    layers_[static_cast<std::size_t>(edge.to)].cost.checkpoint_bytes += edge.bytes;
  }
}

}  // namespace nestplan::cost
