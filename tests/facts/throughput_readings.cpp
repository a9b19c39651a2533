#include "facts/throughput_readings.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "facts/recipes.hpp"
#include "nestplan/util/errors.hpp"

/// How each source of throughput.csv is to be read; what it measured is that its runs fitted.
namespace nestplan::facts {
namespace {

using model::Architecture;

bool gated(const std::string& key) {
  constexpr const char* kFamilies[] = {"llama", "qwen", "mixtral", "grok", "gpt-oss"};
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](const char* family) { return key.starts_with(family); });
}

/// A table has no room for latent attention; what else its models have is in its columns.
Architecture architecture_of(const Row& row) {
  Architecture a = gpt_architecture(row, row.count("vocab", 0));
  a.kv_heads = row.count("kv_heads", a.heads);
  a.head_dim = row.count("head_dim", a.head_dim);
  a.ffn = row.count("ffn", a.ffn);
  a.hidden_dropout = a.tied_embeddings = false;
  if (!gated(row.text("arch_key"))) return a;
  a.bias = {};
  a.gated_mlp = a.rotary = true;
  a.norm = model::NormKind::kRmsNorm;
  a.max_positions = a.learned_positions = 0;
  if (!row.says("experts")) return a;
  model::MixtureOfExperts moe;
  moe.experts = row.count("experts", 0);
  moe.top_k = row.count("topk", 0);
  moe.expert_ffn = row.count("moe_ffn", a.ffn);
  a.moe = moe;
  return a;
}

/// Blocks of the parts of a pipeline as Megatron-LM deals them out.
std::vector<std::int64_t> split_of(const Run& run) {
  const std::int64_t parts = run.pp * run.vpp;
  const std::int64_t blocks = run.architecture.layers;
  if (blocks % parts != 0 && parts > 1 && (blocks + 2) % parts == 0) {
    return balanced_split(blocks, parts);
  }
  return even_split(blocks, parts);
}

Run plain_run(const Row& row) {
  Run run = run_of(row, architecture_of(row));
  run.dp = row.count("dp", 1);
  run.blocks = split_of(run);
  return run;
}

/// Megatron-LM before fused attention, with dropout and without a distributed optimizer.
Run early_megatron(const Row& row) {
  Run run = run_of(row, gpt_architecture(row, row.count("vocab", 51200)));
  run.dp = row.count("dp", 1);
  run.profile.fused_attention = false;
  run.blocks = split_of(run);
  return run;
}

/// NeMo of that time splits experts as all else (grok1/grok1_314b.yaml in NVIDIA/dgxc-benchmarking
/// has no degree of their own, and the degrees in README.md multiply to the devices only so), and
/// takes as many copies for each as its share: moe_expert_capacity_factor 1.0, padded.
void grok(Run& run) {
  if (!run.architecture.moe) return;
  run.profile.etp = {run.tp()};
  run.profile.capacity_factor = 1;
}

/// Megatron-LM and Transformer Engine, NeMo and Megatron-Bridge.
Run performance_recipe(const Row& row) {
  Run run = plain_run(row);
  const bool sharded = has(row.text("zero_or_fsdp"), "FSDP");
  run.zero = sharded ? 3 : 1;
  run.state = sharded ? kFullyShardedFp32 : kPerformanceRecipe;
  run.profile.logit_bytes = kFusedLossBytes;
  run.profile.precision = row.text("precision").starts_with("BF16") ? "bf16" : "fp8";
  if (row.says("ep")) run.profile.ep = {row.count("ep", 1)};
  if (row.says("etp")) run.profile.etp = {row.count("etp", 1)};
  if (row.text("source_id") == "dgxc") grok(run);
  return run;
}

/// Composer's FSDP with a fused loss (loss_fn: fused_crossentropy in mosaicml/llm-foundry,
/// scripts/train/yamls); where all is in bf16, the moments are too.
Run llm_foundry(const Row& row) {
  Run run = plain_run(row);
  run.architecture.tied_embeddings = true;
  run.architecture.bias = {};
  run.profile.sequence_parallel = false;
  run.zero = has(row.text("zero_or_fsdp"), "SHARD_GRAD_OP") ? 2 : 3;
  run.state = has(row.text("precision"), "pure") ? model::StateBytes{2, 2, 4} : kFullyShardedFp32;
  run.profile.logit_bytes = kFusedLossBytes;
  return run;
}

Run torchtitan(const Row& row) {
  Run run = plain_run(row);
  run.profile.vocabulary_multiple = 1;
  run.zero = 3;
  run.state = kFullyShardedFp32;
  run.profile.logit_bytes = kEagerLossBytes;
  run.gathers_tables = true;
  run.every_second_product = run.recompute == model::Recompute::kSelective;
  return run;
}

using Reader = std::function<Run(const Row&)>;

const std::map<std::string, Reader>& readers() {
  static const std::map<std::string, Reader> all{
      {"bigscience", bigscience_run},   {"korthikanti22", early_megatron},
      {"vtrain_multi", early_megatron}, {"dgxc", performance_recipe},
      {"bridge", performance_recipe},   {"llmfoundry", llm_foundry},
      {"torchtitan", torchtitan}};
  return all;
}

}  // namespace

std::string obstacle(const Row& row) {
  for (const char* column : {"layers", "hidden", "dp", "mbs", "gbs", "recompute"}) {
    if (!row.says(column)) return std::string(column) + ": not stated";
  }
  if (has(row.text("model"), "lora") || has(row.text("model"), "peft")) {
    return "trains adapters alone";
  }
  if (row.text("source_id") == "bridge" && has(row.text("zero_or_fsdp"), "FSDP")) {
    // cpu_offloading_num_layers of these recipes in NVIDIA-NeMo/Megatron-Bridge,
    // scripts/performance/configs/llama/llama3_workload_base_configs.py
    return "offloads activations to the host";
  }
  if (readers().count(row.text("source_id")) == 0) return "a source that nobody has read yet";
  return "";
}

Run throughput_run(const Row& row) { return readers().at(row.text("source_id"))(row); }

namespace {

bool latent(const Row& row) {
  const std::string& key = row.text("arch_key");
  return key.starts_with("deepseek") || key.starts_with("kimi");
}

Reading reading_of(const Row& row) {
  const std::string why = obstacle(row);
  if (!why.empty()) return left_out(why);
  if (latent(row)) return left_out("latent attention, whose widths the table does not have");
  Reading reading;
  reading.run = throughput_run(row);
  try {
    graph_of(*reading.run);
  } catch (const InvalidConfig& error) {
    return left_out(error.what());
  }
  reading.published_bytes = row.text("tier") == "OOM" ? 0 : device_bytes(row.text("gpu"));
  reading.device_bytes = device_bytes(row.text("gpu"));
  return reading;
}

}  // namespace

std::vector<Reading> throughput_readings(const std::filesystem::path& facts) {
  std::vector<Reading> readings;
  for (const Row& row : read_table(facts / "throughput.csv")) {
    if (row.text("tier") != "A" && row.text("tier") != "OOM") continue;
    Reading reading = reading_of(row);
    reading.source = row.text("source_id");
    reading.name = row.text("row_id");
    readings.push_back(std::move(reading));
  }
  return readings;
}

}  // namespace nestplan::facts
