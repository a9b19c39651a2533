#include <benchmark/benchmark.h>

#include "nestplan/lattice/lattice.hpp"

namespace nestplan::lattice {
namespace {

/// `branches` chains of `length` layers side by side: (length + 1)^branches downsets.
model::Graph parallel_chains(int branches, int length) {
  model::Graph graph;
  for (int b = 0; b < branches; ++b) {
    for (int i = 0; i < length; ++i) {
      graph.layers.push_back({"", {}});
      const int layer = static_cast<int>(graph.layers.size()) - 1;
      if (i > 0) graph.edges.push_back({layer - 1, layer, {}});
    }
  }
  return graph;
}

void enumerate_downsets(benchmark::State& state) {
  const model::Graph graph =
      parallel_chains(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  DownsetId downsets = 0;
  for (auto _ : state) {
    const Lattice lattice = Lattice::enumerate(graph);
    downsets = lattice.size();
    benchmark::DoNotOptimize(downsets);
  }
  state.SetItemsProcessed(state.iterations() * downsets);
  state.counters["downsets"] = downsets;
}

BENCHMARK(enumerate_downsets)
    ->ArgNames({"branches", "length"})
    ->Args({1, 128})
    ->Args({2, 64})
    ->Args({3, 32})
    ->Args({16, 1})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nestplan::lattice
