#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_report.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// Where a plan goes: the file of `--output`, and stdout as text or JSON.
class PlanOutput {
 public:
  /// Proves that the file can be written. Throws IoError.
  explicit PlanOutput(const Flags& flags);

  /// Throws IoError. `document`: the plan's, if it is there already. `more`: said after the plan to
  /// people.
  void write(const model::Plan& plan, const Setup& setup, const ReportDetail& detail,
             const std::optional<std::string>& document = {}, const std::string& more = "");

 private:
  bool json_;
  std::optional<io::OutputFile> file_;
};

/// A plan as a file holds it.
std::string plan_document(const model::Plan& plan, const Setup& setup);

/// The document of a plan with one member more, before `search`.
std::string with_member(const std::string& document, const char* key,
                        const nlohmann::ordered_json& value);

/// True for "-" and for names of what stdout is, such as /dev/stdout.
bool is_standard_output(const std::string& file);

/// To the file of `--output`, or to stdout where none is given. Throws IoError.
void write_result(const std::string& output, const std::string& text);

/// What a search that came to `plan` ends with.
ExitCode exit_code_of(const model::Plan& plan);

/// Remarks of the setup go to stderr, unless `--quiet`.
void print_remarks(const Flags& flags, const Setup& setup);

}  // namespace nestplan::cli
