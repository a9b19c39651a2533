#include "cli/plan_output.hpp"

#include <fmt/format.h>

#include "cli/console.hpp"

namespace nestplan::cli {
namespace {

/// "-", or a name of what stdout is, such as /dev/stdout.
bool is_standard_output(const std::string& file) {
  return file == "-" || (!file.empty() && names_standard_output(file));
}

}  // namespace

PlanOutput::PlanOutput(const Flags& flags) : json_(flags.json || is_standard_output(flags.output)) {
  if (!flags.output.empty() && !is_standard_output(flags.output)) file_.emplace(flags.output);
}

void PlanOutput::write(const model::Plan& plan, const Setup& setup, const ReportDetail& detail) {
  const auto document = [&] {
    return io::plan_to_json(plan, setup.problem.graph, setup.problem.cluster,
                            setup.problem.options.global_batch);
  };
  if (file_) file_->commit(document());
  print_result(json_ ? document() : plan_report(plan, setup, detail));
}

void print_remarks(const Flags& flags, const Setup& setup) {
  if (flags.quiet) return;
  for (const std::string& remark : setup.remarks) {
    print_message(fmt::format("nestplan: {}", remark));
  }
}

}  // namespace nestplan::cli
