#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/arguments.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/util/errors.hpp"

/// DeepSpeed's JSON (deepspeed.ai/docs/config-json), with what only arguments of Megatron-DeepSpeed
/// say under "nestplan", a key that DeepSpeed does not look at: JSON has no comments.
namespace nestplan::frameworks {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOwn = "nestplan";

/// A model of Hugging Face that DeepSpeed splits by itself (deepspeed.ai/tutorials/autotp-training:
/// ZeRO 0 to 2); every device then holds all tokens between operators. What else a strategy may
/// have is for Megatron-DeepSpeed.
bool is_automatic(const Recipe& r) {
  return r.tp > 1 && !r.sequence_parallel && r.pp == 1 && r.cp == 1 && r.ep == 1 && r.etp == r.tp &&
         r.zero <= 2;
}

bool has_ulysses_company(const Draft& d) {
  return d.recipe.cp > 1 && (d.recipe.tp > 1 || d.recipe.pp > 1);
}

std::string explain_ulysses_company(const Draft& d) {
  return fmt::format("cp {} with tp {} and pp {}; nearest: cp 1, or tp 1 and pp 1", d.recipe.cp,
                     d.recipe.tp, d.recipe.pp);
}

const Demand kDemands[] = {
    {"precision", "--precision", is_fp8, explain_precision,
     "deepspeed.ai/docs/config-json (fp16, bf16)"},
    {"ulysses-alone", "stages[0].cp", has_ulysses_company, explain_ulysses_company,
     "deepspeedai/Megatron-DeepSpeed megatron/core/parallel_state.py"},
    {"predictions", "stages[].layers", has_predictions, explain_predictions,
     "deepspeedai/Megatron-DeepSpeed megatron/model/gpt_model.py"},
    {"even-stages",
     "stages[].layers",
     is_uneven,
     explain_uneven,
     "deepspeedai/DeepSpeed deepspeed/runtime/pipe/module.py (type:transformer)",
     {make_even, "as many layers in all stages"}},
};

/// Arguments of Megatron-DeepSpeed's pretrain_gpt.py (deepspeedai/Megatron-DeepSpeed
/// megatron/arguments.py, examples_deepspeed/pretrain_llama2_distributed.sh).
std::vector<std::string> arguments(const Recipe& r) {
  std::vector<std::string> out;
  const auto add = [&](const char* flag, std::int64_t value) {
    out.emplace_back(flag);
    out.push_back(std::to_string(value));
  };
  add("--tensor-model-parallel-size", r.tp);
  add("--pipeline-model-parallel-size", r.pp);
  add("--ds-sequence-parallel-size", r.cp);
  if (r.ep > 1) add("--moe-expert-parallel-size", r.ep);
  if (r.ep > 1 && r.tp > 1) out.emplace_back("--enable-expert-tensor-parallelism");
  if (r.sequence_parallel) out.emplace_back("--sequence-parallel");
  if (!r.layout.empty()) add("--num-layers", layers_of(r.layout));
  if (r.sequence > 0) add("--seq-length", r.sequence);
  add("--micro-batch-size", r.micro_batch);
  add("--global-batch-size", r.global_batch);
  add("--zero-stage", r.zero);
  if (r.zero >= 2) out.emplace_back("--no-pipeline-parallel");
  if (r.recompute == model::Recompute::kFull) {
    for (const char* word : {"--deepspeed-activation-checkpointing", "--recompute-granularity",
                             "full", "--recompute-method", "uniform"}) {
      out.emplace_back(word);
    }
  } else if (r.recompute == model::Recompute::kSelective) {
    out.insert(out.end(), {"--recompute-granularity", "selective"});
  }
  if (r.precision == "bf16" || r.precision == "fp16") out.push_back("--" + r.precision);
  return out;
}

/// Devices that share a state under MiCS, where these are not all (deepspeed/runtime/zero/mics.py).
std::int64_t shard_size(const Recipe& r) { return r.cp * r.dp / r.shard_groups; }

std::string write(const Sheet& sheet) {
  const Recipe& r = sheet.recipe;
  Json out;
  out["train_batch_size"] = r.global_batch;
  out["train_micro_batch_size_per_gpu"] = r.micro_batch;
  out["gradient_accumulation_steps"] = r.microbatches();
  Json zero{{"stage", r.zero}};
  if (r.shard_groups > 1) zero["mics_shard_size"] = shard_size(r);
  // On by default in stage 3 alone (overlap_comm_valid in deepspeed/runtime/zero/config.py).
  if (r.zero >= 2) zero["overlap_comm"] = true;
  out["zero_optimization"] = std::move(zero);
  if (r.precision == "bf16" || r.precision == "fp16") out[r.precision] = {{"enabled", true}};
  if (is_automatic(r)) out["tensor_parallel"] = {{"autotp_size", r.tp}};
  if (r.cp > 1) out["sequence_parallel_size"] = r.cp;
  if (r.pp > 1) {
    out["pipeline"] = {
        {"stages", r.pp},
        {"partition", "type:transformer"},
        {"activation_checkpoint_interval", r.recompute == model::Recompute::kFull ? 1 : 0}};
  }
  std::vector<std::string> launch = launch_lines(
      sheet.launch, is_automatic(r)
                        ? "train.py --deepspeed --deepspeed_config FILE"
                        : "pretrain_gpt.py --deepspeed --deepspeed_config FILE ARGUMENTS …");
  Json own{{"of", heading(deepspeed(), sheet).front()}, {"remarks", sheet.remarks}};
  if (!is_automatic(r)) own["arguments"] = arguments(r);
  if (r.sequence_parallel) own["environment"] = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  own["launch"] = std::move(launch);
  out[kOwn] = std::move(own);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

/// Arguments by flag; "true" for those without a value.
std::map<std::string, std::string> by_flag(const Json& words) {
  std::map<std::string, std::string> values;
  std::string flag;
  for (const Json& word : words) {
    const std::string text = word.get<std::string>();
    if (text.starts_with("--")) {
      flag = text.substr(2);
      values[flag] = "true";
    } else if (!flag.empty()) {
      values[flag] = text;
    }
  }
  return values;
}

std::string precision_of(const Json& json) {
  for (const char* name : {"bf16", "fp16"}) {
    if (json.contains(name) && json.at(name).value("enabled", false)) return name;
  }
  return "fp32";
}

model::Recompute recompute_of(const GivenArguments& given) {
  const std::string granularity = given.text("recompute-granularity", "");
  if (granularity.empty()) return model::Recompute::kNone;
  return granularity == "full" ? model::Recompute::kFull : model::Recompute::kSelective;
}

/// The batch is micro-batch · steps · dp, or DeepSpeed refuses it (deepspeed/runtime/config.py).
std::int64_t copies_of(const Recipe& r, std::int64_t steps, std::int64_t ranks) {
  const std::int64_t copy = r.tp * r.cp * r.pp;
  const std::int64_t dp = ranks / copy;
  if (dp * copy == ranks && dp * r.micro_batch * steps == r.global_batch) return dp;
  throw InvalidInput(
      fmt::format("train_batch_size: {} is not micro-batch {} · {} steps · dp {} of {} ranks with "
                  "tp {} · cp {} "
                  "· pp {}",
                  r.global_batch, r.micro_batch, steps, dp, ranks, r.tp, r.cp, r.pp));
}

Recipe recipe_of(const Json& json, std::int64_t ranks) {
  const Json own = json.value(kOwn, Json::object());
  const GivenArguments given(by_flag(own.value("arguments", Json::array())),
                             GivenArguments::Spelling::kFlags);
  const auto degree = [&](const char* flag) { return given.number(flag, "").value_or(1); };
  Recipe r;
  r.tp = json.contains("tensor_parallel")
             ? json.at("tensor_parallel").value("autotp_size", std::int64_t{1})
             : degree("tensor-model-parallel-size");
  r.pp = json.contains("pipeline") ? json.at("pipeline").value("stages", std::int64_t{1}) : 1;
  r.cp = json.value("sequence_parallel_size", std::int64_t{1});
  if (r.cp > 1) r.context = model::ContextForm::kAllToAll;
  r.ep = degree("moe-expert-parallel-size");
  r.etp = r.tp;
  r.sequence_parallel = given.is_on("sequence-parallel", "");
  r.micro_batch = json.at("train_micro_batch_size_per_gpu").get<std::int64_t>();
  r.global_batch = json.at("train_batch_size").get<std::int64_t>();
  r.sequence = given.number("seq-length", "").value_or(0);
  r.dp = copies_of(r, json.at("gradient_accumulation_steps").get<std::int64_t>(), ranks);
  const Json zero = json.value("zero_optimization", Json::object());
  r.zero = zero.value("stage", 0);
  const std::int64_t shard = zero.value("mics_shard_size", std::int64_t{-1});
  if (shard > 0) r.shard_groups = r.cp * r.dp / shard;
  r.recompute = recompute_of(given);
  r.precision = precision_of(json);
  if (const auto layers = given.number("num-layers", "")) r.layout = dealt_out(*layers, 0, r.pp, 1);
  return normalised(std::move(r));
}

Recipe read(std::string_view text, std::int64_t ranks) {
  try {
    return recipe_of(Json::parse(text), ranks);
  } catch (const Json::exception& error) {
    throw InvalidInput(error.what());
  }
}

/// Models that DeepSpeed splits by itself bring layers, sequence and recomputation along.
Recipe carried(Recipe recipe) {
  recipe = without_tf32(std::move(recipe));
  if (is_automatic(recipe)) {
    recipe.layout.clear();
    recipe.sequence = 0;
    recipe.recompute = model::Recompute::kNone;
  }
  return recipe;
}

void note(const Recipe& recipe, std::vector<std::string>& remarks) {
  note_tf32(recipe, remarks);
  if (is_automatic(recipe) && recipe.recompute != model::Recompute::kNone) {
    remarks.push_back(
        fmt::format("stages[].recompute: {} is for the model to turn on, such as by "
                    "gradient_checkpointing_enable()",
                    model::to_string(recipe.recompute)));
  }
}

}  // namespace

const Framework& deepspeed() {
  static const Framework framework{"deepspeed",
                                   "DeepSpeed",
                                   &targets::rule_set("deepspeed"),
                                   kDemands,
                                   Numbering::kPipelineLast,
                                   note,
                                   write,
                                   read,
                                   carried};
  return framework;
}

}  // namespace nestplan::frameworks
