#pragma once

#include "cost/profile_draft.hpp"
#include "cost/profile_kernels.hpp"
#include "nestplan/cost/operators.hpp"

namespace nestplan::cost {

/// softmax(Q·Kᵀ)·V with the heads of one tensor-parallel device, before context parallelism.
struct AttentionCore {
  double tokens = 0;   ///< queries of one sequence
  double keys = 0;     ///< of one sequence
  double pairs = 0;    ///< (query, key) pairs of one sequence that the mask admits
  double windows = 1;  ///< that an unmasked sequence is cut into
  double heads = 0;
  double kv_heads = 0;
  double key_dim = 0;  ///< of a head's queries and keys
  double value_dim = 0;
};

/// Draws `core` as the operator `op`: its time, the collectives of context parallelism, and what it
/// keeps, which is Q, K, V and the log-sum-exp of the rows, or the scores if attention is not
/// fused.
///
/// Every context-parallel device has tokens/cp of the queries, and keys/cp of keys and values.
///
/// - Ring (Liu et al., arXiv 2310.01889): in cp steps every device attends to the keys and values
/// of
///   one other, pairs/cp² each. These come by as cheaply as if they were gathered (each device
///   sends cp - 1 of cp blocks), forward, and once more backward; their gradients go round as well,
///   which is a reduce_scatter.
/// - All-to-all (Jacobs et al., DeepSpeed-Ulysses, arXiv 2309.14509): Q, K and V are traded for
///   those of heads/cp heads of whole sequences, and the output back; backward mirrors both. Keys
///   and values of fewer heads than cp are repeated. What is kept is of the same size, but for
///   those copies and for the output, which is kept on both sides of the exchange.
///
/// Windows that the devices divide evenly lie within one device, which then needs no others.
///
/// The scores that are kept without fusion are those of Korthikanti et al., arXiv 2205.05198,
/// section 4.1: of all pairs the softmax and, with dropout, its mask of one byte and its output.
/// Selective recomputation drops them and runs the whole core again.
void draw_attention_core(const AttentionCore& core, const Share& share, const CostModel& costs,
                         Draft& draft, Op op);

}  // namespace nestplan::cost
