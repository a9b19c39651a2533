#include "cli/plan_output.hpp"

#include <fmt/format.h>

#include "cli/console.hpp"

namespace nestplan::cli {
namespace {

constexpr const char* kStdout = "-";

}  // namespace

PlanOutput::PlanOutput(const Flags& flags) : json_(flags.json || flags.output == kStdout) {
  if (!flags.output.empty() && flags.output != kStdout) file_.emplace(flags.output);
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
