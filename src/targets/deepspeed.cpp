#include <fmt/format.h>

#include <algorithm>

#include "targets/checks.hpp"
#include "targets/collector.hpp"
#include "targets/frameworks.hpp"

namespace nestplan::targets {
namespace {

constexpr const char* kPipeEngine = "deepspeedai/DeepSpeed deepspeed/runtime/pipe/engine.py";
constexpr const char* kPipeModule = "deepspeedai/DeepSpeed deepspeed/runtime/pipe/module.py";
constexpr const char* kPipeSchedule = "deepspeedai/DeepSpeed deepspeed/runtime/pipe/schedule.py";
constexpr const char* kEngine = "deepspeedai/DeepSpeed deepspeed/runtime/engine.py";
constexpr const char* kUlysses = "deepspeedai/DeepSpeed deepspeed/sequence/layer.py";
constexpr const char* kGroups = "deepspeedai/DeepSpeed deepspeed/utils/groups.py";
constexpr const char* kMoe = "deepspeedai/DeepSpeed deepspeed/moe/layer.py";
constexpr const char* kMics = "deepspeedai/DeepSpeed deepspeed/runtime/zero/mics.py";
constexpr const char* kParallelState =
    "deepspeedai/Megatron-DeepSpeed megatron/core/parallel_state.py";
constexpr const char* kTransformer = "deepspeedai/Megatron-DeepSpeed megatron/model/transformer.py";

/// Models that neither Megatron-DeepSpeed has nor DeepSpeed splits by itself: a program of their
/// own trains them, of which DeepSpeed shards the state.
bool has_own_program(const Candidate& c) {
  switch (c.model.kind) {
    case model::ModelKind::kOther:
    case model::ModelKind::kDecoder:
    case model::ModelKind::kEncoder:
      return false;
    case model::ModelKind::kEncoderDecoder:
    case model::ModelKind::kMultimodal:
    case model::ModelKind::kUNet:
    case model::ModelKind::kDiffusionTransformer:
      return true;
  }
  return false;
}

/// Encoder-decoders of Hugging Face, which DeepSpeed does split, but not their sequence.
bool is_split_automatically(const Candidate& c) {
  return c.model.kind == model::ModelKind::kEncoderDecoder && c.sequence_parallel != true;
}

constexpr Check kOwnPrograms{
    [](const Candidate& c) {
      return has_own_program(c) &&
             ((c.tp > 1 && !is_split_automatically(c)) || c.cp > 1 || c.ep > 1);
    },
    [](const Candidate& c) {
      const bool pair = c.model.kind == model::ModelKind::kEncoderDecoder;
      return fmt::format(
          "{} with tp {} · cp {} · EP {}, but Megatron-DeepSpeed trains decoders and encoders; "
          "nearest: {}dp alone, which DeepSpeed runs for a program of the model's own",
          with_article(c.model.kind), c.tp, std::max<std::int64_t>(1, c.cp),
          std::max<std::int64_t>(1, c.ep), pair ? "tp without sequence parallelism, or " : "");
    }};

constexpr Check kOwnPipelines{[](const Candidate& c) { return has_own_program(c) && c.pp > 1; },
                              [](const Candidate& c) {
                                return fmt::format("{} over pp {}; nearest: pp 1",
                                                   with_article(c.model.kind), c.pp);
                              }};

constexpr Check kAutomaticZero{
    [](const Candidate& c) { return has_own_program(c) && c.tp > 1 && c.zero == 3; },
    [](const Candidate& c) {
      return fmt::format("ZeRO 3 with tp {} of {}; nearest: ZeRO 2, or tp 1", c.tp,
                         with_article(c.model.kind));
    }};

constexpr Check kUlyssesAlone{[](const Candidate& c) { return c.cp > 1 && c.tp > 1; },
                              [](const Candidate& c) {
                                return fmt::format("cp {} with tp {}; nearest: cp 1, or tp 1", c.cp,
                                                   c.tp);
                              }};

constexpr Check kUlyssesPipeline{[](const Candidate& c) { return c.cp > 1 && c.pp > 1; },
                                 [](const Candidate& c) {
                                   return fmt::format("cp {} with pp {}; nearest: cp 1, or pp 1",
                                                      c.cp, c.pp);
                                 }};

/// DeepSpeed's own Ulysses, for models of Hugging Face, has grouped KV heads
/// (deepspeed/runtime/sequence_parallel/ulysses_sp.py), but EP is Megatron-DeepSpeed's.
constexpr Check kUlyssesExperts{
    [](const Candidate& c) {
      return c.cp > 1 && c.ep > 1 && known(c.model.heads, c.model.kv_heads) &&
             c.model.heads != c.model.kv_heads;
    },
    [](const Candidate& c) {
      return fmt::format("EP {} and cp {} with {} KV heads for {} heads; nearest: EP 1, or cp 1",
                         c.ep, c.cp, c.model.kv_heads, c.model.heads);
    }};

constexpr Check kNoRing{
    [](const Candidate& c) { return c.cp > 1 && c.context == model::ContextForm::kRing; },
    [](const Candidate& c) { return fmt::format("cp {} as a ring; nearest: all_to_all", c.cp); }};

constexpr Check kSequenceParts{
    [](const Candidate& c) {
      return known(c.model.sequence, c.cp) && c.model.sequence % c.cp != 0;
    },
    [](const Candidate& c) {
      return fmt::format("sequence {} over cp {}; nearest: sequence {}", c.model.sequence, c.cp,
                         nearest_multiple(c.model.sequence, c.cp));
    }};

constexpr Check kExpertTensor{
    [](const Candidate& c) { return has_experts(c) && known(c.tp, c.etp) && c.etp != c.tp; },
    [](const Candidate& c) {
      return fmt::format("ETP {} with tp {}; nearest: ETP {}", c.etp, c.tp, c.tp);
    }};

constexpr Check kExpertGroup{
    [](const Candidate& c) {
      return has_experts(c) && known(c.ep, c.dp, c.cp) && c.dp * c.cp % c.ep != 0;
    },
    [](const Candidate& c) {
      return fmt::format("EP {} in dp {} · cp {} = {} ranks; nearest: EP {}", c.ep, c.dp, c.cp,
                         c.dp * c.cp, nearest_divisor(c.ep, c.dp * c.cp));
    }};

constexpr Check kExpertPipeline{[](const Candidate& c) { return has_experts(c) && c.pp > 1; },
                                [](const Candidate& c) {
                                  return fmt::format("{} experts with pp {}; nearest: pp 1",
                                                     c.model.experts, c.pp);
                                }};

constexpr Check kEvenStages{
    [](const Candidate& c) {
      return c.pp > 1 && c.layout && *c.layout != model::StageConstraints::Layout::kEven;
    },
    [](const Candidate& c) {
      return fmt::format(
          "stages of different numbers of layers over pp {}; nearest: as many in all, "
          "--stage-layers even",
          c.pp);
    }};

constexpr Check kNoInterleaving{
    [](const Candidate& c) { return c.vpp > 1; },
    [](const Candidate& c) { return fmt::format("vpp {}; nearest: vpp 1", c.vpp); }};

constexpr Check kExpertZero{[](const Candidate& c) { return has_experts(c) && c.zero == 3; },
                            [](const Candidate& c) {
                              return fmt::format("ZeRO 3 with {} experts; nearest: ZeRO 2",
                                                 c.model.experts);
                            }};

/// With a single pod, the pod's devices are all.
constexpr Check kPodShards{
    [](const Candidate& c) {
      return c.shard == model::ShardSpan::kPod && (c.zero == 1 || c.zero == 2) &&
             known(c.dp, c.dp_inner) && c.dp != c.dp_inner;
    },
    [](const Candidate& c) {
      return fmt::format(
          "ZeRO {} with shards inside pods (dp-inner {} of dp {}); nearest: ZeRO 3, "
          "or shards over all copies",
          *c.zero, c.dp_inner, c.dp);
    }};

const Rule kRules[] = {
    {kOwnPrograms, "model", Scope::kStrategy,
     "Decoders and encoders are split; of encoder-decoders tp splits weights, of others nothing.",
     "deepspeedai/Megatron-DeepSpeed pretrain_gpt.py, pretrain_bert.py; "
     "deepspeed.ai/tutorials/autotp-training"},
    {kNoPredictions, "predictions", Scope::kStrategy,
     "The model has no modules of multi-token prediction (--no-mtp leaves them out).",
     "deepspeedai/Megatron-DeepSpeed megatron/model/gpt_model.py"},
    {kNoFp8, "precision", Scope::kStrategy, "Training is not in fp8 or mxfp8.",
     "deepspeed.ai/docs/config-json (fp16, bf16)"},
    {kHeads, "heads", Scope::kStrategy, "Attention heads split evenly over tp.",
     "deepspeedai/DeepSpeed issue 3634"},
    {kKvHeads, "kv-heads", Scope::kStrategy, "KV heads split evenly over tp.", kTransformer},
    {kFfn, "ffn", Scope::kStrategy, "The width of dense MLPs splits evenly over tp.", kTransformer},
    {kExpertsExist, "expert-model", Scope::kStrategy, "EP above 1 needs a model with experts.",
     kMoe},
    {kExperts, "experts", Scope::kStrategy, "Experts split evenly over EP.", kMoe},
    {kExpertTensor, "expert-tensor", Scope::kStrategy,
     "Experts are split by tp like the rest; otherwise tp ranks hold copies.", kMoe},
    {kNoRing, "context-form", Scope::kStrategy,
     "Sequences are split by trading heads for tokens (Ulysses), not by a ring.", kUlysses},
    {kTradedHeads, "context-heads", Scope::kStrategy,
     "Heads split evenly over tp·cp; KV heads of a tp rank over cp, or cp over them.", kUlysses},
    {kUlyssesAlone, "ulysses-alone", Scope::kStrategy, "cp above 1 needs tp 1.", kParallelState},
    {kUlyssesExperts, "ulysses-experts", Scope::kStrategy,
     "With cp and EP above 1 there are as many KV heads as heads.",
     "deepspeedai/Megatron-DeepSpeed megatron/model/transformer.py (assert self.projection_size == "
     "self.kv_projection_size)"},
    {kSequenceParts, "context", Scope::kStrategy, "The sequence splits evenly over cp.", kUlysses},
    {kSequenceParallel, "sequence", Scope::kStrategy,
     "With sequence parallelism the sequence splits evenly over cp and tp.", kTransformer},

    {kBatch, "batch", Scope::kConfiguration,
     "The global batch is micro-batch · accumulation steps · dp exactly.",
     "deepspeedai/DeepSpeed deepspeed/runtime/config.py"},
    {kExpertGroup, "expert-ranks", Scope::kConfiguration, "EP divides dp·cp.", kGroups},

    {kWorld, "world", Scope::kPipeline, "tp·cp·pp divides the devices of the job.",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/topology.py"},
    {kOneStrategy, "one-strategy", Scope::kPipeline, "All stages have the same degrees.",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/topology.py"},
    {kChain, "chain", Scope::kPipeline, "Pipeline stages are cut from layers in a row.",
     kPipeModule},
    {kExpertPipeline, "expert-pipeline", Scope::kPipeline, "Experts need pp 1.",
     "deepspeedai/Megatron-DeepSpeed examples_deepspeed/MoE (\"Currently we don't support PP for "
     "MoE\")"},
    {kUlyssesPipeline, "ulysses-pipeline", Scope::kPipeline, "cp above 1 needs pp 1.",
     kParallelState},
    {kOwnPipelines, "model-pipeline", Scope::kPipeline, "Pipelines are of decoders and encoders.",
     kPipeModule},
    {kOnly1F1B, "schedule", Scope::kPipeline, "Pipelines run 1F1B.", kPipeSchedule},
    {kNoInterleaving, "interleaving", Scope::kPipeline, "A device holds one chunk of layers.",
     kPipeSchedule},
    {kEvenStages, "even-stages", Scope::kPipeline, "All stages hold as many layers.",
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/module.py (type:transformer)"},
    {kEvenLayers, "layers", Scope::kPipeline,
     "With the even layout the layers split evenly over pp.", kPipeModule},

    {kPipelineZero, "zero-stages", Scope::kStage, "ZeRO 2 and 3 need pp 1.", kPipeEngine},
    {kAutomaticZero, "model-zero", Scope::kStage,
     "What DeepSpeed splits by itself trains under ZeRO 0 to 2.",
     "deepspeed.ai/tutorials/autotp-training"},
    {kExpertZero, "expert-zero", Scope::kStage, "Experts do not train under ZeRO 3.", kEngine},
    {kPodShards, "pod-shards", Scope::kStage,
     "Shards inside pods need ZeRO 3 (MiCS); others span all copies.", kMics},
    {kOneZero, "one-zero", Scope::kStage, "All stages have the same ZeRO stage.", kEngine},
    {kOneRecompute, "one-recompute", Scope::kStage, "All stages recompute alike.", kPipeModule},
};

const Layout kLayouts[] = {
    {model::StageConstraints::Layout::kEven, "partition_method type:… or uniform", kPipeModule},
};

void add_batch(const Candidate& c, Collector& out) {
  const std::int64_t dp = copies(c);
  if (!known(c.global_batch, c.micro_batch, dp)) return;
  const std::int64_t step = c.micro_batch * dp;
  if (c.global_batch % step != 0) return;
  const std::string why =
      fmt::format("{} = {} · {} · dp {}", c.global_batch, c.micro_batch, c.global_batch / step, dp);
  out.add("train_batch_size", c.global_batch, why);
  out.add("train_micro_batch_size_per_gpu", c.micro_batch, why);
  out.add("gradient_accumulation_steps", c.global_batch / step, why);
}

void add_zero(const Candidate& c, Collector& out) {
  if (!c.zero) return;
  out.add("zero_optimization.stage", *c.zero, fmt::format("ZeRO {}", *c.zero));
  if (c.pp == 1 && (*c.zero >= 2 || has_experts(c))) {
    out.add("no_pipeline_parallel", "true",
            "the pipeline engine refuses ZeRO 2 and 3, and experts, also with one stage: build the "
            "plain model");
  }
  if (c.zero == 3 && c.shard == model::ShardSpan::kPod && known(c.cp, c.dp, c.dp_inner) &&
      c.dp != c.dp_inner) {
    out.add("zero_optimization.mics_shard_size", c.cp * c.dp_inner, "shards inside pods");
  }
}

std::vector<Setting> settings(const Candidate& c) {
  Collector out;
  if (c.cp > 1) out.add("ds_sequence_parallel_size", c.cp, "Ulysses");
  if (has_experts(c) && c.tp > 1) {
    out.add("enable_expert_tensor_parallelism", "true", "experts are split by tp like the rest");
  }
  add_batch(c, out);
  add_zero(c, out);
  return out.take();
}

}  // namespace

const RuleSet& deepspeed() {
  static const RuleSet set("deepspeed", "DeepSpeed, master branch of 2026, with Megatron-DeepSpeed",
                           kRules, kLayouts, settings);
  return set;
}

}  // namespace nestplan::targets
