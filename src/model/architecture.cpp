#include "nestplan/model/architecture.hpp"

namespace nestplan::model {
namespace {

std::int64_t norm_width(const Architecture& a, std::int64_t width) {
  return a.norm == NormKind::kLayerNorm ? 2 * width : width;
}

std::int64_t if_set(bool set, std::int64_t count) { return set ? count : 0; }

std::int64_t projection_parameters(const std::vector<Projection>& projections) {
  std::int64_t count = 0;
  for (const Projection& p : projections) count += p.in * p.out + if_set(p.bias, p.out);
  return count;
}

/// Blocks of a stack, with the table that its first one holds.
std::int64_t stack_parameters(const Architecture& a) {
  return a.layers * block_parameters(a).total(a.vocab) + relative_bias_parameters(a).total(a.vocab);
}

}  // namespace

std::int64_t norm_parameters(const Architecture& a) { return norm_width(a, a.hidden); }

ParameterCount embedding_parameters(const Architecture& a) {
  ParameterCount count;
  count.vocab_rows = a.hidden;
  count.replicated = (a.learned_positions + a.token_types) * a.hidden +
                     if_set(a.embedding_norm, norm_parameters(a));
  return count;
}

BlockParameters operator_parameters(const Architecture& a) {
  const std::int64_t qkv_biases = a.qkv_width() - if_set(!a.bias.key, a.kv_width());
  BlockParameters block;
  block.norm.replicated = norm_parameters(a);
  block.qkv.split = a.hidden * a.qkv_width() + if_set(a.bias.qkv, qkv_biases);
  block.qkv.replicated = if_set(a.qk_norm, 2 * norm_width(a, a.head_dim));
  block.attention_out.split = a.query_width() * a.hidden;
  block.attention_out.replicated = if_set(a.bias.attention_output, a.hidden);
  if (a.cross_width > 0) {
    block.cross_qkv.split = a.hidden * a.query_width() + a.cross_width * 2 * a.kv_width() +
                            if_set(a.bias.qkv, qkv_biases);
    block.cross_out = block.attention_out;
  }
  block.mlp_in.split = a.hidden * a.mlp_in_width() + if_set(a.bias.mlp, a.mlp_in_width());
  block.mlp_out.split = a.ffn * a.hidden;
  block.mlp_out.replicated = if_set(a.bias.mlp, a.hidden);
  return block;
}

ParameterCount block_parameters(const Architecture& a) {
  const BlockParameters b = operator_parameters(a);
  ParameterCount count = b.qkv + b.attention_out + b.cross_qkv + b.cross_out + b.mlp_in + b.mlp_out;
  const int norms = a.input_norms + a.output_norms + (a.cross_width > 0 ? 1 : 0);
  for (int i = 0; i < norms; ++i) count = count + b.norm;
  return count;
}

ParameterCount relative_bias_parameters(const Architecture& a) {
  ParameterCount count;
  count.split = a.relative_buckets * a.heads;
  return count;
}

HeadParameters head_operator_parameters(const Architecture& a) {
  const std::int64_t dense = a.hidden * a.hidden + a.hidden;
  HeadParameters head;
  head.norm.replicated = if_set(!a.post_norm, norm_parameters(a));
  head.transform.replicated = if_set(a.mlm_transform, dense + norm_parameters(a));
  head.pooler.replicated = if_set(a.pooler, dense + 2 * a.hidden + 2);
  head.output.vocab_rows = a.hidden + if_set(a.bias.head, 1);
  return head;
}

ParameterCount head_parameters(const Architecture& a) {
  const HeadParameters head = head_operator_parameters(a);
  return head.norm + head.transform + head.pooler + head.output;
}

std::int64_t total_parameters(const Architecture& a) {
  return embedding_parameters(a).total(a.vocab) + stack_parameters(a) +
         head_parameters(a).total(a.vocab) - if_set(a.tied_embeddings, a.vocab * a.hidden);
}

std::int64_t total_parameters(const EncoderDecoder& model) {
  const Architecture& decoder = model.decoder;
  return embedding_parameters(decoder).total(decoder.vocab) + stack_parameters(model.encoder) +
         norm_parameters(model.encoder) + stack_parameters(decoder) +
         head_parameters(decoder).total(decoder.vocab) -
         if_set(decoder.tied_embeddings, decoder.vocab * decoder.hidden);
}

std::int64_t stem_parameters(const Tower& tower) { return projection_parameters(tower.stem); }

std::int64_t projector_parameters(const Tower& tower) {
  return norm_parameters(tower.blocks) + projection_parameters(tower.projector) +
         tower.markers * tower.projector.back().out;
}

std::int64_t total_parameters(const Tower& tower) {
  return stem_parameters(tower) + stack_parameters(tower.blocks) + projector_parameters(tower);
}

std::int64_t total_parameters(const Multimodal& model) {
  std::int64_t count = total_parameters(model.text);
  for (const Tower& tower : model.towers) count += total_parameters(tower);
  return count;
}

}  // namespace nestplan::model
