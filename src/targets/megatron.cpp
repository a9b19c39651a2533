#include <fmt/format.h>

#include <algorithm>

#include "nestplan/model/names.hpp"
#include "targets/checks.hpp"
#include "targets/collector.hpp"
#include "targets/frameworks.hpp"

namespace nestplan::targets {
namespace {

constexpr const char* kArguments = "NVIDIA/Megatron-LM megatron/training/arguments.py";
constexpr const char* kConfig =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py";
constexpr const char* kState = "NVIDIA/Megatron-LM megatron/core/parallel_state.py";
constexpr const char* kSchedules =
    "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py";
constexpr const char* kLayers = "NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py";
constexpr const char* kMappings = "NVIDIA/Megatron-LM megatron/core/tensor_parallel/mappings.py";
constexpr const char* kMoeLayer = "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py";
constexpr const char* kFp8Source =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/utils.py (assert_dim_for_fp8_exec)";
constexpr const char* kAttentionSource =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/attention (context parallel, a2a)";

constexpr std::int64_t kVocabularyMultiple = 128;  ///< of arguments.py, where nothing is set

/// Tensor parallelism inside experts, which is that of the rest where it is not set.
std::int64_t expert_tensor(const Candidate& c) { return c.etp != 0 ? c.etp : c.tp; }

/// Copies of an expert's shard in the whole job; 0 if not known or no whole number.
std::int64_t expert_copies(const Candidate& c) {
  if (!known(c.tp, c.cp, c.dp, c.ep)) return 0;
  const std::int64_t ranks = c.tp * c.cp * c.dp;
  const std::int64_t shards = c.ep * expert_tensor(c);
  return ranks % shards == 0 ? ranks / shards : 0;
}

std::int64_t optimizer_instances(const Candidate& c) {
  const bool partial = c.shard == model::ShardSpan::kPod && known(c.dp, c.dp_inner);
  return partial ? c.dp / c.dp_inner : 1;
}

/// Stages between the first and the last, where their layers are known.
bool middle_is_uneven(const Candidate& c) {
  const std::int64_t chunks = std::max<std::int64_t>(1, c.vpp);
  if (c.layout != model::StageConstraints::Layout::kFirstLast || c.pp < 2 ||
      !known(c.model.blocks, c.first_layers, c.last_layers)) {
    return false;
  }
  if (c.first_layers % chunks != 0 || c.last_layers % chunks != 0) return true;
  const std::int64_t middle = c.model.blocks - c.first_layers - c.last_layers;
  return c.pp == 2 ? middle != 0 : middle < 0 || middle % ((c.pp - 2) * chunks) != 0;
}

bool has_no_program(model::ModelKind kind) {
  return kind == model::ModelKind::kMultimodal || kind == model::ModelKind::kUNet ||
         kind == model::ModelKind::kDiffusionTransformer;
}

constexpr Check kPrograms{
    [](const Candidate& c) { return has_strategy(c) && has_no_program(c.model.kind); },
    [](const Candidate& c) {
      return fmt::format(
          "{}, but pretrain_gpt.py, pretrain_bert.py and pretrain_t5.py train decoders, encoders "
          "and encoder-decoders; nearest: --target any",
          with_article(c.model.kind));
    }};

constexpr Check kEvenSides{[](const Candidate& c) {
                             return has_strategy(c) &&
                                    c.model.kind == model::ModelKind::kEncoderDecoder &&
                                    known(c.model.blocks, c.model.encoder_blocks) &&
                                    c.model.blocks != 2 * c.model.encoder_blocks;
                           },
                           [](const Candidate& c) {
                             return fmt::format(
                                 "{} layers of the encoder and {} of the decoder, but "
                                 "pretrain_t5.py has as many; nearest: "
                                 "--target any",
                                 c.model.encoder_blocks, c.model.blocks - c.model.encoder_blocks);
                           }};

constexpr Check kPlainRing{
    [](const Candidate& c) {
      return c.cp > 1 && c.context == model::ContextForm::kRing &&
             (c.model.windows > 0 || c.model.sinks > 0);
    },
    [](const Candidate& c) {
      return fmt::format("cp {} as a ring with {} in {} layers; nearest: all_to_all, or cp 1", c.cp,
                         c.model.sinks > 0 ? "attention sinks" : "sliding windows",
                         std::max(c.model.sinks, c.model.windows));
    }};

constexpr Check kAllToAllHeads{
    [](const Candidate& c) {
      if (c.context != model::ContextForm::kAllToAll || c.cp <= 1 || c.tp == 0) return false;
      const std::int64_t kv_heads = std::max<std::int64_t>(1, c.model.kv_heads / c.tp);
      return (c.model.heads != 0 && c.model.heads % (c.tp * c.cp) != 0) ||
             (c.model.kv_heads != 0 && kv_heads % c.cp != 0);
    },
    [](const Candidate& c) {
      const std::int64_t kv_heads = c.model.kv_heads != 0 ? c.model.kv_heads : c.model.heads;
      const auto legal = [&](std::int64_t cp) {
        return c.model.heads % (c.tp * cp) == 0 &&
               std::max<std::int64_t>(1, kv_heads / c.tp) % cp == 0;
      };
      return fmt::format("{} heads and {} KV heads over tp {} and all-to-all cp {}; nearest: cp {}",
                         c.model.heads, kv_heads, c.tp, c.cp, nearest(c.cp, c.model.heads, legal));
    }};

constexpr Check kExpertFfn{[](const Candidate& c) {
                             const std::int64_t etp = expert_tensor(c);
                             return known(c.model.expert_ffn, etp) && c.model.expert_ffn % etp != 0;
                           },
                           [](const Candidate& c) {
                             const std::int64_t etp = expert_tensor(c);
                             return fmt::format("expert ffn {} over ETP {}; nearest: ETP {}",
                                                c.model.expert_ffn, etp,
                                                nearest_divisor(etp, c.model.expert_ffn));
                           }};

constexpr Check kExpertsAndSequence{
    [](const Candidate& c) { return has_experts(c) && c.tp > 1 && c.sequence_parallel == false; },
    [](const Candidate& c) {
      return fmt::format("{} experts and tp {} without sequence parallelism; nearest: turn it on",
                         c.model.experts, c.tp);
    }};

constexpr Check kExpertPrecision{
    [](const Candidate& c) { return c.ep > 1 && c.precision == "fp16"; },
    [](const Candidate& c) { return fmt::format("EP {} in fp16; nearest: bf16", c.ep); }};

constexpr Check kExpertRanks{
    [](const Candidate& c) {
      return has_experts(c) && known(c.tp, c.cp, c.dp, c.ep) && expert_copies(c) == 0;
    },
    [](const Candidate& c) {
      const std::int64_t ranks = c.tp * c.cp * c.dp;
      const std::int64_t etp = expert_tensor(c);
      const auto legal = [&](std::int64_t ep) { return ranks % (ep * etp) == 0; };
      return fmt::format(
          "tp {} · cp {} · dp {} = {} ranks of a stage over EP {} · ETP {}{} = {}; "
          "nearest: EP {}",
          c.tp, c.cp, c.dp, ranks, c.ep, etp, c.etp == 0 ? " (inherited from tp)" : "", c.ep * etp,
          nearest(c.ep, ranks, legal));
    }};

constexpr Check kExpertWorld{
    [](const Candidate& c) {
      return has_experts(c) && known(world(c), c.pp, c.ep, expert_tensor(c)) &&
             world(c) % (expert_tensor(c) * c.ep * c.pp) != 0;
    },
    [](const Candidate& c) {
      const std::int64_t etp = expert_tensor(c);
      const std::int64_t ranks = world(c);
      const std::int64_t product = etp * c.ep * c.pp;
      const auto legal = [&](std::int64_t degree) { return ranks % (degree * c.ep * c.pp) == 0; };
      return fmt::format(
          "ETP {}{} · EP {} · PP {} = {} {} {} devices, so expert-DP is no whole number; nearest: "
          "ETP {}",
          etp, c.etp == 0 ? " (unset, inherited from TP)" : "", c.ep, c.pp, product,
          product > ranks ? ">" : "does not divide", ranks, nearest(etp, ranks, legal));
    }};

constexpr Check kTwoStages{
    [](const Candidate& c) { return c.pp == 2 && c.vpp > 1 && c.overlap_p2p == false; },
    [](const Candidate& c) {
      return fmt::format(
          "vpp {} with pp 2 and no overlap of point-to-point transfers; nearest: "
          "overlap_p2p_comm on, or vpp 1",
          c.vpp);
    }};

constexpr Check kMicrobatchGroups{
    [](const Candidate& c) { return c.vpp > 1 && known(c.pp) && c.microbatches % c.pp != 0; },
    [](const Candidate& c) {
      return fmt::format("{} micro-batches in groups of pp {} leave {}; nearest: {}",
                         c.microbatches, c.pp, c.microbatches % c.pp,
                         nearest_multiple(c.microbatches, c.pp));
    }};

constexpr Check kMiddleLayers{
    [](const Candidate& c) { return middle_is_uneven(c); },
    [](const Candidate& c) {
      return fmt::format(
          "{} layers, {} in the first and {} in the last of pp {} stages of vpp {}, "
          "leave {} for the {} others; nearest: --pipeline-model-parallel-layout",
          c.model.blocks, c.first_layers, c.last_layers, c.pp, std::max<std::int64_t>(1, c.vpp),
          c.model.blocks - c.first_layers - c.last_layers, c.pp - 2);
    }};

constexpr Check kSingleStage{
    [](const Candidate& c) {
      const auto differs = [&](std::int64_t layers) {
        return layers != 0 && layers != c.model.blocks;
      };
      return c.pp == 1 && c.model.blocks != 0 &&
             (differs(c.first_layers) || differs(c.last_layers));
    },
    [](const Candidate& c) {
      return fmt::format(
          "{} layers in the first and {} in the last stage with pp 1, which holds "
          "all {}; nearest: no number for either",
          c.first_layers, c.last_layers, c.model.blocks);
    }};

constexpr Check kEncoder{
    [](const Candidate& c) {
      return c.pp > 1 &&
             (c.model.encoder_blocks > 0 || c.model.kind == model::ModelKind::kEncoderDecoder);
    },
    [](const Candidate& c) {
      return fmt::format("an encoder-decoder over pp {}; nearest: pp 1 (pretrain_t5.py)", c.pp);
    }};

constexpr Check kPredictionsApart{
    [](const Candidate& c) { return c.pp > 1 && c.predictions_apart == true; },
    [](const Candidate& c) {
      return fmt::format(
          "modules of multi-token prediction in several of the stages of pp {}; nearest: all in "
          "one, "
          "--together",
          c.pp);
    }};

constexpr Check kPartialExperts{
    [](const Candidate& c) {
      return has_experts(c) && c.zero.value_or(0) >= 1 && expert_copies(c) != 0 &&
             expert_copies(c) % optimizer_instances(c) != 0;
    },
    [](const Candidate& c) {
      return fmt::format(
          "{} copies of experts over {} optimizer instances (dp {} / dp-inner {}); "
          "nearest: {} instances",
          expert_copies(c), optimizer_instances(c), c.dp, c.dp_inner,
          nearest_divisor(optimizer_instances(c), expert_copies(c)));
    }};

const Rule kRules[] = {
    {kPrograms, "model", Scope::kStrategy, "The model is a decoder, an encoder or both.",
     "NVIDIA/Megatron-LM pretrain_gpt.py, pretrain_bert.py, pretrain_t5.py"},
    {kEvenSides, "encoder-decoder", Scope::kStrategy,
     "An encoder-decoder has as many layers in its encoder as in its decoder.",
     "NVIDIA/Megatron-LM pretrain_t5.py"},
    {kHeads, "heads", Scope::kStrategy, "Attention heads split evenly over tp.", kConfig},
    {kReplicatedKv, "kv-heads", Scope::kStrategy,
     "KV heads split evenly over tp, or tp over KV heads (which are then replicated).", kConfig},
    {kFfn, "ffn", Scope::kStrategy, "The width of dense MLPs splits evenly over tp.", kLayers},
    {kExpertFfn, "expert-ffn", Scope::kStrategy,
     "The width of experts splits evenly over ETP, which is tp where it is not set.", kLayers},
    {kExpertsExist, "expert-model", Scope::kStrategy, "EP above 1 needs a model with experts.",
     kArguments},
    {kExperts, "experts", Scope::kStrategy, "Experts split evenly over EP.", kArguments},
    {kExpertsAndSequence, "expert-sequence", Scope::kStrategy,
     "Experts with tp above 1 need sequence parallelism.", kMoeLayer},
    {kExpertPrecision, "expert-precision", Scope::kStrategy, "EP above 1 does not train in fp16.",
     kArguments},
    {kDoubledContext, "context", Scope::kStrategy,
     "With cp above 1 the sequence splits into 2·cp parts.", kArguments},
    {kSequenceParallel, "sequence", Scope::kStrategy,
     "With sequence parallelism the sequence splits evenly over cp and tp.", kMappings},
    {kPlainRing, "context-ring", Scope::kStrategy,
     "Sliding windows and attention sinks need all-to-all cp, not a ring.",
     "NVIDIA/TransformerEngine transformer_engine/pytorch/attention/dot_product_attention/"
     "context_parallel.py (attn_forward_func_with_cp), issue 2541"},
    {kAllToAllHeads, "context-heads", Scope::kStrategy,
     "With all-to-all cp the heads and KV heads of a tp rank split evenly over cp.",
     kAttentionSource},
    {kFp8Sequence, "fp8-sequence", Scope::kStrategy,
     "In fp8 a cp rank has a multiple of 16 tokens of every sequence, in mxfp8 of 32.", kFp8Source},
    {kFp8Widths, "fp8-widths", Scope::kStrategy,
     "In fp8 hidden size and the MLP width of a tp rank are multiples of 16, in mxfp8 of 32.",
     kFp8Source},

    {kBatch, "batch", Scope::kConfiguration,
     "The global batch is a whole number of micro-batches on every copy.",
     "NVIDIA/Megatron-LM megatron/core/num_microbatches_calculator.py"},
    {kExpertRanks, "expert-ranks", Scope::kConfiguration,
     "EP·ETP divides the ranks of a stage, tp·cp·dp.", kState},

    {kWorld, "world", Scope::kPipeline, "tp·cp·pp divides the devices of the job.", kState},
    {kExpertWorld, "expert-world", Scope::kPipeline,
     "ETP·EP·PP divides the devices of the job; ETP is TP where it is not set.", kState},
    {kOneStrategy, "one-strategy", Scope::kPipeline, "All stages have the same tp, cp, EP and ETP.",
     kState},
    {kChain, "chain", Scope::kPipeline, "Pipeline stages are cut from layers in a row.",
     "NVIDIA/Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py"},
    {kEncoder, "encoder", Scope::kPipeline,
     "Encoder-decoder models are not cut into pipeline stages.",
     "NVIDIA/Megatron-LM commit b600e38d, which removed encoder stages"},
    {kPredictionsApart, "predictions-together", Scope::kPipeline,
     "All modules of multi-token prediction are in the same virtual stage.",
     "NVIDIA/Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py "
     "(validate_layer_layout)"},
    {kOnly1F1B, "schedule", Scope::kPipeline, "Pipelines run 1F1B, plain or interleaved.",
     kSchedules},
    {kChunksNeedStages, "interleaving", Scope::kPipeline, "Interleaving needs several stages.",
     kArguments},
    {kTwoStages, "interleaving-two-stages", Scope::kPipeline,
     "Interleaving over two stages needs the overlap of point-to-point transfers.", kArguments},
    {kMicrobatchGroups, "interleaving-groups", Scope::kPipeline,
     "With interleaving the micro-batches are a multiple of pp, the default size of their groups.",
     kSchedules},
    {kEvenLayers, "layers", Scope::kPipeline,
     "Layers split evenly over pp·vpp, unless a layout says otherwise.", kArguments},
    {kMiddleLayers, "middle-layers", Scope::kPipeline,
     "With numbers for the first and the last stage, the others split the rest evenly.", kConfig},
    {kSingleStage, "single-stage", Scope::kPipeline,
     "A single stage has no number of layers of its own.", kConfig},

    {kPipelineZero, "zero-stages", Scope::kStage,
     "ZeRO 2 and 3, by Megatron-FSDP, need pp 1; the distributed optimizer is ZeRO 1.",
     "NVIDIA/Megatron-LM docs/user-guide/features/megatron_fsdp.md, pull request 6081"},
    {kPartialExperts, "partial-experts", Scope::kStage,
     "With shards inside pods, the pods divide the copies of experts.", kState},
    {kOneZero, "one-zero", Scope::kStage, "All stages have the same ZeRO stage.", kArguments},
    {kOneRecompute, "one-recompute", Scope::kStage, "All stages recompute alike.", kConfig},
};

const Layout kLayouts[] = {
    {model::StageConstraints::Layout::kEven, "the default", kArguments},
    {model::StageConstraints::Layout::kFirstLast,
     "decoder_first_pipeline_num_layers and decoder_last_pipeline_num_layers", kArguments},
    {model::StageConstraints::Layout::kAny, "pipeline_model_parallel_layout",
     "NVIDIA/Megatron-LM megatron/core/transformer/pipeline_parallel_layer_layout.py; "
     "megatron-core 0.13 and later"},
};

void add_strategy(const Candidate& c, Collector& out) {
  if (has_experts(c) && c.tp > 1 && !c.sequence_parallel) {
    out.add("sequence_parallel", "true", "experts with tp above 1 need it");
  } else if (c.sequence_parallel == true && c.tp > 1) {
    out.add("sequence_parallel", "true", "the plan counts on it");
  }
  if (has_experts(c) && expert_tensor(c) != 0) {
    out.add("expert_tensor_parallel_size", expert_tensor(c), "unset, it would inherit tp");
  }
  if (c.cp > 1 && c.context) {
    const bool ring = c.context == model::ContextForm::kRing;
    out.add("cp_comm_type", ring ? "p2p" : "a2a", "the form of context parallelism");
  }
  if (known(c.model.vocabulary, c.tp)) {
    const std::int64_t multiple =
        c.vocabulary_multiple != 0 ? c.vocabulary_multiple : kVocabularyMultiple;
    out.add("make_vocab_size_divisible_by", multiple,
            fmt::format("vocabulary {} is padded to {} at tp {}", c.model.vocabulary,
                        padded_vocabulary(c.model.vocabulary, multiple, c.tp), c.tp));
  }
}

void add_pipeline(const Candidate& c, Collector& out) {
  if (c.pp <= 1) return;
  if (c.vpp > 1) {
    out.add("num_virtual_stages_per_pipeline_rank", c.vpp, "interleaving");
    if (c.overlap_p2p != false) {
      out.add("overlap_p2p_comm", "true", "interleaving, which over two stages needs it");
    }
  }
  if (c.layout != model::StageConstraints::Layout::kFirstLast) return;
  out.add_known("decoder_first_pipeline_num_layers", c.first_layers, "layers of the first stage");
  out.add_known("decoder_last_pipeline_num_layers", c.last_layers, "layers of the last stage");
}

void add_zero(const Candidate& c, Collector& out) {
  if (!c.zero) return;
  const std::string why = fmt::format("ZeRO {}", *c.zero);
  out.add("use_distributed_optimizer", *c.zero >= 1 ? "true" : "false", why);
  if (*c.zero >= 2) {
    out.add("use_megatron_fsdp", "true", why);
    out.add("data_parallel_sharding_strategy", *c.zero == 2 ? "optim_grads" : "optim_grads_params",
            why);
    out.add("ckpt_format", "fsdp_dtensor", "the only one of Megatron-FSDP");
    out.add("gradient_accumulation_fusion", "false", "Megatron-FSDP");
  }
  if (*c.zero >= 1 && optimizer_instances(c) > 1) {
    out.add("num_distributed_optimizer_instances", optimizer_instances(c), "shards inside pods");
  }
}

void add_recompute(const Candidate& c, Collector& out) {
  if (!c.recompute || c.recompute == model::Recompute::kNone) return;
  out.add("recompute_granularity", model::to_string(*c.recompute), "recomputation");
  if (c.recompute != model::Recompute::kFull) return;
  out.add("recompute_method", "uniform", "every layer is recomputed from its input");
  out.add("recompute_num_layers", 1, "every layer is recomputed from its input");
}

std::vector<Setting> settings(const Candidate& candidate) {
  Collector out;
  add_strategy(candidate, out);
  add_pipeline(candidate, out);
  add_zero(candidate, out);
  add_recompute(candidate, out);
  return out.take();
}

}  // namespace

const RuleSet& megatron() {
  static const RuleSet set("megatron", "Megatron-LM, main branch of 2026", kRules, kLayouts,
                           settings);
  return set;
}

}  // namespace nestplan::targets
