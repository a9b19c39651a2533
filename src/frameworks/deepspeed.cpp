#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/arguments.hpp"
#include "frameworks/fit.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/util/errors.hpp"

/// DeepSpeed's JSON (deepspeed.ai/docs/config-json), with what only arguments of Megatron-DeepSpeed
/// say under "nestplan", a key that DeepSpeed does not look at: JSON has no comments.
namespace nestplan::frameworks {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kOwn = "nestplan";
constexpr const char* kVersion =
    "deepspeedai/DeepSpeed at commit 1b88ac366fc9 and deepspeedai/Megatron-DeepSpeed at "
    "207b2d5aad1e";

/// A model of Hugging Face that DeepSpeed splits by itself (deepspeed.ai/tutorials/autotp-training:
/// ZeRO 0 to 2); every device then holds all tokens between operators. What else a strategy may
/// have is for Megatron-DeepSpeed.
bool is_automatic(const Recipe& r) {
  return r.tp > 1 && !r.sequence_parallel && r.pp == 1 && r.cp == 1 && r.ep == 1 && r.etp == r.tp &&
         r.zero <= 2;
}

/// Ulysses of DeepSpeed itself, for models of Hugging Face (deepspeed/runtime/sequence_parallel/
/// ulysses_sp.py), which unlike Megatron-DeepSpeed's has grouped KV heads.
bool is_ulysses(const Recipe& r) { return r.cp > 1 && r.tp == 1 && r.pp == 1 && r.ep == 1; }

bool is_decoder_or_encoder(ModelKind kind) {
  return kind == ModelKind::kDecoder || kind == ModelKind::kEncoder;
}

/// A program of the model's own that DeepSpeed alone wraps: nothing is split but state.
bool is_plain(const Recipe& r) { return r.tp == 1 && r.pp == 1 && r.cp == 1 && r.ep == 1; }

/// Whether there are arguments of Megatron-DeepSpeed.
bool uses_fork(const Recipe& r, ModelKind kind) {
  return !is_automatic(r) && !is_ulysses(r) && (is_decoder_or_encoder(kind) || !is_plain(r));
}

/// Gradients and shards, where no pipeline reduces them at the end: overlap_comm
/// (deepspeed/runtime/zero/stage_1_and_2.py, stage3.py; runtime/pipe/engine.py).
Hidden hides(const Recipe& r) {
  const bool overlaps = r.zero >= 1 && r.pp == 1;
  return {.shards = r.hidden.shards && overlaps, .sync = r.hidden.sync && overlaps};
}

bool overlaps_copies(const Recipe& r) { return hides(r).sync || hides(r).shards; }

/// Arguments of Megatron-DeepSpeed's pretrain_gpt.py (deepspeedai/Megatron-DeepSpeed
/// megatron/arguments.py, examples_deepspeed/pretrain_llama2_distributed.sh).
std::vector<std::string> arguments(const Recipe& r, bool has_experts) {
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
  if (r.zero >= 2 || has_experts) out.emplace_back("--no-pipeline-parallel");
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

void append(const std::vector<Argument>& arguments, std::vector<std::string>& words) {
  for (const Argument& argument : arguments) {
    words.push_back("--" + argument.flag);
    if (!argument.is_switch) words.push_back(argument.value);
  }
}

/// What the fork is told, and in its remarks what it cannot be.
Json fork_arguments(const Sheet& sheet, std::vector<std::string>& remarks) {
  const bool has_experts = sheet.recipe.ep > 1 || sheet.job.dimensions.experts > 0;
  std::vector<std::string> words = arguments(sheet.recipe, has_experts);
  if (sheet.job.architecture) {
    const ModelArguments model = deepspeed_model(sheet.job, sheet.recipe);
    append(model.arguments, words);
    for (std::string& gap : gaps_of(model)) remarks.push_back(std::move(gap));
  } else {
    remarks.emplace_back("The shape of the model is to be added (--model tells it).");
  }
  return words;
}

const char* program_of(const Sheet& sheet) {
  if (!uses_fork(sheet.recipe, sheet.kind)) return "train.py";
  if (sheet.kind == ModelKind::kOther) return "PROGRAM.py";
  return sheet.kind == ModelKind::kEncoder ? "pretrain_bert.py" : "pretrain_gpt.py";
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
  if (overlaps_copies(r)) zero["overlap_comm"] = true;
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
  const bool fork = uses_fork(r, sheet.kind);
  std::vector<std::string> launch =
      launch_lines(sheet.launch, fmt::format("{} --deepspeed --deepspeed_config FILE{}",
                                             program_of(sheet), fork ? " ARGUMENTS …" : ""));
  std::vector<std::string> remarks = sheet.remarks;
  Json words;
  if (fork) words = fork_arguments(sheet, remarks);
  Json own{{"of", heading(deepspeed(), sheet).front()}, {"as_of", kVersion}, {"remarks", remarks}};
  if (fork) own["arguments"] = std::move(words);
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
  r.hidden.sync = zero.value("overlap_comm", false);
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

/// Programs of the model's own bring layers, sequence and recomputation along.
Recipe carried(Recipe recipe, ModelKind kind) {
  recipe.hidden = {.sync = overlaps_copies(recipe)};
  recipe = without_tf32(std::move(recipe));
  if (!uses_fork(recipe, kind)) {
    recipe.layout.clear();
    recipe.sequence = 0;
    recipe.recompute = model::Recompute::kNone;
  }
  return recipe;
}

void note(const Fit& fit, const Job& job, std::vector<std::string>& remarks) {
  const Recipe& recipe = fit.recipe;
  note_tf32(fit, job, remarks);
  if (is_ulysses(recipe)) {
    remarks.push_back(
        fmt::format("stages[].cp: the program of the model calls "
                    "UlyssesSPAttentionHF.register_with_transformers "
                    "with sequence_parallel_size={}",
                    recipe.cp));
  }
  if (!uses_fork(recipe, fit.kind) && recipe.recompute != model::Recompute::kNone) {
    remarks.push_back(
        fmt::format("stages[].recompute: {} is for the model to turn on, such as by "
                    "gradient_checkpointing_enable()",
                    model::to_string(recipe.recompute)));
  }
}

}  // namespace

const Framework& deepspeed() {
  static const Framework framework{"deepspeed", "DeepSpeed",
                                   kVersion,    &targets::rule_set("deepspeed"),
                                   {},          Numbering::kPipelineLast,
                                   hides,       note,
                                   write,       read,
                                   carried};
  return framework;
}

}  // namespace nestplan::frameworks
