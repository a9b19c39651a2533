#include "cost/profile_transformer.hpp"

namespace nestplan::cost {

/// Keeps the token ids, the inputs of its norms and of the projection.
Tensor Transformer::prediction(const std::string& layer, std::int64_t index, const Tensor& state) {
  const model::MtpParameters counts = mtp_operator_parameters(s_.a);
  const double rows = s_.rows();
  const auto norm_of = [&](const char* block, const char* name, const Tensor& input) {
    const Op op = draft_.add(layer, block, name);
    timer(op).norm(rows);
    keep(op, rows);
    hold(op, counts.norm);
    draft_.connect(input, op);
    return hidden_state(op);
  };

  const Op lookup = draft_.add(layer, "input", "token_embedding");
  look_up(lookup);
  messages(lookup).leave();
  hold(lookup, {.split = 0, .replicated = 0, .vocab_rows = s_.a.hidden});
  const Tensor embedded = norm_of("input", "embedding_norm", hidden_state(lookup));
  const Tensor carried = norm_of("input", "state_norm", state);

  const Op projection = draft_.add(layer, "input", "projection");
  Timer time = timer(projection);
  time.activation(2 * rows, 2 * rows);
  time.linear(s_.tokens, 2 * s_.hidden(), s_.hidden() / s_.tp);
  keep(projection, 2 * rows);
  hold(projection, counts.projection);
  draft_.connect(embedded, projection);
  draft_.connect(carried, projection);
  Messages(s_, 2 * s_.hidden(), bytes_, draft_.cost(projection)).enter();
  messages(projection).collect();

  return norm_of("output", "norm", block(layer, "", index, hidden_state(projection)));
}

}  // namespace nestplan::cost
