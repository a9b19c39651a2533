#include "cost/profile_transformer.hpp"

/// Latent attention. The products into the narrow states have their weights on every device of the
/// group and run on its own tokens; those out of them are split by heads, so that the narrow states
/// are what is gathered, not the hidden one (MLASelfAttention in
/// megatron/core/transformer/multi_latent_attention.py of NVIDIA/Megatron-LM). Queries that are not
/// narrowed come from the hidden state. Keys, put together from content and the position that all
/// heads share, and values are kept at full width.
namespace nestplan::cost {

void Transformer::time_latent_states(const Branch& b) {
  const model::LatentAttention& l = *s_.a.latent;
  const double kv_rank = static_cast<double>(l.kv_rank);
  const double query_rank = static_cast<double>(l.query_rank);
  Timer down = timer(*b.down);
  down.linear(s_.row_tokens, s_.hidden(), static_cast<double>(l.down_width()));
  down.again_if(s_.fused_attention).norm(s_.row_tokens * (query_rank + kv_rank));

  const double content_and_value = s_.heads() * static_cast<double>(l.content_dim + l.value_dim);
  const double position = static_cast<double>(l.position_dim);
  Timer up = timer(b.entry).again_if(s_.fused_attention);
  up.linear(s_.tokens, l.query_rank > 0 ? query_rank : s_.hidden(), s_.query());
  up.linear(s_.tokens, kv_rank, content_and_value);
  up.activation(s_.tokens * s_.heads() * position, 0);
  up.activation(s_.tokens * (content_and_value + position),
                s_.tokens * (content_and_value + s_.heads() * position));
}

void Transformer::keep_latent_states(const Branch& b) {
  const model::LatentAttention& l = *s_.a.latent;
  keep(*b.down, s_.row_tokens * static_cast<double>(l.down_width()));
  keep_output(b.entry, s_.row_tokens * static_cast<double>(l.query_rank + l.kv_rank), true);
}

void Transformer::enter_latent_states(const Branch& b) {
  const model::LatentAttention& l = *s_.a.latent;
  Messages(s_, static_cast<double>(l.down_width()), bytes_, draft_.cost(b.entry)).enter();
  if (l.query_rank == 0) messages(b.entry).enter();
}

}  // namespace nestplan::cost
