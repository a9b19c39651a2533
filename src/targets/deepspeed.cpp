#include <fmt/format.h>

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
constexpr const char* kTransformer = "deepspeedai/Megatron-DeepSpeed megatron/model/transformer.py";

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
    {kOnly1F1B, "schedule", Scope::kPipeline, "Pipelines run 1F1B.", kPipeSchedule},
    {kNoInterleaving, "interleaving", Scope::kPipeline, "A device holds one chunk of layers.",
     kPipeSchedule},
    {kEvenLayers, "layers", Scope::kPipeline,
     "With the even layout the layers split evenly over pp.", kPipeModule},

    {kPipelineZero, "zero-stages", Scope::kStage, "ZeRO 2 and 3 need pp 1.", kPipeEngine},
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
  if (c.pp == 1 && *c.zero >= 2) {
    out.add("no_pipeline_parallel", "true",
            "the pipeline engine refuses ZeRO 2 and 3 also with one stage: build the plain model");
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
