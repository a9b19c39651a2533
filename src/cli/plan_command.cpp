#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/progress.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {
namespace {

/// Whether the search was asked to end before it was through.
bool was_stopped(const Flags& flags, const model::Plan& plan) {
  return stop_requested() || (flags.time_limit && plan.search.seconds >= *flags.time_limit);
}

ExitCode exit_code(const Flags& flags, const model::Plan& plan) {
  switch (plan.status) {
    case model::Status::kOptimal:
      return ExitCode::kDone;
    case model::Status::kFeasible:
      return ExitCode::kStopped;
    case model::Status::kInfeasible:
      return was_stopped(flags, plan) ? ExitCode::kStopped : ExitCode::kInfeasible;
  }
  throw InternalError("a plan without a status");
}

model::Plan search(const Flags& flags, const Setup& setup) {
  solver::SearchSettings settings;
  if (flags.time_limit) settings.time_limit_s = *flags.time_limit;
  settings.stop_requested = stop_requested;
  ProgressLine line;
  if (!flags.quiet) {
    settings.progress = [&line](const solver::Progress& progress) { line.show(progress); };
  }
  return solver::solve(setup.problem, *setup.network, settings);
}

}  // namespace

ExitCode run_plan(const Flags& flags) {
  if (flags.dump_config) {
    print_result(dump_config(flags));
    return ExitCode::kDone;
  }
  install_stop_handlers();
  const Setup setup = load_setup(flags);
  PlanOutput output(flags);
  print_remarks(flags, setup);
  const model::Plan plan = search(flags, setup);
  output.write(plan, setup, {.fold_stages = !flags.verbose, .breakdown = flags.verbose});
  return exit_code(flags, plan);
}

}  // namespace nestplan::cli
