#pragma once

#include <cstdint>

#include "nestplan/model/plan.hpp"

namespace nestplan::cost {

/// What a stage's memory depends on: sums and maxima over its layers, per device.
struct StageFootprint {
  double parameters = 0;         ///< Σ dense parameters, those of ties once
  double expert_parameters = 0;  ///< Σ expert parameters
  double largest_layer = 0;      ///< max (dense + expert parameters) of one layer

  double activation_bytes = 0;  ///< Σ activations of one micro-batch
  double selective_bytes = 0;   ///< Σ of what selective recomputation keeps of them
  double checkpoint_bytes = 0;  ///< Σ of what full recomputation keeps
  // What one layer needs besides what is kept, at most, by kind of recomputation.
  double largest_working = 0;     ///< max working bytes
  double largest_selective = 0;   ///< max (activations - selectively kept + working bytes)
  double largest_activation = 0;  ///< max (activations + working bytes)

  /// Kept of one micro-batch.
  double kept(model::Recompute recompute) const {
    switch (recompute) {
      case model::Recompute::kNone:
        return activation_bytes;
      case model::Recompute::kSelective:
        return selective_bytes;
      case model::Recompute::kFull:
        return checkpoint_bytes;
    }
    return activation_bytes;
  }
  /// Needed once, beside what is kept.
  double extra(model::Recompute recompute) const {
    switch (recompute) {
      case model::Recompute::kNone:
        return largest_working;
      case model::Recompute::kSelective:
        return largest_selective;
      case model::Recompute::kFull:
        return largest_activation;
    }
    return largest_working;
  }
};

/// Sizes of the groups that shard a stage's state.
struct ShardGroups {
  std::int64_t dense = 1;   ///< G = dp·cp, or of one pod: dp_inner·cp
  std::int64_t expert = 1;  ///< G / ep, of one pod at least 1
};

/// The groups for a span of shards, of a strategy with these degrees.
ShardGroups shard_groups(model::ShardSpan span, std::int64_t dp, std::int64_t dp_inner,
                         std::int64_t cp, std::int64_t ep);

/// Bytes of weights, gradients and optimizer state per device, rounded up to whole bytes
/// (Rajbhandari et al., ZeRO, arXiv 1910.02054, with the gathered largest layer for stage 3).
double state_bytes(const StageFootprint& stage, int zero, const model::StateBytes& per_parameter,
                   const ShardGroups& groups);

/// Micro-batches in flight on a stage, as a number of chunks: activations of `chunks` of the `vpp`
/// chunks of a stage are kept, in the mean of its chunks.
struct InFlight {
  std::int64_t chunks = 1;
  std::int64_t vpp = 1;
};

/// Bytes of activations, rounded up to whole bytes.
double activation_bytes(const StageFootprint& stage, model::Recompute recompute,
                        const InFlight& in_flight);
inline double activation_bytes(const StageFootprint& stage, model::Recompute recompute,
                               std::int64_t in_flight) {
  return activation_bytes(stage, recompute, InFlight{in_flight, 1});
}

/// Micro-batches in flight on the stage that is the `place`-th from the end (1: the last).
std::int64_t in_flight(model::Schedule schedule, std::int64_t place, std::int64_t microbatches);

/// The same for interleaved 1F1B with `vpp` chunks a stage in a pipeline of `depth` stages: before
/// its first backward pass a stage runs 2·(place - 1) + (vpp - 1)·depth forward passes of chunks
/// and one more (Narayanan et al., arXiv 2104.04473, section 2.2; on the first stage 1 +
/// (p-1)/(p·v) times as much as without interleaving, Korthikanti et al., arXiv 2205.05198).
InFlight interleaved_in_flight(std::int64_t place, std::int64_t depth, std::int64_t vpp,
                               std::int64_t microbatches);

/// Kinds of groups that a stage communicates in: tensor, context, expert and data parallel, and
/// pipeline.
std::int64_t communicators(std::int64_t tp, std::int64_t cp, std::int64_t ep, std::int64_t dp,
                           bool pipeline);

/// Bytes that a plan may use of a device with `usable` bytes, whole.
double memory_limit(double usable, const model::MemoryReserve& reserve);

/// Bytes of context and communicators, whole.
double reserve_bytes(const model::MemoryReserve& reserve, std::int64_t communicators);

}  // namespace nestplan::cost
