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
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_records.hpp"
#include "cli/plan_remarks.hpp"
#include "cli/plan_report.hpp"
#include "cli/search_options.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/keys.hpp"
#include "nestplan/report/report.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The inputs as `flags` name them: " --model M --cluster C".
std::string inputs_text(const Flags& flags) {
  std::string text;
  for (const auto& [option, value] :
       {std::pair{"--model", &flags.model}, std::pair{"--graph", &flags.graph},
        std::pair{"--cluster", &flags.cluster}}) {
    if (!value->empty()) text += fmt::format(" {} {}", option, shell_word(*value));
  }
  return text;
}

/// Empty if the plan does not tell.
std::string search_command(const Flags& flags, const std::string& plan_file, const Json& plan) {
  const auto options = search_options_of(plan);
  if (!options) return "";
  return fmt::format("nestplan plan{}{} -o {}", inputs_text(flags), command_text(*options),
                     shell_word(plan_file));
}

std::string page_command(const Flags& flags, const std::string& plan_file) {
  std::string text = fmt::format("nestplan report {}{}{}", shell_word(plan_file),
                                 inputs_text(flags), command_text(search_options(flags)));
  if (!flags.output.empty()) text += " -o " + shell_word(flags.output);
  return text;
}

Json read_json(const std::string& path) {
  return Json::parse(io::read_text(path), nullptr, /*allow_exceptions=*/false);
}

/// What the plan's file tells of other plans; why nothing, if it is about `other` inputs.
report::Alternatives alternatives_in(const Json& document, const std::string& other) {
  report::Alternatives alternatives = alternatives_of(document);
  if (other.empty() || alternatives.empty()) return alternatives;
  report::Alternatives none;
  none.left_out = other;
  return none;
}

/// A page of one plan, and what the command ends with.
std::pair<std::string, ExitCode> plan_page(const Flags& flags, const std::string& plan_file) {
  const auto [setup, plan] = judge_plan(flags, plan_file);
  const Json document = read_json(plan_file);
  const std::string other = difference_of(document, plan, setup.problem);
  const report::PlanReport report{.problem = setup.problem,
                                  .network = *setup.network,
                                  .plan = plan,
                                  .strategy = strategy_text(plan, setup.problem.graph),
                                  .precision = setup.precision,
                                  .peak_flops = peak_flops(setup.problem.cluster, setup.precision),
                                  .proof = other.empty() ? proof_of(document) : std::nullopt,
                                  .no_proof = other.empty() ? "its file records no search" : other,
                                  .search_command = search_command(flags, plan_file, document),
                                  .page_command = page_command(flags, plan_file),
                                  .remarks = plan_notes(plan, setup).remarks,
                                  .alternatives = alternatives_in(document, other)};
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

/// Where the summary `file` says that a job's plan is: beside itself, or seen from here.
std::string found_plan(const std::string& file, const std::string& plan) {
  std::error_code error;
  const auto beside = std::filesystem::path(file).parent_path() / plan;
  return std::filesystem::is_regular_file(beside, error) ? beside.string() : plan;
}

/// A job of a summary, with its plan; a plan that is not there is missed on the page and on stderr.
report::JobRecord job_of(const std::string& file, JobResult result) {
  if (result.plan.empty()) return record_of(result, Json());
  const std::string named = std::exchange(result.plan, found_plan(file, result.plan));
  std::error_code error;
  if (std::filesystem::is_regular_file(result.plan, error)) {
    return record_of(result, read_json(result.plan));
  }
  const std::string missing = fmt::format("its plan {} is not there", util::quoted(named));
  print_message(fmt::format("nestplan: {}: {}: {} (neither beside the summary nor from here)", file,
                            result.name, missing));
  result.plan.clear();
  result.message += (result.message.empty() ? "" : "; ") + missing;
  return record_of(result, Json());
}

/// The jobs of what `batch --json` printed.
std::vector<report::JobRecord> jobs_of(const std::string& file, const Json& summary) {
  if (summary.at("jobs").empty()) {
    throw InvalidInput(fmt::format("{}: jobs: is empty: there is nothing to report", file));
  }
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
    jobs.push_back(job_of(file, std::move(result)));
  }
  return jobs;
}

bool is_summary(const Json& document) {
  return document.is_object() && document.contains("jobs") && document.at("jobs").is_array() &&
         !document.contains("format");
}

/// A batch's plans tell of their inputs and options themselves.
void refuse_search_flags(const Flags& flags, const std::string& file) {
  const auto defaults = search_values(parse_flags(Command::kReport, {}));
  for (const auto& [name, values] : search_values(flags)) {
    const auto usual = defaults.find(name);
    if (usual != defaults.end() && usual->second == values) continue;
    throw InvalidConfig(fmt::format(
        "--{}: is for a plan; {} is a batch, whose plans tell what they are for", name, file));
  }
}

/// What was asked for is not what came of it.
void refuse_job_list(const Json& document, const std::string& file) {
  if (!document.is_object() || document.value("format", Json()) != io::kBatchFormat) return;
  throw InvalidInput(
      fmt::format("{}: is the job list of a batch, not what came of it: give the directory of "
                  "nestplan batch -o, or what its --json printed",
                  file));
}

std::string title_of(const std::string& batch) {
  const auto path = std::filesystem::path(batch).lexically_normal();
  const auto name = path.has_filename() ? path.filename() : path.parent_path().filename();
  return "Batch " + name.string();
}

std::string page_of_jobs(const Flags& flags, const std::string& file,
                         const std::vector<report::JobRecord>& jobs) {
  std::vector<NamedFile> plans;
  for (const report::JobRecord& job : jobs) plans.push_back({"the job " + job.name, job.plan_file});
  refuse_shared_outputs({{"--output", flags.output}}, plans);
  return report::batch_page(title_of(file), jobs);
}

/// The page of a batch; nothing if `file` is not one.
std::optional<std::string> batch_page(const Flags& flags, const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) {
    refuse_search_flags(flags, file);
    return page_of_jobs(flags, file, jobs_in(file));
  }
  const Json document = read_json(file);
  refuse_job_list(document, file);
  if (!is_summary(document)) return std::nullopt;
  refuse_search_flags(flags, file);
  return page_of_jobs(flags, file, jobs_of(file, document));
}

}  // namespace

ExitCode run_report(const Flags& flags, const std::string& file) {
  std::vector<NamedFile> inputs = input_names(flags);
  inputs.push_back({"what the page is about", file});
  refuse_shared_outputs({{"--output", flags.output}}, inputs);
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
