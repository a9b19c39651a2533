#include "cli/batch_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/csv.hpp"
#include "cli/nothing.hpp"
#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;

/// What is unknown is null.
Json or_null(std::int64_t value) { return value > 0 ? Json(value) : Json(nullptr); }

std::optional<double> number_or_nothing(const Json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}
std::int64_t count_or_zero(const Json& value) {
  return value.is_null() ? 0 : value.get<std::int64_t>();
}

std::string count_text(std::int64_t count) {
  return count > 0 ? fmt::format("{}", count) : kNothing;
}

std::string degrees_text(const std::vector<std::int64_t>& degrees) {
  return degrees.empty() ? kNothing : fmt::format("{}", fmt::join(degrees, ","));
}

/// The answers of jobs, commonest first as they are met.
std::string counts_text(const std::vector<JobResult>& results) {
  std::vector<std::string> order;
  std::map<std::string, int> counts;
  int reused = 0;
  for (const JobResult& result : results) {
    if (counts[result.status]++ == 0) order.push_back(result.status);
    reused += result.reused ? 1 : 0;
  }
  std::string text = fmt::format("{} job{}", results.size(), results.size() == 1 ? "" : "s");
  const char* separator = ": ";
  for (const std::string& status : order) {
    text += fmt::format("{}{} {}", separator, counts[status], status);
    separator = ", ";
  }
  if (reused > 0) text += fmt::format("; {} finished before and not repeated", reused);
  return text;
}

}  // namespace

Json to_json(const JobResult& result) {
  return {{"name", result.name},
          {"status", result.status},
          {"exit_code", static_cast<int>(result.code)},
          {"iteration_time_s", or_null(result.iteration_time_s)},
          {"samples_per_s", or_null(result.samples_per_s)},
          {"tokens_per_s_per_device", or_null(result.tokens_per_s_per_device)},
          {"dp", or_null(result.dp)},
          {"pp", or_null(result.pp)},
          {"tp", result.tp},
          {"search_s", result.search_s},
          {"reused", result.reused},
          {"plan", result.plan.empty() ? Json(nullptr) : Json(result.plan)},
          {"message", result.message}};
}

JobResult result_from_json(const Json& json) {
  JobResult result;
  result.name = json.at("name").get<std::string>();
  result.status = json.at("status").get<std::string>();
  result.code = static_cast<ExitCode>(json.at("exit_code").get<int>());
  result.iteration_time_s = number_or_nothing(json.at("iteration_time_s"));
  result.samples_per_s = number_or_nothing(json.at("samples_per_s"));
  result.tokens_per_s_per_device = number_or_nothing(json.at("tokens_per_s_per_device"));
  result.dp = count_or_zero(json.at("dp"));
  result.pp = count_or_zero(json.at("pp"));
  result.tp = json.at("tp").get<std::vector<std::int64_t>>();
  result.search_s = json.at("search_s").get<double>();
  result.reused = json.at("reused").get<bool>();
  if (!json.at("plan").is_null()) result.plan = json.at("plan").get<std::string>();
  result.message = json.at("message").get<std::string>();
  return result;
}

JobResult failed_job(const std::string& name, ExitCode code, const std::string& message) {
  JobResult result;
  result.name = name;
  result.status = "failed";
  result.code = code;
  result.message = message;
  return result;
}

std::string result_text(const JobResult& result) {
  std::string text = result.status;
  if (result.iteration_time_s) text += ", " + precise_seconds(*result.iteration_time_s);
  if (result.tokens_per_s_per_device) {
    text +=
        fmt::format(", {} tokens/s per device", util::rate_text(*result.tokens_per_s_per_device));
  }
  if (result.dp > 0) {
    text += fmt::format(", dp {} pp {} tp {}", result.dp, result.pp, degrees_text(result.tp));
  }
  if (result.search_s > 0) text += fmt::format(", in {}", util::format_seconds(result.search_s));
  if (!result.message.empty()) text += ": " + result.message;
  if (result.reused) text += " (finished before, not repeated)";
  return text;
}

std::string summary_text(const std::vector<JobResult>& results, bool in_full) {
  using enum Table::Align;
  constexpr std::size_t kMessage = 8;
  constexpr std::size_t kWidth = 120;
  Table table({{"job"},
               {"status"},
               {"iteration", kRight},
               {"tokens/s/device", kRight},
               {"dp", kRight},
               {"pp", kRight},
               {"tp", kRight},
               {"search", kRight},
               {""}});
  for (const JobResult& result : results) {
    table.add({result.name, result.status,
               result.iteration_time_s ? precise_seconds(*result.iteration_time_s) : kNothing,
               result.tokens_per_s_per_device ? util::rate_text(*result.tokens_per_s_per_device)
                                              : kNothing,
               count_text(result.dp), count_text(result.pp), degrees_text(result.tp),
               result.search_s > 0 ? util::format_seconds(result.search_s) : kNothing,
               printable(result.message)});
  }
  return table.text(kMessage, in_full ? std::string::npos : kWidth) + counts_text(results) + "\n";
}

std::string summary_json(const std::vector<JobResult>& results) {
  Json jobs = Json::array();
  for (const JobResult& result : results) jobs.push_back(to_json(result));
  const Json summary{{"jobs", jobs}};
  return summary.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

std::string summary_csv(const std::vector<JobResult>& results) {
  std::vector<Json> records;
  for (const JobResult& result : results) records.push_back(to_json(result));
  return csv_text(records);
}

ExitCode batch_exit_code(const std::vector<JobResult>& results, bool stopped) {
  constexpr std::array kBySeriousness{ExitCode::kInternalError, ExitCode::kSystemFailure,
                                      ExitCode::kOutOfMemory,   ExitCode::kBadInput,
                                      ExitCode::kStopped,       ExitCode::kInfeasible};
  if (stopped) return ExitCode::kStopped;
  for (const ExitCode code : kBySeriousness) {
    const auto ended_so = [&](const JobResult& result) { return result.code == code; };
    if (std::any_of(results.begin(), results.end(), ended_so)) return code;
  }
  return ExitCode::kDone;
}

}  // namespace nestplan::cli
