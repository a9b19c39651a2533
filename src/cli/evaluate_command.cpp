#include "cli/commands.hpp"
#include "cli/judged_plan.hpp"
#include "cli/plan_output.hpp"

namespace nestplan::cli {

ExitCode run_evaluate(const Flags& flags, const std::string& plan_file) {
  PlanOutput output(flags);
  const auto [setup, plan] = judge_plan(flags, plan_file);
  output.write(plan, setup, {.fold_stages = false, .breakdown = true, .search = false});
  return plan.status == model::Status::kInfeasible ? ExitCode::kInfeasible : ExitCode::kDone;
}

}  // namespace nestplan::cli
