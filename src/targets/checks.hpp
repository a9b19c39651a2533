#pragma once

#include <cstdint>
#include <string>

#include "nestplan/targets/targets.hpp"

/// Checks that several frameworks make. Each framework lists the ones it makes, with its source.
namespace nestplan::targets {

template <typename... Number>
bool known(Number... numbers) {
  return ((numbers != 0) && ...);
}

/// The nearest numbers below and above `value`, from 1 to `most`, that are `legal`: "4 or 13".
template <typename Legal>
std::string nearest(std::int64_t value, std::int64_t most, Legal legal) {
  std::int64_t below = value - 1;
  while (below >= 1 && !legal(below)) --below;
  std::int64_t above = value + 1;
  while (above <= most && !legal(above)) ++above;
  if (below >= 1 && above <= most) return std::to_string(below) + " or " + std::to_string(above);
  if (below >= 1) return std::to_string(below);
  return above <= most ? std::to_string(above) : "none";
}

/// Whether a strategy is asked about, not a model alone.
inline bool has_strategy(const Candidate& c) { return c.tp != 0; }

inline bool has_experts(const Candidate& c) { return c.model.experts > 0; }

std::string nearest_divisor(std::int64_t value, std::int64_t number);
std::string nearest_multiple(std::int64_t value, std::int64_t divisor);

/// Data-parallel copies: what is said, or what the devices leave; 0 if neither is known.
std::int64_t copies(const Candidate& c);

/// Ranks of the job: those that the degrees use, or all devices; 0 if neither is known.
std::int64_t world(const Candidate& c);

// of a strategy
extern const Check kHeads;             ///< heads over tp
extern const Check kKvHeads;           ///< KV heads over tp, without replication
extern const Check kReplicatedKv;      ///< KV heads over tp; or tp over KV heads
extern const Check kFfn;               ///< width of dense MLPs over tp
extern const Check kExperts;           ///< experts over EP
extern const Check kExpertsExist;      ///< EP > 1 only with experts
extern const Check kDoubledContext;    ///< sequence in 2·cp parts
extern const Check kSequenceParallel;  ///< sequence over cp, and that over tp
extern const Check kFp8Sequence;       ///< tokens of a rank in multiples of 16, of 32 in mxfp8
extern const Check kFp8Widths;         ///< columns of a rank likewise
extern const Check kTradedHeads;       ///< heads over tp·cp; KV heads likewise, or replicated
extern const Check kNoFp16;            ///< another precision than fp16
extern const Check kNoFp8;             ///< another precision than fp8 and mxfp8
extern const Check kNoPredictions;     ///< no modules of multi-token prediction

// of a configuration
extern const Check kBatch;  ///< global batch in whole micro-batches on every copy

// of a pipeline
extern const Check kWorld;             ///< devices over tp·cp·pp
extern const Check kChunksNeedStages;  ///< interleaving only with several stages
extern const Check kOnly1F1B;          ///< no GPipe
extern const Check kEvenLayers;        ///< with the even layout: layers over pp·vpp
extern const Check kChain;             ///< pipelines only of layers in a row
extern const Check kOneStrategy;       ///< the same degrees in all stages

// of a stage
extern const Check kOneRecompute;  ///< the same recomputation in all stages
extern const Check kOneZero;       ///< the same ZeRO in all stages
extern const Check kPipelineZero;  ///< ZeRO 2 and 3 only with a single stage

}  // namespace nestplan::targets
