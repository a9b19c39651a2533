#pragma once

#include <string>
#include <vector>

#include "facts/readings.hpp"

/// What the sources of several tables have in common: recipes that differ from the usual one, each
/// for a whole source or framework.
namespace nestplan::facts {

/// fp16 weights and gradients; fp32 weights, gradients and two moments in shards (DeepSpeed,
/// deepspeed/runtime/zero/stage_1_and_2.py).
inline constexpr model::StateBytes kDeepSpeedFp16{2, 2, 16};
/// The same with gradients in bf16 that are summed up in fp32, both whole (bigscience-workshop/
/// bigscience, chronicles-prequel.md: "4bytes x params and it's not sharded across gpus").
inline constexpr model::StateBytes kDeepSpeedBf16{2, 6, 12};
/// fp32 weights, gradients and moments in shards; of the weights two bytes are gathered.
inline constexpr model::StateBytes kFullyShardedFp32{2, 4, 10};
/// Gradients stay in bf16: the log of NVIDIA/dgxc-benchmarking, llama3.1/README.md, has 5.5 bytes
/// per parameter between steps on eight devices, 2 + 2 + 12/8.
inline constexpr model::StateBytes kPerformanceRecipe{2, 2, 12};

/// Cross entropy of PyTorch on logits that were cast to fp32: the logits in 16 bits while it runs
/// forward; their logarithmic softmax, its gradient and that of the logits in fp32 backward.
inline constexpr double kEagerLossBytes = 12;
/// Loss and gradient in one kernel that leaves the gradient where the logits were, in 16 bits.
inline constexpr double kFusedLossBytes = 2;

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Reading left_out(std::string why);

/// Degrees, batch, recomputation and sequence of a row, which all tables call the same.
Run run_of(const Row& row, model::Architecture architecture);

/// A model of the GPT family: scores of attention written out or not is up to the run.
model::Architecture gpt_architecture(const Row& row, std::int64_t vocabulary);

/// A run of Megatron-DeepSpeed by BigScience.
Run bigscience_run(const Row& row);

/// The model that a source calls `model`, as models.json calls it.
std::string catalogue_name(const std::string& model);

}  // namespace nestplan::facts
