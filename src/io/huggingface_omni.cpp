#include <string>
#include <vector>

#include "io/huggingface_config.hpp"

namespace nestplan::io {
namespace {

using model::Architecture;
using model::Projection;
using model::Tower;

/// Patches of an image of 896 x 896 pixels at 14 a side. The vision tower takes images of any size,
/// so its config does not say.
constexpr std::int64_t kDefaultPatches = 4096;

void check_width(const Config& config, const char* key, std::int64_t wanted) {
  if (config.count(key) == wanted) return;
  config.at(key).fail("must be the language model's hidden_size (" + std::to_string(wanted) + ")");
}

void check_heads(const Config& config, const char* key, Architecture& a) {
  if (a.hidden % a.heads != 0) {
    config.at(key).fail(std::to_string(a.heads) + " does not divide the hidden size (" +
                        std::to_string(a.hidden) + ")");
  }
  a.kv_heads = a.heads;
  a.head_dim = a.hidden / a.heads;
}

/// Blocks that see the whole image; the others see windows.
std::vector<std::int64_t> vision_windows(const Config& config, std::int64_t layers,
                                         std::int64_t patch) {
  const std::int64_t side = config.count_or("window_size", 112) / patch;
  std::vector<std::int64_t> windows(static_cast<std::size_t>(layers), side * side);
  const auto whole = config.find("fullatt_block_indexes");
  if (!whole) {
    for (std::int64_t i = 7; i < layers; i += 8) windows[static_cast<std::size_t>(i)] = 0;
    return windows;
  }
  for (const Field& index : whole->items()) {
    windows[static_cast<std::size_t>(index.integer(0, layers - 1))] = 0;
  }
  return windows;
}

/// The vision transformer of Qwen2.5-VL (arXiv 2502.13923): RMS norms, gated MLP, biases, rotation,
/// patches of two frames; behind it, 2x2 patches are laid side by side and pass two dense layers.
Tower read_vision(const Config& config, std::int64_t text_hidden) {
  Tower tower;
  tower.id = "vision";
  Architecture& a = tower.blocks;
  a.layers = config.count("depth", kMostLayers);
  a.hidden = config.count("hidden_size");
  a.heads = config.count("num_heads");
  a.ffn = config.count("intermediate_size");
  check_heads(config, "num_heads", a);
  check_width(config, "out_hidden_size", text_hidden);
  a.norm = model::NormKind::kRmsNorm;
  a.causal = false;
  a.gated_mlp = a.rotary = true;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  const std::int64_t patch = config.count("patch_size", 1024);
  a.windows = vision_windows(config, a.layers, patch);

  const std::int64_t pixels =
      config.count_or("in_channels", 3) * config.count_or("temporal_patch_size", 2) * patch * patch;
  tower.stem = {{.in = pixels, .out = a.hidden, .kept = pixels, .bias = false}};
  const std::int64_t side = config.count_or("spatial_merge_size", 2);
  tower.merge = side * side;
  const std::int64_t merged = a.hidden * tower.merge;
  tower.projector = {
      {.tokens = tower.merge, .in = merged, .out = merged, .kept = merged, .activation = true},
      {.tokens = tower.merge, .in = merged, .out = text_hidden, .kept = merged}};
  const auto image = config.maybe_count("image_size");
  tower.tokens = image ? (*image / patch) * (*image / patch) : kDefaultPatches;
  if (tower.tokens == 0) config.at("image_size").fail("is less than patch_size");
  return tower;
}

/// The encoder of Whisper (arXiv 2212.04356) with windows: two convolutions of three frames, the
/// second of which halves their number; behind it, pairs are averaged and projected.
Tower read_audio(const Config& config, std::int64_t text_hidden) {
  Tower tower;
  tower.id = "audio";
  Architecture& a = tower.blocks;
  a.layers = config.count("encoder_layers", kMostLayers);
  a.hidden = config.count("d_model");
  a.heads = config.count("encoder_attention_heads");
  a.ffn = config.count("encoder_ffn_dim");
  check_heads(config, "encoder_attention_heads", a);
  check_width(config, "output_dim", text_hidden);
  a.causal = false;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.bias.key = false;
  const auto dropout = config.find("dropout");
  a.hidden_dropout = dropout && dropout->number(1) > 0;
  a.windows.assign(static_cast<std::size_t>(a.layers), config.count_or("n_window", 100));

  const std::int64_t bins = config.count_or("num_mel_bins", 128);
  tower.stem = {{.rows = 2, .in = 3 * bins, .out = a.hidden, .kept = bins, .activation = true},
                {.in = 3 * a.hidden, .out = a.hidden, .kept = 2 * a.hidden, .activation = true}};
  tower.positions = true;
  tower.merge = 2;
  tower.averaged = true;
  tower.projector = {{.tokens = tower.merge, .in = a.hidden, .out = text_hidden, .kept = a.hidden}};
  tower.markers = 2;
  tower.tokens = config.count_or("max_source_positions", 1500);
  return tower;
}

}  // namespace

model::Multimodal read_omni(const Config& config, const std::string& type,
                            const std::string& name) {
  const Config thinker = config.find("thinker_config") ? config.part("thinker_config") : config;
  model::Multimodal model;
  model.name = name;
  model.family = type;
  model.text = read_transformer(thinker.part("text_config"), "qwen2", name);
  model.text.tied_embeddings = thinker.flag("tie_word_embeddings", false);
  model.towers = {read_vision(thinker.part("vision_config"), model.text.hidden),
                  read_audio(thinker.part("audio_config"), model.text.hidden)};
  for (Tower& tower : model.towers) {
    tower.blocks.name = name;
    tower.blocks.family = type;
  }
  return model;
}

}  // namespace nestplan::io
