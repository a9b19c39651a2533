#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::test {

inline model::Device h100() {
  model::Device device;
  device.name = "h100";
  device.memory_bytes = 80e9;
  device.peak_flops = {{"bf16", 989e12}, {"fp8", 1979e12}};
  device.memory_bandwidth = 3.35e12;
  return device;
}

inline model::Device a100() {
  model::Device device = h100();
  device.name = "a100";
  device.peak_flops = {{"bf16", 312e12}, {"fp16", 312e12}, {"fp8", 624e12}};
  device.memory_bandwidth = 2.0e12;
  return device;
}

/// With RMS norms, gated MLPs, rotary positions and heads that share `hidden`.
inline model::Architecture llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                                 std::int64_t kv_heads, std::int64_t ffn, std::int64_t vocab) {
  model::Architecture a;
  a.name = a.family = "llama";
  a.layers = layers;
  a.hidden = hidden;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = hidden / heads;
  a.ffn = ffn;
  a.vocab = vocab;
  a.norm = model::NormKind::kRmsNorm;
  a.gated_mlp = a.rotary = true;
  return a;
}

/// With layer norms, biases, learned positions and dropout, tied.
inline model::Architecture gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads) {
  model::Architecture a;
  a.name = a.family = "gpt2";
  a.layers = layers;
  a.hidden = hidden;
  a.heads = a.kv_heads = heads;
  a.head_dim = hidden / heads;
  a.ffn = 4 * hidden;
  a.vocab = 51200;
  a.max_positions = a.learned_positions = 2048;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.tied_embeddings = a.hidden_dropout = true;
  return a;
}

/// Two levels, attention on the second.
inline model::UNet small_unet() {
  model::UNet unet;
  unet.name = unet.family = "unet";
  unet.in_channels = unet.out_channels = 4;
  unet.sample_size = 16;
  unet.layers_per_level = 2;
  unet.levels = {{32, 0, 1}, {64, 2, 4}};
  unet.middle = {64, 2, 4};
  unet.context_width = 48;
  unet.context_tokens = 8;
  return unet;
}

inline const model::Layer& layer_of(const model::Graph& graph, const std::string& id) {
  const auto found = std::find_if(graph.layers.begin(), graph.layers.end(),
                                  [&id](const model::Layer& layer) { return layer.id == id; });
  if (found == graph.layers.end()) throw InternalError("no layer " + id);
  return *found;
}

inline const model::LayerCost& cost_of(const model::Graph& graph, const std::string& id,
                                       std::size_t strategy = 0) {
  return layer_of(graph, id).costs.at(strategy).value();
}

}  // namespace nestplan::test
