#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/model/problem.hpp"
#include "support/dice.hpp"
#include "support/random_problem.hpp"

namespace nestplan::testing {

/// Four to seven layers in a row, of two or three kinds, with the same bytes between them, for
/// pipelines of two or three chunks a stage.
inline model::Problem row_problem(std::uint64_t seed) {
  Dice dice(seed);
  model::Problem problem = random_problem(seed);
  model::Graph& graph = problem.graph;
  model::PlanOptions& options = problem.options;
  const std::vector<model::Layer> kinds = graph.layers;
  const auto layers = static_cast<int>(dice.between(4, 7));
  graph.ties.clear();
  graph.edges.clear();
  graph.layers.clear();
  std::size_t kind = 0;
  for (int v = 0; v < layers; ++v) {
    if (v > 0 && dice.chance(v == 1 || v + 1 == layers ? 70 : 15)) {
      kind = (kind + 1) % kinds.size();
    }
    graph.layers.push_back(kinds[kind]);
    graph.layers.back().id = "n" + std::to_string(v);
    graph.layers.back().counted = !(dice.chance(40) && (v == 0 || v + 1 == layers));
    if (v > 0) {
      graph.edges.push_back({v - 1, v, std::vector<double>(graph.strategies.size(), 2e6)});
    }
  }
  if (dice.chance(40)) {
    model::Tie tie{{0, layers - 1}, {}};
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      double parameters = 5e6;
      for (const int layer : tie.layers) {
        const auto& cost = graph.layers[static_cast<std::size_t>(layer)].costs[s];
        if (cost) parameters = std::min(parameters, cost->parameters);
      }
      tie.parameters.push_back(parameters);
    }
    graph.ties.push_back(std::move(tie));
  }
  options.stages = {};
  options.target = "any";
  if (dice.chance(30)) options.stages.layout = model::StageConstraints::Layout::kEven;
  options.schedule = model::Schedule::k1F1B;
  options.pp.clear();
  options.global_batch = dice.pick<std::int64_t>({4, 6, 8, 12});
  options.objective = dice.chance(75) ? model::Objective::k1F1B : model::Objective::kPaper;
  options.vpp = {dice.chance(80) ? 2 : 3};
  problem.cluster.device.memory_bytes *= 0.4 + 0.1 * static_cast<double>(dice.between(0, 8));
  return problem;
}

}  // namespace nestplan::testing
