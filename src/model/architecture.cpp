#include "nestplan/model/architecture.hpp"

namespace nestplan::model {
namespace {

std::int64_t norm_width(const Architecture& a, std::int64_t width) {
  switch (a.norm) {
    case NormKind::kLayerNorm:
      return 2 * width;
    case NormKind::kRmsNorm:
      return width;
    case NormKind::kPlain:
      break;
  }
  return 0;
}

std::int64_t if_set(bool set, std::int64_t count) { return set ? count : 0; }

std::int64_t projection_parameters(const std::vector<Projection>& projections) {
  std::int64_t count = 0;
  for (const Projection& p : projections) count += p.in * p.out + if_set(p.bias, p.out);
  return count;
}

std::int64_t block_total(const Architecture& a, std::int64_t layer) {
  return block_parameters(a, layer).total(a.vocab) + expert_parameters(a, layer);
}

/// Blocks of a stack, with the table that its first one holds.
std::int64_t stack_parameters(const Architecture& a) {
  std::int64_t count = relative_bias_parameters(a).total(a.vocab);
  for (std::int64_t i = 0; i < a.layers; ++i) count += block_total(a, i);
  return count;
}

/// The position of the keys comes with the product into their narrow state, for all heads.
void count_latent_attention(const Architecture& a, BlockParameters& block) {
  const LatentAttention& l = *a.latent;
  const std::int64_t biases = if_set(a.bias.qkv, l.down_width());
  block.down.replicated = a.hidden * l.down_width() + biases + norm_width(a, l.kv_rank) +
                          if_set(l.query_rank > 0, norm_width(a, l.query_rank));
  const std::int64_t query_in = l.query_rank > 0 ? l.query_rank : a.hidden;
  block.qkv.split =
      query_in * a.query_width() + l.kv_rank * a.heads * (l.content_dim + l.value_dim);
}

void count_attention(const Architecture& a, BlockParameters& block) {
  const std::int64_t qkv_biases = a.qkv_width() - if_set(!a.bias.key, a.kv_width());
  if (a.latent) {
    count_latent_attention(a, block);
  } else {
    block.qkv.split = a.hidden * a.qkv_width() + if_set(a.bias.qkv, qkv_biases);
  }
  block.qkv.split += if_set(a.sinks, a.heads);
  block.qkv.replicated = if_set(a.qk_norm, 2 * norm_width(a, a.head_dim));
  block.attention_out.split = a.attention_width() * a.hidden;
  block.attention_out.replicated = if_set(a.bias.attention_output, a.hidden);
  if (a.cross_width == 0) return;
  block.cross_qkv.split = a.hidden * a.query_width() + a.cross_width * 2 * a.kv_width() +
                          if_set(a.bias.qkv, qkv_biases);
  block.cross_out = block.attention_out;
}

/// `count` MLPs of width `width`.
void count_mlps(const Architecture& a, std::int64_t count, std::int64_t width, bool bias,
                ParameterCount& in, ParameterCount& out) {
  in.split = count * (a.hidden * a.mlp_in_width(width) + if_set(bias, a.mlp_in_width(width)));
  out.split = count * width * a.hidden;
  out.replicated = count * if_set(bias, a.hidden);
}

void count_experts(const Architecture& a, BlockParameters& block) {
  const MixtureOfExperts& moe = *a.moe;
  block.router.replicated = a.hidden * moe.experts + if_set(moe.router_bias, moe.experts) +
                            if_set(moe.shared_gate, a.hidden);
  count_mlps(a, moe.experts, moe.expert_ffn, moe.expert_bias, block.expert_in, block.expert_out);
  if (moe.shared_ffn == 0) return;
  count_mlps(a, 1, moe.shared_ffn, a.bias.mlp, block.shared_in, block.shared_out);
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

BlockParameters operator_parameters(const Architecture& a, std::int64_t layer) {
  constexpr std::int64_t kVectors = 6;  // shift, scale and gate, of attention and of the MLP
  BlockParameters block;
  if (a.modulation) {
    block.modulation.replicated =
        conditioning_parameters(a) + kVectors * (a.hidden * a.hidden + a.hidden);
  }
  block.norm.replicated = norm_parameters(a);
  count_attention(a, block);
  if (a.routed(layer)) {
    count_experts(a, block);
  } else {
    count_mlps(a, 1, a.ffn, a.bias.mlp, block.mlp_in, block.mlp_out);
  }
  return block;
}

ParameterCount block_parameters(const Architecture& a, std::int64_t layer) {
  const BlockParameters b = operator_parameters(a, layer);
  ParameterCount count = b.modulation + b.down + b.qkv + b.attention_out + b.cross_qkv +
                         b.cross_out + b.mlp_in + b.mlp_out + b.router + b.shared_in + b.shared_out;
  const int norms = a.input_norms + a.output_norms + (a.cross_width > 0 ? 1 : 0);
  for (int i = 0; i < norms; ++i) count = count + b.norm;
  return count;
}

std::int64_t conditioning_parameters(const Architecture& a) {
  if (!a.modulation) return 0;
  const std::int64_t time = (a.modulation->frequencies + 1 + a.hidden + 1) * a.hidden;
  return time + a.modulation->labels * a.hidden;
}

std::int64_t expert_parameters(const Architecture& a, std::int64_t layer) {
  const BlockParameters b = operator_parameters(a, layer);
  return (b.expert_in + b.expert_out).total(a.vocab);
}

MtpParameters mtp_operator_parameters(const Architecture& a) {
  MtpParameters mtp;
  mtp.norm.replicated = norm_parameters(a);
  mtp.projection.split = 2 * a.hidden * a.hidden;
  return mtp;
}

std::int64_t mtp_parameters(const Architecture& a) {
  const MtpParameters mtp = mtp_operator_parameters(a);
  const ParameterCount module = mtp.norm + mtp.norm + mtp.norm + mtp.projection;
  return a.mtp_layers * (module.total(a.vocab) + block_total(a, a.layers));
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

std::int64_t active_parameters(const Architecture& a) {
  std::int64_t count = total_parameters(a);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    if (!a.routed(i)) continue;
    count -= expert_parameters(a, i) / a.moe->experts * (a.moe->experts - a.moe->top_k);
  }
  return count;
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
