#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/json.hpp"
#include "nestplan/model/model.hpp"

namespace nestplan::io {

/// Far beyond any model, and small enough that sums of products of two widths fit into 64 bits.
inline constexpr std::int64_t kLargestWidth = std::int64_t{1} << 28;
inline constexpr std::int64_t kMostLayers = 100'000;

/// The keys of a config; `null` counts as absent, as in transformers.
class Config {
 public:
  explicit Config(Field root) : root_(std::move(root)) {}

  std::optional<Field> find(const std::string& key) const {
    std::optional<Field> field = root_.find(key);
    return field && !field->is_null() ? field : std::nullopt;
  }

  /// Fails if absent.
  Field at(const std::string& key) const { return find(key).value_or(root_.at(key)); }

  std::int64_t count(const std::string& key, std::int64_t most = kLargestWidth) const {
    return at(key).integer(1, most);
  }

  std::optional<std::int64_t> maybe_count(const std::string& key) const {
    return find(key) ? std::optional(count(key)) : std::nullopt;
  }

  std::int64_t count_or(const std::string& key, std::int64_t fallback) const {
    return maybe_count(key).value_or(fallback);
  }

  /// The object under `key`, as a config of its own.
  Config part(const std::string& key) const { return Config(at(key)); }

  bool flag(const std::string& key, bool fallback) const {
    const std::optional<Field> field = find(key);
    return field ? field->boolean() : fallback;
  }

 private:
  Field root_;
};

/// The file may name the model or not: `name` is that of its directory.
/// All throw InvalidInput naming the field.

/// A decoder or encoder, dense or with experts; `type` is one of `transformer_types()`.
model::Architecture read_transformer(const Config& config, const std::string& type,
                                     const std::string& name);
std::vector<std::string> transformer_types();

/// The same window in the blocks from `first` on, except every `period`-th (0: no exception).
void set_window(model::Architecture& a, std::int64_t window, std::int64_t first,
                std::int64_t period);

/// What families with experts say beyond the widths that all have: see huggingface_moe.cpp.
void read_mixtral(const Config& config, model::Architecture& a);
void read_qwen2_moe(const Config& config, model::Architecture& a);
void read_qwen3_moe(const Config& config, model::Architecture& a);
void read_gpt_oss(const Config& config, model::Architecture& a);
void read_deepseek(const Config& config, model::Architecture& a);
void read_deepseek_latent(const Config& config, model::Architecture& a);
void read_glm4_moe(const Config& config, model::Architecture& a);

/// `t5` and `mt5`.
model::EncoderDecoder read_t5(const Config& config, const std::string& type,
                              const std::string& name);

/// What `qwen2_5_omni` calls its thinker: a vision and an audio tower and a language model.
model::Multimodal read_omni(const Config& config, const std::string& type, const std::string& name);

/// `DiTTransformer2DModel` of diffusers, and `Transformer2DModel` if it is one.
model::DiffusionTransformer read_dit(const Config& config, const std::string& type,
                                     const std::string& name);

/// `UNet2DConditionModel` of diffusers.
model::UNet read_unet(const Config& config, const std::string& type, const std::string& name);

}  // namespace nestplan::io
