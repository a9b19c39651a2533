#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frameworks/arguments.hpp"

namespace nestplan::frameworks {
namespace {

/// Collects arguments of Megatron-LM alone: recipes of Megatron-Bridge know their model.
class Shape {
 public:
  void value(const char* flag, std::int64_t number) {
    out_.push_back({flag, {}, std::to_string(number)});
  }
  void text(const char* flag, std::string text) { out_.push_back({flag, {}, std::move(text)}); }
  void toggle(const char* flag, bool on) {
    if (on) out_.push_back({flag, {}, "true", true});
  }
  void untold(bool there, const char* what) {
    if (there) untold_.emplace_back(what);
  }
  ModelArguments take() { return {std::move(out_), std::move(untold_)}; }

 private:
  std::vector<Argument> out_;
  std::vector<std::string> untold_;
};

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

void add_experts(const model::Architecture& a, Shape& shape) {
  const model::MixtureOfExperts& moe = *a.moe;
  shape.value("num-experts", moe.experts);
  shape.value("moe-router-topk", moe.top_k);
  shape.value("moe-ffn-hidden-size", moe.expert_ffn);
  if (moe.shared_ffn > 0) shape.value("moe-shared-expert-intermediate-size", moe.shared_ffn);
  shape.toggle("moe-shared-expert-gate", moe.shared_gate);
  if (const std::string blocks = routed_blocks(a); !blocks.empty()) {
    shape.text("moe-layer-freq", blocks);
  }
}

}  // namespace

/// Names of the arguments: NVIDIA/Megatron-LM megatron/training/arguments.py.
ModelArguments model_arguments(const model::Architecture& a) {
  Shape shape;
  shape.value("hidden-size", a.hidden);
  shape.value("ffn-hidden-size", a.has_plain_mlp() ? a.ffn : a.moe->expert_ffn);
  add_attention(a, shape);
  if (a.max_positions > 0) shape.value("max-position-embeddings", a.max_positions);
  shape.text("position-embedding-type", a.rotary                  ? "rope"
                                        : a.learned_positions > 0 ? "learned_absolute"
                                                                  : "none");
  shape.text("normalization", a.norm == model::NormKind::kRmsNorm ? "RMSNorm" : "LayerNorm");
  shape.toggle("swiglu", a.gated_mlp);
  const bool biased = a.bias.mlp || a.bias.attention_output;
  shape.toggle("disable-bias-linear", !biased);
  shape.toggle("add-qkv-bias", !biased && a.bias.qkv);
  shape.toggle("untie-embeddings-and-output-weights", !a.tied_embeddings);
  if (a.vocab > 0) shape.value("vocab-size", a.vocab);
  if (a.moe) add_experts(a, shape);
  shape.untold(std::any_of(a.windows.begin(), a.windows.end(), [](auto w) { return w > 0; }),
               "windows of attention");
  shape.untold(a.sinks, "attention sinks");
  shape.untold(a.parallel_block, "attention and MLP side by side");
  shape.untold(a.post_norm || a.output_norms > 0, "norms behind attention and MLP");
  shape.untold(!a.causal, "attention to later tokens");
  return shape.take();
}

}  // namespace nestplan::frameworks
