#include "cost/profile_models.hpp"

#include <vector>

#include "cost/profile_kernels.hpp"
#include "cost/profile_transformer.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::Projection;
using model::Tower;

Share share_of(const Architecture& a, std::int64_t tokens, const Drawing& d) {
  return make_share(a, d.options, tokens, d.degrees);
}

/// Products in front of a tower's blocks or behind them. They are replicated over the group, and
/// each device runs them on its own tokens; their inputs are kept.
void draw_projections(const std::vector<Projection>& projections, const Share& s, Op op,
                      const Drawing& d) {
  model::LayerCost& cost = d.draft.cost(op);
  const double bytes = d.costs.precision().activation_bytes;
  Timer timer(d.costs, cost);
  for (const Projection& p : projections) {
    const double rows = s.row_tokens * static_cast<double>(p.rows) / static_cast<double>(p.tokens);
    const double input = rows * static_cast<double>(p.kept);
    const double output = rows * static_cast<double>(p.out);
    timer.convolution(rows, static_cast<double>(p.in), static_cast<double>(p.out), input);
    cost.activation_bytes += bytes * input;
    if (!p.activation) continue;
    timer.activation(output, output);
    cost.activation_bytes += bytes * output;
  }
}

Tensor draw_stem(Transformer& transformer, const Tower& tower, const Share& s, const Drawing& d) {
  const Op op = d.draft.add(tower.id + ".embedding", "", "");
  draw_projections(tower.stem, s, op, d);
  model::LayerCost& cost = d.draft.cost(op);
  if (tower.positions) Timer(d.costs, cost).residual(s.rows());
  cost.parameters += static_cast<double>(stem_parameters(tower));
  const Projection& first = tower.stem.front();
  cost.checkpoint_bytes = d.costs.precision().activation_bytes * s.row_tokens *
                          static_cast<double>(first.rows * first.kept) /
                          static_cast<double>(first.tokens);
  return transformer.hidden_state(op);
}

/// Pooling (or laying side by side, which is free), the last norm, and the products. Keeps the
/// inputs of norm and products.
Tensor draw_projector(const Tower& tower, const Share& s, const Tensor& input, const Drawing& d) {
  const Op op = d.draft.add(tower.id + ".projector", "", "");
  const double bytes = d.costs.precision().activation_bytes;
  model::LayerCost& cost = d.draft.cost(op);
  Timer timer(d.costs, cost);
  const double merge = static_cast<double>(tower.merge);
  const double normed = tower.averaged ? s.rows() / merge : s.rows();
  if (tower.averaged) timer.activation(s.rows(), normed);
  timer.norm(normed);
  cost.activation_bytes += bytes * normed;
  draw_projections(tower.projector, s, op, d);
  cost.parameters += static_cast<double>(projector_parameters(tower));
  d.draft.connect(input, op);
  return {op, bytes * s.row_tokens / merge * static_cast<double>(tower.projector.back().out)};
}

Tensor draw_tower(const Tower& tower, const Drawing& d) {
  const Share share = share_of(tower.blocks, d.options.tokens_of(tower.id, tower.tokens), d);
  Transformer transformer(d.draft, d.costs, share);
  const Tensor stem = draw_stem(transformer, tower, share, d);
  const Tensor state = draw_blocks(transformer, tower.blocks, tower.id + ".", stem, d);
  return draw_projector(tower, share, state, d);
}

void draw_language_model(const Architecture& a, const std::vector<Tensor>& merged,
                         const Drawing& d) {
  const Share share = share_of(a, d.options.sequence, d);
  Transformer transformer(d.draft, d.costs, share);
  const Tensor embedded = transformer.embedding("embedding", merged);
  const Tensor state = draw_blocks(transformer, a, "", embedded, d);
  std::vector<Tensor> predictions;
  for (std::int64_t i = 0; i < a.mtp_layers; ++i) {
    predictions.push_back(transformer.prediction("mtp." + std::to_string(i), a.layers + i,
                                                 i == 0 ? state : predictions.back()));
  }
  transformer.head("head", state, predictions);
}

}  // namespace

Tensor draw_blocks(Transformer& transformer, const Architecture& a, const std::string& prefix,
                   Tensor state, const Drawing& d, const Transformer::Memory* memory) {
  for (std::int64_t i = 0; i < a.layers; ++i) {
    const std::size_t first = d.draft.layers().size();
    state = transformer.block(prefix + "layer." + std::to_string(i), "", i, state, memory);
    d.draft.count_layer(first);
  }
  return state;
}

void draw(const Architecture& model, const Drawing& d) { draw_language_model(model, {}, d); }

void draw(const model::EncoderDecoder& model, const Drawing& d) {
  const Share encoder_share = share_of(model.encoder, d.options.sequence, d);
  Transformer encoder(d.draft, d.costs, encoder_share);
  const Tensor encoded = encoder.norm(
      "encoder.norm",
      draw_blocks(encoder, model.encoder, "encoder.", encoder.embedding("encoder.embedding"), d));

  const Share decoder_share =
      share_of(model.decoder, d.options.tokens_of("decoder", d.options.sequence), d);
  Transformer decoder(d.draft, d.costs, decoder_share);
  const Tensor embedded = decoder.embedding("decoder.embedding");
  const Transformer::Memory memory{encoded, encoder_share};
  decoder.head("head", draw_blocks(decoder, model.decoder, "decoder.", embedded, d, &memory));
}

void draw(const model::Multimodal& model, const Drawing& d) {
  std::vector<Tensor> merged;
  for (const Tower& tower : model.towers) merged.push_back(draw_tower(tower, d));
  draw_language_model(model.text, merged, d);
}

}  // namespace nestplan::cost
