#include "facts/run.hpp"

#include <algorithm>
#include <memory>
#include <string>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::facts {
namespace {

/// Times do not matter here.
model::Device any_device() {
  model::Device device;
  device.name = "any";
  device.memory_bytes = 80e9;
  device.peak_flops = {{"bf16", 1e15}, {"fp8", 2e15}};
  device.memory_bandwidth = 3e12;
  return device;
}

model::Cluster one_switch(std::int64_t devices) {
  model::Cluster cluster;
  cluster.name = "one switch";
  cluster.device = any_device();
  cluster.hierarchy().levels = {{"switch", devices, 1e11, 1e-6, 1}};
  return cluster;
}

/// The operator policy of pytorch/torchtitan, torchtitan/parallelisms/parallelize_llama.py: of the
/// seven products of a block, in the order Q, K, V, attention output, gate, up, down, the first and
/// every second one behind it are kept, and so is what attention puts out; what enters the block is
/// kept in any case.
double every_second_product_bytes(const Run& run) {
  const model::Architecture& a = run.architecture;
  const double tokens = static_cast<double>(run.micro_batch() * run.profile.sequence / run.cp());
  const double tp = static_cast<double>(run.tp());
  const double split = static_cast<double>(2 * a.query_width() + a.kv_width() + a.ffn) / tp;
  const double rows = static_cast<double>(2 * a.hidden) / tp;
  const double log_sum_exp = 4 * static_cast<double>(a.heads) / tp;
  return tokens * (2 * (split + rows) + log_sum_exp);
}

std::vector<std::vector<int>> layers_of_parts(const Run& run) {
  std::vector<std::vector<int>> parts;
  int next = 0;
  for (const std::int64_t blocks : run.blocks) {
    std::vector<int> layers;
    const std::int64_t table = parts.empty() ? 1 : 0;
    for (std::int64_t i = 0; i < blocks + table; ++i) layers.push_back(next++);
    parts.push_back(std::move(layers));
  }
  parts.back().push_back(next);
  return parts;
}

cost::PlacedPlan plan_of(const Run& run) {
  const std::vector<std::vector<int>> parts = layers_of_parts(run);
  cost::PlacedPlan plan;
  plan.dp = plan.dp_inner = run.dp;
  const std::int64_t unit = run.tp() * run.cp() * run.dp;
  for (std::int64_t i = 0; i < run.pp; ++i) {
    cost::PlacedStage stage;
    stage.position = i * unit;
    stage.recompute = run.recompute;
    stage.zero = run.zero;
    for (std::int64_t chunk = 0; chunk < run.vpp; ++chunk) {
      const std::vector<int>& layers = parts[static_cast<std::size_t>(chunk * run.pp + i)];
      stage.layers.insert(stage.layers.end(), layers.begin(), layers.end());
      if (run.vpp > 1) stage.chunks.push_back(layers);
    }
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

/// What is gathered under `Run::gathers_tables` beside the largest layer.
double also_gathered_bytes(const Run& run, const model::Graph& graph) {
  const auto parameters = [&](std::size_t layer) {
    return graph.layers.at(layer).costs.front()->parameters;
  };
  const double table = parameters(0);
  const double block = parameters(1);
  const double output = parameters(graph.layers.size() - 1);
  return run.state.weight * (table + output + 2 * block - std::max({table, block, output}));
}

}  // namespace

std::vector<std::int64_t> even_split(std::int64_t blocks, std::int64_t parts) {
  const std::int64_t most = (blocks + parts - 1) / parts;
  std::vector<std::int64_t> split;
  for (std::int64_t i = 0; i < parts; ++i) {
    split.push_back(std::clamp<std::int64_t>(blocks - i * most, 0, most));
  }
  return split;
}

std::vector<std::int64_t> balanced_split(std::int64_t blocks, std::int64_t parts) {
  if ((blocks + 2) % parts != 0 || parts < 2) {
    throw InvalidInput(std::to_string(blocks) + " blocks, a token table and an output layer do " +
                       "not fill " + std::to_string(parts) + " equal parts");
  }
  std::vector<std::int64_t> split(static_cast<std::size_t>(parts), (blocks + 2) / parts);
  --split.front();
  --split.back();
  return split;
}

double logits_of(const Run& run) {
  const std::int64_t multiple = run.profile.vocabulary_multiple * run.tp();
  const std::int64_t padded = (run.architecture.vocab + multiple - 1) / multiple * multiple;
  return static_cast<double>(run.micro_batch() * run.profile.sequence / run.cp()) *
         static_cast<double>(padded / run.tp());
}

model::Graph graph_of(const Run& run) {
  model::Graph graph = cost::build_graph(run.architecture, any_device(), run.profile);
  if (!run.every_second_product) return graph;
  for (std::size_t i = 1; i + 1 < graph.layers.size(); ++i) {
    graph.layers[i].costs.front()->selective_bytes = every_second_product_bytes(run);
  }
  return graph;
}

std::vector<model::StageMemory> account(const Run& run, const model::MemoryReserve& reserve) {
  model::Problem problem;
  problem.graph = graph_of(run);
  problem.cluster = one_switch(run.devices());
  problem.options.global_batch = run.global_batch;
  problem.options.allow_uneven_batch = true;
  problem.options.state_bytes = run.state;
  problem.options.reserve = reserve;
  const std::unique_ptr<network::Network> network = network::make_network(problem.cluster);
  std::vector<model::StageMemory> memory;
  for (const model::StagePlan& stage : cost::evaluate(problem, *network, plan_of(run)).stages) {
    memory.push_back(stage.memory);
    if (!run.gathers_tables) continue;
    const double more = also_gathered_bytes(run, problem.graph);
    memory.back().gathered_bytes += more;
    memory.back().state_bytes += more;
    memory.back().total_bytes += more;
  }
  return memory;
}

}  // namespace nestplan::facts
