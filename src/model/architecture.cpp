#include "nestplan/model/architecture.hpp"

namespace nestplan::model {
namespace {

std::int64_t norm_width(const Architecture& a, std::int64_t width) {
  return a.norm == NormKind::kLayerNorm ? 2 * width : width;
}

std::int64_t if_set(bool set, std::int64_t count) { return set ? count : 0; }

}  // namespace

ParameterCount embedding_parameters(const Architecture& a) {
  ParameterCount count;
  count.vocab_rows = a.hidden;
  count.replicated = (a.learned_positions + a.token_types) * a.hidden +
                     if_set(a.embedding_norm, norm_width(a, a.hidden));
  return count;
}

ParameterCount block_parameters(const Architecture& a) {
  ParameterCount count;
  count.split = a.hidden * a.qkv_width() + a.query_width() * a.hidden +
                a.hidden * a.mlp_in_width() + a.ffn * a.hidden + if_set(a.bias.qkv, a.qkv_width()) +
                if_set(a.bias.mlp, a.mlp_in_width());
  count.replicated = (a.input_norms + a.output_norms) * norm_width(a, a.hidden) +
                     if_set(a.qk_norm, 2 * norm_width(a, a.head_dim)) +
                     if_set(a.bias.attention_output, a.hidden) + if_set(a.bias.mlp, a.hidden);
  return count;
}

ParameterCount head_parameters(const Architecture& a) {
  ParameterCount count;
  count.vocab_rows = a.hidden + if_set(a.bias.head, 1);
  const std::int64_t dense = a.hidden * a.hidden + a.hidden;
  count.replicated = if_set(!a.post_norm, norm_width(a, a.hidden)) +
                     if_set(a.mlm_transform, dense + norm_width(a, a.hidden)) +
                     if_set(a.pooler, dense + 2 * a.hidden + 2);
  return count;
}

std::int64_t total_parameters(const Architecture& a) {
  return embedding_parameters(a).total(a.vocab) + a.layers * block_parameters(a).total(a.vocab) +
         head_parameters(a).total(a.vocab) - if_set(a.tied_embeddings, a.vocab * a.hidden);
}

}  // namespace nestplan::model
