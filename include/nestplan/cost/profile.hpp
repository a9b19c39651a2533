#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/cost/operators.hpp"
#include "nestplan/model/architecture.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::cost {

/// What a model is to be profiled for.
struct ProfileOptions {
  std::int64_t sequence = 0;  ///< tokens per sequence, ≥ 1
  std::vector<std::int64_t> tp{1, 2, 4, 8};
  std::vector<std::int64_t> micro_batches{1};
  std::string precision = "bf16";
  bool sequence_parallel = true;  ///< with tp > 1
  /// The vocabulary is padded to a multiple of this times tp, as Megatron-LM does.
  std::int64_t vocabulary_multiple = 128;
};

/// A tensor-parallel degree that was asked for but does not fit the model.
struct DroppedDegree {
  std::int64_t tp = 1;
  std::string reason;
};

/// Why `architecture` cannot be split `tp` ways; empty if it can. `tp` must divide the attention
/// heads, the key-value heads, the MLP width, the hidden size and, with sequence parallelism, the
/// sequence.
std::string tensor_parallel_obstacle(const model::Architecture& architecture,
                                     const ProfileOptions& options, std::int64_t tp);

/// The model as a chain `embedding`, `layer.0` … `layer.L-1`, `head`, with one strategy column per
/// legal (tp, micro-batch), named "tp8-mb2"; degrees ascending. Degrees that do not fit are
/// appended to `dropped`, if given.
///
/// Times are sums over operators. Splitting and collectives are those of tensor and sequence
/// parallelism in Megatron-LM (Korthikanti et al., arXiv 2205.05198): per block one all_gather in
/// front of attention and MLP and one reduce_scatter behind each; backward mirrors them and gathers
/// the saved, sharded inputs once more for the weight gradients. All are counted in full, none is
/// overlapped with compute. Without sequence parallelism they are all_reduces.
///
/// Parameters are exact. A tied output layer counts as parameters of its own, since the first and
/// the last stage each hold a copy of the token table (a one-stage pipeline could share it).
///
/// Activations are those of fused attention, 16 bits wide (32 for fp32 and tf32); the table is in
/// profile.cpp. The head keeps six bytes per logit: softmax in fp32 and logits or gradient in 16
/// bits. With full recomputation a block keeps its input, which sequence parallelism leaves
/// sharded. Edges carry the hidden state, sharded likewise.
///
/// `tokens_per_sample` is the sequence. `model_flops_per_sample` is three times the forward matrix
/// products with weights and output layer, and the attention core over the pairs that the mask
/// admits (half of them for a causal one); unpadded vocabulary, no recomputation.
///
/// Throws InvalidConfig for non-positive options, an unknown precision, a sequence longer than
/// learned positions, or if no degree is left.
model::Graph build_graph(const model::Architecture& architecture, const CostModel& costs,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// The same with the analytical model of `device` at `options.precision`.
model::Graph build_graph(const model::Architecture& architecture, const model::Device& device,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// FLOPs of training on one sequence, as in Graph::model_flops_per_sample.
double model_flops_per_sample(const model::Architecture& architecture, std::int64_t sequence);

}  // namespace nestplan::cost
