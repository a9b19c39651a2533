#include "facts/recipes.hpp"

#include <cmath>
#include <map>
#include <utility>

namespace nestplan::facts {
namespace {

/// Blocks of a run whose source gives parameters instead: a multiple of the stages.
std::int64_t blocks_of(const Row& row) {
  if (row.says("layers")) return row.count("layers", 0);
  const std::string& model = row.text("model");
  const double parameters = 1e9 * std::stod(model.substr(model.rfind(' ') + 1));
  const double hidden = static_cast<double>(row.count("hidden", 0));
  const double per_stage = 12 * hidden * hidden * static_cast<double>(row.count("pp", 1));
  return row.count("pp", 1) * std::llround(parameters / per_stage);
}

}  // namespace

Reading left_out(std::string why) {
  Reading reading;
  reading.left_out = std::move(why);
  return reading;
}

Run run_of(const Row& row, model::Architecture architecture) {
  Run run;
  run.architecture = std::move(architecture);
  run.profile.sequence = row.count("seq", 0);
  run.profile.tp = {row.count("tp", 1)};
  run.profile.cp = {row.count("cp", 1)};
  run.profile.micro_batches = {row.count("mbs", 1)};
  run.profile.sequence_parallel = row.text("seq_parallel") != "False";
  run.pp = row.count("pp", 1);
  run.vpp = row.count("vpp", 1);
  run.global_batch = row.count("gbs", 1);
  const std::string& recompute = row.text("recompute");
  if (recompute.starts_with("full") || recompute == "checkpointed") {
    run.recompute = model::Recompute::kFull;
  } else if (recompute.starts_with("selective")) {
    run.recompute = model::Recompute::kSelective;
  }
  return run;
}

model::Architecture gpt_architecture(const Row& row, std::int64_t vocabulary) {
  model::Architecture a;
  a.name = a.family = row.text("model");
  a.layers = row.count("layers", 0);
  a.hidden = row.count("hidden", 0);
  a.heads = a.kv_heads = row.count("heads", 0);
  a.head_dim = a.heads > 0 ? a.hidden / a.heads : 0;
  a.ffn = 4 * a.hidden;
  a.vocab = vocabulary;
  a.max_positions = a.learned_positions = row.count("seq", 0);
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.tied_embeddings = a.hidden_dropout = true;
  return a;
}

namespace {

/// BLOOM and its kin: attention biased by distance, a norm behind the embedding. 64 heads unless
/// told otherwise, as the source says of its tables.
model::Architecture bigscience_architecture(const Row& row) {
  model::Architecture a = gpt_architecture(row, 250880);
  a.layers = blocks_of(row);
  a.heads = a.kv_heads = row.count("heads", 64);
  a.head_dim = a.hidden / a.heads;
  a.max_positions = a.learned_positions = 0;
  a.embedding_norm = true;
  return a;
}

}  // namespace

Run bigscience_run(const Row& row) {
  Run run = run_of(row, bigscience_architecture(row));
  run.dp = row.count("dp", 1);
  run.profile.fused_attention = false;
  run.profile.sequence_parallel = false;
  run.zero = row.text("zero_or_fsdp") == "ZeRO-0" ? 0 : 1;
  run.state = has(row.text("precision"), "fp32 grad accum") ? kDeepSpeedBf16 : kDeepSpeedFp16;
  run.profile.logit_bytes = kEagerLossBytes;
  const bool balanced = has(row.text("notes"), "embeddings occupy a pipeline slot");
  run.blocks = balanced ? balanced_split(run.architecture.layers, run.pp)
                        : even_split(run.architecture.layers, run.pp);
  return run;
}

std::string catalogue_name(const std::string& model) {
  static const std::map<std::string, std::string> names{{"Llama3-8B", "Llama-3.1-8B"},
                                                        {"Llama3.1-8B", "Llama-3.1-8B"},
                                                        {"Llama3.1-70B", "Llama-3.1-70B"},
                                                        {"Llama3-70B SFT", "Llama-3.1-70B"},
                                                        {"Llama3.1-405B", "Llama-3.1-405B"},
                                                        {"Llama-2-7B widths", "Llama-2-7B"},
                                                        {"LLaMA-7B", "Llama-2-7B"},
                                                        {"Qwen3_30B_a3B", "Qwen3-30B-A3B"},
                                                        {"GPT 22B", "GPT-22B"},
                                                        {"GPT 175B", "GPT-3-175B (Megatron)"},
                                                        {"GPT 530B", "MT-NLG-530B"},
                                                        {"GPT 1T", "GPT-1T"}};
  const auto found = names.find(model);
  return found == names.end() ? model : found->second;
}

}  // namespace nestplan::facts
