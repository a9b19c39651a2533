#include "cost/profile_models.hpp"

namespace nestplan::cost {

/// Keeps the sinusoids, the input of each product, and what it puts out.
void Transformer::hand_on_labels(Op op) {
  constexpr double kTimeAndLabelBytes = 16;
  if (labels_) draft_.connect(*labels_, op);
  labels_ = Tensor{op, kTimeAndLabelBytes * s_.sequences};
}

void Transformer::condition(Op op, double vectors) {
  const double hidden = s_.hidden();
  const double frequencies = static_cast<double>(s_.a.modulation->frequencies);
  Timer time = timer(op);
  time.linear(s_.sequences, frequencies, hidden);
  time.activation(s_.sequences * hidden, s_.sequences * hidden);
  time.linear(s_.sequences, hidden, hidden);
  time.residual(s_.sequences * hidden);  // the label's row
  time.activation(s_.sequences * hidden, s_.sequences * hidden);
  time.linear(s_.sequences, hidden, vectors * hidden);
  keep(op, s_.sequences * (frequencies + (4 + vectors) * hidden));
}

/// A shift and a scale for every norm, a gate for every sum. Both take no time of their own: norm
/// and sum are passes over the hidden state already.
void Transformer::modulate(Op modulation, const std::vector<Branch>& branches) {
  constexpr double kEach = 3;
  condition(modulation, kEach * static_cast<double>(branches.size()));
  hold(modulation, operator_parameters(s_.a).modulation);
  const Tensor vectors{modulation, kEach * s_.sequences * s_.hidden() * bytes_};
  for (const Branch& each : branches) {
    draft_.connect(vectors, each.norm);
    draft_.connect(vectors, each.sum);
  }
}

namespace {

/// Keeps the patches.
Tensor draw_patches(const Transformer& transformer, const model::DiffusionTransformer& model,
                    const Share& s, const Drawing& d) {
  const Op op = d.draft.add("embedding", "", "");
  model::LayerCost& cost = d.draft.cost(op);
  const double width = static_cast<double>(model.patch_in());
  Timer time(d.costs, cost);
  time.linear(s.row_tokens, width, s.hidden());
  time.residual(s.rows());
  cost.checkpoint_bytes = cost.activation_bytes =
      d.costs.precision().activation_bytes * s.row_tokens * width;
  cost.parameters = static_cast<double>(patch_parameters(model));
  return transformer.hidden_state(op);
}

/// The last norm with its modulation, the product that makes patches, and the squared error. Keeps
/// the inputs of norm and product; the patches and their gradient, in fp32, live while it works.
/// Weights are on every device of the group, each runs on its own tokens.
void draw_patch_head(Transformer& transformer, const model::DiffusionTransformer& model,
                     const Share& s, const Tensor& input, const Drawing& d) {
  const Op op = d.draft.add("head", "", "");
  transformer.hand_on_labels(op);
  transformer.condition(op, 2);
  transformer.share_conditioning(op);
  model::LayerCost& cost = d.draft.cost(op);
  const double bytes = d.costs.precision().activation_bytes;
  const double width = static_cast<double>(model.patch_out());
  const double patches = s.row_tokens * width;
  Timer time(d.costs, cost);
  time.norm(s.rows());
  time.linear(s.row_tokens, s.hidden(), width);
  time.memory((bytes + kFp32) * patches, (bytes + kFp32) * patches);
  cost.activation_bytes += bytes * 2 * s.rows();
  cost.working_bytes = (bytes + kFp32) * patches;
  cost.parameters += static_cast<double>(conditioning_parameters(model.blocks)) +
                     static_cast<double>(head_parameters(model));
  d.draft.connect(input, op);
}

}  // namespace

void draw(const model::DiffusionTransformer& model, const Drawing& d) {
  const Share share = make_share(model.blocks, d.options, model.tokens(), d.degrees);
  Transformer transformer(d.draft, d.costs, share);
  const Tensor patches = draw_patches(transformer, model, share, d);
  draw_patch_head(transformer, model, share, draw_blocks(transformer, model.blocks, "", patches, d),
                  d);
}

}  // namespace nestplan::cost
