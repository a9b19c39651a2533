#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/batch_result.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/report/report.hpp"

namespace nestplan::cli {

// What the JSON documents of this program say, for pages about them. Members that are not there or
// are of another kind count as not said.

/// Of a nestplan.plan/1 document: what its search proved; nothing if it records no search.
std::optional<report::Proof> proof_of(const nlohmann::ordered_json& plan);

/// Of a nestplan.plan/1 document: the options of the search; nothing if they are not recorded.
std::optional<io::SearchOptions> search_options_of(const nlohmann::ordered_json& plan);

/// Why `document` is about another plan than `plan`, its plan as judged for `problem`, as a clause;
/// empty if it is not.
std::string difference_of(const nlohmann::ordered_json& document, const model::Plan& plan,
                          const model::Problem& problem);

/// Of a nestplan.plan/1 document: what was asked beside the plan (`top`, `margins`, `explanation`).
report::Alternatives alternatives_of(const nlohmann::ordered_json& plan);

/// A job of which there is no more than a plan.
JobResult unfinished_job(const std::string& name, const std::string& plan_file,
                         const nlohmann::ordered_json& plan);

/// A job, with its plan if there is one (else null).
report::JobRecord record_of(const JobResult& result, const nlohmann::ordered_json& plan);

}  // namespace nestplan::cli
