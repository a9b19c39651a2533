#include "frameworks/arguments.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::frameworks {
namespace {

using Kind = model::StageConstraints::Layout;

constexpr std::int64_t kVocabularyMultiple = 128;  ///< megatron/training/arguments.py

Argument value(const char* flag, const char* field, std::int64_t number) {
  return {flag, {field}, std::to_string(number)};
}

Argument text(const char* flag, const char* field, std::string text) {
  return {flag, {field}, std::move(text)};
}

Argument toggle(const char* flag, std::vector<std::string> fields, bool on) {
  return {flag, std::move(fields), on ? "true" : "", true};
}

std::string text_if(bool there, std::int64_t number) { return there ? std::to_string(number) : ""; }

/// Megatron-LM's own FSDP, which is its ZeRO 2 and 3 (NVIDIA/Megatron-LM
/// docs/user-guide/features/megatron_fsdp.md).
bool is_fsdp(const Recipe& r) { return r.zero >= 2; }

ArgumentGroup parallelism(const Recipe& r) {
  ArgumentGroup group{"parallelism", {}};
  auto& out = group.arguments;
  out.push_back(value("tensor-model-parallel-size", "model.tensor_model_parallel_size", r.tp));
  out.push_back(toggle("sequence-parallel", {"model.sequence_parallel"}, r.sequence_parallel));
  out.push_back(value("pipeline-model-parallel-size", "model.pipeline_model_parallel_size", r.pp));
  out.push_back(value("context-parallel-size", "model.context_parallel_size", r.cp));
  const bool ring = r.context == model::ContextForm::kRing;
  out.push_back(text("cp-comm-type", "model.cp_comm_type", r.cp == 1 ? "" : ring ? "p2p" : "a2a"));
  out.push_back(value("expert-model-parallel-size", "model.expert_model_parallel_size", r.ep));
  out.push_back(text("expert-tensor-parallel-size", "model.expert_tensor_parallel_size",
                     text_if(r.ep > 1 || r.etp != r.tp, r.etp)));
  if (r.ep > 1) {
    out.push_back(text("moe-token-dispatcher-type", "model.moe_token_dispatcher_type", "alltoall"));
  }
  out.push_back(toggle("use-tp-pp-dp-mapping", {"dist.use_tp_pp_dp_mapping"},
                       r.order == placement::RankOrder::kDataLast));
  return group;
}

/// Only one of vpp and layout may be given to Megatron-LM (megatron/training/arguments.py), and a
/// layout tells vpp; Megatron-Bridge has a field for vpp that must agree with it.
ArgumentGroup pipeline(const Recipe& r) {
  ArgumentGroup group{"what the stages hold", {}};
  auto& out = group.arguments;
  const Kind kind = kind_of(r.layout, r.pp);
  const bool split = r.pp > 1 && kind == Kind::kFirstLast;
  const bool layout = r.pp > 1 && kind == Kind::kAny;
  const std::string vpp = text_if(r.vpp > 1, r.vpp);
  out.push_back({"num-virtual-stages-per-pipeline-rank", {}, layout ? "" : vpp});
  out.push_back({"", {"model.virtual_pipeline_model_parallel_size"}, vpp});
  out.push_back(text("decoder-first-pipeline-num-layers",
                     "model.num_layers_in_first_pipeline_stage",
                     split ? std::to_string(r.layout.front().layers) : ""));
  out.push_back(text("decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage",
                     split ? std::to_string(r.layout.back().layers) : ""));
  out.push_back(text("pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout",
                     layout ? targets::megatron_layout(r.layout) : ""));
  return group;
}

ArgumentGroup state(const Recipe& r) {
  ArgumentGroup group{"state", {}};
  auto& out = group.arguments;
  out.push_back(toggle("use-distributed-optimizer",
                       {"ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"},
                       r.zero >= 1));
  const std::string groups = std::to_string(r.shard_groups);
  out.push_back({"num-distributed-optimizer-instances", {}, r.shard_groups > 1 ? groups : ""});
  out.push_back({"", {"ddp.num_distributed_optimizer_instances"}, groups});
  out.push_back(
      toggle("use-megatron-fsdp", {"ddp.use_megatron_fsdp", "dist.use_megatron_fsdp"}, is_fsdp(r)));
  if (is_fsdp(r)) {
    out.push_back(text("data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy",
                       r.zero == 2 ? "optim_grads" : "optim_grads_params"));
    out.push_back(text("ckpt-format", "checkpoint.ckpt_format", "fsdp_dtensor"));
    out.push_back({"no-gradient-accumulation-fusion", {}, "true", true});
    out.push_back({"", {"model.gradient_accumulation_fusion"}, "false"});
  }
  return group;
}

ArgumentGroup recomputation(const Recipe& r) {
  ArgumentGroup group{"recomputation", {}};
  auto& out = group.arguments;
  const bool none = r.recompute == model::Recompute::kNone;
  const bool full = r.recompute == model::Recompute::kFull;
  out.push_back(text("recompute-granularity", "model.recompute_granularity",
                     none ? "" : model::to_string(r.recompute)));
  out.push_back(text("recompute-method", "model.recompute_method", full ? "uniform" : ""));
  out.push_back(text("recompute-num-layers", "model.recompute_num_layers", full ? "1" : ""));
  const bool selective = !none && !full;
  out.push_back({"recompute-modules", {}, selective ? "core_attn" : ""});
  out.push_back({"", {"model.recompute_modules"}, selective ? "[core_attn]" : ""});
  return group;
}

/// Asks for what the plan counts as hidden; of the rest nothing is said. Parameters are gathered
/// early only beside gradients that are reduced early (megatron/training/arguments.py). The ring of
/// cp and, with interleaving, transfers between stages are hidden unless told otherwise.
ArgumentGroup overlap(const Recipe& r) {
  ArgumentGroup group{"communication beside computation", {}};
  const Hidden hidden = hidden_by_megatron(r);
  const auto ask = [&](const char* flag, const char* field, bool wanted) {
    if (wanted) group.arguments.push_back(toggle(flag, {field}, true));
  };
  const bool copies = hidden.sync || hidden.shards;
  ask("overlap-grad-reduce", "ddp.overlap_grad_reduce", copies);
  ask("overlap-param-gather", "ddp.overlap_param_gather", copies && r.zero >= 1);
  ask("tp-comm-overlap", "comm_overlap.tp_comm_overlap", hidden.tensor);
  ask("overlap-moe-expert-parallel-comm", "comm_overlap.overlap_moe_expert_parallel_comm",
      hidden.expert);
  return group;
}

/// T5 has a sequence on either side (pretrain_t5.py).
ArgumentGroup batch(const Recipe& r, const Job& job, ModelKind kind) {
  ArgumentGroup group{"batch", {}};
  auto& out = group.arguments;
  out.push_back(value("micro-batch-size", "train.micro_batch_size", r.micro_batch));
  out.push_back(value("global-batch-size", "train.global_batch_size", r.global_batch));
  if (kind == ModelKind::kEncoderDecoder) {
    out.push_back({"encoder-seq-length", {}, text_if(r.sequence > 0, r.sequence)});
    out.push_back(
        {"decoder-seq-length", {}, text_if(job.decoder_sequence > 0, job.decoder_sequence)});
  } else if (r.sequence > 0) {
    out.push_back(
        {"seq-length", {"model.seq_length", "dataset.seq_length"}, std::to_string(r.sequence)});
  }
  return group;
}

/// fp8 stands for Transformer Engine's hybrid format with delayed scaling, which is what
/// Megatron-LM takes unless told otherwise; mxfp8 for its recipe of that name, which has one format
/// for both directions (NVIDIA/TransformerEngine transformer_engine/common/recipe/__init__.py,
/// MXFP8BlockScaling).
ArgumentGroup precision(const Recipe& r) {
  ArgumentGroup group{"precision", {}};
  auto& out = group.arguments;
  const bool fp8 = r.precision == "fp8";
  const bool mxfp8 = r.precision == "mxfp8";
  const bool bf16 = fp8 || mxfp8 || r.precision == "bf16";
  const bool fp16 = r.precision == "fp16";
  out.push_back({"bf16", {}, bf16 ? "true" : "", true});
  out.push_back({"fp16", {}, fp16 ? "true" : "", true});
  out.push_back({"fp8-format", {}, fp8 ? "hybrid" : mxfp8 ? "e4m3" : ""});
  out.push_back({"fp8-recipe", {}, mxfp8 ? "mxfp8" : ""});
  out.push_back({"",
                 {"mixed_precision"},
                 fp8     ? "bf16_with_fp8_delayed_scaling_mixed"
                 : mxfp8 ? "bf16_with_mxfp8_mixed"
                 : bf16  ? "bf16_mixed"
                 : fp16  ? "fp16_mixed"
                         : ""});
  return group;
}

std::string precision_of(const GivenArguments& given) {
  const std::string field = given.text("", "mixed_precision");
  if (given.text("fp8-recipe", "") == "mxfp8" || field == "bf16_with_mxfp8_mixed") return "mxfp8";
  if (!given.text("fp8-format", "").empty() || field == "bf16_with_fp8_delayed_scaling_mixed") {
    return "fp8";
  }
  if (given.is_on("bf16", "") || field == "bf16_mixed") return "bf16";
  return given.is_on("fp16", "") || field == "fp16_mixed" ? "fp16" : "fp32";
}

int zero_of(const GivenArguments& given) {
  if (!given.is_on("use-distributed-optimizer", "ddp.use_distributed_optimizer")) return 0;
  if (!given.is_on("use-megatron-fsdp", "ddp.use_megatron_fsdp")) return 1;
  const std::string strategy =
      given.text("data-parallel-sharding-strategy", "ddp.data_parallel_sharding_strategy");
  return strategy == "optim_grads_params" ? 3 : strategy == "optim_grads" ? 2 : 1;
}

model::Recompute recompute_of(const GivenArguments& given) {
  const std::string granularity =
      given.text("recompute-granularity", "model.recompute_granularity");
  if (granularity.empty()) return model::Recompute::kNone;
  return granularity == "full" ? model::Recompute::kFull : model::Recompute::kSelective;
}

targets::PipelineLayout layout_of(const GivenArguments& given, const Recipe& recipe) {
  const auto layers = given.number("num-layers", "model.num_layers");
  const std::int64_t predictions =
      given.number("mtp-num-layers", "model.mtp_num_layers").value_or(0);
  const std::string text =
      given.text("pipeline-model-parallel-layout", "model.pipeline_model_parallel_layout");
  if (!text.empty()) {
    targets::PipelineLayout layout = targets::parse_megatron_layout(text);
    targets::check_layout(layout, layers.value_or(layers_of(layout)), predictions_of(layout),
                          recipe.pp, std::ssize(layout) / recipe.pp);
    return layout;
  }
  if (!layers) return {};
  return dealt_out(
      *layers, predictions, recipe.pp, recipe.vpp,
      given.number("decoder-first-pipeline-num-layers", "model.num_layers_in_first_pipeline_stage"),
      given.number("decoder-last-pipeline-num-layers", "model.num_layers_in_last_pipeline_stage"));
}

}  // namespace

/// megatron/training/arguments.py (--tp-comm-overlap wants sequence parallelism) and
/// megatron/core/transformer/transformer_config.py (overlap_moe_expert_parallel_comm wants 16 bits,
/// interleaving where there are stages, no full recomputation and at most one prediction).
Hidden hidden_by_megatron(const Recipe& r) {
  Hidden hidden = r.hidden;
  hidden.tensor = hidden.tensor && r.sequence_parallel;
  hidden.expert = hidden.expert && r.recompute != model::Recompute::kFull &&
                  (r.pp == 1 || r.vpp > 1) && predictions_of(r.layout) <= 1 &&
                  r.precision != "fp32" && r.precision != "tf32";
  return hidden;
}

std::vector<std::string> gaps_of(const ModelArguments& model) {
  std::vector<std::string> lines;
  for (const std::string& untold : model.untold) {
    lines.push_back(fmt::format("Of the model, no argument here says: {}.", untold));
  }
  if (!model.open.empty()) {
    lines.push_back(fmt::format("Its config does not tell, so that defaults hold: {}.",
                                fmt::join(model.open, ", ")));
  }
  return lines;
}

std::vector<ArgumentGroup> strategy_arguments(const Recipe& recipe, const Job& job,
                                              ModelKind kind) {
  std::vector<ArgumentGroup> groups{
      parallelism(recipe), pipeline(recipe),         state(recipe),    recomputation(recipe),
      overlap(recipe),     batch(recipe, job, kind), precision(recipe)};
  const std::int64_t layers = layers_of(recipe.layout);
  const std::int64_t predictions = predictions_of(recipe.layout);
  ArgumentGroup model{"model", {}};
  if (layers > 0) {
    model.arguments.push_back(value("num-layers", "model.num_layers", layers));
    model.arguments.push_back(
        text("mtp-num-layers", "model.mtp_num_layers", text_if(predictions > 0, predictions)));
  }
  const std::int64_t multiple =
      job.vocabulary_multiple != 0 ? job.vocabulary_multiple : kVocabularyMultiple;
  model.arguments.push_back(
      value("make-vocab-size-divisible-by", "model.make_vocab_size_divisible_by", multiple));
  groups.insert(groups.begin(), std::move(model));
  return groups;
}

std::string GivenArguments::text(const char* flag, const char* field) const {
  const auto found = values_.find(spelling_ == Spelling::kFlags ? flag : field);
  return found == values_.end() ? "" : found->second;
}

std::optional<std::int64_t> GivenArguments::number(const char* flag, const char* field) const {
  const std::string given = text(flag, field);
  if (given.empty()) return {};
  return parse_number(given, spelling_ == Spelling::kFlags ? flag : field);
}

Recipe recipe_of(const GivenArguments& given, std::int64_t ranks) {
  const auto degree = [&](const char* flag, const char* field) {
    return given.number(flag, field).value_or(1);
  };
  Recipe r;
  r.tp = degree("tensor-model-parallel-size", "model.tensor_model_parallel_size");
  r.pp = degree("pipeline-model-parallel-size", "model.pipeline_model_parallel_size");
  r.cp = degree("context-parallel-size", "model.context_parallel_size");
  r.ep = degree("expert-model-parallel-size", "model.expert_model_parallel_size");
  r.etp = given.number("expert-tensor-parallel-size", "model.expert_tensor_parallel_size")
              .value_or(r.tp);
  r.vpp =
      degree("num-virtual-stages-per-pipeline-rank", "model.virtual_pipeline_model_parallel_size");
  const std::int64_t copy = r.tp * r.pp * r.cp;
  if (ranks % copy != 0) {
    throw InvalidInput(fmt::format("{} ranks are no multiple of tp {} · cp {} · pp {} = {}", ranks,
                                   r.tp, r.cp, r.pp, copy));
  }
  r.dp = ranks / copy;
  r.micro_batch = degree("micro-batch-size", "train.micro_batch_size");
  r.global_batch = degree("global-batch-size", "train.global_batch_size");
  r.sequence = given.number("seq-length", "model.seq_length")
                   .value_or(given.number("encoder-seq-length", "").value_or(0));
  r.sequence_parallel = given.is_on("sequence-parallel", "model.sequence_parallel");
  if (given.text("cp-comm-type", "model.cp_comm_type") == "a2a") {
    r.context = model::ContextForm::kAllToAll;
  }
  if (given.is_on("use-tp-pp-dp-mapping", "dist.use_tp_pp_dp_mapping")) {
    r.order = placement::RankOrder::kDataLast;
  }
  r.zero = zero_of(given);
  r.shard_groups =
      degree("num-distributed-optimizer-instances", "ddp.num_distributed_optimizer_instances");
  r.hidden.tensor = given.is_on("tp-comm-overlap", "comm_overlap.tp_comm_overlap");
  r.hidden.expert = given.is_on("overlap-moe-expert-parallel-comm",
                                "comm_overlap.overlap_moe_expert_parallel_comm");
  r.hidden.sync = given.is_on("overlap-grad-reduce", "ddp.overlap_grad_reduce");
  r.recompute = recompute_of(given);
  r.precision = precision_of(given);
  r.layout = layout_of(given, r);
  if (!r.layout.empty()) r.vpp = std::ssize(r.layout) / r.pp;
  return normalised(std::move(r));
}

std::int64_t parse_number(std::string_view text, std::string_view what) {
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.begin(), text.end(), number);
  if (error == std::errc{} && stop == text.end()) return number;
  throw InvalidInput(fmt::format("{}: {} is not a whole number", what, util::quoted(text)));
}

}  // namespace nestplan::frameworks
