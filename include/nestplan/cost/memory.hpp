#pragma once

#include <cstdint>

#include "nestplan/model/plan.hpp"

namespace nestplan::cost {

/// What a stage's memory depends on: sums and maxima over its layers, per device.
struct StageFootprint {
  double parameters = 0;          ///< Σ dense parameters
  double expert_parameters = 0;   ///< Σ expert parameters
  double largest_layer = 0;       ///< max (dense + expert parameters) of one layer
  double activation_bytes = 0;    ///< Σ activations of one micro-batch
  double checkpoint_bytes = 0;    ///< Σ checkpoints of one micro-batch
  double largest_activation = 0;  ///< max activations of one layer
};

/// Sizes of the groups that shard a stage's state.
struct ShardGroups {
  std::int64_t dense = 1;   ///< G = dp·cp
  std::int64_t expert = 1;  ///< G / ep
};

/// Bytes of weights, gradients and optimizer state per device, rounded up to whole bytes
/// (Rajbhandari et al., ZeRO, arXiv 1910.02054, with the gathered largest layer for stage 3).
double state_bytes(const StageFootprint& stage, int zero, const model::StateBytes& per_parameter,
                   const ShardGroups& groups);

/// Bytes of activations with `in_flight` micro-batches, rounded up to whole bytes.
double activation_bytes(const StageFootprint& stage, model::Recompute recompute,
                        std::int64_t in_flight);

/// Micro-batches in flight on the stage that is the `place`-th from the end (1: the last).
std::int64_t in_flight(model::Schedule schedule, std::int64_t place, std::int64_t microbatches);

}  // namespace nestplan::cost
