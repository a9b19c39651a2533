#pragma once

#include <cstdint>
#include <string>

#include "cost/profile_degrees.hpp"
#include "cost/profile_draft.hpp"
#include "cost/profile_transformer.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/model/model.hpp"

namespace nestplan::cost {

/// One strategy column of a graph in the making.
struct Drawing {
  Draft& draft;
  const CostModel& costs;
  const ProfileOptions& options;
  Degrees degrees;
};

/// The blocks of a stack, `layer.0` … behind `prefix`. Of a block that is divided, its first part
/// counts for all.
Tensor draw_blocks(Transformer& transformer, const model::Architecture& stack,
                   const std::string& prefix, Tensor state, const Drawing& drawing,
                   const Transformer::Memory* memory = nullptr);

/// `embedding`, `layer.0` … `layer.L-1`, `mtp.0` … if there are modules of multi-token prediction,
/// `head`.
void draw(const model::Architecture& model, const Drawing& drawing);

/// `encoder.embedding`, `encoder.layer.i`, `encoder.norm`, which every `decoder.layer.i` reads
/// beside the layer before it; `decoder.embedding`; `head`.
void draw(const model::EncoderDecoder& model, const Drawing& drawing);

/// For every tower T `T.embedding`, `T.layer.i`, `T.projector`, which `embedding` reads;
/// `embedding`, `layer.i`, `head`.
void draw(const model::Multimodal& model, const Drawing& drawing);

/// `embedding`, `layer.0` … `layer.L-1`, `head`.
void draw(const model::DiffusionTransformer& model, const Drawing& drawing);

/// `conditioning`, and the steps of model::unet_layers.
void draw(const model::UNet& model, const Drawing& drawing);

}  // namespace nestplan::cost
