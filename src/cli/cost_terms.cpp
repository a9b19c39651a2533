#include "cli/cost_terms.hpp"

#include <algorithm>
#include <utility>

namespace nestplan::cli {
namespace {

using model::GroupKind;

template <typename Visit>
void each_cost(model::Graph& graph, Visit visit) {
  for (model::Layer& layer : graph.layers) {
    for (std::optional<model::LayerCost>& cost : layer.costs) {
      if (cost) visit(*cost);
    }
  }
}

void scale_computation(model::Problem& problem, double factor) {
  each_cost(problem.graph, [factor](model::LayerCost& cost) {
    cost.forward_s *= factor;
    cost.backward_s *= factor;
    cost.selective_s *= factor;
    for (model::LayerTimes& times : cost.others) {
      times.forward_s *= factor;
      times.backward_s *= factor;
      times.selective_s *= factor;
    }
  });
}

void scale_collectives(model::Problem& problem, GroupKind group, double factor) {
  each_cost(problem.graph, [&](model::LayerCost& cost) {
    for (model::Collective& collective : cost.collectives) {
      if (collective.group == group) collective.bytes *= factor;
    }
  });
  model::quantise_counts(problem.graph);
}

void scale_transfers(model::Problem& problem, double factor) {
  for (model::Edge& edge : problem.graph.edges) {
    for (double& bytes : edge.bytes) bytes *= factor;
  }
  model::quantise_counts(problem.graph);
}

/// The bandwidths of all levels or dimensions, by name.
std::vector<std::pair<std::string, double*>> bandwidths(model::Cluster& cluster) {
  std::vector<std::pair<std::string, double*>> all;
  if (auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network)) {
    for (model::NetworkLevel& level : hierarchy->levels) {
      all.emplace_back(level.name, &level.bandwidth);
    }
  } else {
    for (model::TorusDimension& dimension :
         std::get<model::TorusSpec>(cluster.network).dimensions) {
      all.emplace_back(dimension.name, &dimension.bandwidth);
    }
  }
  return all;
}

void scale_data_parallel(model::Problem& problem, double factor) {
  for (const auto& [name, bandwidth] : bandwidths(problem.cluster)) *bandwidth /= factor;
  for (const GroupKind group : {GroupKind::kTensor, GroupKind::kContext, GroupKind::kExpert}) {
    scale_collectives(problem, group, 1 / factor);
  }
  scale_transfers(problem, 1 / factor);
}

void scale_updates(model::Problem& problem, double factor) {
  for (model::UpdateRate& update : problem.graph.updates) {
    update.fixed_s *= factor;
    update.per_byte_s *= factor;
  }
}

bool communicates(const model::Problem& problem, GroupKind group) {
  bool found = false;
  for (const model::Layer& layer : problem.graph.layers) {
    for (const std::optional<model::LayerCost>& cost : layer.costs) {
      if (!cost) continue;
      found = found || std::any_of(cost->collectives.begin(), cost->collectives.end(),
                                   [group](const auto& each) { return each.group == group; });
    }
  }
  return found;
}

}  // namespace

std::vector<NetworkTerm> network_terms(const model::Problem& problem) {
  model::Cluster names = problem.cluster;
  std::vector<NetworkTerm> terms;
  const auto levels = bandwidths(names);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    terms.push_back({levels[i].first, [i](model::Problem& scaled, double factor) {
                       *bandwidths(scaled.cluster)[i].second /= factor;
                     }});
  }
  return terms;
}

std::vector<CostTerm> cost_terms(const model::Problem& problem) {
  std::vector<CostTerm> terms{{"compute", scale_computation}};
  constexpr std::pair<const char*, GroupKind> kGroups[] = {
      {"tensor collectives", GroupKind::kTensor},
      {"context collectives", GroupKind::kContext},
      {"expert collectives", GroupKind::kExpert}};
  for (const auto& [name, group] : kGroups) {
    if (!communicates(problem, group)) continue;
    terms.push_back({name, [of = group](model::Problem& scaled, double factor) {
                       scale_collectives(scaled, of, factor);
                     }});
  }
  terms.push_back({"transfers", scale_transfers});
  terms.push_back({"data parallel", scale_data_parallel});
  if (!problem.graph.updates.empty()) terms.push_back({"optimizer", scale_updates});
  for (NetworkTerm& term : network_terms(problem)) {
    terms.push_back({"network: " + term.level, std::move(term.scale)});
  }
  return terms;
}

}  // namespace nestplan::cli
