#include <string>
#include <vector>

#include "io/huggingface_config.hpp"

namespace nestplan::io {
namespace {

using model::UNet;
using model::UNetLevel;

/// Tokens of a caption, as CLIP encodes it.
constexpr std::int64_t kCaptionTokens = 77;
constexpr std::int64_t kDefaultHeads = 8;  // of configuration in unet_2d_condition.py, diffusers
constexpr std::size_t kMostLevels = 16;

/// A key with one number for all levels or a list of one each.
std::vector<std::int64_t> per_level(const Config& config, const char* key, std::size_t levels,
                                    std::int64_t fallback) {
  const auto field = config.find(key);
  if (!field) return std::vector<std::int64_t>(levels, fallback);
  if (!field->json().is_array()) {
    return std::vector<std::int64_t>(levels, field->integer(1, kLargestWidth));
  }
  std::vector<std::int64_t> values;
  for (const Field& item : field->items()) values.push_back(item.integer(1, kLargestWidth));
  if (values.size() != levels) {
    field->fail("has " + std::to_string(values.size()) + " entries, not the " +
                std::to_string(levels) + " of block_out_channels");
  }
  return values;
}

/// Whether each block of `key` has attention, by its name.
std::vector<bool> attention_of(const Config& config, const char* key, std::size_t levels,
                               const std::string& plain, const std::string& with_attention) {
  const Field field = config.at(key);
  std::vector<bool> attention;
  for (const Field& item : field.items()) {
    const std::string type = item.text();
    if (type != plain && type != with_attention) {
      item.fail("must be " + plain + " or " + with_attention);
    }
    attention.push_back(type == with_attention);
  }
  if (attention.size() != levels) {
    field.fail("has " + std::to_string(attention.size()) + " entries, not the " +
               std::to_string(levels) + " of block_out_channels");
  }
  return attention;
}

std::vector<UNetLevel> read_levels(const Config& config, UNetLevel& middle) {
  std::vector<UNetLevel> levels;
  const Field channels = config.at("block_out_channels");
  for (const Field& item : channels.items()) {
    levels.push_back({item.integer(1, kLargestWidth), 0, 1});
  }
  if (levels.empty() || levels.size() > kMostLevels) {
    channels.fail("must have 1 to " + std::to_string(kMostLevels) + " entries");
  }
  const std::size_t count = levels.size();
  const auto down =
      attention_of(config, "down_block_types", count, "DownBlock2D", "CrossAttnDownBlock2D");
  const auto up = attention_of(config, "up_block_types", count, "UpBlock2D", "CrossAttnUpBlock2D");
  const auto depths = per_level(config, "transformer_layers_per_block", count, 1);
  // what diffusers calls the size of a head has always been their number
  const char* key =
      config.find("num_attention_heads") ? "num_attention_heads" : "attention_head_dim";
  const auto heads = per_level(config, key, count, kDefaultHeads);
  for (std::size_t i = 0; i < count; ++i) {
    if (up[count - 1 - i] != down[i]) {
      config.at("up_block_types").fail("must mirror down_block_types");
    }
    UNetLevel& level = levels[i];
    level.heads = heads[i];
    level.depth = depths[i];
    if (i + 1 == count) middle = level;
    if (!down[i]) level.depth = 0;
    if ((down[i] || i + 1 == count) && level.channels % level.heads != 0) {
      config.at(key).fail(std::to_string(level.heads) + " does not divide block_out_channels (" +
                          std::to_string(level.channels) + ")");
    }
  }
  return levels;
}

/// Something that is only there in variants of the network that are not read.
void refuse_unless(const Config& config, const char* key, const std::string& only) {
  const auto field = config.find(key);
  if (field && field->text() != only) field->fail("must be " + only + " or null");
}

}  // namespace

model::UNet read_unet(const Config& config, const std::string& type, const std::string& name) {
  UNet unet;
  unet.name = name;
  unet.family = type;
  unet.in_channels = config.count_or("in_channels", 4);
  unet.out_channels = config.count_or("out_channels", 4);
  unet.sample_size = config.count("sample_size", 1 << 14);
  unet.layers_per_level =
      config.find("layers_per_block") ? config.count("layers_per_block", kMostLayers) : 2;
  refuse_unless(config, "mid_block_type", "UNetMidBlock2DCrossAttn");
  unet.levels = read_levels(config, unet.middle);
  unet.context_width = config.count("cross_attention_dim");
  unet.context_tokens = kCaptionTokens;
  refuse_unless(config, "addition_embed_type", "text_time");
  if (config.find("addition_embed_type")) {
    unet.added_width = config.count("projection_class_embeddings_input_dim");
  }
  const std::int64_t halvings = std::int64_t{1} << (unet.levels.size() - 1);
  if (unet.sample_size % halvings != 0) {
    config.at("sample_size").fail("is not a multiple of " + std::to_string(halvings));
  }
  return unet;
}

}  // namespace nestplan::io
