#pragma once

#include <string>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// A plan of a file, completed and costed for the model and cluster that the flags name.
struct JudgedPlan {
  Setup setup;
  model::Plan plan;
};

/// Objective and target are those of the flags, else those of the plan. A plan that breaks a rule
/// of its target is infeasible, with the rule in its reason. Remarks go to stderr. Throws like
/// `load_setup` and `io::parse_plan`.
JudgedPlan judge_plan(const Flags& flags, const std::string& plan_file);

}  // namespace nestplan::cli
