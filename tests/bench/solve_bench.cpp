#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "bench/chain.hpp"
#include "nestplan/cost/network.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan {
namespace {

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

void solve(benchmark::State& state, const model::Problem& problem) {
  const auto network = cost::make_network(problem.cluster);
  for (auto _ : state) {
    benchmark::DoNotOptimize(solver::solve(problem, *network));
  }
}

/// A search from its costs to its plan, for a model and a cluster of `inputs/`.
void solve_input(benchmark::State& state, const std::string& model, const std::string& cluster,
                 std::int64_t sequence, std::int64_t global_batch, bool uneven) {
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / (cluster + ".json"));
  cost::ProfileOptions profile;
  profile.sequence = sequence;
  problem.graph = cost::build_graph(io::read_architecture(kInputs / "models" / model),
                                    problem.cluster.device, profile);
  problem.options.global_batch = global_batch;
  problem.options.allow_uneven_batch = uneven;
  solve(state, problem);
}

void solve_chain(benchmark::State& state, bool per_stage) {
  model::Problem problem = bench::chain(state.range(0), state.range(1), 1024);
  problem.options.per_stage_strategies = per_stage;
  solve(state, problem);
}

BENCHMARK_CAPTURE(solve_input, llama_70b_1024, "llama-3.1-70b", "h100-spine-leaf-1024", 8192, 1024,
                  false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(solve_input, llama_70b_1024_uneven, "llama-3.1-70b", "h100-spine-leaf-1024", 8192,
                  1000, true)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(solve_input, llama_405b_16384, "llama-3.1-405b", "h100-16384", 8192, 2048, false)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(solve_chain, uniform, false)
    ->Args({64, 1024})
    ->Args({128, 16384})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(solve_chain, per_stage, true)->Args({32, 64})->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace nestplan
