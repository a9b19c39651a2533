#include <string>
#include <vector>

#include "cost/profile_kernels.hpp"
#include "cost/profile_models.hpp"
#include "cost/profile_transformer.hpp"

namespace nestplan::cost {
namespace {

using model::UNet;
using model::UNetLayer;
using model::UNetLayerKind;

constexpr double kKernel = 9;  // 3x3

/// Draws the layers of a U-Net, each of which is one layer of the graph. Its blocks, at that
/// granularity, are its resnet and the residual branches of its transformer blocks, the projections
/// around those going with the first and the last. Operators: `concat`, `norm1`, `conv1` (with the
/// time added), `norm2`, `conv2`, `shortcut`, `add`; `proj_in` with its norm, those of
/// `transformer.i`, `proj_out`. The norms include the activation function behind them.
///
/// Every convolution keeps its input, and every norm its input and, for the activation function
/// behind it, its output. Selective recomputation, with fused attention, drops what norms and
/// activation functions put out.
class UNetDrawing {
 public:
  UNetDrawing(const UNet& unet, const Drawing& d)
      : unet_(unet),
        d_(d),
        bytes_(d.costs.precision().activation_bytes),
        images_(static_cast<double>(d.degrees.micro_batch)),
        text_tokens_(d.options.tokens_of("text", unet.context_tokens)) {}

  void run() {
    draw_conditioning();
    const std::vector<UNetLayer> layers = unet_layers(unet_);
    for (const UNetLayer& layer : layers) {
      if (layer.kind == UNetLayerKind::kResnet) {
        outputs_.push_back(draw_resnet(layer));
      } else if (layer.kind == UNetLayerKind::kOutput) {
        draw_output(layer);
      } else {
        outputs_.push_back(draw_sample(layer));
      }
    }
  }

 private:
  model::LayerCost& cost(Op op) { return d_.draft.cost(op); }
  Timer timer(Op op) { return Timer(d_.costs, d_.draft.cost(op)); }
  void keep(Op op, double elements) { d_.draft.cost(op).activation_bytes += bytes_ * elements; }
  void keep_output(Op op, double elements) {
    if (!d_.options.fused_attention) return keep(op, elements);
    d_.draft.keep_unless_selective(op, bytes_ * elements);
  }
  void hold(Op op, std::int64_t count) {
    d_.draft.cost(op).parameters += static_cast<double>(count);
  }

  double pixels(const UNetLayer& layer) const {
    return images_ * static_cast<double>(layer.size) * static_cast<double>(layer.size);
  }
  Tensor image(Op op, const UNetLayer& layer, std::int64_t channels) const {
    return {op, bytes_ * pixels(layer) * static_cast<double>(channels)};
  }

  /// The text states, as they were encoded before, and the embedded time, which every resnet reads;
  /// one layer that stands at the beginning. Layers with attention read both.
  void draw_conditioning() {
    const Op op = d_.draft.add("conditioning", "", "");
    const double width = static_cast<double>(unet_.time_width());
    Timer time = timer(op);
    const auto two_layers = [&](double in) {
      time.linear(images_, in, width);
      time.activation(images_ * width, images_ * width);
      time.linear(images_, width, width);
      keep(op, images_ * (in + 2 * width));
    };
    two_layers(static_cast<double>(unet_.levels.front().channels));
    if (unet_.added_width > 0) two_layers(static_cast<double>(unet_.added_width));
    hold(op, conditioning_parameters(unet_));
    time_ = {op, bytes_ * images_ * width};
    text_ = {op, time_.bytes + bytes_ * images_ * static_cast<double>(text_tokens_) *
                                   static_cast<double>(unet_.context_width)};
    cost(op).checkpoint_bytes = text_.bytes;
  }

  /// Its input is for the caller to keep.
  void convolve(Op op, const UNetLayer& layer, std::int64_t in, std::int64_t out,
                double input_elements) {
    timer(op).convolution(pixels(layer), kKernel * static_cast<double>(in),
                          static_cast<double>(out), input_elements);
    hold(op, model::convolution_parameters(in, out));
  }

  /// A norm with learned scale and shift, and an activation function.
  void normalise(Op op, double elements, std::int64_t channels) {
    Timer time = timer(op).again_if(d_.options.fused_attention);
    time.norm(elements);
    time.activation(elements, elements);
    keep(op, elements);
    keep_output(op, elements);
    hold(op, 2 * channels);
  }

  /// The first convolution, and those that halve or double the image (which is doubled by
  /// repetition in front of the convolution).
  Tensor draw_sample(const UNetLayer& layer) {
    const Op op = d_.draft.add(layer.id, "", "");
    const double area = pixels(layer) * static_cast<double>(layer.in);
    const double input = layer.kind == UNetLayerKind::kDownsample ? 4 * area : area;
    if (layer.kind == UNetLayerKind::kUpsample) timer(op).activation(area / 4, area);
    convolve(op, layer, layer.in, layer.out, input);
    keep(op, input);
    if (outputs_.empty()) {
      cost(op).checkpoint_bytes = bytes_ * input;
    } else {
      d_.draft.connect(outputs_.back(), op);
    }
    return image(op, layer, layer.out);
  }

  Tensor draw_resnet(const UNetLayer& layer) {
    const auto add = [&](const char* name) { return d_.draft.add(layer.id, "resnet", name); };
    const std::size_t first = d_.draft.layers().size();
    Tensor input = outputs_.back();
    if (layer.skip > 0) input = draw_concatenation(layer, add("concat"));
    const Op norm1 = add("norm1");
    const Op conv1 = add("conv1");
    const Op norm2 = add("norm2");
    const Op conv2 = add("conv2");
    d_.draft.count_layer(first);
    const double before = pixels(layer) * static_cast<double>(layer.channels());
    const double after = pixels(layer) * static_cast<double>(layer.out);

    normalise(norm1, before, layer.channels());
    convolve(conv1, layer, layer.channels(), layer.out, before);
    keep_output(conv1, before);
    timer(conv1).linear(images_, static_cast<double>(unet_.time_width()),
                        static_cast<double>(layer.out));
    timer(conv1).residual(after);
    hold(conv1, unet_.time_width() * layer.out + layer.out);
    normalise(norm2, after, layer.out);
    convolve(conv2, layer, layer.out, layer.out, after);
    keep_output(conv2, after);

    d_.draft.connect(input, norm1);
    d_.draft.connect(image(norm1, layer, layer.channels()), conv1);
    d_.draft.connect(time_, conv1);
    d_.draft.connect(image(conv1, layer, layer.out), norm2);
    d_.draft.connect(image(norm2, layer, layer.out), conv2);

    Tensor around = input;
    if (layer.has_shortcut()) around = draw_shortcut(layer, input, add("shortcut"));
    const Op sum = add("add");
    timer(sum).residual(after);
    d_.draft.connect(image(conv2, layer, layer.out), sum);
    d_.draft.connect(around, sum);
    const Tensor output = image(sum, layer, layer.out);
    return layer.depth > 0 ? draw_transformer(layer, output) : output;
  }

  Tensor draw_concatenation(const UNetLayer& layer, Op op) {
    const double elements = pixels(layer) * static_cast<double>(layer.channels());
    timer(op).elementwise(2 * elements, 2 * elements);
    d_.draft.connect(outputs_.back(), op);
    d_.draft.connect(outputs_[static_cast<std::size_t>(layer.skip_from)], op);
    return image(op, layer, layer.channels());
  }

  /// Reads what the first norm has kept.
  Tensor draw_shortcut(const UNetLayer& layer, const Tensor& input, Op op) {
    timer(op).linear(pixels(layer), static_cast<double>(layer.channels()),
                     static_cast<double>(layer.out));
    hold(op, layer.channels() * layer.out + layer.out);
    d_.draft.connect(input, op);
    return image(op, layer, layer.out);
  }

  Tensor draw_transformer(const UNetLayer& layer, const Tensor& input) {
    const model::Architecture blocks = transformer_of(unet_, layer);
    const Share share = make_share(blocks, d_.options, layer.size * layer.size, d_.degrees);
    const Share text_share = make_share(blocks, d_.options, text_tokens_, d_.degrees);
    const Transformer::Memory memory{text_, text_share};
    Transformer transformer(d_.draft, d_.costs, share);

    const auto prefix = [](std::int64_t i) { return "transformer." + std::to_string(i) + "."; };
    const Op enter = d_.draft.add(layer.id, prefix(0) + "attention", "proj_in");
    timer(enter).again_if(d_.options.fused_attention).norm(share.rows());
    project(enter, share);
    hold(enter, 2 * layer.out);
    keep(enter, share.rows());
    keep_output(enter, share.rows());
    d_.draft.connect(input, enter);
    Tensor state = transformer.hidden_state(enter);
    for (std::int64_t i = 0; i < layer.depth; ++i) {
      state = transformer.block(layer.id, prefix(i), i, state, &memory);
    }
    const Op leave = d_.draft.add(layer.id, prefix(layer.depth - 1) + "mlp", "proj_out");
    project(leave, share);
    keep(leave, share.rows());
    timer(leave).residual(share.rows());
    d_.draft.connect(state, leave);
    d_.draft.connect(input, leave);
    return transformer.hidden_state(leave);
  }

  void project(Op op, const Share& share) {
    timer(op).linear(share.tokens, share.hidden(), share.hidden());
    hold(op, share.a.hidden * share.a.hidden + share.a.hidden);
  }

  /// Norm, convolution and the squared error of what the network predicts.
  void draw_output(const UNetLayer& layer) {
    const Op norm = d_.draft.add(layer.id, "", "norm");
    const Op convolution = d_.draft.add(layer.id, "", "conv");
    const Op loss = d_.draft.add(layer.id, "", "loss");
    const double input = pixels(layer) * static_cast<double>(layer.in);
    const double output = pixels(layer) * static_cast<double>(layer.out);
    normalise(norm, input, layer.in);
    convolve(convolution, layer, layer.in, layer.out, input);
    keep_output(convolution, input);
    timer(loss).elementwise(2 * output, 3 * output);
    keep(loss, 2 * output);
    d_.draft.connect(outputs_.back(), norm);
    d_.draft.connect(image(norm, layer, layer.in), convolution);
    d_.draft.connect(image(convolution, layer, layer.out), loss);
  }

  const UNet& unet_;
  const Drawing& d_;
  double bytes_;
  double images_;  ///< of a micro-batch
  std::int64_t text_tokens_;
  Tensor time_;
  Tensor text_;
  std::vector<Tensor> outputs_;  ///< by layer
};

}  // namespace

void draw(const UNet& model, const Drawing& drawing) { UNetDrawing(model, drawing).run(); }

}  // namespace nestplan::cost
