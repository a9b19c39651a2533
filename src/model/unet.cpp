#include "nestplan/model/unet.hpp"

#include <utility>

namespace nestplan::model {
namespace {

std::int64_t dense_parameters(std::int64_t in, std::int64_t out) { return in * out + out; }

/// Two norms with an activation function each, two convolutions with the time added in between, and
/// a 1x1 convolution on the way around them where the widths differ.
std::int64_t resnet_parameters(const UNet& unet, const UNetLayer& layer) {
  return 2 * layer.channels() + convolution_parameters(layer.channels(), layer.out) +
         dense_parameters(unet.time_width(), layer.out) + 2 * layer.out +
         convolution_parameters(layer.out, layer.out) +
         (layer.has_shortcut() ? dense_parameters(layer.channels(), layer.out) : 0);
}

/// Norm, projections in and out, and the blocks.
std::int64_t transformer_parameters(const UNet& unet, const UNetLayer& layer) {
  if (layer.depth == 0) return 0;
  const Architecture blocks = transformer_of(unet, layer);
  return 2 * layer.out + 2 * dense_parameters(layer.out, layer.out) +
         layer.depth * block_parameters(blocks).total(0);
}

/// Lists the layers and keeps the outputs that the way up has not taken yet.
class Walk {
 public:
  explicit Walk(const UNet& unet) : unet_(unet), size_(unet.sample_size) {}

  std::vector<UNetLayer> run() {
    add("input", UNetLayerKind::kInput, unet_.levels.front().channels);
    keep();
    const std::size_t levels = unet_.levels.size();
    for (std::size_t i = 0; i < levels; ++i) down(i, i + 1 == levels);
    resnet("middle.0", unet_.middle);
    resnet("middle.1", {unet_.middle.channels, 0, 1});
    for (std::size_t i = 0; i < levels; ++i) up(i, i + 1 == levels);
    add("output", UNetLayerKind::kOutput, unet_.out_channels);
    return std::move(layers_);
  }

 private:
  void down(std::size_t index, bool last) {
    const UNetLevel& level = unet_.levels[index];
    const std::string prefix = "down." + std::to_string(index) + ".";
    for (std::int64_t i = 0; i < unet_.layers_per_level; ++i) {
      resnet(prefix + std::to_string(i), level);
      keep();
    }
    if (last) return;
    size_ /= 2;
    add(prefix + "sample", UNetLayerKind::kDownsample, level.channels);
    keep();
  }

  void up(std::size_t index, bool last) {
    const UNetLevel& level = unet_.levels[unet_.levels.size() - 1 - index];
    const std::string prefix = "up." + std::to_string(index) + ".";
    for (std::int64_t i = 0; i <= unet_.layers_per_level; ++i) {
      resnet(prefix + std::to_string(i), level);
      UNetLayer& layer = layers_.back();
      layer.skip_from = kept_.back();
      layer.skip = layers_[static_cast<std::size_t>(layer.skip_from)].out;
      kept_.pop_back();
    }
    if (last) return;
    size_ *= 2;
    add(prefix + "sample", UNetLayerKind::kUpsample, level.channels);
  }

  void resnet(std::string id, const UNetLevel& level) {
    add(std::move(id), UNetLayerKind::kResnet, level.channels);
    layers_.back().depth = level.depth;
    layers_.back().heads = level.heads;
  }

  void add(std::string id, UNetLayerKind kind, std::int64_t out) {
    UNetLayer layer;
    layer.id = std::move(id);
    layer.kind = kind;
    layer.in = layers_.empty() ? unet_.in_channels : layers_.back().out;
    layer.out = out;
    layer.size = size_;
    layers_.push_back(std::move(layer));
  }

  void keep() { kept_.push_back(static_cast<int>(layers_.size()) - 1); }

  const UNet& unet_;
  std::int64_t size_;
  std::vector<UNetLayer> layers_;
  std::vector<int> kept_;
};

}  // namespace

std::int64_t convolution_parameters(std::int64_t in, std::int64_t out) {
  return 9 * in * out + out;
}

std::vector<UNetLayer> unet_layers(const UNet& unet) { return Walk(unet).run(); }

Architecture transformer_of(const UNet& unet, const UNetLayer& layer) {
  Architecture a;
  a.name = unet.name;
  a.family = unet.family;
  a.layers = layer.depth;
  a.hidden = layer.out;
  a.heads = a.kv_heads = layer.heads;
  a.head_dim = layer.out / layer.heads;
  a.ffn = 4 * layer.out;
  a.gated_mlp = true;
  a.causal = false;
  a.bias.attention_output = a.bias.mlp = true;
  a.cross_width = unet.context_width;
  return a;
}

std::int64_t conditioning_parameters(const UNet& unet) {
  const std::int64_t width = unet.time_width();
  const auto two_layers = [width](std::int64_t in) {
    return dense_parameters(in, width) + dense_parameters(width, width);
  };
  return two_layers(unet.levels.front().channels) +
         (unet.added_width > 0 ? two_layers(unet.added_width) : 0);
}

std::int64_t layer_parameters(const UNet& unet, const UNetLayer& layer) {
  if (layer.kind == UNetLayerKind::kResnet) {
    return resnet_parameters(unet, layer) + transformer_parameters(unet, layer);
  }
  const bool normed = layer.kind == UNetLayerKind::kOutput;
  return convolution_parameters(layer.in, layer.out) + (normed ? 2 * layer.in : 0);
}

std::int64_t total_parameters(const UNet& unet) {
  std::int64_t count = conditioning_parameters(unet);
  for (const UNetLayer& layer : unet_layers(unet)) count += layer_parameters(unet, layer);
  return count;
}

}  // namespace nestplan::model
