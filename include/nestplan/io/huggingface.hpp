#pragma once

#include <filesystem>

#include "nestplan/model/architecture.hpp"

namespace nestplan::io {

/// Reads the `config.json` of a dense Hugging Face transformers model: decoder-only families from
/// gpt2 to qwen3, and bert and roberta. A directory stands for the `config.json` inside it. The
/// model is named after the directory that holds the file (or the file, if it is called otherwise).
///
/// What a config leaves out takes the default that transformers gives it, where that does not
/// depend on the checkpoint; keys that do not describe the shape are ignored.
///
/// Throws InvalidInput with "file: field: what is wrong" for a missing or impossible field and for
/// a `model_type` that is unknown or not dense; IoError if the file cannot be read.
model::Architecture read_architecture(const std::filesystem::path& path);

}  // namespace nestplan::io
