#include "nestplan/model/diffusion_transformer.hpp"

namespace nestplan::model {

std::int64_t patch_parameters(const DiffusionTransformer& model) {
  return model.patch_in() * model.blocks.hidden + model.blocks.hidden;
}

std::int64_t head_parameters(const DiffusionTransformer& model) {
  const std::int64_t hidden = model.blocks.hidden;
  return 2 * (hidden * hidden + hidden) + hidden * model.patch_out() + model.patch_out();
}

std::int64_t total_parameters(const DiffusionTransformer& model) {
  const std::int64_t block = block_parameters(model.blocks).total(model.blocks.vocab);
  return patch_parameters(model) + model.blocks.layers * block + head_parameters(model);
}

}  // namespace nestplan::model
