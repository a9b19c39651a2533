#include <benchmark/benchmark.h>

#include <filesystem>
#include <string>

#include "bench/chain.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan {
namespace {

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

void solve(benchmark::State& state, const model::Problem& problem) {
  const auto network = network::make_network(problem.cluster);
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

/// What bounds and pruning leave of the work: the cells filled and the tables, with and without
/// them. The plans must be the same.
void prune_input(benchmark::State& state, const std::string& model, const std::string& cluster,
                 std::int64_t global_batch, bool per_stage) {
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / (cluster + ".json"));
  cost::ProfileOptions profile;
  profile.sequence = 4096;
  profile.tp = {1, 2};
  problem.graph = cost::build_graph(io::read_model(kInputs / "models" / model),
                                    problem.cluster.device, profile);
  problem.options.global_batch = global_batch;
  problem.options.per_stage_strategies = per_stage;
  const auto network = network::make_network(problem.cluster);
  solver::SearchSettings settings;
  settings.prune = state.range(0) != 0;
  model::Plan plan;
  for (auto _ : state) plan = solver::solve(problem, *network, settings);
  settings.prune = true;
  model::Plan pruned = solver::solve(problem, *network, settings);
  state.counters["cells"] = static_cast<double>(plan.search.cells);
  state.counters["tables"] = static_cast<double>(plan.search.tables);
  plan.search = pruned.search = {};
  const auto text = [&](const model::Plan& of) {
    return io::plan_to_json(of, problem.graph, problem.cluster, global_batch);
  };
  if (text(plan) != text(pruned)) state.SkipWithError("another plan without pruning");
}

BENCHMARK_CAPTURE(prune_input, omni_8_mixed, "qwen2.5-omni-7b", "single-node-8xh100", 64, true)
    ->ArgName("pruned")
    ->Arg(1)
    ->Arg(0)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prune_input, llama_70b_256, "llama-3.1-70b", "tpuv4-fat-tree-256", 256, false)
    ->ArgName("pruned")
    ->Arg(1)
    ->Arg(0)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(prune_input, llama_8b_8_mixed, "llama-3.1-8b", "single-node-8xh100", 64, true)
    ->ArgName("pruned")
    ->Arg(1)
    ->Arg(0)
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);
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
