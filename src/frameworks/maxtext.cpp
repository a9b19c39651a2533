#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/arguments.hpp"
#include "frameworks/fit.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/network/torus.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

/// MaxText's configuration (AI-Hypercomputer/maxtext src/maxtext/configs/base.yml): a mesh whose
/// axes go over the slices of a torus (dcn_…) or over the chips of a slice (ici_…).
namespace nestplan::frameworks {
namespace {

constexpr const char* kBase = "AI-Hypercomputer/maxtext src/maxtext/configs/base.yml";
constexpr const char* kVersion = "AI-Hypercomputer/maxtext at commit 000b810bb1d9";

/// Of src/maxtext/configs/models.
constexpr std::string_view kFamilies[] = {
    "llama", "mistral", "mixtral",   "gemma",       "gemma2",      "gemma3",  "gpt2",
    "qwen2", "qwen3",   "qwen3_moe", "deepseek_v2", "deepseek_v3", "kimi_k2", "gpt_oss"};

/// Weights are split over fsdp, context and expert axes alike: any of them is ZeRO 3.
bool splits_weights(const Recipe& r) { return r.zero == 3; }

/// Degrees of the mesh.
struct Axes {
  std::int64_t data = 1;
  std::int64_t stage = 1;
  std::int64_t fsdp = 1;
  std::int64_t context = 1;
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
};

struct Mesh {
  Axes dcn;
  Axes ici;
};

struct Axis {
  const char* name;
  std::int64_t Axes::*degree;
};

constexpr Axis kAxes[] = {{"data", &Axes::data},     {"pipeline", &Axes::stage},
                          {"fsdp", &Axes::fsdp},     {"context", &Axes::context},
                          {"tensor", &Axes::tensor}, {"expert", &Axes::expert}};

/// The copies of a state are on the data axis, those that share one on fsdp and expert. Slices take
/// a part of the copies, else of the stages.
Mesh mesh_of(const Recipe& r, std::int64_t slices) {
  Mesh mesh;
  const std::int64_t replicas = splits_weights(r) ? r.shard_groups : r.dp;
  mesh.ici = {replicas, r.pp, r.dp / replicas / r.ep, r.cp, r.tp, r.ep};
  const auto over_slices = [&](std::int64_t Axes::*axis) {
    if (mesh.ici.*axis % slices != 0) return false;
    mesh.ici.*axis /= slices;
    mesh.dcn.*axis = slices;
    return true;
  };
  over_slices(&Axes::data) || over_slices(&Axes::fsdp) || over_slices(&Axes::stage);
  return mesh;
}

std::vector<std::int64_t> degrees(const Axes& axes) {
  std::vector<std::int64_t> list;
  for (const Axis& axis : kAxes) list.push_back(axes.*axis.degree);
  return list;
}

/// Sequences of a device in one step of accumulation or, with a pipeline, in an iteration.
double device_batch(const Recipe& r) {
  const std::int64_t sequences = r.pp > 1 ? r.micro_batch * r.microbatches() : r.micro_batch;
  return static_cast<double>(sequences) / static_cast<double>(r.tp * r.cp * r.pp);
}

/// As MaxText works it out from what a file says (src/maxtext/configs,
/// global_batch_size_to_train_on).
std::int64_t batch_of(double device_batch, std::int64_t steps, std::int64_t ranks) {
  return static_cast<std::int64_t>(device_batch * static_cast<double>(ranks)) * steps;
}

std::int64_t accumulation(const Recipe& r) { return r.pp > 1 ? 1 : r.microbatches(); }

bool is_of_gpus(const Draft& d) {
  return d.recipe.precision == "fp16" || d.recipe.precision == "mxfp8";
}

std::string explain_precision(const Draft& d) {
  return fmt::format("it does not train in {}; nearest: bf16", d.recipe.precision);
}

bool is_no_torus(const Draft& d) { return d.job.slices == 0; }

std::string explain_no_torus(const Draft&) {
  return "MaxText's mesh is of the slices of a torus, and the cluster has none";
}

bool leaves_devices(const Draft& d) { return d.job.devices != d.recipe.ranks(); }

std::string explain_leaves_devices(const Draft& d) {
  return fmt::format(
      "{} of {} devices; the mesh takes all (nearest: --slice, or --dp that uses all)",
      d.recipe.ranks(), d.job.devices);
}

bool has_stray_slices(const Draft& d) {
  const Mesh mesh = mesh_of(d.recipe, d.job.slices);
  return network::slice_degrees_problem(d.job.slices, d.job.devices / d.job.slices,
                                        degrees(mesh.dcn), degrees(mesh.ici))
      .has_value();
}

std::string explain_stray_slices(const Draft& d) {
  const Mesh mesh = mesh_of(d.recipe, d.job.slices);
  return *network::slice_degrees_problem(d.job.slices, d.job.devices / d.job.slices,
                                         degrees(mesh.dcn), degrees(mesh.ici));
}

bool is_per_stage(const Draft& d) {
  return d.per_stage_strategies || d.per_stage_zero || d.per_stage_recompute;
}

std::string explain_per_stage(const Draft&) {
  return "stages differ in strategy, ZeRO or recomputation; nearest: one for all";
}

bool is_indivisible(const Draft& d) {
  const Recipe& r = d.recipe;
  return r.global_batch != r.microbatches() * r.micro_batch * r.dp ||
         batch_of(std::strtod(fmt::format("{}", device_batch(r)).c_str(), nullptr), accumulation(r),
                  r.ranks()) != r.global_batch;
}

std::string explain_indivisible(const Draft& d) {
  return fmt::format("global batch {} is no whole number of micro-batches of {} on dp {}",
                     d.recipe.global_batch, d.recipe.micro_batch, d.recipe.dp);
}

bool trades_heads(const Draft& d) { return d.recipe.context == model::ContextForm::kAllToAll; }

std::string explain_trades_heads(const Draft& d) {
  return fmt::format("cp {} by trading heads; nearest: ring", d.recipe.cp);
}

bool has_other_experts(const Draft& d) {
  const Recipe& r = d.recipe;
  if (r.ep == 1) return false;
  return r.etp != r.tp || r.dp / (splits_weights(r) ? r.shard_groups : 1) % r.ep != 0;
}

std::string explain_other_experts(const Draft& d) {
  return fmt::format("EP {} · ETP {}: MaxText takes EP out of the copies (dp {}) and ETP is tp {}",
                     d.recipe.ep, d.recipe.etp, d.recipe.dp, d.recipe.tp);
}

bool has_other_zero(const Draft& d) {
  const Recipe& r = d.recipe;
  const bool split = r.cp > 1 || r.ep > 1;
  return r.zero == 2 || (split && r.zero < 3) || (r.zero == 1 && r.shard_groups > 1);
}

std::string explain_other_zero(const Draft& d) {
  return fmt::format(
      "ZeRO {} with cp {}, EP {} and {} shard groups; nearest: ZeRO 3 (fsdp), or ZeRO 0 and 1 over "
      "all copies with cp 1 and EP 1",
      d.recipe.zero, d.recipe.cp, d.recipe.ep, d.recipe.shard_groups);
}

bool keeps_everything(const Draft& d) { return d.recipe.recompute == model::Recompute::kNone; }

std::string explain_keeps_everything(const Draft&) {
  return "every remat_policy computes something again; nearest: minimal_with_context, which keeps "
         "products and the attention core";
}

bool is_pipeline(const Draft& d) { return d.recipe.pp > 1; }

std::string explain_pipeline(const Draft& d) {
  return fmt::format(
      "pp {}: MaxText keeps embedding and head out of the stages, and runs all forward passes "
      "first",
      d.recipe.pp);
}

bool has_few_microbatches(const Draft& d) {
  return d.recipe.pp > 1 && d.recipe.microbatches() % d.recipe.pp != 0;
}

std::string explain_few_microbatches(const Draft& d) {
  return fmt::format("{} micro-batches are no multiple of pp {}", d.recipe.microbatches(),
                     d.recipe.pp);
}

bool is_uneven(const Draft& d) {
  const Recipe& r = d.recipe;
  return r.pp > 1 && kind_of(r.layout, r.pp) != model::StageConstraints::Layout::kEven;
}

std::string explain_uneven(const Draft& d) {
  std::vector<std::int64_t> counts;
  for (const targets::LayoutPart& part : d.recipe.layout) counts.push_back(part.layers);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format("stages of {} to {} layers; nearest: as many in all, --stage-layers even",
                     *least, *most);
}

bool lacks_sequence_parallelism(const Draft& d) {
  return d.recipe.tp > 1 && !d.recipe.sequence_parallel;
}

std::string explain_sequence_parallelism(const Draft& d) {
  return fmt::format("tp {} without sequence parallelism; nearest: with it", d.recipe.tp);
}

bool has_predicting_pipeline(const Draft& d) {
  return d.recipe.pp > 1 && predictions_of(d.recipe.layout) > 0;
}

std::string explain_predictions(const Draft& d) {
  return fmt::format("{} modules of multi-token prediction, which its pipelines do not have",
                     predictions_of(d.recipe.layout));
}

void use_gpipe(Draft& d) { d.recipe.schedule = model::Schedule::kGPipe; }
void use_ring(Draft& d) { d.recipe.context = model::ContextForm::kRing; }
void use_zero_3(Draft& d) { d.recipe.zero = 3; }

const Demand kDemands[] = {
    {"model", "model", is_no_decoder, explain_no_decoder,
     "AI-Hypercomputer/maxtext src/maxtext/configs/models"},
    {"torus", "--cluster", is_no_torus, explain_no_torus, kBase},
    {"all-devices", "strategy.dp", leaves_devices, explain_leaves_devices, kBase},
    {"one-strategy", "stages[]", is_per_stage, explain_per_stage, kBase},
    {"precision", "--precision", is_of_gpus, explain_precision, kBase},
    {"context-form",
     "stages[0].strategy",
     trades_heads,
     explain_trades_heads,
     kBase,
     {use_ring, "the ring"}},
    {"sequence-parallel",
     "stages[0].strategy",
     lacks_sequence_parallelism,
     explain_sequence_parallelism,
     kBase,
     {use_sequence_parallelism, "sequence parallelism"}},
    {"zero", "stages[].zero", has_other_zero, explain_other_zero, kBase, {use_zero_3, "ZeRO 3"}},
    {"experts", "stages[0].ep", has_other_experts, explain_other_experts, kBase},
    {"pipeline",
     "strategy.schedule",
     is_pipeline,
     explain_pipeline,
     kBase,
     {use_gpipe, "its own pipeline", true}},
    {"microbatches", "strategy.microbatches", has_few_microbatches, explain_few_microbatches,
     kBase},
    {"predictions", "stages[].layers", has_predicting_pipeline, explain_predictions, kBase},
    {"even-stages",
     "stages[].layers",
     is_uneven,
     explain_uneven,
     kBase,
     {make_even, "as many layers in all stages"}},
    {"remat",
     "stages[].recompute",
     keeps_everything,
     explain_keeps_everything,
     kBase,
     {[](Draft&) {}, "minimal_with_context", true}},
    {"batch", "batch.global_batch", is_indivisible, explain_indivisible, kBase},
    {"slices", "strategy.dp_outer", has_stray_slices, explain_stray_slices, kBase},
};

const char* policy_of(model::Recompute recompute) {
  switch (recompute) {
    case model::Recompute::kNone:
      return "minimal_with_context";
    case model::Recompute::kSelective:
      return "minimal";
    case model::Recompute::kFull:
      return "full";
  }
  throw InternalError("a recomputation without a policy");
}

std::string axes_text(const char* prefix, const Axes& axes) {
  std::string text;
  for (const Axis& axis : kAxes) {
    text += fmt::format("{}_{}_parallelism: {}\n", prefix, axis.name, axes.*axis.degree);
  }
  return text;
}

std::string write(const Sheet& sheet) {
  const Recipe& r = sheet.recipe;
  const Mesh mesh = mesh_of(r, sheet.job.slices);
  std::vector<std::string> lines = heading(maxtext(), sheet);
  lines.emplace_back("JAX deals the chips out to the mesh by itself.");
  lines.push_back(fmt::format("Launch on every host of {} slice{}:", sheet.job.slices,
                              sheet.job.slices == 1 ? "" : "s"));
  lines.emplace_back(
      "  python3 -m maxtext.trainers.pre_train.train FILE model_name=MODEL run_name=RUN …");
  std::string text = as_comment(lines) + "base_config: base.yml\n";
  text += axes_text("dcn", mesh.dcn) + axes_text("ici", mesh.ici);
  if (r.zero == 1) text += "shard_optimizer_over_data: true\n";
  if (r.cp > 1) text += "context_parallel_strategy: all_gather\n";
  text += fmt::format("per_device_batch_size: {}\n", device_batch(r));
  text += fmt::format("gradient_accumulation_steps: {}\n", accumulation(r));
  if (r.pp > 1) {
    text += fmt::format(
        "num_pipeline_microbatches: {}\nnum_layers_per_pipeline_stage: {}\n"
        "num_pipeline_repeats: {}\n",
        r.microbatches(), layers_of(r.layout) / (r.pp * r.vpp), r.vpp);
  }
  if (const std::int64_t count = predictions_of(r.layout); count > 0) {
    text += fmt::format("mtp_num_layers: {}\n", count);
  }
  if (r.sequence > 0) text += fmt::format("max_target_length: {}\n", r.sequence);
  const bool single = r.precision == "fp32" || r.precision == "tf32";
  text += fmt::format("dtype: {}\n", single ? "float32" : "bfloat16");
  if (r.precision == "fp8") text += "quantization: fp8\n";
  return text + fmt::format("remat_policy: {}\n", policy_of(r.recompute));
}

/// Layers of a single stage are the model's, whose name tells them; modules of prediction are told.
targets::PipelineLayout predictions_alone(std::int64_t predictions) {
  return predictions > 0 ? dealt_out(0, predictions, 1, 1) : targets::PipelineLayout{};
}

std::map<std::string, std::string, std::less<>> entries_of(std::string_view text) {
  std::map<std::string, std::string, std::less<>> entries;
  for (const std::string_view line : util::split(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) {
      throw InvalidInput(fmt::format("{} is not KEY: VALUE", util::quoted(line)));
    }
    entries[std::string(line.substr(0, colon))] = line.substr(colon + 2);
  }
  return entries;
}

Recipe read(std::string_view text, std::int64_t ranks) {
  const auto entries = entries_of(text);
  const auto word = [&](std::string_view key, const char* fallback) {
    const auto found = entries.find(key);
    return found == entries.end() ? std::string(fallback) : found->second;
  };
  const auto number = [&](const std::string& key) { return parse_number(word(key, "1"), key); };
  const auto axis = [&](const char* name) {
    return number(fmt::format("dcn_{}_parallelism", name)) *
           number(fmt::format("ici_{}_parallelism", name));
  };
  Recipe r;
  r.tp = r.etp = axis("tensor");
  r.cp = axis("context");
  r.pp = axis("pipeline");
  r.ep = axis("expert");
  const std::int64_t fsdp = axis("fsdp");
  r.dp = axis("data") * fsdp * r.ep;
  if (r.ranks() != ranks) {
    throw InvalidInput(fmt::format("{} ranks, but the axes of the mesh make {}", ranks, r.ranks()));
  }
  r.sequence_parallel = true;
  r.zero = fsdp * r.ep * r.cp > 1 ? 3 : word("shard_optimizer_over_data", "") == "true" ? 1 : 0;
  if (r.zero == 3) r.shard_groups = axis("data");
  const double batch = std::strtod(word("per_device_batch_size", "1").c_str(), nullptr);
  const std::int64_t steps = number("gradient_accumulation_steps");
  r.global_batch = batch_of(batch, steps, ranks);
  const std::int64_t microbatches = r.pp > 1 ? number("num_pipeline_microbatches") : steps;
  r.micro_batch = r.global_batch / (r.dp * microbatches);
  if (r.pp > 1) {
    r.vpp = number("num_pipeline_repeats");
    r.schedule = model::Schedule::kGPipe;
    r.layout = dealt_out(number("num_layers_per_pipeline_stage") * r.pp * r.vpp, 0, r.pp, r.vpp);
  } else {
    r.layout = predictions_alone(parse_number(word("mtp_num_layers", "0"), "mtp_num_layers"));
  }
  r.sequence = parse_number(word("max_target_length", "0"), "max_target_length");
  r.precision = word("quantization", "") == "fp8"         ? "fp8"
                : word("dtype", "bfloat16") == "bfloat16" ? "bf16"
                                                          : "fp32";
  const std::string policy = word("remat_policy", "full");
  r.recompute = policy == "full"      ? model::Recompute::kFull
                : policy == "minimal" ? model::Recompute::kSelective
                                      : model::Recompute::kNone;
  return normalised(std::move(r));
}

Recipe carried(Recipe recipe, ModelKind) {
  recipe = without_tf32(std::move(recipe));
  if (recipe.pp == 1) recipe.layout = predictions_alone(predictions_of(recipe.layout));
  recipe.hidden = {};
  return recipe;
}

/// XLA schedules communication beside computation by itself.
Hidden hides(const Recipe& recipe) { return recipe.hidden; }

void note(const Fit& fit, const Job& job, std::vector<std::string>& remarks) {
  note_family(job, "MaxText", kFamilies, remarks);
  if (fit.recipe.hidden != Hidden{}) {
    remarks.emplace_back(
        "strategy.overlap: what the plan counts as hidden is for XLA's scheduler to hide "
        "(LIBTPU_INIT_ARGS); no setting here asks for it");
  }
  if (fit.recipe.cp > 1) {
    remarks.emplace_back(
        "stages[].cp: on TPUs keys and values are gathered before attention, not passed round a "
        "ring beside it");
  }
}

}  // namespace

const Framework& maxtext() {
  static const Framework framework{"maxtext",        "MaxText", kVersion, nullptr, kDemands,
                                   Numbering::kNone, hides,     note,     write,   read,
                                   carried};
  return framework;
}

}  // namespace nestplan::frameworks
