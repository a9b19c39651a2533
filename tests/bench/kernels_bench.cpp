#include <benchmark/benchmark.h>

#include <vector>

#include "solver/kernels.hpp"

namespace nestplan::solver {
namespace {

/// Rows as long as the first argument; cells a second are what counts.
template <class Kernel>
void run(benchmark::State& state, Kernel&& kernel) {
  const std::int64_t n = state.range(0);
  std::vector<Ticks> row(static_cast<std::size_t>(n), 1e9);
  std::vector<Ticks> next(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < next.size(); ++i) next[i] = static_cast<double>(i % 17) * 1e8;
  for (auto _ : state) {
    kernel(row.data(), next.data(), n);
    benchmark::DoNotOptimize(row.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

void relax_sum_rows(benchmark::State& state) {
  run(state, [](Ticks* row, const Ticks* next, std::int64_t n) { relax_sum(row, next, 1e7, n); });
}

void relax_bottleneck_rows(benchmark::State& state) {
  run(state,
      [](Ticks* row, const Ticks* next, std::int64_t n) { relax_bottleneck(row, next, 1e7, n); });
}

void relax_rows(benchmark::State& state) {
  run(state, [](Ticks* row, const Ticks* next, std::int64_t n) { relax(row, next, n); });
}

BENCHMARK(relax_sum_rows)->RangeMultiplier(8)->Range(4, 16384);
BENCHMARK(relax_bottleneck_rows)->RangeMultiplier(8)->Range(4, 16384);
BENCHMARK(relax_rows)->RangeMultiplier(8)->Range(4, 16384);

}  // namespace
}  // namespace nestplan::solver
