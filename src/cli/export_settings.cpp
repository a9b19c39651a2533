#include "cli/export_settings.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// Slices that the devices fill; 0 if they are no whole ones, or the network is no torus.
std::int64_t slices_of(const model::Cluster& cluster) {
  const auto* torus = std::get_if<model::TorusSpec>(&cluster.network);
  if (torus == nullptr) return 0;
  const model::TorusDimension& last = torus->dimensions.back();
  if (!last.switched) return 1;
  const std::int64_t chips = cluster.places() / last.size;
  return cluster.devices() % chips == 0 ? cluster.devices() / chips : 0;
}

/// The stack whose shape programs are told.
std::optional<model::Architecture> stack_of(const model::Model& model) {
  if (const auto* stack = std::get_if<model::Architecture>(&model)) return *stack;
  if (const auto* pair = std::get_if<model::EncoderDecoder>(&model)) return pair->decoder;
  return {};
}

/// A plan counts the tokens of all parts of a sample: those of `shape`, if it is for its sequence.
void check_sequence(const model::PlanOutline& plan, const model::Model& model,
                    const cost::ProfileOptions& shape) {
  if (!plan.tokens || !model::has_sequence(model)) return;
  std::int64_t tokens = shape.sequence;
  if (std::holds_alternative<model::EncoderDecoder>(model)) {
    tokens += shape.tokens_of("decoder", shape.sequence);
  }
  if (tokens == *plan.tokens) return;
  throw InvalidConfig(
      fmt::format("--seq: {} tokens a sample, but the plan is for {}", tokens, *plan.tokens));
}

/// What the model tells beside the plan. A sequence is the plan's unless the flags give another.
void add_model(Flags flags, const std::string& plan_file, const model::PlanOutline& plan,
               frameworks::Job& job) {
  const std::filesystem::path path = io::model_file(flags.model);
  const std::string config = io::read_text(path);
  const model::Model model = model_of(flags, config, path);
  if (!plan.model.empty() && plan.model != model::name_of(model)) {
    throw InvalidConfig(fmt::format("--model: {} is a plan for {}, not {}", plan_file,
                                    util::quoted(plan.model), util::quoted(model::name_of(model))));
  }
  job.model = model::name_of(model);
  if (!flags.seq && std::holds_alternative<model::Architecture>(model)) flags.seq = plan.tokens;
  const cost::ProfileOptions shape = shape_options(flags, model);
  check_sequence(plan, model, shape);
  const model::Graph graph = cost::build_outline(model, shape);
  job.chain = model::in_a_row(graph);
  job.dimensions = graph.dimensions;
  job.sequence = job.dimensions.sequence;
  job.kind = graph.dimensions.kind;
  job.details = frameworks::details_of(config);
  job.architecture = stack_of(model);
  if (job.kind == model::ModelKind::kEncoderDecoder) {
    job.decoder_sequence = shape.tokens_of("decoder", shape.sequence);
  }
  if (job.architecture) job.tied_embeddings = job.architecture->tied_embeddings;
}

frameworks::Job job_of(const Flags& flags, const std::string& plan_file,
                       const model::PlanOutline& plan, const model::Cluster& cluster) {
  frameworks::Job job;
  job.model = plan.model;
  try {
    job.precision = cost::precision_of(flags.precision).name;
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(fmt::format("--{}", error.what()));
  }
  job.vocabulary_multiple = flags.vocabulary_multiple.value_or(0);
  job.sequence = flags.seq.value_or(0);
  job.sequence_parallel = !flags.no_sequence_parallel;
  job.slices = slices_of(cluster);
  job.devices = cluster.devices();
  if (!flags.model.empty()) add_model(flags, plan_file, plan, job);
  return job;
}

}  // namespace

bool is_settings_format(const std::string& format) { return frameworks::is_format(format); }

std::string exported_settings(const Flags& flags, const std::string& plan_file,
                              const model::Cluster& cluster,
                              const placement::Placement& placement) {
  const model::PlanOutline& plan = placement.plan;
  const frameworks::Job job = job_of(flags, plan_file, plan, cluster);
  try {
    frameworks::Settings settings =
        frameworks::settings_of(*flags.to, plan, job, placement, flags.nearest);
    for (const std::string& remark : settings.remarks) {
      if (!flags.quiet) print_message(fmt::format("nestplan: {}", remark));
    }
    return std::move(settings.text);
  } catch (const InvalidInput& error) {
    throw InvalidInput(fmt::format("{}: {}", plan_file, error.what()));
  }
}

void refuse_settings_flags(const Flags& flags) {
  const auto refuse = [&](const char* flag, bool given) {
    if (!given) return;
    throw InvalidConfig(fmt::format("--{}: is for --to {}, not {}", flag,
                                    fmt::join(frameworks::format_names(), ", "), *flags.to));
  };
  refuse("model", !flags.model.empty());
  refuse("seq", flags.seq.has_value());
  refuse("vocabulary-multiple", flags.vocabulary_multiple.has_value());
  refuse("no-sequence-parallel", flags.no_sequence_parallel);
  refuse("no-mtp", flags.no_mtp);
  refuse("nearest", flags.nearest);
}

}  // namespace nestplan::cli
