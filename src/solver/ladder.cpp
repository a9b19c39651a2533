#include "solver/ladder.hpp"

#include <map>

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

}  // namespace

Lattice row_lattice(const model::Graph& graph) {
  std::vector<std::vector<int>> stages;
  for (const int layer : model::topological_order(graph)) stages.push_back({layer});
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
