#include "facts/bridge_recipes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "facts/recipes.hpp"
#include "facts/table.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/util/errors.hpp"

/// How the recipes are to be read. What the rows leave empty is what the recipes they start from
/// say (src/megatron/bridge/recipes in NVIDIA-NeMo/Megatron-Bridge).
namespace nestplan::facts {
namespace {

using model::Recompute;

struct Family {
  const char* model;      ///< in inputs/models
  std::int64_t sequence;  ///< of the recipe that those of the family start from
  model::StateBytes state = kPerformanceRecipe;
  std::int64_t vocabulary = 0;  ///< 0: the model's
  model::ContextForm context = model::ContextForm::kRing;
  const char* note = "";
};

/// Moments in bf16 (deepseek/h100/deepseek_v3.py: use_precision_aware_optimizer).
constexpr model::StateBytes kMomentsInBf16{2, 2, 8};

const std::map<std::string, Family>& families() {
  static const std::map<std::string, Family> all{
      {"llama3_8b", {"llama-3.1-8b", 8192}},
      {"llama3_70b", {"llama-3.1-70b", 8192}},
      {"llama31_405b", {"llama-3.1-405b", 8192}},
      {"qwen3_30b_a3b", {"qwen3-30b-a3b", 4096}},
      {"qwen3_235b_a22b", {"qwen3-235b-a22b", 4096}},
      {"deepseek_v3", {"deepseek-v3", 4096, kMomentsInBf16}},
      {"kimi_k2",
       {"kimi-k2", 4096, kPerformanceRecipe, 0, model::ContextForm::kRing,
        "Muon's state is counted as Adam's"}},
      // gpt_oss/h100/gpt_oss.py: attention with sinks needs cp_comm_type "a2a"
      {"gpt_oss_120b",
       {"gpt-oss-120b", 4096, kPerformanceRecipe, 0, model::ContextForm::kAllToAll}},
      // gpt_oss/common.py of the perf_recipes: another vocabulary and sequence
      {"gpt_oss_20b",
       {"gpt-oss-20b", 8192, kPerformanceRecipe, 128256, model::ContextForm::kAllToAll}}};
  return all;
}

/// "llama3_70b_pretrain_64gpu_b200_bf16_config" in its parts.
struct Name {
  std::string family, task, gpu, precision;
  std::int64_t devices = 0;
};

Name parse_name(const std::string& text) {
  Name name;
  const std::size_t devices = text.find("gpu_");
  const std::size_t number = text.rfind('_', devices) + 1;
  name.devices = std::stoll(text.substr(number, devices - number));
  const std::size_t task = text.rfind('_', number - 2) + 1;
  name.family = text.substr(0, task - 1);
  name.task = text.substr(task, number - 1 - task);
  const std::size_t gpu = devices + 4;
  const std::size_t precision = text.find('_', gpu) + 1;
  name.gpu = text.substr(gpu, precision - 1 - gpu);
  std::transform(name.gpu.begin(), name.gpu.end(), name.gpu.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  name.precision = text.substr(precision, text.find('_', precision) - precision);
  return name;
}

std::string unknown_family(const std::string& family) {
  const std::pair<const char*, const char*> why[] = {
      {"nemotron", "state-space layers"},
      {"qwen3_next", "linear attention"},
      {"qwen35_vl", "a vision-language model with linear attention"},
      {"qwen3_vl", "a vision-language model without a config"},
      {"deepseek_v4", "sparse attention"},
      {"glm", "sparse attention"},
      {"wan", "a video diffusion model"}};
  for (const auto& [start, reason] : why) {
    if (family.starts_with(start)) return reason;
  }
  return "a model without a config";
}

std::string obstacle(const Row& row, const Name& name) {
  if (families().count(name.family) == 0) return unknown_family(name.family);
  if (name.task == "peft") return "trains adapters alone";
  if (name.precision == "nvfp4") return "products in 4 bits have no peak here";
  if (row.text("cpu_offloading") == "True" ||
      row.text("fine_grained_activation_offloading") == "True") {
    return "offloads activations to the host";
  }
  for (const char* column : {"tensor_model_parallel_size", "global_batch_size"}) {
    if (!row.says(column)) return std::string(column) + " is that of another recipe";
  }
  return "";
}

/// The nearest of none, selective and full.
Recompute recompute_of(const Row& row, BridgeRecipe& recipe) {
  if (row.text("recompute_granularity") == "full") {
    if (row.text("recompute_method") == "block") {
      recipe.notes.push_back("full recomputation of " + row.text("recompute_num_layers") +
                             " layers is counted as that of all");
    }
    return Recompute::kFull;
  }
  const std::string& modules = row.text("recompute_modules");
  if (modules.empty() || modules == "[]") return Recompute::kNone;
  for (const char* module : {"\"mlp\"", "\"moe\"", "core_attn"}) {
    if (has(modules, module))
      recipe.notes.push_back(std::string(module) + " is not recomputed here");
  }
  return Recompute::kSelective;
}

model::Architecture architecture_of(const Family& family) {
  const auto path = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs/models" / family.model;
  auto architecture = std::get<model::Architecture>(io::read_model(path));
  if (family.vocabulary > 0) architecture.vocab = family.vocabulary;
  return architecture;
}

cost::ProfileOptions profile_of(const Row& row, const Name& name, const Family& family,
                                bool experts) {
  cost::ProfileOptions profile;
  const std::string& sequence = row.text("seq_length");
  const bool number = !sequence.empty() && std::isdigit(static_cast<unsigned char>(sequence[0]));
  profile.sequence = number ? row.count("seq_length", 0) : family.sequence;
  profile.tp = {row.count("tensor_model_parallel_size", 1)};
  profile.cp = {row.count("context_parallel_size", 1)};
  profile.ep = {row.count("expert_model_parallel_size", 1)};
  // All MoE recipes that these start from set ETP 1.
  profile.etp = {row.count("expert_tensor_parallel_size", experts ? 1 : profile.tp.front())};
  profile.context_forms = {family.context};
  profile.micro_batches = {row.count("micro_batch_size", 1)};
  profile.precision = name.precision == "bf16" ? "bf16" : "fp8";
  profile.logit_bytes = kFusedLossBytes;  // cross_entropy_fusion_impl "te"
  return profile;
}

BridgeRecipe read(const Row& row) {
  BridgeRecipe recipe;
  recipe.name = row.text("recipe");
  const Name name = parse_name(recipe.name);
  recipe.family = name.family;
  recipe.gpu = name.gpu;
  recipe.precision = name.precision;
  recipe.dispatcher = row.text("moe_flex_dispatcher_backend");
  recipe.left_out = obstacle(row, name);
  if (!recipe.left_out.empty()) return recipe;

  const Family& family = families().at(name.family);
  if (family.note[0] != '\0') recipe.notes.emplace_back(family.note);
  Run& run = recipe.run;
  run.architecture = architecture_of(family);
  run.profile = profile_of(row, name, family, run.architecture.moe.has_value());
  run.pp = row.count("pipeline_model_parallel_size", 1);
  run.vpp = row.count("virtual_pipeline_model_parallel_size", 1);
  run.dp = name.devices / (run.tp() * run.cp() * run.pp);
  run.global_batch = row.count("global_batch_size", 1);
  run.recompute = recompute_of(row, recipe);
  run.zero = row.text("use_megatron_fsdp") == "True" ? 3 : 1;
  run.state = family.state;
  return recipe;
}

}  // namespace

std::vector<BridgeRecipe> bridge_recipes(const std::filesystem::path& facts) {
  std::vector<BridgeRecipe> recipes;
  for (const Row& row : read_table(facts / "bridge_recipes.csv")) recipes.push_back(read(row));
  return recipes;
}

double MeasuredTimes::seconds(const BridgeRecipe& recipe) const {
  static const std::map<std::string, std::vector<std::string>> precisions{
      {"bf16", {"BF16"}}, {"fp8cs", {"FP8", "FP8-CS"}}, {"fp8mx", {"MXFP8", "FP8-MX"}}};
  const auto known = precisions.find(recipe.precision);
  if (known == precisions.end()) return 0;
  const Run& run = recipe.run;
  const std::vector<std::pair<const char*, std::int64_t>> numbers{
      {"layers", run.architecture.layers},
      {"hidden", run.architecture.hidden},
      {"seq", run.profile.sequence},
      {"n_gpus", run.devices()},
      {"tp", run.tp()},
      {"cp", run.cp()},
      {"pp", run.pp},
      {"vpp", run.vpp},
      {"mbs", run.micro_batch()},
      {"gbs", run.global_batch},
      {"ep", recipe.ep()}};
  double least = 0;
  for (const Row& row : rows_) {
    if (row.text("source_id") != "bridge" || row.text("gpu") != recipe.gpu) continue;
    const auto& names = known->second;
    if (std::find(names.begin(), names.end(), row.text("precision")) == names.end()) continue;
    const bool same = std::all_of(numbers.begin(), numbers.end(), [&](const auto& number) {
      return row.count(number.first, 1) == number.second;
    });
    const double seconds = row.number("d_iter_time_s").value_or(0);
    if (same && seconds > 0 && (least == 0 || seconds < least)) least = seconds;
  }
  return least;
}

targets::Candidate candidate_of(const BridgeRecipe& recipe, const model::Dimensions& model) {
  using Layout = model::StageConstraints::Layout;
  const Run& run = recipe.run;
  targets::Candidate c;
  c.model = model;
  c.precision = run.profile.precision;
  c.chain = true;
  c.tp = run.tp();
  c.cp = run.cp();
  c.ep = run.architecture.moe ? recipe.ep() : 1;
  c.etp = run.architecture.moe ? recipe.etp() : 1;
  c.micro_batch = run.micro_batch();
  if (c.tp > 1) c.sequence_parallel = true;
  if (c.cp > 1) c.context = run.profile.context_forms.front();
  c.devices = run.devices();
  c.global_batch = run.global_batch;
  c.dp = c.dp_inner = run.dp;
  c.microbatches = run.microbatches();
  c.pp = run.pp;
  c.vpp = run.vpp;
  c.schedule = model::Schedule::k1F1B;
  // Blocks that do not divide have a layout, or count table and output layer as blocks.
  c.layout = run.architecture.layers % (run.pp * run.vpp) == 0 ? Layout::kEven : Layout::kAny;
  c.zero = run.zero;
  c.shard = model::ShardSpan::kAll;
  c.recompute = run.recompute;
  return c;
}

}  // namespace nestplan::facts
