#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "nestplan/model/architecture.hpp"
#include "nestplan/model/diffusion_transformer.hpp"
#include "nestplan/model/unet.hpp"

namespace nestplan::model {

/// Any model that can be read from a config.
using Model = std::variant<Architecture, EncoderDecoder, Multimodal, UNet, DiffusionTransformer>;

const std::string& name_of(const Model& model);
const std::string& family_of(const Model& model);

/// Distinct parameters, as published.
std::int64_t total_parameters(const Model& model);

/// Whether samples are sequences whose length is free, and the longest the model was made for (0:
/// not given).
bool has_sequence(const Model& model);
std::int64_t max_positions(const Model& model);

/// A part of a model with a token count of its own, beside the sequence.
struct TokenCount {
  std::string part;         ///< "decoder", "vision", "audio", "text"
  std::int64_t tokens = 0;  ///< per sample unless told otherwise; 0: as many as the sequence
};
std::vector<TokenCount> token_counts(const Model& model);

}  // namespace nestplan::model
