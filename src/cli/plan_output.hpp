#pragma once

#include <optional>
#include <string>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_report.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// Where a plan goes: the file of `--output`, and stdout as text or JSON.
class PlanOutput {
 public:
  /// Proves that the file can be written. Throws IoError.
  explicit PlanOutput(const Flags& flags);

  /// Throws IoError.
  void write(const model::Plan& plan, const Setup& setup, const ReportDetail& detail);

 private:
  bool json_;
  std::optional<io::OutputFile> file_;
};

/// Remarks of the setup go to stderr, unless `--quiet`.
void print_remarks(const Flags& flags, const Setup& setup);

}  // namespace nestplan::cli
