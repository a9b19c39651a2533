#include "facts/throughput_runs.hpp"

#include <memory>
#include <set>
#include <utility>
#include <variant>

#include "facts/recipes.hpp"
#include "facts/table.hpp"
#include "facts/throughput_machines.hpp"
#include "facts/throughput_readings.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/targets/overlap.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::facts {
namespace {

/// Whether inputs/models has a model that the table has not enough columns for.
bool has_config(const std::string& key) {
  static const std::set<std::string> configs{"deepseek-v3", "kimi-k2", "gpt-oss-120b",
                                             "qwen3-30b-a3b", "qwen3-235b-a22b"};
  return configs.contains(key);
}

/// "bf16 (amp)", "FP8", "fp16/bf16 mixed" … ; empty if it has no peak here.
std::string precision_of(const std::string& text) {
  if (has(text, "NVFP4")) return "";
  if (has(text, "MXFP8")) return "mxfp8";
  return has(text, "FP8") || has(text, "fp8") ? "fp8" : "bf16";
}

Run run_for_time(const Row& row) {
  Run run = throughput_run(row);
  run.profile.precision = precision_of(row.text("precision"));
  if (const std::string& key = row.text("arch_key"); has_config(key)) {
    const auto path = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs/models" / key;
    run.architecture = std::get<model::Architecture>(io::read_model(path));
  }
  // All MoE recipes of Megatron-Bridge set ETP 1.
  if (run.architecture.moe && run.profile.etp.empty()) run.profile.etp = {1};
  return run;
}

/// What follows the last block, modules that predict further tokens among it, is in the last part.
std::vector<std::vector<int>> layers_of_parts(const Run& run, std::size_t layers) {
  std::vector<std::vector<int>> parts(run.blocks.size());
  std::size_t part = 0;
  std::int64_t left = run.blocks.front() + 1;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    while (left == 0 && part + 1 < parts.size()) left = run.blocks[++part];
    parts[part].push_back(static_cast<int>(layer));
    --left;
  }
  return parts;
}

cost::PlacedPlan plan_of(const Run& run, const model::Graph& graph) {
  const std::vector<std::vector<int>> parts = layers_of_parts(run, graph.layers.size());
  cost::PlacedPlan plan;
  plan.dp = plan.dp_inner = run.dp;
  for (std::int64_t i = 0; i < run.pp; ++i) {
    cost::PlacedStage stage;
    stage.position = i * run.tp() * run.cp() * run.dp;
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

/// LLM Foundry ran the first FlashAttention in Triton (`--attn_impl`, scripts/train/benchmarking/
/// submit_benchmarks.py in mosaicml/llm-foundry), PyTorch has the second.
cost::AttentionKernel attention_kernel(const std::string& source) {
  if (source == "llmfoundry") return cost::AttentionKernel::kFlash1;
  return source == "torchtitan" ? cost::AttentionKernel::kFlash2 : cost::AttentionKernel::kNative;
}

/// Of collectives in a block that are issued beside computation, half shows: the first and the last
/// part have nothing to hide behind, and both want the same multiprocessors and memory.
constexpr double kHiddenInBlocks = 0.5;

/// Whether Megatron-Bridge exchanged the tokens of experts beside computation: Qwen3-235B on H100
/// (moe_a2a_overlap in scripts/performance/configs/qwen/qwen3_workload_base_configs.py of
/// NVIDIA-NeMo/Megatron-Bridge), and from release 26.06 on the recipes of Qwen3 and DeepSeek-V3 in
/// MXFP8 (overlap_moe_expert_parallel_comm in src/megatron/bridge/perf_recipes).
bool hides_experts(const Row& row) {
  const std::string& key = row.text("arch_key");
  const bool qwen3 = key.starts_with("qwen3");
  if (row.text("gpu") == "H100") return key.starts_with("qwen3-235b");
  const bool late =
      has(row.text("source"), "release 26.06") || has(row.text("source"), "release 26.08");
  return late && has(row.text("precision"), "MXFP8") && (qwen3 || key.starts_with("deepseek"));
}

/// What a source's framework hides. Megatron-LM hid nothing in 2022, and Megatron-DeepSpeed nothing
/// of ZeRO 1. NVIDIA's recipes of dense models split the collectives of tensor parallelism
/// (ub_tp_comm_overlap in nemo_megatron/gpt3_175b_hydra.yaml and nemotron/nemotron4-15b-synth.yaml
/// of NVIDIA/dgxc-benchmarking, but not in grok1/grok1_314b.yaml; userbuffers_… in
/// scripts/performance/ configs/llama/llama31_llm_pretrain.py of NVIDIA-NeMo/Megatron-Bridge).
model::Overlap overlap_of(const Row& row, const Run& run) {
  const std::string& source = row.text("source_id");
  model::Overlap overlap;
  if (source == "dgxc" || source == "bridge") {
    overlap = targets::default_overlap("megatron");
    overlap.tensor = run.architecture.moe ? 0 : kHiddenInBlocks;
    if (source == "bridge" && hides_experts(row)) overlap.expert = kHiddenInBlocks;
  } else if (source == "llmfoundry" || source == "torchtitan") {
    overlap = targets::default_overlap("torchtitan");
  }
  return overlap;
}

/// What torchtitan's selective recomputation runs again beside norms and activation functions: the
/// products that put out keys, the attention's output and the second input of the MLP's gate (see
/// Run::every_second_product).
void add_products(const Run& run, const cost::CostModel& costs, model::Graph& graph) {
  const model::Architecture& a = run.architecture;
  const auto tp = static_cast<double>(run.tp());
  const auto tokens = static_cast<double>(run.micro_batch() * run.profile.sequence / run.cp());
  const auto hidden = static_cast<double>(a.hidden);
  const double seconds =
      costs.seconds(cost::Matmul{tokens, static_cast<double>(a.kv_width()) / tp, hidden}) +
      costs.seconds(cost::Matmul{tokens, hidden, static_cast<double>(a.query_width()) / tp}) +
      costs.seconds(cost::Matmul{tokens, static_cast<double>(a.ffn) / tp, hidden});
  for (std::size_t i = 1; i + 1 < graph.layers.size(); ++i) {
    graph.layers[i].costs.front()->selective_s += seconds;
  }
}

/// Whether it fits is not asked here.
model::Plan prediction(const Run& run, const model::Cluster& cluster,
                       const model::Overlap& overlap) {
  model::Problem problem;
  problem.cluster = cluster;
  const cost::AnalyticalCostModel costs(cluster.device, cost::precision_of(run.profile.precision),
                                        run.profile.attention_kernel);
  problem.graph = cost::build_graph(run.architecture, costs, run.profile);
  if (run.every_second_product) add_products(run, costs, problem.graph);
  problem.options.overlap = overlap;
  problem.options.global_batch = run.global_batch;
  problem.options.state_bytes = run.state;
  const std::unique_ptr<network::Network> network = network::make_network(cluster);
  return cost::evaluate(problem, *network, plan_of(run, problem.graph));
}

std::string joined(const Row& row, const std::vector<const char*>& columns) {
  std::string text;
  for (const char* column : columns) text += (text.empty() ? "" : " ") + row.text(column);
  return text;
}

std::string strategy_of(const Row& row) {
  const std::pair<const char*, const char*> columns[] = {{"tp", "tp"}, {"pp", "pp"}, {"vpp", "vpp"},
                                                         {"dp", "dp"}, {"cp", "cp"}, {"ep", "ep"},
                                                         {"mbs", "mb"}};
  std::string text;
  for (const auto& [column, name] : columns) {
    if (row.count(column, 1) > 1) text += name + row.text(column) + " ";
  }
  text += row.text("recompute");
  return row.says("zero_or_fsdp") ? text + " " + row.text("zero_or_fsdp") : text;
}

std::string obstacle_to_time(const Row& row) {
  if (const std::string why = obstacle(row); !why.empty()) return why;
  if (precision_of(row.text("precision")).empty()) return "products in 4 bits have no peak here";
  if (!row.says("iter_time_s") && !row.says("d_iter_time_s")) return "no time";
  return "";
}

TimedRun timed_run(const Row& row, const MeasuredSystems& systems) {
  TimedRun timed;
  timed.left_out = obstacle_to_time(row);
  if (!timed.left_out.empty()) return timed;
  timed.gpu = row.text("gpu");
  timed.sweep = joined(row, {"source_id", "model", "layers", "hidden", "heads", "seq", "gpu",
                             "n_gpus", "gbs", "precision"});
  timed.strategy = strategy_of(row);
  timed.measured_s = *row.number(row.says("iter_time_s") ? "iter_time_s" : "d_iter_time_s");
  timed.run = run_for_time(row);
  const std::string& source = row.text("source_id");
  timed.run.profile.attention_kernel = attention_kernel(source);
  timed.cluster = systems.cluster(source, timed.gpu, timed.run.devices());
  timed.overlap = overlap_of(row, timed.run);
  try {
    const model::Plan plan = prediction(timed.run, timed.cluster, timed.overlap);
    timed.predicted_s = plan.iteration_time_s;
    timed.split = plan.split;
    if (!(timed.predicted_s > 0)) timed.left_out = plan.reason;
  } catch (const InvalidConfig& error) {
    timed.left_out = error.what();
  }
  return timed;
}

}  // namespace

double TimedRun::seconds(const model::DeviceModel& parameters) const {
  model::Cluster other = cluster;
  other.device.model = parameters;
  return prediction(run, other, overlap).iteration_time_s;
}

std::vector<TimedRun> timed_runs(const std::filesystem::path& facts) {
  const MeasuredSystems systems(facts);
  std::vector<TimedRun> runs;
  for (const Row& row : read_table(facts / "throughput.csv")) {
    if (row.text("tier") != "A") continue;
    TimedRun timed = timed_run(row, systems);
    timed.source = row.text("source_id");
    timed.name = row.text("row_id");
    runs.push_back(std::move(timed));
  }
  return runs;
}

}  // namespace nestplan::facts
