#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/batch_store.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/judged_plan.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_records.hpp"
#include "cli/plan_remarks.hpp"
#include "cli/plan_report.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/report/report.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// A word as a shell takes it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

/// The flags of a search as they would be written, those with their defaults left out.
std::string search_flags(const Flags& flags) {
  const auto defaults = search_values(parse_flags(Command::kPlan, {}));
  std::string text;
  for (const auto& [name, values] : search_values(flags)) {
    const auto usual = defaults.find(name);
    if (usual != defaults.end() && usual->second == values) continue;
    text += fmt::format(" --{}", name);
    if (values == std::vector<std::string>{"true"}) continue;
    text += ' ' + shell_word(fmt::format("{}", fmt::join(values, ",")));
  }
  return text;
}

std::vector<std::string> commands_for(const Flags& flags, const std::string& plan_file) {
  const std::string options = search_flags(flags);
  const std::string plan = shell_word(plan_file);
  std::string page = fmt::format("nestplan report {}{}", plan, options);
  if (!flags.output.empty()) page += " -o " + shell_word(flags.output);
  return {fmt::format("nestplan plan{} -o {}", options, plan), page};
}

Json read_json(const std::string& path) {
  return Json::parse(io::read_text(path), nullptr, /*allow_exceptions=*/false);
}

/// A page of one plan, and what the command ends with.
std::pair<std::string, ExitCode> plan_page(const Flags& flags, const std::string& plan_file) {
  const auto [setup, plan] = judge_plan(flags, plan_file);
  const Json document = read_json(plan_file);
  const report::PlanReport report{.problem = setup.problem,
                                  .network = *setup.network,
                                  .plan = plan,
                                  .strategy = strategy_text(plan, setup.problem.graph),
                                  .precision = setup.precision,
                                  .peak_flops = peak_flops(setup.problem.cluster, setup.precision),
                                  .proof = proof_of(document),
                                  .commands = commands_for(flags, plan_file),
                                  .remarks = plan_notes(plan, setup).remarks,
                                  .alternatives = alternatives_of(document)};
  const bool fits = plan.status != model::Status::kInfeasible;
  return {report::plan_page(report), fits ? ExitCode::kDone : ExitCode::kInfeasible};
}

/// The jobs whose plans are in the directory of a batch's -o.
std::vector<report::JobRecord> jobs_in(const std::string& directory) {
  const BatchStore store(directory);
  std::vector<report::JobRecord> jobs;
  for (const std::string& name : store.names()) {
    const Json plan = read_json(store.plan_file(name));
    const std::optional<JobResult> result = store.recorded(name);
    jobs.push_back(
        record_of(result ? *result : unfinished_job(name, store.plan_file(name), plan), plan));
  }
  if (jobs.empty()) {
    throw InvalidInput(
        fmt::format("{}: holds no NAME.plan.json (a directory has to be that of nestplan batch -o)",
                    directory));
  }
  return jobs;
}

/// The jobs of what `batch --json` printed, with the plans that are still there.
std::vector<report::JobRecord> jobs_of(const std::string& file, const Json& summary) {
  std::vector<report::JobRecord> jobs;
  for (std::size_t i = 0; i < summary.at("jobs").size(); ++i) {
    JobResult result;
    try {
      result = result_from_json(summary.at("jobs")[i]);
    } catch (const Json::exception& error) {
      throw InvalidInput(
          fmt::format("{}: jobs[{}]: not a job as nestplan batch --json writes it ({})", file, i,
                      error.what()));
    }
    std::error_code error;
    const bool there = std::filesystem::is_regular_file(result.plan, error);
    jobs.push_back(record_of(result, there ? read_json(result.plan) : Json()));
  }
  return jobs;
}

bool is_summary(const Json& document) {
  return document.is_object() && document.contains("jobs") && document.at("jobs").is_array() &&
         !document.contains("format");
}

/// A batch's plans tell of their inputs themselves.
void refuse_inputs(const Flags& flags, const std::string& file) {
  for (const auto& [name, value] :
       {std::pair{"--model", flags.model}, std::pair{"--graph", flags.graph},
        std::pair{"--cluster", flags.cluster}}) {
    if (value.empty()) continue;
    throw InvalidConfig(fmt::format(
        "{}: is for a plan; {} is a batch, whose plans tell what they are for", name, file));
  }
}

std::string title_of(const std::string& batch) {
  const auto path = std::filesystem::path(batch).lexically_normal();
  const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return "Batch " + name.string();
}

/// The page of a batch; nothing if `file` is not one.
std::optional<std::string> batch_page(const Flags& flags, const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    refuse_inputs(flags, file);
    return report::batch_page(title_of(file), jobs_in(file));
  }
  const Json document = read_json(file);
  if (!is_summary(document)) return std::nullopt;
  refuse_inputs(flags, file);
  return report::batch_page(title_of(file), jobs_of(file, document));
}

}  // namespace

ExitCode run_report(const Flags& flags, const std::string& file) {
  std::error_code absent;
  if (std::filesystem::equivalent(flags.output, file, absent)) {
    throw InvalidConfig(fmt::format("--output {}: is what the page is about; give it another name",
                                    util::quoted(flags.output)));
  }
  std::optional<io::OutputFile> output;
  if (!flags.output.empty() && !is_standard_output(flags.output)) output.emplace(flags.output);
  const std::optional<std::string> batch = batch_page(flags, file);
  const auto [page, code] = batch ? std::pair{*batch, ExitCode::kDone} : plan_page(flags, file);
  if (output) {
    output->commit(page);
  } else {
    print_result(page);
  }
  return code;
}

}  // namespace nestplan::cli
