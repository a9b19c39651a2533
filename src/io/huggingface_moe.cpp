#include <string>
#include <utility>
#include <vector>

#include "io/huggingface_config.hpp"

/// Families with a mixture of experts. Source: configuration_*.py and modeling_*.py of
/// src/transformers/models/{mixtral,qwen2_moe,qwen3_moe,gpt_oss,deepseek_v2,deepseek_v3,glm4_moe}
/// in github.com/huggingface/transformers, and configuration_deepseek.py of
/// huggingface.co/deepseek-ai/deepseek-moe-16b-base.
namespace nestplan::io {
namespace {

using model::Architecture;
using model::MixtureOfExperts;

constexpr std::int64_t kMostExperts = 1 << 16;

std::int64_t natural_or(const Config& config, const char* key, std::int64_t fallback) {
  const auto field = config.find(key);
  return field ? field->integer(0, kLargestWidth) : fallback;
}

MixtureOfExperts read_experts(const Config& config, const char* experts, const char* width) {
  MixtureOfExperts moe;
  moe.experts = config.count(experts, kMostExperts);
  moe.top_k = config.count("num_experts_per_tok");
  if (moe.top_k > moe.experts) {
    config.at("num_experts_per_tok")
        .fail(std::to_string(moe.top_k) + " is more than " + experts + " (" +
              std::to_string(moe.experts) + ")");
  }
  moe.expert_ffn = config.count(width);
  return moe;
}

/// Makes the blocks that `routed` says no to plain. Some block must have experts.
template <class Rule>
void set_dense_blocks(const Config& config, const char* key, Architecture& a, Rule routed) {
  std::vector<std::int64_t>& dense = a.moe->dense_blocks;
  for (std::int64_t i = 0; i < a.layers; ++i) {
    if (!routed(i)) dense.push_back(i);
  }
  if (std::cmp_equal(dense.size(), a.layers)) config.at(key).fail("leaves no layer with experts");
}

/// Every `decoder_sparse_step`-th block has experts, but for those of `mlp_only_layers`.
void read_sparse_step(const Config& config, Architecture& a) {
  const std::int64_t step = config.count_or("decoder_sparse_step", 1);
  std::vector<bool> plain(static_cast<std::size_t>(a.layers), false);
  const auto list = config.find("mlp_only_layers");
  if (list) {
    for (const Field& item : list->items()) {
      plain[static_cast<std::size_t>(item.integer(0, a.layers - 1))] = true;
    }
  }
  set_dense_blocks(
      config, step > a.layers ? "decoder_sparse_step" : "mlp_only_layers", a,
      [&](std::int64_t i) { return (i + 1) % step == 0 && !plain[static_cast<std::size_t>(i)]; });
}

/// Experts from block `first_k_dense_replace` on, in every `moe_layer_freq`-th; shared experts side
/// by side.
void read_deepseek_experts(const Config& config, Architecture& a) {
  a.moe = read_experts(config, "n_routed_experts", "moe_intermediate_size");
  a.moe->shared_ffn = natural_or(config, "n_shared_experts", 0) * a.moe->expert_ffn;
  const std::int64_t first = natural_or(config, "first_k_dense_replace", 0);
  const std::int64_t step = config.count_or("moe_layer_freq", 1);
  set_dense_blocks(config, first >= a.layers ? "first_k_dense_replace" : "moe_layer_freq", a,
                   [&](std::int64_t i) { return i >= first && i % step == 0; });
}

void read_latent_attention(const Config& config, Architecture& a) {
  model::LatentAttention latent;
  latent.query_rank = natural_or(config, "q_lora_rank", 0);
  latent.kv_rank = config.count("kv_lora_rank");
  latent.content_dim = config.count("qk_nope_head_dim");
  latent.position_dim = config.count("qk_rope_head_dim");
  latent.value_dim = config.count("v_head_dim");
  a.head_dim = latent.content_dim + latent.position_dim;
  a.kv_heads = a.heads;
  a.latent = latent;
}

void set_attention_bias(Architecture& a, bool bias) { a.bias.qkv = a.bias.attention_output = bias; }

}  // namespace

void read_mixtral(const Config& config, Architecture& a) {
  if (const auto window = config.maybe_count("sliding_window")) set_window(a, *window, 0, 0);
  a.moe = read_experts(config, "num_local_experts", "intermediate_size");
}

void read_qwen2_moe(const Config& config, Architecture& a) {
  a.bias.qkv = config.flag("qkv_bias", true);
  a.moe = read_experts(config, "num_experts", "moe_intermediate_size");
  a.moe->shared_ffn = config.count("shared_expert_intermediate_size");
  a.moe->shared_gate = true;
  read_sparse_step(config, a);
  if (!config.flag("use_sliding_window", false)) return;
  set_window(a, config.count("sliding_window"), 0, 2);
  const std::int64_t windowed = natural_or(config, "max_window_layers", a.layers);
  for (std::int64_t i = windowed; i < a.layers; ++i) a.windows[static_cast<std::size_t>(i)] = 0;
}

void read_qwen3_moe(const Config& config, Architecture& a) {
  a.qk_norm = true;
  set_attention_bias(a, config.flag("attention_bias", false));
  a.moe = read_experts(config, "num_experts", "moe_intermediate_size");
  read_sparse_step(config, a);
  if (config.flag("use_sliding_window", false)) {
    set_window(a, config.count("sliding_window"), 0, 0);
  }
}

/// Blocks with a window and blocks without one alternate unless `layer_types` says otherwise.
void read_gpt_oss(const Config& config, Architecture& a) {
  set_attention_bias(a, config.flag("attention_bias", true));
  a.sinks = true;
  a.moe = read_experts(config, "num_local_experts", "intermediate_size");
  a.moe->router_bias = a.moe->expert_bias = true;
  const std::int64_t window = config.count("sliding_window");
  set_window(a, window, 0, 2);
  const auto types = config.find("layer_types");
  if (!types) return;
  a.windows.clear();
  for (const Field& type : types->items()) {
    const std::string text = type.text();
    if (text != "sliding_attention" && text != "full_attention") {
      type.fail("must be sliding_attention or full_attention");
    }
    a.windows.push_back(text == "sliding_attention" ? window : 0);
  }
  if (std::cmp_not_equal(a.windows.size(), a.layers)) {
    types->fail("has " + std::to_string(a.windows.size()) + " entries, not the " +
                std::to_string(a.layers) + " of num_hidden_layers");
  }
}

void read_deepseek(const Config& config, Architecture& a) {
  set_attention_bias(a, config.flag("attention_bias", false));
  read_deepseek_experts(config, a);
}

void read_deepseek_latent(const Config& config, Architecture& a) {
  read_deepseek(config, a);
  read_latent_attention(config, a);
  a.mtp_layers = natural_or(config, "num_nextn_predict_layers", 0);
}

void read_glm4_moe(const Config& config, Architecture& a) {
  a.bias.qkv = config.flag("attention_bias", false);
  a.qk_norm = config.flag("use_qk_norm", false);
  read_deepseek_experts(config, a);
  a.mtp_layers = natural_or(config, "num_nextn_predict_layers", 0);
}

}  // namespace nestplan::io
