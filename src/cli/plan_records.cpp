#include "cli/plan_records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "cli/search_options.hpp"
#include "cli/text.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

const Json& at(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

double number(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_number() ? value.get<double>() : 0;
}

std::int64_t whole(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

std::string text(const Json& object, const char* key) {
  const Json& value = at(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

/// The members of a list; none of anything else.
const Json& list(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json& value = at(object, key);
  return value.is_array() ? value : none;
}

/// "dp 32 · pp 8 · tp 4 · micro-batch 1" of an object with degrees, leaving out what is 1 but for
/// dp and pp.
std::string degrees_text(const Json& degrees) {
  constexpr std::array<std::pair<const char*, const char*>, 7> kNames{
      {{"dp", "dp"},
       {"pp", "pp"},
       {"vpp", "vpp"},
       {"tp", "tp"},
       {"cp", "cp"},
       {"ep", "ep"},
       {"micro_batch", "micro-batch"}}};
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::int64_t degree = whole(degrees, kNames[i].first);
    const bool always = i < 2;
    if (degree > 1 || (always && degree == 1)) {
      parts.push_back(fmt::format("{} {}", kNames[i].second, degree));
    }
  }
  return fmt::format("{}", fmt::join(parts, " · "));
}

model::TimeSplit split_of(const Json& split) {
  return {number(split, "compute_s"),       number(split, "recompute_s"),
          number(split, "collective_s"),    number(split, "pipeline_s"),
          number(split, "data_parallel_s"), number(split, "update_s"),
          number(split, "bubble_s")};
}

std::optional<report::Margin::Side> side_of(const Json& side) {
  if (!at(side, "share").is_number()) return std::nullopt;
  return report::Margin::Side{number(side, "share"), degrees_text(at(side, "winner"))};
}

std::vector<report::Margin> margins_of(const Json& margins) {
  std::vector<report::Margin> all;
  for (const Json& term : list(margins, "terms")) {
    all.push_back({text(term, "term"), side_of(at(term, "cheaper")), side_of(at(term, "dearer"))});
  }
  return all;
}

/// Its sentence begins with the change.
report::Neighbour neighbour_of(const Json& neighbour) {
  report::Neighbour result{text(neighbour, "change"), text(neighbour, "sentence")};
  const std::string prefix = result.change + ": ";
  if (result.verdict.starts_with(prefix)) result.verdict.erase(0, prefix.size());
  return result;
}

report::StageRecord stage_of(const Json& stage) {
  report::StageRecord record;
  std::vector<std::string> layers;
  for (const Json& layer : list(stage, "layers")) {
    if (layer.is_string()) layers.push_back(layer.get<std::string>());
  }
  record.layers = names_text(layers);
  record.strategy = text(stage, "strategy");
  record.devices = whole(stage, "devices");
  record.recompute = text(stage, "recompute");
  record.zero = static_cast<int>(whole(stage, "zero"));
  record.time.total_s = number(at(stage, "time"), "total_s");
  const Json& memory = at(stage, "memory");
  record.memory.total_bytes = number(memory, "total_bytes");
  record.memory.weight_bytes = number(memory, "weight_bytes");
  record.memory.gradient_bytes = number(memory, "gradient_bytes");
  record.memory.optimizer_bytes = number(memory, "optimizer_bytes");
  record.memory.gathered_bytes = number(memory, "gathered_bytes");
  record.memory.in_flight_bytes = number(memory, "in_flight_bytes");
  record.memory.working_bytes = number(memory, "working_bytes");
  record.memory.context_bytes = number(memory, "context_bytes");
  record.memory.communicator_bytes = number(memory, "communicator_bytes");
  record.memory.margin_bytes = number(memory, "margin_bytes");
  record.memory.limit_bytes = number(memory, "limit_bytes");
  return record;
}

/// dp and pp, and the degrees of the stages where they are all alike.
std::string strategy_of(const Json& plan) {
  Json degrees = at(plan, "strategy");
  const Json& stages = list(plan, "stages");
  if (!degrees.is_object() || stages.empty()) return "";
  for (const char* degree : {"tp", "cp", "ep"}) {
    const std::int64_t first = whole(stages.front(), degree);
    const bool alike = std::all_of(stages.begin(), stages.end(), [&](const Json& stage) {
      return whole(stage, degree) == first;
    });
    if (alike) degrees[degree] = first;
  }
  return degrees_text(degrees);
}

}  // namespace

std::optional<report::Proof> proof_of(const Json& plan) {
  const std::string status = text(plan, "status");
  const auto options = search_options_of(plan);
  if (!options || !at(plan, "lower_bound_s").is_number()) return std::nullopt;
  if (status != "optimal" && status != "feasible") return std::nullopt;
  return report::Proof{model::parse_status(status), number(plan, "lower_bound_s"),
                       number(plan, "gap"), restriction_text(*options)};
}

std::optional<io::SearchOptions> search_options_of(const Json& plan) {
  const Json& written = at(at(plan, "search"), "options");
  if (!written.is_object()) return std::nullopt;
  io::SearchOptions options;
  for (const auto& [name, value] : written.items()) {
    options.emplace_back(name, value.is_string() ? value.get<std::string>() : "");
  }
  return options;
}

std::string difference_of(const Json& document, const model::Plan& plan,
                          const model::Problem& problem) {
  const auto other = [](const char* what, const std::string& was, const std::string& is) {
    return fmt::format("the plan's file is for the {} {}, this page for {}", what, was, is);
  };
  const std::string model = text(document, "model");
  if (!model.empty() && model != problem.graph.name) {
    return other("model", model, problem.graph.name);
  }
  const std::string cluster = text(document, "cluster");
  if (!cluster.empty() && cluster != problem.cluster.name) {
    return other("cluster", cluster, problem.cluster.name);
  }
  const std::int64_t batch = whole(at(document, "batch"), "global_batch");
  if (batch > 0 && batch != problem.options.global_batch) {
    return other("global batch", util::format_count(batch),
                 util::format_count(problem.options.global_batch));
  }
  const double seconds = number(document, "iteration_time_s");
  if (seconds > 0 && std::abs(seconds - plan.iteration_time_s) > 1e-9 * seconds) {
    return fmt::format(
        "the plan's file says {} an iteration, by other options or costs than this page's {}",
        util::precise_seconds(seconds), util::precise_seconds(plan.iteration_time_s));
  }
  const std::string status = text(document, "status");
  const bool fitted = !status.empty() && status != to_string(model::Status::kInfeasible);
  if (fitted && plan.status == model::Status::kInfeasible) {
    return "the plan's file says that it fits, by other options or devices than this page's";
  }
  return "";
}

report::Alternatives alternatives_of(const Json& plan) {
  report::Alternatives result;
  for (const Json& rival : list(plan, "top")) {
    result.rivals.push_back({degrees_text(rival), number(rival, "iteration_time_s"),
                             number(rival, "memory_bytes"), split_of(at(rival, "time_split"))});
  }
  const Json& explanation = at(plan, "explanation");
  result.margins = margins_of(at(plan, "margins"));
  if (result.margins.empty()) result.margins = margins_of(at(explanation, "margins"));
  for (const Json& neighbour : list(explanation, "neighbours")) {
    result.neighbours.push_back(neighbour_of(neighbour));
  }
  if (std::string reason = text(explanation, "reason"); !reason.empty()) {
    result.reasons.push_back(std::move(reason));
  }
  return result;
}

JobResult unfinished_job(const std::string& name, const std::string& plan_file, const Json& plan) {
  JobResult result;
  result.name = name;
  result.status = text(plan, "status");
  result.message = "not finished: stopped, or changed since";
  result.plan = plan_file;
  if (const double seconds = number(plan, "iteration_time_s"); seconds > 0) {
    result.iteration_time_s = seconds;
  }
  if (const double rate = number(at(plan, "throughput"), "tokens_per_s_per_device"); rate > 0) {
    result.tokens_per_s_per_device = rate;
  }
  return result;
}

report::JobRecord record_of(const JobResult& result, const Json& plan) {
  report::JobRecord record;
  record.name = result.name;
  record.status = result.status;
  record.message = result.message;
  record.plan_file = result.plan;
  record.iteration_time_s = result.iteration_time_s.value_or(0);
  record.tokens_per_s_per_device = result.tokens_per_s_per_device.value_or(0);
  record.model = text(plan, "model");
  record.cluster = text(plan, "cluster");
  record.strategy = strategy_of(plan);
  record.devices = whole(at(plan, "devices"), "total");
  record.devices_used = whole(at(plan, "devices"), "used");
  record.global_batch = number(at(plan, "batch"), "global_batch");
  record.gap = number(plan, "gap");
  const Json& throughput = at(plan, "throughput");
  record.tokens_per_s = number(throughput, "tokens_per_s");
  record.model_tflops_per_device = number(throughput, "model_tflops_per_device");
  record.split = split_of(at(plan, "time_split"));
  for (const Json& stage : list(plan, "stages")) record.stages.push_back(stage_of(stage));
  return record;
}

}  // namespace nestplan::cli
