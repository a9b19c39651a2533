#include <benchmark/benchmark.h>

#include "bench/chain.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/team.hpp"
#include "solver/table.hpp"

namespace nestplan::solver {
namespace {

/// Fills the whole table of a chain on one pod: nothing is cut, every depth is kept.
void fill_table(benchmark::State& state, Combine combine) {
  model::Problem problem = bench::chain(state.range(0), state.range(1), 64);
  problem.options.dp = {1};
  problem.options.tp = {state.range(2)};
  const auto network = network::make_network(problem.cluster);
  const Instance instance(problem, *network, Lattice::enumerate(problem.graph));
  ConfigurationSpace space(instance);
  const Configuration configuration = space.list().at(0);
  const std::vector<std::int64_t> depths = space.depths(configuration);
  ClassCache classes(instance);
  const Placement placement(instance, configuration, classes);
  const PortLayers layers(instance, placement, depths);
  SoloTeam team;
  std::int64_t cells = 0;
  for (auto _ : state) {
    Table table(instance, placement, layers, depths, combine, {kNever, kNever, false}, team);
    table.fill({});
    cells = table.relaxations();
    benchmark::DoNotOptimize(cells);
  }
  state.SetItemsProcessed(state.iterations() * cells);
}

BENCHMARK_CAPTURE(fill_table, sum, Combine::kSum)
    ->ArgNames({"layers", "devices", "tp"})
    ->Args({32, 64, 1})
    ->Args({64, 256, 4})
    ->Args({128, 256, 8})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fill_table, bottleneck, Combine::kBottleneck)
    ->ArgNames({"layers", "devices", "tp"})
    ->Args({64, 256, 4})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nestplan::solver
