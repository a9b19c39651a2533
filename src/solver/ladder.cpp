#include "solver/ladder.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

namespace nestplan::solver {
namespace {

/// Whether stages of one plan could differ in strategy.
bool strategies_to_mix(const model::Problem& problem) {
  if (!problem.options.per_stage_strategies) return false;
  std::map<std::int64_t, int> of_micro_batch;
  for (const model::Strategy& strategy : problem.graph.strategies) {
    if (++of_micro_batch[strategy.micro_batch] > 1) return true;
  }
  return false;
}

/// The layers of `graph` in a row, each after those that feed it, as early as its index allows.
std::vector<int> in_a_row(const model::Graph& graph) {
  std::vector<int> waits_for(graph.layers.size(), 0);
  std::vector<std::vector<int>> feeds(graph.layers.size());
  for (const model::Edge& edge : graph.edges) {
    ++waits_for[at(edge.to)];
    feeds[at(edge.from)].push_back(edge.to);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t v = 0; v < waits_for.size(); ++v) {
    if (waits_for[v] == 0) ready.push(static_cast<int>(v));
  }
  std::vector<int> row;
  while (!ready.empty()) {
    const int layer = ready.top();
    ready.pop();
    row.push_back(layer);
    for (const int next : feeds[at(layer)]) {
      if (--waits_for[at(next)] == 0) ready.push(next);
    }
  }
  return row;
}

}  // namespace

Lattice row_lattice(const model::Graph& graph) {
  std::vector<std::vector<int>> stages;
  for (const int layer : in_a_row(graph)) stages.push_back({layer});
  return Lattice::of_chain(graph, stages);
}

std::vector<Rung> ladder(const model::Problem& problem, const Lattice& lattice, bool shared) {
  model::Problem one_for_all = problem;
  one_for_all.options.per_stage_strategies = false;
  std::vector<Rung> rungs;
  const bool mixed = strategies_to_mix(problem);
  if (!lattice.totally_ordered()) {
    const Lattice row = row_lattice(problem.graph);
    if (mixed) rungs.push_back({one_for_all, row, false});
    rungs.push_back({problem, row, false});
  } else if (mixed) {
    rungs.push_back({one_for_all, lattice, shared});
  }
  rungs.push_back({problem, lattice, shared});
  return rungs;
}

}  // namespace nestplan::solver
