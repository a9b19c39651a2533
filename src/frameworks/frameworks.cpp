#include "nestplan/frameworks/frameworks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frameworks/fit.hpp"
#include "frameworks/framework.hpp"
#include "frameworks/launch.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::frameworks {
namespace {

constexpr const Framework& (*kFrameworks[])(){megatron, bridge, deepspeed, torchtitan, maxtext};

const Framework* find(std::string_view format) {
  for (const auto framework : kFrameworks) {
    if (framework().name == format) return &framework();
  }
  return nullptr;
}

const Framework& known(std::string_view format) {
  if (const Framework* framework = find(format)) return *framework;
  throw InvalidConfig(
      fmt::format("unknown format {}{}", util::quoted(format), util::hint(format, format_names())));
}

void remark_on_idle(const placement::Placement& placement, const Framework& framework,
                    std::vector<std::string>& remarks) {
  if (placement.idle.empty()) return;
  remarks.push_back(fmt::format(
      "{} devices of the cluster stay idle; {} has no word for the plan's positions, so the hosts "
      "and devices of the ranks must be those of --to rankfile, hostfile or slurm",
      util::format_count(std::ssize(placement.idle)), framework.title));
}

void remark_on_shown(const Hidden& counted, const Hidden& hidden, const Framework& framework,
                     std::vector<std::string>& remarks) {
  const auto remark = [&](const char* term, bool counts, bool hides) {
    if (!counts || hides) return;
    remarks.push_back(fmt::format(
        "strategy.overlap.{}: the plan counts on hiding this; {} does not, as it is set here", term,
        framework.title));
  };
  remark("tensor", counted.tensor, hidden.tensor);
  remark("context", counted.context, hidden.context);
  remark("expert", counted.expert, hidden.expert);
  remark("shards", counted.shards, hidden.shards);
  remark("sync", counted.sync, hidden.sync);
  remark("pipeline", counted.pipeline, hidden.pipeline);
}

void remark_on_other(ModelKind kind, const Framework& framework,
                     std::vector<std::string>& remarks) {
  if (kind != ModelKind::kOther) return;
  remarks.push_back(fmt::format(
      "stages[].layers: not those of a decoder, so {}'s own programs do not train this model; "
      "yours is to take the settings",
      framework.title));
}

void remark_on_uneven_nodes(const Launch& launch, std::vector<std::string>& remarks) {
  if (launch.per_node > 0) return;
  remarks.emplace_back(
      "ranks do not go through nodes and devices in turn, which torchrun takes for granted: launch "
      "by --to slurm or rankfile");
}

}  // namespace

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto framework : kFrameworks) names.emplace_back(framework().name);
  return names;
}

bool is_format(std::string_view name) { return find(name) != nullptr; }

Settings settings_of(std::string_view format, const model::PlanOutline& plan, const Job& job,
                     const placement::Placement& placement, bool nearest) {
  const Framework& framework = known(format);
  Fit fitted = fit(plan, job, placement.order, framework, nearest);
  const Launch launch = launch_of(placement);
  std::vector<std::string> notes;
  framework.note(fitted, job, notes);
  remark_on_other(fitted.kind, framework, notes);
  remark_on_shown(fitted.recipe.hidden, framework.hides(fitted.recipe), framework, notes);
  fitted.remarks.insert(fitted.remarks.end(), notes.begin(), notes.end());
  if (framework.numbering != Numbering::kNone) {
    remark_on_idle(placement, framework, fitted.remarks);
    remark_on_uneven_nodes(launch, fitted.remarks);
  }
  std::string text = framework.write({fitted.recipe, job, fitted.kind, launch, fitted.remarks});
  if (framework.read(text, launch.ranks) != framework.carried(fitted.recipe, fitted.kind)) {
    throw InternalError(
        fmt::format("settings for {} do not read back as the plan", framework.title));
  }
  return {std::move(text), std::move(fitted.remarks)};
}

Recipe read(std::string_view format, std::string_view text, std::int64_t ranks) {
  return known(format).read(text, ranks);
}

std::string_view version_of(std::string_view format) { return known(format).version; }

Recipe carried(std::string_view format, Recipe recipe) {
  return known(format).carried(std::move(recipe), ModelKind::kDecoder);
}

Recipe without_tf32(Recipe recipe) {
  if (recipe.precision == "tf32") recipe.precision = "fp32";
  return recipe;
}

void note_family(const Job& job, std::string_view title, std::span<const std::string_view> families,
                 std::vector<std::string>& remarks) {
  if (!job.architecture) return;
  const std::string& family = job.architecture->family;
  if (std::find(families.begin(), families.end(), family) != families.end()) return;
  remarks.push_back(fmt::format(
      "model: {} brings no model of the family {} along; it is to be added", title, family));
}

void note_tf32(const Fit& fit, const Job&, std::vector<std::string>& remarks) {
  if (fit.recipe.precision != "tf32") return;
  remarks.emplace_back(
      "precision: tf32 is no setting, but torch.set_float32_matmul_precision(\"high\")");
}

std::vector<std::string> heading(const Framework& framework, const Sheet& sheet) {
  const Recipe& r = sheet.recipe;
  std::string degrees = fmt::format("tp {} · cp {} · pp {} · dp {}", r.tp, r.cp, r.pp, r.dp);
  if (r.vpp > 1) degrees += fmt::format(" · vpp {}", r.vpp);
  if (r.ep > 1) degrees += fmt::format(" · EP {} · ETP {}", r.ep, r.etp);
  std::vector<std::string> lines;
  lines.push_back(fmt::format("{} for {}: {} on {} ranks, {} micro-batch{} of {}, {}",
                              sheet.job.model.empty() ? "A plan" : sheet.job.model, framework.title,
                              degrees, util::format_count(r.ranks()), r.microbatches(),
                              r.microbatches() == 1 ? "" : "es", r.micro_batch, r.precision));
  lines.push_back(fmt::format("Settings as of {}.", framework.version));
  if (!sheet.remarks.empty()) lines.emplace_back("Mind that");
  for (const std::string& remark : sheet.remarks) lines.push_back("- " + remark);
  return lines;
}

std::string as_comment(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "# " + line + '\n';
  return text;
}

}  // namespace nestplan::frameworks
