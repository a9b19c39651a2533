#include <fmt/format.h>

#include "cli/commands.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/saved_plan.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {

ExitCode run_evaluate(const Flags& flags, const std::string& plan_file) {
  const SavedPlan saved = read_saved_plan(plan_file);
  Flags effective = flags;
  if (!effective.objective) effective.objective = saved.objective;
  if (!effective.target) effective.target = saved.target;
  Setup setup = load_setup(effective, flags.model.empty() ? NeededDegrees{} : saved.degrees);
  const std::int64_t devices = setup.problem.cluster.devices();
  if (saved.devices && *saved.devices != devices) {
    setup.remarks.push_back(fmt::format("{} was made for a cluster of {} devices; {} has {}",
                                        plan_file, *saved.devices, flags.cluster, devices));
  }
  PlanOutput output(flags);
  print_remarks(flags, setup);
  model::PartialPlan partial = io::parse_plan(saved.text, plan_file, setup.problem.graph);
  if (flags.schedule) partial.schedule = setup.problem.options.schedule;
  const model::Plan plan = solver::complete(setup.problem, *setup.network, partial);
  output.write(plan, setup, {.fold_stages = false, .breakdown = true, .search = false});
  return plan.status == model::Status::kInfeasible ? ExitCode::kInfeasible : ExitCode::kDone;
}

}  // namespace nestplan::cli
