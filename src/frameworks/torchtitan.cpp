#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/fit.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/frameworks/layers.hpp"
#include "nestplan/util/errors.hpp"

/// torchtitan's configuration file (pytorch/torchtitan torchtitan/config/job_config.py). Release
/// 0.1 has other names for where stages begin and for float8; 0.3 has configurations in Python.
namespace nestplan::frameworks {
namespace {

constexpr const char* kVersion = "torchtitan 0.2 (pytorch/torchtitan at commit 018740b7aae7)";

constexpr std::string_view kFamilies[] = {"llama", "qwen3", "qwen3_moe", "deepseek_v3", "gpt_oss"};

bool has_empty_part(const Draft& d) {
  const auto& layout = d.recipe.layout;
  return d.recipe.pp > 1 && std::any_of(layout.begin(), layout.end(), [](const auto& part) {
           return part.layers == 0 && !part.embedding && !part.loss;
         });
}

std::string explain_empty_part(const Draft&) { return "a part of the pipeline holds no module"; }

const Demand kDemands[] = {
    {"modules", "stages[].layers", has_empty_part, explain_empty_part,
     "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py"},
};

std::int64_t shard_degree(const Recipe& r) { return r.zero == 0 ? 1 : r.dp / r.shard_groups; }

/// The micro-batches of a pipeline are parts of a local batch; without one they are accumulated.
std::int64_t local_batch(const Recipe& r) {
  return r.pp > 1 ? r.micro_batch * r.microbatches() : r.micro_batch;
}

/// Names of a part's modules in torchtitan's decoders.
std::vector<std::string> modules_of(const targets::LayoutPart& part, std::int64_t& next) {
  std::vector<std::string> names;
  if (part.embedding) names.emplace_back("tok_embeddings");
  for (std::int64_t i = 0; i < part.layers; ++i) names.push_back(fmt::format("layers.{}", next++));
  if (part.loss) names.insert(names.end(), {"norm", "output"});
  return names;
}

std::string modules_text(const targets::PipelineLayout& layout) {
  std::string text = "module_fqns_per_model_part = [\n";
  std::int64_t next = 0;
  for (const targets::LayoutPart& part : layout) {
    text += fmt::format("  [\"{}\"],\n", fmt::join(modules_of(part, next), "\", \""));
  }
  return text + "]\n";
}

const char* schedule_of(const Recipe& r) {
  if (r.schedule == model::Schedule::kGPipe) return "GPipe";
  return r.vpp > 1 ? "Interleaved1F1B" : "1F1B";
}

std::string parallelism_section(const Recipe& r) {
  std::string text = "\n[parallelism]\n";
  const auto add = [&](const char* key, std::int64_t value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  add("data_parallel_replicate_degree", r.dp / shard_degree(r));
  add("data_parallel_shard_degree", shard_degree(r));
  if (r.zero > 0) {
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n", r.zero == 3 ? "always" : "never");
  }
  add("tensor_parallel_degree", r.tp);
  if (r.hidden.tensor) text += "enable_async_tensor_parallel = true\n";
  add("context_parallel_degree", r.cp);
  if (r.cp > 1) text += "context_parallel_rotate_method = \"alltoall\"\n";
  add("expert_parallel_degree", r.ep);
  add("pipeline_parallel_degree", r.pp);
  if (r.pp == 1) return text;
  text += fmt::format("pipeline_parallel_schedule = \"{}\"\n", schedule_of(r));
  add("pipeline_parallel_microbatch_size", r.micro_batch);
  return text + modules_text(r.layout);
}

std::string training_section(const Recipe& r) {
  std::string text = "\n[training]\n";
  text += fmt::format("local_batch_size = {}\nglobal_batch_size = {}\n", local_batch(r),
                      r.global_batch);
  if (r.sequence > 0) text += fmt::format("seq_len = {}\n", r.sequence);
  const bool single = r.precision == "fp32" || r.precision == "tf32";
  return text + fmt::format("mixed_precision_param = \"{}\"\n", single ? "float32" : "bfloat16");
}

/// Asynchronous tensor parallelism is the compiler's (torchtitan/distributed/tensor_parallel.py,
/// maybe_enable_async_tp). FSDP hides its traffic, and rings theirs, without being asked.
Hidden hides(const Recipe& r) {
  Hidden hidden = r.hidden;
  hidden.expert = hidden.pipeline = false;
  return hidden;
}

std::string checkpoint_section(const Recipe& r) {
  std::string text =
      fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", model::to_string(r.recompute));
  if (r.recompute == model::Recompute::kSelective) text += "selective_ac_option = \"op\"\n";
  return text;
}

std::string write(const Sheet& sheet) {
  const Recipe& r = sheet.recipe;
  std::vector<std::string> lines = heading(torchtitan(), sheet);
  lines.emplace_back("The model, its data and its optimizer are to be added.");
  for (std::string& line :
       launch_lines(sheet.launch, "-m torchtitan.train --job.config_file FILE")) {
    lines.push_back(std::move(line));
  }
  std::string text = as_comment(lines);
  if (r.precision == "fp8") text += "\n[model]\nconverters = [\"quantize.linear.float8\"]\n";
  if (r.precision == "mxfp8") text += "\n[model]\nconverters = [\"quantize.linear.mx\"]\n";
  if (r.hidden.tensor) text += "\n[compile]\nenable = true\n";
  return text + training_section(r) + parallelism_section(r) + checkpoint_section(r);
}

/// The parts that lists of modules make up.
targets::PipelineLayout layout_of(const toml::array& parts) {
  std::vector<std::vector<std::string>> ids;
  for (const toml::node& part : parts) {
    const toml::array* modules = part.as_array();
    if (modules == nullptr) throw InvalidInput("module_fqns_per_model_part: a part is no list");
    std::vector<std::string>& names = ids.emplace_back();
    for (const toml::node& module : *modules) {
      const std::string name = module.value_or(std::string());
      if (name == "tok_embeddings") {
        names.emplace_back("embedding");
      } else if (name == "norm" || name == "output") {
        names.emplace_back("head");
      } else {
        names.push_back(name.starts_with("layers.") ? "layer." + name.substr(7) : name);
      }
    }
  }
  CountedParts result = counted(ids);
  if (result.problem.empty()) return std::move(result.layout);
  throw InvalidInput("module_fqns_per_model_part: " + result.problem);
}

model::Recompute recompute_of(std::string_view mode) {
  if (mode == "none") return model::Recompute::kNone;
  return mode == "full" ? model::Recompute::kFull : model::Recompute::kSelective;
}

/// Gradients are sharded along with the state, but for pipelines: see targets::torchtitan.
int zero_of(const Recipe& r, std::int64_t shards, std::string_view reshard) {
  if (shards * r.cp == 1) return 0;
  if (reshard == "always") return 3;
  return r.pp > 1 ? 1 : 2;
}

Recipe recipe_of(const toml::table& file, std::int64_t ranks) {
  const auto number = [&](const char* path, std::int64_t fallback) {
    return file.at_path(path).value_or(fallback);
  };
  const auto text = [&](const char* path, const char* fallback) {
    return file.at_path(path).value_or(std::string(fallback));
  };
  Recipe r;
  r.tp = number("parallelism.tensor_parallel_degree", 1);
  r.cp = number("parallelism.context_parallel_degree", 1);
  r.pp = number("parallelism.pipeline_parallel_degree", 1);
  r.ep = number("parallelism.expert_parallel_degree", 1);
  r.etp = r.ep > 1 ? 1 : r.tp;
  const std::int64_t replicas = number("parallelism.data_parallel_replicate_degree", 1);
  const std::int64_t shards = number("parallelism.data_parallel_shard_degree", 1);
  r.dp = replicas * shards;
  if (r.ranks() != ranks) {
    throw InvalidInput(
        fmt::format("{} ranks are not dp_replicate {} · dp_shard {} · cp {} · tp {} · "
                    "pp {} = {}",
                    ranks, replicas, shards, r.cp, r.tp, r.pp, r.ranks()));
  }
  r.sequence_parallel = true;
  r.zero = zero_of(r, shards, text("parallelism.fsdp_reshard_after_forward", "default"));
  r.shard_groups = replicas;
  r.global_batch = number("training.global_batch_size", 1);
  const std::int64_t local = number("training.local_batch_size", 1);
  r.micro_batch = r.pp > 1 ? number("parallelism.pipeline_parallel_microbatch_size", 1) : local;
  r.sequence = number("training.seq_len", 0);
  r.recompute = recompute_of(text("activation_checkpoint.mode", "selective"));
  r.hidden.tensor = file.at_path("parallelism.enable_async_tensor_parallel").value_or(false);
  const std::string converter = file.at_path("model.converters[0]").value_or(std::string());
  r.precision = converter == "quantize.linear.float8"                              ? "fp8"
                : converter == "quantize.linear.mx"                                ? "mxfp8"
                : text("training.mixed_precision_param", "bfloat16") == "bfloat16" ? "bf16"
                                                                                   : "fp32";
  if (r.pp > 1) {
    const bool gpipe = text("parallelism.pipeline_parallel_schedule", "1F1B") == "GPipe";
    if (gpipe) r.schedule = model::Schedule::kGPipe;
    if (const auto* parts = file.at_path("parallelism.module_fqns_per_model_part").as_array()) {
      r.layout = layout_of(*parts);
      r.vpp = std::ssize(r.layout) / r.pp;
    }
  }
  return normalised(std::move(r));
}

Recipe read(std::string_view text, std::int64_t ranks) {
  try {
    return recipe_of(toml::parse(text), ranks);
  } catch (const toml::parse_error& error) {
    throw InvalidInput(fmt::format("line {}: {}", error.source().begin.line, error.description()));
  }
}

/// Layers of a single stage are the model's.
Recipe carried(Recipe recipe, ModelKind) {
  recipe = without_tf32(std::move(recipe));
  recipe.hidden = {.tensor = recipe.hidden.tensor};
  if (recipe.pp == 1) recipe.layout.clear();
  return recipe;
}

void note(const Fit& fit, const Job& job, std::vector<std::string>& remarks) {
  note_tf32(fit, job, remarks);
  note_family(job, "torchtitan", kFamilies, remarks);
}

}  // namespace

const Framework& torchtitan() {
  static const Framework framework{"torchtitan", "torchtitan",
                                   kVersion,     &targets::rule_set("torchtitan"),
                                   kDemands,     Numbering::kPipelineLast,
                                   hides,        note,
                                   write,        read,
                                   carried};
  return framework;
}

}  // namespace nestplan::frameworks
