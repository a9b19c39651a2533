#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/progress.hpp"
#include "cli/ranks.hpp"
#include "nestplan/distributed/solve.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {
namespace {

ExitCode exit_code(const model::Plan& plan) {
  switch (plan.status) {
    case model::Status::kOptimal:
      return ExitCode::kDone;
    case model::Status::kFeasible:
      return ExitCode::kStopped;
    case model::Status::kInfeasible:
      return plan.search.stopped ? ExitCode::kStopped : ExitCode::kInfeasible;
  }
  throw InternalError("a plan without a status");
}

/// The plan on the first rank, nothing on the others.
std::optional<model::Plan> search(const Flags& flags, const Setup& setup, const Ranks& ranks) {
  solver::SearchSettings settings;
  if (flags.time_limit) settings.time_limit_s = *flags.time_limit;
  settings.stop_requested = stop_requested;
  ProgressLine line;
  if (!flags.quiet) {
    settings.progress = [&line](const solver::Progress& progress) { line.show(progress); };
  }
  settings.memory_limit_bytes =
      distributed::memory_per_rank(ranks.size() > 1 ? &ranks.world() : nullptr);
  if (ranks.size() == 1) return solver::solve(setup.problem, *setup.network, settings);
  std::optional<distributed::RankLayout> layout;
  if (!flags.grid.empty()) layout = distributed::parse_layout(flags.grid, ranks.size());
  try {
    return distributed::solve(setup.problem, *setup.network, settings, ranks.world(), layout);
  } catch (...) {
    // The others may be waiting for this rank, so there is no agreeing any more.
    const auto [code, message] = describe_failure();
    if (code == ExitCode::kOutOfMemory) {
      // All ranks of a team see this at once: the first of them ends the run before others speak.
      std::this_thread::sleep_for(std::chrono::milliseconds(300) * std::min(ranks.rank(), 10));
    }
    unmute();
    print_message(fmt::format("nestplan: rank {}: {}", ranks.rank(), message));
    ranks.end_all(code);
    throw;
  }
}

}  // namespace

ExitCode run_plan(const Flags& flags, const Ranks& ranks) {
  if (flags.dump_config) {
    print_result(dump_config(flags));
    return ExitCode::kDone;
  }
  if (!flags.single_process) ranks.refuse_lonely();
  install_stop_handlers();
  std::optional<Setup> setup;
  std::optional<PlanOutput> output;
  ranks.together([&] {
    if (!flags.grid.empty()) distributed::parse_layout(flags.grid, ranks.size());
    setup.emplace(load_setup(flags));
    if (ranks.speaks()) output.emplace(flags);
  });
  print_remarks(flags, *setup);
  const std::optional<model::Plan> plan = search(flags, *setup, ranks);
  ExitCode code = ExitCode::kDone;
  ranks.together([&] {
    if (!plan) return;
    output->write(*plan, *setup, {.fold_stages = !flags.verbose, .breakdown = flags.verbose});
    code = exit_code(*plan);
  });
  return ranks.agree(code);
}

}  // namespace nestplan::cli
