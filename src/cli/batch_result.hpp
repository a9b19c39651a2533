#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// What came of a job.
struct JobResult {
  std::string name;
  /// "optimal", "feasible", "infeasible"; "stopped": no plan yet; "failed"; "waiting": not begun.
  std::string status = "waiting";
  ExitCode code = ExitCode::kStopped;  ///< what `plan` would have ended with
  std::string message;                 ///< why there is no better news
  std::string plan;                    ///< file of the plan, if there is one
  std::optional<double> iteration_time_s, samples_per_s, tokens_per_s_per_device;
  std::int64_t dp = 0, pp = 0;   ///< 0: no plan
  std::vector<std::int64_t> tp;  ///< degrees that occur, ascending
  double search_s = 0;
  bool reused = false;  ///< from an earlier run
};

nlohmann::ordered_json to_json(const JobResult& result);
/// Throws nlohmann's exceptions for anything that `to_json` does not write.
JobResult result_from_json(const nlohmann::ordered_json& json);

/// A job that ended without an answer.
JobResult failed_job(const std::string& name, ExitCode code, const std::string& message);

/// "optimal, 1.234 s, 812 tokens/s per device, dp 4 pp 2 tp 8, in 0.2 s".
std::string result_text(const JobResult& result);

/// The summary of a batch: a table for people, at most 120 columns wide unless `in_full`; a JSON
/// document; comma-separated values (RFC 4180) with a heading.
std::string summary_text(const std::vector<JobResult>& results, bool in_full);
std::string summary_json(const std::vector<JobResult>& results);
std::string summary_csv(const std::vector<JobResult>& results);

/// Exit code of a batch: kStopped if a signal ended it, else that of the most serious job.
ExitCode batch_exit_code(const std::vector<JobResult>& results, bool stopped);

}  // namespace nestplan::cli
