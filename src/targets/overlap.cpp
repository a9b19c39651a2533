#include "nestplan/targets/overlap.hpp"

namespace nestplan::targets {
namespace {

using model::Overlap;

// tp_comm_overlap, which splits collectives of tensor parallelism, is off unless asked for, as is
// the overlap of all-to-all of experts.
constexpr HiddenByDefault kMegatron[] = {
    {&Overlap::context, 1, "the ring of cp_comm_type p2p, the default",
     "NVIDIA/TransformerEngine "
     "transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py; "
     "NVIDIA/Megatron-LM docs/api-guide/context_parallel.md"},
    {&Overlap::sync, 1,
     "overlap_grad_reduce and overlap_param_gather, off by default and on in published recipes",
     "NVIDIA/Megatron-LM megatron/core/distributed/distributed_data_parallel_config.py"},
    {&Overlap::pipeline, 1, "overlap_p2p_comm, the default with interleaving",
     "NVIDIA/Megatron-LM megatron/training/arguments.py (--no-overlap-p2p-communication)"},
};

// Half of the traffic of shards shows in published runs of fully sharded models by PyTorch
// (tests/facts/throughput_runs.cpp): the first and the last part of a step have nothing to hide
// behind, and collectives take multiprocessors from what they run beside. There are none by
// DeepSpeed, to which the same reasons apply.
constexpr double kOfShards = 0.5;

constexpr HiddenByDefault kDeepSpeed[] = {
    {&Overlap::shards, kOfShards,
     "overlap_comm, the default of ZeRO stage 3; stage 2 has to ask for it",
     "deepspeedai/DeepSpeed deepspeed/runtime/zero/config.py (overlap_comm_valid)"},
};

// Async tensor parallelism is off unless asked for.
constexpr HiddenByDefault kTorchtitan[] = {
    {&Overlap::shards, kOfShards, "implicit prefetching of fully_shard",
     "pytorch/pytorch docs/source/distributed.fsdp.fully_shard.md; pytorch/torchtitan "
     "docs/fsdp.md"},
    {&Overlap::sync, 1, "reductions of fully_shard and of replicated copies on their own stream",
     "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py"},
};

}  // namespace

std::span<const HiddenByDefault> hidden_by_default(std::string_view target) {
  if (target == "megatron") return kMegatron;
  if (target == "deepspeed") return kDeepSpeed;
  if (target == "torchtitan") return kTorchtitan;
  return {};
}

Overlap default_overlap(std::string_view target) {
  Overlap overlap;
  for (const HiddenByDefault& hidden : hidden_by_default(target)) {
    overlap.*hidden.share = hidden.value;
  }
  return overlap;
}

}  // namespace nestplan::targets
