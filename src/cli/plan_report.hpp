#pragma once

#include <string>

#include "cli/inputs.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How much of a plan is told.
struct ReportDetail {
  bool fold_stages = true;  ///< draw equal consecutive stages together
  bool breakdown = false;   ///< a second table with the time of every stage
  bool search = true;       ///< bound and search, which a given plan does not have
};

/// A plan for people: at most 120 columns of UTF-8.
std::string plan_report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail);

}  // namespace nestplan::cli
