#pragma once

#include "nestplan/cost/memory.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::cost {

/// Bytes of device memory that a stage's gradients and optimizer state move once per iteration,
/// beside its passes, in training by Adam with mixed precision (Rajbhandari et al., ZeRO, arXiv
/// 1910.02054, section 3.1: master weights and two moments).
///
/// A parameter's gradient is read for the norm of all gradients and again for the step, its state
/// is read and written, its weight is written: `2g + 2o + w` bytes, of the device's own shard from
/// ZeRO 1 on. Setting gradients to zero writes `g` for each that the device holds, a shard of them
/// from ZeRO 2 on (`get_grad_norm_fp32` in megatron/core/optimizer/clip_grads.py,
/// `zero_grad_buffer` in megatron/core/distributed/distributed_data_parallel.py, both of
/// NVIDIA/Megatron-LM, and its fused Adam, which touches everything once).
double update_bytes(const StageFootprint& stage, int zero, const model::StateBytes& per_parameter,
                    const ShardGroups& groups);

/// How fast a device of `costs` moves them, in one kernel each for the norm, the step and the zeros
/// (`multi_tensor_apply` of NVIDIA/apex takes all tensors in one).
model::UpdateRate update_rate(const CostModel& costs);

}  // namespace nestplan::cost
