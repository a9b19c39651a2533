#include "cli/plan_output.hpp"

#include <fmt/format.h>

#include "cli/console.hpp"
#include "cli/plan_remarks.hpp"
#include "cli/plan_target.hpp"

namespace nestplan::cli {

bool is_standard_output(const std::string& file) {
  return file == "-" || (!file.empty() && names_standard_output(file));
}

void write_result(const std::string& output, const std::string& text) {
  if (output.empty() || is_standard_output(output)) return print_result(text);
  io::OutputFile(output).commit(text);
}

ExitCode exit_code_of(const model::Plan& plan) {
  switch (plan.status) {
    case model::Status::kOptimal:
      return ExitCode::kDone;
    case model::Status::kFeasible:
      return ExitCode::kStopped;
    case model::Status::kInfeasible:
      return plan.search.stopped ? ExitCode::kStopped : ExitCode::kInfeasible;
  }
  throw InternalError("a plan without a status");
}

PlanOutput::PlanOutput(const Flags& flags) : json_(flags.json || is_standard_output(flags.output)) {
  if (!flags.output.empty() && !is_standard_output(flags.output)) file_.emplace(flags.output);
}

std::string plan_document(const model::Plan& plan, const Setup& setup) {
  io::PlanNotes notes = plan_notes(plan, setup);
  notes.search_options = setup.search_options;
  return io::plan_to_json(plan, setup.problem.graph, setup.problem.cluster,
                          setup.problem.options.global_batch, target_of(plan, setup), notes);
}

void PlanOutput::write(const model::Plan& plan, const Setup& setup, const ReportDetail& detail,
                       const std::optional<std::string>& document, const std::string& more) {
  const auto text = [&] { return document ? *document : plan_document(plan, setup); };
  if (file_) file_->commit(text());
  print_result(json_ ? text() : plan_report(plan, setup, detail) + more);
}

std::string with_member(const std::string& document, const char* key,
                        const nlohmann::ordered_json& value) {
  using Json = nlohmann::ordered_json;
  Json out = Json::object();
  const Json plan = Json::parse(document);
  for (const auto& [name, member] : plan.items()) {
    if (name == "search") out[key] = value;
    out[name] = member;
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

void print_remarks(const Flags& flags, const Setup& setup) {
  if (flags.quiet) return;
  for (const std::string& remark : setup.remarks) {
    print_message(fmt::format("nestplan: {}", remark));
  }
}

}  // namespace nestplan::cli
