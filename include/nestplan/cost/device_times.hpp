#pragma once

#include "nestplan/cost/profile.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::cost {

/// The graph of a model with the times of its layers on every type of devices of `cluster`
/// (model::LayerCost::others): each type profiled by itself. Strategies, memory and messages are
/// those of the first. Throws as `build_graph` of one device does.
model::Graph build_graph(const model::Model& model, const model::Cluster& cluster,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// Gives the layers of a graph, whose times are those of the cluster's first type, times on the
/// other types: as much shorter as model::Device::speed says.
void scale_times(model::Graph& graph, const model::Cluster& cluster);

}  // namespace nestplan::cost
