#include <fmt/format.h>

#include <algorithm>

#include "targets/checks.hpp"
#include "targets/collector.hpp"
#include "targets/frameworks.hpp"

namespace nestplan::targets {
namespace {

constexpr const char* kDims = "pytorch/torchtitan torchtitan/distributed/parallel_dims.py";
constexpr const char* kDimsGuide = "pytorch/torchtitan torchtitan/distributed/PARALLEL_DIMS.md";
constexpr const char* kPipeline = "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py";
constexpr const char* kSchedules = "pytorch/pytorch torch/distributed/pipelining/schedules.py";
constexpr const char* kStage = "pytorch/pytorch torch/distributed/pipelining/stage.py";
constexpr const char* kParallelize =
    "pytorch/torchtitan torchtitan/models/llama3/infra/parallelize.py (DDP has not supported > 1D "
    "parallelism)";
constexpr const char* kHeadsSource = "pytorch/torchtitan pull request 2577";
constexpr const char* kRoutedExperts =
    "pytorch/torchtitan torchtitan/models/common/decoder.py (MoE models require "
    "expert_parallel_degree …), pull request 4794";
constexpr const char* kCheckpoint =
    "pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py";

/// Copies that a shard group of FSDP spans: the degree dp_shard; 0 if not known.
std::int64_t sharded_copies(const Candidate& c) {
  if (c.zero == 0) return 1;
  if (!c.zero || !c.shard) return 0;
  return c.shard == model::ShardSpan::kPod ? c.dp_inner : copies(c);
}

std::int64_t sequence_step(const Candidate& c) { return 2 * c.cp * c.tp; }

/// More copies of the weights than one: otherwise all ZeRO stages are the same.
bool has_copies(const Candidate& c) { return copies(c) > 1 || c.cp > 1; }

std::string outside(std::int64_t ep, std::int64_t dp, const Candidate& c, const char* dp_name) {
  const std::int64_t ranks = dp * c.cp * c.tp;
  return fmt::format("EP {} in {} {} · cp {} · tp {} = {} ranks; nearest: EP {}", ep, dp_name, dp,
                     c.cp, c.tp, ranks, nearest_divisor(ep, ranks));
}

std::int64_t batch_of_copy(const Candidate& c) {
  const std::int64_t dp = copies(c);
  return dp != 0 && c.global_batch % dp == 0 ? c.global_batch / dp : 0;
}

bool rounds_are_uneven(std::int64_t microbatches, std::int64_t pp) {
  return microbatches % std::max<std::int64_t>(1, microbatches / pp) != 0;
}

constexpr Check kDecoders{
    [](const Candidate& c) {
      return has_strategy(c) && c.model.kind != model::ModelKind::kOther &&
             c.model.kind != model::ModelKind::kDecoder;
    },
    [](const Candidate& c) {
      return fmt::format(
          "{}, but what these settings are for trains decoders; nearest: --target any",
          with_article(c.model.kind));
    }};

constexpr Check kSplitSequence{
    [](const Candidate& c) { return c.tp > 1 && c.sequence_parallel == false; },
    [](const Candidate& c) {
      return fmt::format("tp {} without sequence parallelism; nearest: with it", c.tp);
    }};

constexpr Check kNoTrade{
    [](const Candidate& c) { return c.cp > 1 && c.context == model::ContextForm::kAllToAll; },
    [](const Candidate& c) { return fmt::format("cp {} by trading heads; nearest: ring", c.cp); }};

constexpr Check kSequenceStep{
    [](const Candidate& c) {
      return known(c.model.sequence, c.cp, c.tp) && c.model.sequence % sequence_step(c) != 0;
    },
    [](const Candidate& c) {
      return fmt::format("sequence {} over 2 · cp {} · tp {} = {}; nearest: sequence {}",
                         c.model.sequence, c.cp, c.tp, sequence_step(c),
                         nearest_multiple(c.model.sequence, sequence_step(c)));
    }};

constexpr Check kExpertTensor{
    [](const Candidate& c) { return has_experts(c) && c.etp > 1; },
    [](const Candidate& c) { return fmt::format("ETP {}; nearest: ETP 1", c.etp); }};

constexpr Check kExpertDegree{
    [](const Candidate& c) { return has_experts(c) && known(c.ep, c.tp) && c.ep < c.tp; },
    [](const Candidate& c) {
      const auto legal = [&](std::int64_t ep) { return ep >= c.tp && c.model.experts % ep == 0; };
      return fmt::format("EP {} with tp {} for {} experts; nearest: EP {}", c.ep, c.tp,
                         c.model.experts, nearest(c.ep, c.model.experts, legal));
    }};

constexpr Check kExpertRanks{[](const Candidate& c) {
                               return c.ep > 1 && known(c.dp, c.cp, c.tp) &&
                                      c.dp * c.cp * c.tp % c.ep != 0;
                             },
                             [](const Candidate& c) { return outside(c.ep, c.dp, c, "dp"); }};

constexpr Check kExpertShards{
    [](const Candidate& c) {
      const std::int64_t shard = sharded_copies(c);
      return c.ep > 1 && known(shard, c.cp, c.tp) && shard * c.cp * c.tp % c.ep != 0;
    },
    [](const Candidate& c) { return outside(c.ep, sharded_copies(c), c, "dp_shard"); }};

constexpr Check kMicrobatches{
    [](const Candidate& c) {
      const std::int64_t batch = batch_of_copy(c);
      return c.pp > 1 && known(batch, c.microbatches) && batch % c.microbatches != 0;
    },
    [](const Candidate& c) {
      const std::int64_t batch = batch_of_copy(c);
      return fmt::format("local batch {} in {} micro-batches leaves {}; nearest: {} micro-batches",
                         batch, c.microbatches, batch % c.microbatches,
                         nearest_divisor(c.microbatches, batch));
    }};

constexpr Check kEnoughMicrobatches{
    [](const Candidate& c) {
      return c.pp > 1 && c.vpp <= 1 && c.schedule == model::Schedule::k1F1B &&
             c.microbatches != 0 && c.microbatches < c.pp;
    },
    [](const Candidate& c) {
      return fmt::format(
          "{} micro-batches for 1f1b over {} stages; nearest: {} micro-batches, or "
          "gpipe",
          c.microbatches, c.pp, c.pp);
    }};

constexpr Check kRounds{
    [](const Candidate& c) {
      return c.vpp > 1 && known(c.pp, c.microbatches) && rounds_are_uneven(c.microbatches, c.pp);
    },
    [](const Candidate& c) {
      const auto legal = [&](std::int64_t number) { return !rounds_are_uneven(number, c.pp); };
      return fmt::format("{} micro-batches in {} rounds over pp {}; nearest: {} micro-batches",
                         c.microbatches, c.microbatches / c.pp, c.pp,
                         nearest(c.microbatches, c.microbatches + c.pp, legal));
    }};

constexpr Check kGPipeChunks{
    [](const Candidate& c) { return c.vpp > 1 && c.schedule == model::Schedule::kGPipe; },
    [](const Candidate& c) {
      return fmt::format("gpipe with vpp {}; nearest: vpp 1, or 1f1b", c.vpp);
    }};

constexpr Check kTiedStages{
    [](const Candidate& c) { return c.pp > 1 && c.tied_embeddings == true; },
    [](const Candidate& c) {
      return fmt::format("tied embeddings with pp {}; nearest: pp 1", c.pp);
    }};

constexpr Check kZeroOfPipelines{
    [](const Candidate& c) { return c.pp > 1 && has_copies(c) && c.zero.value_or(0) >= 2; },
    [](const Candidate& c) {
      return fmt::format(
          "ZeRO {} with pp {}; nearest: ZeRO 1 (FSDP that gathers and reduces once "
          "per iteration), or pp 1",
          *c.zero, c.pp);
    }};

constexpr Check kZeroOfSingleStages{
    [](const Candidate& c) { return c.pp == 1 && has_copies(c) && c.zero == 1; },
    [](const Candidate& c) {
      return fmt::format(
          "ZeRO 1 with pp 1 and {} copies; nearest: ZeRO 2 (fsdp_reshard_after_forward "
          "never)",
          std::max(copies(c), c.cp));
    }};

constexpr Check kContextShards{[](const Candidate& c) { return c.cp > 1 && c.zero == 0; },
                               [](const Candidate& c) {
                                 return fmt::format(
                                     "ZeRO 0 with cp {}; nearest: ZeRO 1 or higher, or cp 1", c.cp);
                               }};

/// Copies without FSDP: nothing is sharded, neither over copies nor over cp.
bool is_unsharded(const Candidate& c) { return sharded_copies(c) == 1 && c.cp == 1; }

bool is_split(const Candidate& c) { return c.tp > 1 || c.pp > 1; }

constexpr Check kPlainCopies{
    [](const Candidate& c) { return is_unsharded(c) && is_split(c) && copies(c) > 1; },
    [](const Candidate& c) {
      return fmt::format("ZeRO 0 with {} copies of tp {} · pp {}; nearest: ZeRO {} (FSDP)",
                         copies(c), std::max<std::int64_t>(1, c.tp),
                         std::max<std::int64_t>(1, c.pp), c.pp > 1 ? "1" : "2");
    }};

constexpr Check kMixedPrecision{
    [](const Candidate& c) {
      const bool single = c.precision.empty() || c.precision == "fp32" || c.precision == "tf32";
      return !single && is_unsharded(c) && is_split(c) && copies(c) == 1;
    },
    [](const Candidate& c) {
      return fmt::format(
          "{} in one copy of tp {} · pp {} would run in fp32; nearest: dp 2 with "
          "ZeRO {}, or fp32",
          c.precision, std::max<std::int64_t>(1, c.tp), std::max<std::int64_t>(1, c.pp),
          c.pp > 1 ? "1" : "2");
    }};

constexpr Check kOwnSelection{
    [](const Candidate& c) { return c.recompute == model::Recompute::kSelective; },
    [](const Candidate&) {
      return std::string(
          "torchtitan's selective keeps the attention core and computes other operators again; "
          "nearest: none or full");
    }};

const Rule kRules[] = {
    {kDecoders, "model", Scope::kStrategy, "The model is a decoder.",
     "pytorch/torchtitan torchtitan/models"},
    {kNoPredictions, "predictions", Scope::kStrategy,
     "The model has no modules of multi-token prediction (--no-mtp leaves them out).",
     "pytorch/torchtitan torchtitan/models/deepseek_v3"},
    {kNoFp16, "precision", Scope::kStrategy, "Training is not in fp16.",
     "pytorch/torchtitan torchtitan/config/job_config.py"},
    {kSplitSequence, "sequence-parallel", Scope::kStrategy,
     "tp above 1 splits the sequence between its operators.",
     "pytorch/torchtitan torchtitan/models/llama3/infra/parallelize.py"},
    {kHeads, "heads", Scope::kStrategy, "Attention heads split evenly over tp.", kHeadsSource},
    {kKvHeads, "kv-heads", Scope::kStrategy, "KV heads split evenly over tp.", kHeadsSource},
    {kExpertsExist, "expert-model", Scope::kStrategy, "EP above 1 needs a model with experts.",
     "pytorch/torchtitan pull request 4258"},
    {kExperts, "experts", Scope::kStrategy, "Experts split evenly over EP.",
     "pytorch/torchtitan pull request 4258"},
    {kExpertDegree, "expert-degree", Scope::kStrategy, "With experts EP is at least tp.",
     kRoutedExperts},
    {kExpertTensor, "expert-tensor", Scope::kStrategy,
     "Experts are whole on a device: tp does not split them.",
     "pytorch/torchtitan pull request 3167, which removed expert_tensor_parallel_degree"},
    {kNoTrade, "context-form", Scope::kStrategy,
     "cp passes keys and values round; it does not trade heads for tokens.",
     "pytorch/pytorch torch/distributed/tensor/experimental/_attention.py"},
    {kSequenceStep, "sequence", Scope::kStrategy, "The sequence is a multiple of 2·cp·tp.",
     "pytorch/torchtitan torchtitan/distributed/parallel_dims.py (seq_len_divisor)"},
    {kFp8Sequence, "fp8-sequence", Scope::kStrategy,
     "In fp8 a cp rank has a multiple of 16 tokens of every sequence, in mxfp8 of 32.",
     "pytorch/ao torchao/float8/README.md"},
    {kFp8Widths, "fp8-widths", Scope::kStrategy,
     "In fp8 hidden size and the MLP width of a tp rank are multiples of 16, in mxfp8 of 32.",
     "pytorch/ao torchao/float8/README.md"},

    {kBatch, "batch", Scope::kConfiguration,
     "The global batch is a whole number of local batches on every copy.",
     "pytorch/torchtitan torchtitan/train.py"},
    {kExpertRanks, "expert-ranks", Scope::kConfiguration, "EP divides dp·cp·tp.", kDimsGuide},

    {kWorld, "world", Scope::kPipeline,
     "dp_replicate·dp_shard·cp·tp·pp is the number of devices of the job.", kDims},
    {kOneStrategy, "one-strategy", Scope::kPipeline, "All stages have the same degrees.", kDims},
    {kChain, "chain", Scope::kPipeline, "Pipeline stages are cut from layers in a row.", kPipeline},
    {kTiedStages, "tied-stages", Scope::kPipeline, "Tied embeddings need pp 1.",
     "pytorch/torchtitan pull request 2580"},
    {kMicrobatches, "microbatches", Scope::kPipeline,
     "The batch of a pipeline splits evenly into micro-batches.", kPipeline},
    {kEnoughMicrobatches, "microbatches-1f1b", Scope::kPipeline,
     "1F1B needs at least as many micro-batches as stages.", kSchedules},
    {kChunksNeedStages, "interleaving", Scope::kPipeline, "Interleaving needs several stages.",
     kPipeline},
    {kRounds, "interleaving-rounds", Scope::kPipeline,
     "Interleaved 1F1B runs equally many micro-batches in each of its ⌊m/pp⌋ rounds.", kSchedules},
    {kGPipeChunks, "interleaving-gpipe", Scope::kPipeline, "GPipe does not interleave.",
     kSchedules},
    {kEvenLayers, "layers", Scope::kPipeline,
     "With the even layout the layers split evenly over pp·vpp.", kPipeline},

    {kExpertShards, "expert-shards", Scope::kStage, "EP divides dp_shard·cp·tp.", kDimsGuide},
    {kZeroOfPipelines, "zero-stages", Scope::kStage,
     "Pipelines keep whole weights and gradients until the last micro-batch: ZeRO 0 or 1.", kStage},
    {kZeroOfSingleStages, "zero-single-stage", Scope::kStage,
     "Without a pipeline FSDP shards gradients too: ZeRO 0, 2 or 3.",
     "pytorch/torchtitan docs/fsdp.md"},
    {kContextShards, "zero-context", Scope::kStage,
     "cp ranks are among those that FSDP shards over: no ZeRO 0.", kDims},
    {kPlainCopies, "plain-copies", Scope::kStage,
     "Copies without FSDP (DDP, ZeRO 0) are single devices: tp 1 and pp 1.", kParallelize},
    {kMixedPrecision, "mixed-precision", Scope::kStage,
     "With tp or pp mixed precision is applied by FSDP alone, so it needs several copies.",
     "pytorch/torchtitan torchtitan/distributed/utils.py (maybe_enable_amp)"},
    {kOneZero, "one-zero", Scope::kStage, "All stages are sharded alike.", kDims},
    {kOneRecompute, "one-recompute", Scope::kStage, "All stages recompute alike.", kCheckpoint},
    {kOwnSelection, "selective", Scope::kStage,
     "Selective recomputation, of the attention core alone, is none of its modes.", kCheckpoint},
};

const Layout kLayouts[] = {
    {model::StageConstraints::Layout::kEven, "the default", kPipeline},
    {model::StageConstraints::Layout::kFirstLast, "module_fqns_per_model_part", kPipeline},
    {model::StageConstraints::Layout::kAny, "module_fqns_per_model_part", kPipeline},
};

void add_copies(const Candidate& c, Collector& out) {
  const std::int64_t shard = sharded_copies(c);
  const std::int64_t dp = copies(c);
  if (!known(shard, dp) || dp % shard != 0) return;
  out.add("parallelism.data_parallel_replicate_degree", dp / shard, "whole copies of the state");
  out.add("parallelism.data_parallel_shard_degree", shard, "copies that share a state");
  if (c.zero == 0 || shard * std::max<std::int64_t>(1, c.cp) == 1) return;
  out.add("parallelism.fsdp_reshard_after_forward", c.zero == 3 ? "always" : "never",
          fmt::format("ZeRO {}", *c.zero));
}

void add_pipeline(const Candidate& c, Collector& out) {
  if (c.pp <= 1 || !c.schedule) return;
  const bool gpipe = c.schedule == model::Schedule::kGPipe;
  out.add("parallelism.pipeline_parallel_schedule",
          gpipe       ? "GPipe"
          : c.vpp > 1 ? "Interleaved1F1B"
                      : "1F1B",
          "the schedule");
  out.add_known("parallelism.pipeline_parallel_microbatch_size", c.micro_batch, "the micro-batch");
}

std::vector<Setting> settings(const Candidate& c) {
  Collector out;
  if (has_experts(c)) {
    out.add_known("parallelism.expert_parallel_degree", c.ep, "ways that experts are split");
  }
  // the micro-batches of a pipeline are parts of a local batch; without one they are accumulated
  const std::int64_t local = c.pp > 1 ? batch_of_copy(c) : c.pp == 1 ? c.micro_batch : 0;
  out.add_known("training.local_batch_size", local, "sequences of a copy per step");
  out.add_known("training.global_batch_size", c.global_batch, "sequences per iteration");
  add_copies(c, out);
  add_pipeline(c, out);
  return out.take();
}

}  // namespace

const RuleSet& torchtitan() {
  static const RuleSet set("torchtitan", "torchtitan, main branch of 2026", kRules, kLayouts,
                           settings);
  return set;
}

}  // namespace nestplan::targets
