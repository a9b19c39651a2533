#pragma once

#include <cstdint>
#include <string>

#include "nestplan/model/architecture.hpp"

namespace nestplan::model {

/// A transformer over the patches of a latent image, conditioned on time and label (Peebles and
/// Xie, DiT, arXiv 2212.09748). Positions are sinusoids, not parameters.
struct DiffusionTransformer {
  std::string name;
  std::string family;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t sample_size = 0;  ///< side of the latent image, a multiple of `patch`
  std::int64_t patch = 1;        ///< side of what becomes one token
  Architecture blocks;           ///< with modulation, without vocabulary

  std::int64_t tokens() const { return (sample_size / patch) * (sample_size / patch); }
  std::int64_t patch_in() const { return patch * patch * in_channels; }
  std::int64_t patch_out() const { return patch * patch * out_channels; }
};

/// The product that makes tokens of patches.
std::int64_t patch_parameters(const DiffusionTransformer& model);

/// Behind the last block: shift and scale of the last norm, and the product that makes patches of
/// tokens. Time and label come embedded from the first block.
std::int64_t head_parameters(const DiffusionTransformer& model);

std::int64_t total_parameters(const DiffusionTransformer& model);

}  // namespace nestplan::model
