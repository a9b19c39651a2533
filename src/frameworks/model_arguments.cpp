#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "frameworks/arguments.hpp"
#include "frameworks/shape.hpp"

namespace nestplan::frameworks {
namespace {

void add_attention(const model::Architecture& a, Shape& shape) {
  shape.value("num-attention-heads", a.heads);
  if (a.latent) {
    shape.toggle("multi-latent-attention", true);
    if (a.latent->query_rank > 0) shape.value("q-lora-rank", a.latent->query_rank);
    shape.value("kv-lora-rank", a.latent->kv_rank);
    shape.value("qk-head-dim", a.latent->content_dim);
    shape.value("qk-pos-emb-head-dim", a.latent->position_dim);
    shape.value("v-head-dim", a.latent->value_dim);
  } else {
    shape.value("kv-channels", a.head_dim);
    if (a.kv_heads != a.heads) {
      shape.toggle("group-query-attention", true);
      shape.value("num-query-groups", a.kv_heads);
    }
  }
  shape.toggle("qk-layernorm", a.qk_norm);
}

/// "([0]*3+[1]*58)" for three dense blocks in front; empty where all are routed.
std::string routed_blocks(const model::Architecture& a) {
  std::string text;
  for (std::int64_t begin = 0; begin < a.layers;) {
    std::int64_t end = begin + 1;
    while (end < a.layers && a.routed(end) == a.routed(begin)) ++end;
    if (end - begin == a.layers) return "";
    text += fmt::format("{}[{}]*{}", text.empty() ? "" : "+", a.routed(begin) ? 1 : 0, end - begin);
    begin = end;
  }
  return "(" + text + ")";
}

/// Weights of the chosen experts come out of a softmax over these alone unless told otherwise,
/// which is the same as dividing those of all by their sum.
void add_router(const ModelDetails& details, Shape& shape) {
  if (details.score_function == "sigmoid") {
    shape.text("moe-router-score-function", details.score_function);
  } else if (details.normalised_routing == false) {
    shape.toggle("moe-router-pre-softmax", true);
  }
  if (details.routed_scaling && *details.routed_scaling != 1) {
    shape.number("moe-router-topk-scaling-factor", *details.routed_scaling);
  }
  if (details.router_groups.value_or(1) > 1) {
    shape.number("moe-router-num-groups", *details.router_groups);
    if (details.chosen_groups) shape.number("moe-router-group-topk", *details.chosen_groups);
  }
  shape.toggle("moe-router-enable-expert-bias", details.corrected_routing);
}

void add_experts(const model::Architecture& a, const ModelDetails& details, Shape& shape) {
  const model::MixtureOfExperts& moe = *a.moe;
  shape.value("num-experts", moe.experts);
  shape.value("moe-router-topk", moe.top_k);
  shape.value("moe-ffn-hidden-size", moe.expert_ffn);
  if (moe.shared_ffn > 0) shape.value("moe-shared-expert-intermediate-size", moe.shared_ffn);
  shape.toggle("moe-shared-expert-gate", moe.shared_gate);
  if (const std::string blocks = routed_blocks(a); !blocks.empty()) {
    shape.text("moe-layer-freq", blocks);
  }
  add_router(details, shape);
  shape.untold(moe.router_bias, "a bias of the router");
}

/// All linear maps have a bias, or none but QKV: --disable-bias-linear, --add-qkv-bias.
void add_biases(const model::Architecture& a, Shape& shape) {
  const bool mlp = a.has_plain_mlp() ? a.bias.mlp : a.moe->expert_bias;
  const bool everywhere = mlp && a.bias.attention_output;
  shape.toggle("disable-bias-linear", !everywhere);
  shape.toggle("add-qkv-bias", !everywhere && a.bias.qkv);
  shape.untold(everywhere && !a.bias.qkv, "no bias of QKV beside those of the other products");
  shape.untold(!everywhere && mlp, "a bias of the MLP without one of the attention's output");
  shape.untold(!everywhere && a.bias.attention_output,
               "a bias of the attention's output without one of the MLP");
}

/// Scaling of llama3 has its factor as an argument and the rest built in
/// (megatron/core/models/common/embeddings/rotary_pos_embedding.py, _apply_scaling).
bool is_built_in_llama3(const ModelDetails& details) {
  const auto is = [&](const char* key, double value) {
    const auto found = details.scaling_numbers.find(key);
    return found == details.scaling_numbers.end() || found->second == value;
  };
  return details.rope_scaling == "llama3" && is("low_freq_factor", 1) &&
         is("high_freq_factor", 4) && is("original_max_position_embeddings", 8192);
}

void add_rotary_scaling(const model::Architecture& a, const ModelDetails& details, Shape& shape) {
  const auto number = [&](const char* key) {
    const auto found = details.scaling_numbers.find(key);
    return found == details.scaling_numbers.end() ? 0.0 : found->second;
  };
  if (a.latent) {
    const bool yarn = details.rope_scaling == "yarn";
    shape.text("rope-type", yarn ? "yarn" : "rope");
    if (yarn) {
      shape.number("rotary-scaling-factor", number("factor"));
      if (number("mscale") != 0) shape.number("mscale", number("mscale"));
      if (number("mscale_all_dim") != 0) shape.number("mscale-all-dim", number("mscale_all_dim"));
    }
    shape.untold(!yarn && !details.rope_scaling.empty(), "scaling of rotary positions");
    return;
  }
  if (details.rope_scaling.empty()) return;
  const bool llama3 = is_built_in_llama3(details);
  shape.toggle("use-rope-scaling", llama3);
  if (llama3) shape.number("rope-scaling-factor", number("factor"));
  shape.untold(!llama3, "scaling of rotary positions");
}

void add_positions(const model::Architecture& a, const ModelDetails& details, std::int64_t sequence,
                   Shape& shape) {
  const std::int64_t most = most_positions(a, sequence);
  if (most > 0) shape.value("max-position-embeddings", most);
  shape.text("position-embedding-type", a.rotary                  ? "rope"
                                        : a.learned_positions > 0 ? "learned_absolute"
                                        : a.relative_buckets > 0  ? "relative"
                                                                  : "none");
  if (a.relative_buckets > 0) shape.value("relative-attention-num-buckets", a.relative_buckets);
  if (!a.rotary) return;
  const bool whole =
      details.rotary_base && std::floor(*details.rotary_base) == *details.rotary_base;
  if (whole) shape.number("rotary-base", *details.rotary_base);
  shape.untold(details.rotary_base && !whole, "a base of rotary positions that is no whole number");
  shape.open(!details.rotary_base, "--rotary-base");
  if (details.rotary_share) shape.number("rotary-percent", *details.rotary_share);
  add_rotary_scaling(a, details, shape);
}

/// Gated MLPs have SiLU, or the quick GELU; others GELU, or the square of ReLU.
void add_activation(const model::Architecture& a, const std::string& activation, Shape& shape) {
  const bool quick = a.gated_mlp && activation == "quick_gelu";
  const bool squared = !a.gated_mlp && activation == "relu2";
  shape.toggle("swiglu", a.gated_mlp && !quick);
  shape.toggle("quick-geglu", quick);
  shape.toggle("squared-relu", squared);
  shape.open(activation.empty(), a.gated_mlp ? "silu of --swiglu" : "gelu");
  const bool usual = a.gated_mlp ? activation == "silu" || activation == "swish" || quick
                                 : activation.starts_with("gelu") || squared;
  shape.untold(!activation.empty() && !usual, fmt::format("the activation {}", activation));
}

void add_what_is_missing(const model::Architecture& a, ModelKind kind, Shape& shape) {
  add_unusual_blocks(a, shape);
  shape.untold((a.post_norm && kind != ModelKind::kEncoder) || a.output_norms > 0,
               "norms behind attention and MLP");
  shape.untold(!a.causal && kind != ModelKind::kEncoder, "attention to later tokens");
}

}  // namespace

/// Names of the arguments: NVIDIA/Megatron-LM megatron/training/arguments.py.
ModelArguments megatron_model(const Job& job, const Recipe& recipe) {
  const model::Architecture& a = *job.architecture;
  const ModelKind kind = job.kind.value_or(ModelKind::kDecoder);
  Shape shape;
  if (kind == ModelKind::kEncoderDecoder) {
    shape.value("encoder-num-layers", job.dimensions.encoder_blocks);
    shape.value("decoder-num-layers", a.layers);
  }
  shape.value("hidden-size", a.hidden);
  shape.value("ffn-hidden-size", a.has_plain_mlp() ? a.ffn : a.moe->expert_ffn);
  add_attention(a, shape);
  add_positions(a, job.details, std::max(recipe.sequence, job.decoder_sequence), shape);
  shape.text("normalization", a.norm == model::NormKind::kRmsNorm ? "RMSNorm" : "LayerNorm");
  if (job.details.norm_epsilon) shape.number("norm-epsilon", *job.details.norm_epsilon);
  shape.open(!job.details.norm_epsilon, "--norm-epsilon");
  add_activation(a, job.details.activation, shape);
  add_biases(a, shape);
  add_dropout(job.details, shape);
  shape.toggle("untie-embeddings-and-output-weights", !a.tied_embeddings);
  if (a.vocab > 0) shape.value("vocab-size", a.vocab);
  if (a.moe) add_experts(a, job.details, shape);
  add_what_is_missing(a, kind, shape);
  return shape.take();
}

}  // namespace nestplan::frameworks
