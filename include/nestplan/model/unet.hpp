#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/architecture.hpp"

namespace nestplan::model {

/// One resolution of a U-Net.
struct UNetLevel {
  std::int64_t channels = 0;
  std::int64_t depth = 0;  ///< transformer blocks behind each of its resnets; 0: none
  std::int64_t heads = 1;  ///< of their attention
};

/// A convolutional U-Net that is conditioned on time and text, as in Stable Diffusion (Rombach et
/// al., arXiv 2112.10752; Podell et al., arXiv 2307.01952): resnets with transformer blocks on the
/// way down, in the middle and on the way up, where each layer also takes what its counterpart on
/// the way down put out.
struct UNet {
  std::string name;
  std::string family;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t sample_size = 0;       ///< side of the latent image; halves from level to level
  std::int64_t layers_per_level = 0;  ///< resnets on the way down; one more on the way up
  std::vector<UNetLevel> levels;      ///< the finest first
  UNetLevel middle;
  std::int64_t context_width = 0;  ///< of the text states
  std::int64_t context_tokens = 0;
  std::int64_t added_width = 0;  ///< of what is embedded beside the time; 0: nothing

  /// Width of the embedded time, and of the hidden layer in front of it.
  std::int64_t time_width() const { return 4 * levels.front().channels; }
};

enum class UNetLayerKind : std::uint8_t { kInput, kResnet, kDownsample, kUpsample, kOutput };

/// One step of a U-Net: a convolution, or a resnet and the transformer blocks behind it.
struct UNetLayer {
  std::string id;  ///< "input", "down.1.0", "down.1.sample", "middle.0", "up.0.2", …, "output"
  UNetLayerKind kind = UNetLayerKind::kResnet;
  std::int64_t in = 0;    ///< channels of the layer before
  std::int64_t skip = 0;  ///< channels that are concatenated to them; 0: none
  int skip_from = -1;     ///< the layer that they come from
  std::int64_t out = 0;
  std::int64_t size = 0;  ///< side of its output
  std::int64_t depth = 0;
  std::int64_t heads = 1;

  std::int64_t channels() const { return in + skip; }
  bool has_shortcut() const { return channels() != out; }
};

/// The steps in the order in which they run.
std::vector<UNetLayer> unet_layers(const UNet& unet);

/// The transformer blocks of a layer as a stack: self-attention, attention to the text, gated MLP.
Architecture transformer_of(const UNet& unet, const UNetLayer& layer);

/// Parameters of a 3x3 convolution.
std::int64_t convolution_parameters(std::int64_t in, std::int64_t out);

/// Embedding of the time and of what is added to it.
std::int64_t conditioning_parameters(const UNet& unet);
std::int64_t layer_parameters(const UNet& unet, const UNetLayer& layer);
std::int64_t total_parameters(const UNet& unet);

}  // namespace nestplan::model
