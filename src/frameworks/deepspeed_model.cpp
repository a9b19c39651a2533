#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "frameworks/arguments.hpp"
#include "frameworks/shape.hpp"

namespace nestplan::frameworks {
namespace {

/// The interval at whose multiples, counted from 1, blocks have experts; empty if there is none.
std::optional<std::int64_t> expert_interval(const model::Architecture& a) {
  std::int64_t first = 0;
  while (first < a.layers && !a.routed(first)) ++first;
  const std::int64_t interval = first + 1;
  for (std::int64_t layer = 0; layer < a.layers; ++layer) {
    if (a.routed(layer) != ((layer + 1) % interval == 0)) return {};
  }
  return interval;
}

/// Experts are MLPs like the others, of the same width; a group of its own for their parameters is
/// what ZeRO needs, and tokens are dropped unless told otherwise.
void add_experts(const model::Architecture& a, const ModelDetails& details, Shape& shape) {
  const model::MixtureOfExperts& moe = *a.moe;
  shape.value("num-experts", moe.experts);
  shape.value("topk", moe.top_k);
  const auto interval = expert_interval(a);
  if (interval) shape.value("expert-interval", *interval);
  shape.toggle("create-moe-param-group", true);
  shape.toggle("disable-moe-token-dropping", true);
  shape.untold(!interval, "which blocks have experts");
  shape.untold(a.has_plain_mlp() && a.ffn != moe.expert_ffn,
               fmt::format("experts of width {} beside MLPs of {}", moe.expert_ffn, a.ffn));
  shape.untold(moe.shared_ffn > 0, "shared experts");
  shape.untold(moe.router_bias, "a bias of the router");
  shape.untold(details.score_function == "sigmoid" || details.router_groups.value_or(1) > 1 ||
                   details.corrected_routing,
               "the scores of the router");
  shape.untold(details.normalised_routing == false || details.routed_scaling.value_or(1) != 1,
               "weights of the chosen experts that do not add up to 1");
}

void add_positions(const model::Architecture& a, const ModelDetails& details, std::int64_t sequence,
                   Shape& shape) {
  const std::int64_t most = most_positions(a, sequence);
  if (most > 0) shape.value("max-position-embeddings", most);
  shape.toggle("use-rotary-position-embeddings", a.rotary);
  shape.toggle("no-position-embedding", a.learned_positions == 0);
  if (!a.rotary) return;
  if (details.rotary_base) {
    shape.number("rotary-position-embeddings-theta", *details.rotary_base);
  }
  shape.open(!details.rotary_base, "--rotary-position-embeddings-theta");
  if (details.rotary_share) shape.number("rotary-percent", *details.rotary_share);
  shape.untold(!details.rope_scaling.empty(), "scaling of rotary positions");
}

/// SwiGLU or GELU; the fork has no argument for what else a gated MLP may have.
void add_activation(const model::Architecture& a, const std::string& activation, Shape& shape) {
  shape.toggle("swiglu", a.gated_mlp);
  shape.open(activation.empty(), a.gated_mlp ? "silu of --swiglu" : "gelu");
  const bool usual =
      a.gated_mlp ? activation == "silu" || activation == "swish" : activation.starts_with("gelu");
  shape.untold(!activation.empty() && !usual, fmt::format("the activation {}", activation));
}

}  // namespace

/// Names of the arguments: deepspeedai/Megatron-DeepSpeed megatron/arguments.py.
ModelArguments deepspeed_model(const Job& job, const Recipe& recipe) {
  const model::Architecture& a = *job.architecture;
  Shape shape;
  shape.value("hidden-size", a.hidden);
  shape.value("ffn-hidden-size", a.has_plain_mlp() ? a.ffn : a.moe->expert_ffn);
  shape.value("num-attention-heads", a.heads);
  shape.value("kv-channels", a.head_dim);
  if (a.kv_heads != a.heads) shape.value("num-key-value-heads", a.kv_heads);
  add_positions(a, job.details, recipe.sequence, shape);
  shape.text("normalization", a.norm == model::NormKind::kRmsNorm ? "rmsnorm" : "layernorm");
  add_activation(a, job.details.activation, shape);
  if (job.details.norm_epsilon) shape.number("layernorm-epsilon", *job.details.norm_epsilon);
  shape.open(!job.details.norm_epsilon, "--layernorm-epsilon");
  add_dropout(job.details, shape);
  const bool everywhere = a.bias.qkv && a.bias.attention_output && a.bias.mlp;
  const bool nowhere = !a.bias.qkv && !a.bias.attention_output && !a.bias.mlp;
  shape.toggle("disable-bias-linear", !everywhere);
  shape.untold(!everywhere && !nowhere, "biases of some products alone");
  shape.toggle("untie-embeddings-and-output-weights", !a.tied_embeddings);
  if (a.moe) add_experts(a, job.details, shape);
  shape.untold(a.latent.has_value(), "latent attention");
  shape.untold(a.qk_norm, "norms of queries and keys");
  add_unusual_blocks(a, shape);
  shape.untold(a.output_norms > 0, "norms behind attention and MLP");
  return shape.take();
}

}  // namespace nestplan::frameworks
