#include <benchmark/benchmark.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <memory>
#include <vector>

#include "solver/kernels.hpp"

namespace nestplan::solver {
namespace {

// What the machine itself does with the pattern of the inner loop, two rows read and one written:
// the shifted max-min in registers as wide as they come, four at a time, for rows of whole ones.
// The rate that the kernels are held against.
#if defined(__x86_64__)

__attribute__((target("avx2"), noinline)) void stream_avx2(double* __restrict row,
                                                           const double* __restrict next,
                                                           double stage, std::int64_t n) {
  const __m256d stages = _mm256_set1_pd(stage);
  for (std::int64_t i = 0; i < n; i += 16) {
    __m256d least[4];
    for (int j = 0; j < 4; ++j) {
      const __m256d candidate = _mm256_max_pd(stages, _mm256_loadu_pd(next + i + 4 * j));
      least[j] = _mm256_min_pd(candidate, _mm256_loadu_pd(row + i + 4 * j));
    }
    for (int j = 0; j < 4; ++j) _mm256_storeu_pd(row + i + 4 * j, least[j]);
  }
}

__attribute__((noinline)) void stream_portable(double* __restrict row,
                                               const double* __restrict next, double stage,
                                               std::int64_t n) {
  const __m128d stages = _mm_set1_pd(stage);
  for (std::int64_t i = 0; i < n; i += 8) {
    __m128d least[4];
    for (int j = 0; j < 4; ++j) {
      const __m128d candidate = _mm_max_pd(stages, _mm_loadu_pd(next + i + 2 * j));
      least[j] = _mm_min_pd(candidate, _mm_loadu_pd(row + i + 2 * j));
    }
    for (int j = 0; j < 4; ++j) _mm_storeu_pd(row + i + 2 * j, least[j]);
  }
}

#endif

// The kernels' loops without AVX2: what the loader picks on a machine that does not have it.

__attribute__((noinline)) void portable_sum(Ticks* __restrict row, const Ticks* __restrict next,
                                            Ticks add, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Ticks candidate = next[i] + add;
    row[i] = candidate < row[i] ? candidate : row[i];
  }
}

__attribute__((noinline)) void portable_bottleneck(Ticks* __restrict row,
                                                   const Ticks* __restrict next, Ticks stage,
                                                   std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Ticks candidate = next[i] < stage ? stage : next[i];
    row[i] = candidate < row[i] ? candidate : row[i];
  }
}

/// Rows as long as the first argument; cells a second are what counts.
template <class Kernel>
void run(benchmark::State& state, Kernel&& kernel) {
  const std::int64_t n = state.range(0);
  // Both begin a cache line, half a page apart from each other.
  constexpr std::int64_t kApart = 256;
  std::vector<Ticks> cells(static_cast<std::size_t>(2 * n + 3 * kApart), 1e9);
  void* begin = cells.data();
  std::size_t space = cells.size() * sizeof(Ticks);
  auto* row = static_cast<Ticks*>(std::align(64, sizeof(Ticks), begin, space));
  Ticks* next = row + n + ((n / kApart) % 2 == 0 ? kApart : 0);
  for (std::int64_t i = 0; i < n; ++i) next[i] = static_cast<double>(i % 17) * 1e8;
  for (auto _ : state) {
    kernel(row, next, n);
    benchmark::DoNotOptimize(row);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * n);
}

/// A kernel over rows that fit in L1 (up to 2,048 cells) and in L2 (up to 32,768).
template <void (*Kernel)(Ticks*, const Ticks*, Ticks, std::int64_t)>
void rows(benchmark::State& state) {
  run(state, [](Ticks* row, const Ticks* next, std::int64_t n) { Kernel(row, next, 1e7, n); });
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

// Side by side, for the ratio that mpi_runs/benchmark.sh --kernels prints.
#if defined(__x86_64__)
BENCHMARK_TEMPLATE(rows, stream_avx2)->Name("stream/avx2")->Arg(1024)->Arg(16384);
BENCHMARK_TEMPLATE(rows, relax_sum)->Name("relax_sum/avx2")->Arg(1024)->Arg(16384);
BENCHMARK_TEMPLATE(rows, relax_bottleneck)->Name("relax_bottleneck/avx2")->Arg(1024)->Arg(16384);
BENCHMARK_TEMPLATE(rows, stream_portable)->Name("stream/portable")->Arg(1024)->Arg(16384);
BENCHMARK_TEMPLATE(rows, portable_sum)->Name("relax_sum/portable")->Arg(1024)->Arg(16384);
BENCHMARK_TEMPLATE(rows, portable_bottleneck)
    ->Name("relax_bottleneck/portable")
    ->Arg(1024)
    ->Arg(16384);
#endif

}  // namespace
}  // namespace nestplan::solver
