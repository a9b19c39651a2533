#pragma once

#include <filesystem>
#include <string_view>

#include "nestplan/model/architecture.hpp"
#include "nestplan/model/model.hpp"

namespace nestplan::io {

/// Reads the `config.json` of a model:
///
/// - dense transformers of Hugging Face: decoder-only families from gpt2 to qwen3, bert, roberta;
/// - decoders with a mixture of experts: mixtral, qwen2_moe, qwen3_moe, gpt_oss, deepseek, kimi_k2
///   and glm4_moe, and of deepseek_v2 and deepseek_v3 with latent attention. A correction of the
///   router's scores that no gradient reaches (deepseek_v3) is not a parameter;
/// - encoder-decoders `t5` and `mt5`;
/// - `qwen2_5_omni_thinker` (or the `thinker_config` of a `qwen2_5_omni`): `vision_config` and
///   `audio_config` describe the towers, `text_config` the language model. The vision tower sees
///   4,096 patches a sample (one image of 896 x 896 pixels, 1,024 tokens of the language model)
///   unless `image_size` says otherwise, the audio tower `max_source_positions` frames (1,500, half
///   a minute, 750 tokens);
/// - `UNet2DConditionModel` of diffusers, told by `_class_name`; captions have 77 tokens;
/// - `DiTTransformer2DModel` of diffusers, also by the name `Transformer2DModel`, with `norm_type`
///   ada_norm_zero.
///
/// A directory stands for the `config.json` inside it. The model is named after the directory that
/// holds the file (or the file, if it is called otherwise).
///
/// What a config leaves out takes the default that the library gives it, where that does not depend
/// on the checkpoint; keys that do not describe the shape are ignored.
///
/// Throws InvalidInput with "file: field: what is wrong" for a missing or impossible field and for
/// a model type that is unknown or cannot be read, and for a file that cannot be opened; IoError
/// if the system fails while reading.
model::Model read_model(const std::filesystem::path& path);

/// The same for the text of such a file, which `file` names.
model::Model parse_model(std::string_view text, const std::filesystem::path& file);

/// `path`, or the `config.json` inside of it if it is a directory.
std::filesystem::path model_file(const std::filesystem::path& path);

/// The same for a single decoder or encoder alone.
model::Architecture read_architecture(const std::filesystem::path& path);

}  // namespace nestplan::io
