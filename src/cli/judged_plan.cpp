#include "cli/judged_plan.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "cli/overlap.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_target.hpp"
#include "cli/saved_plan.hpp"
#include "cli/text.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// Words of `--overlap` for what a plan says and the flags change.
std::vector<std::string> changed(model::Overlap overlap, const Flags& flags) {
  if (flags.no_transfer_overlap) overlap.pipeline = 0;
  std::vector<std::string> words = overlap_words(overlap);
  words.insert(words.end(), flags.overlap.begin(), flags.overlap.end());
  return words;
}

/// Every kind of recomputation, ZeRO stage and span that the options allow, for all stages alike.
std::vector<model::PlanOptions> uniform_choices(const model::PlanOptions& options) {
  std::vector<model::PlanOptions> choices;
  for (const model::Recompute recompute : options.recompute) {
    for (const int zero : options.zero) {
      for (const model::ShardSpan span : options.shard) {
        model::PlanOptions& choice = choices.emplace_back(options);
        choice.recompute = {recompute};
        choice.zero = {zero};
        choice.shard = {span};
      }
    }
  }
  return choices;
}

/// The fastest completion of `partial`, or where the target cannot run that, the fastest that it
/// can: frameworks know one recomputation and one ZeRO stage for all. If there is none, the first
/// comes back infeasible, and says which rules it breaks before whatever else is wrong with it.
model::Plan completed(const Setup& setup, const model::PartialPlan& partial) {
  model::Plan fastest = solver::complete(setup.problem, *setup.network, partial);
  std::string broken = broken_rules(fastest, setup);
  if (broken.empty()) return fastest;
  std::optional<model::Plan> best;
  model::Problem problem = setup.problem;
  for (const model::PlanOptions& choice : uniform_choices(setup.problem.options)) {
    problem.options = choice;
    model::Plan plan = solver::complete(problem, *setup.network, partial);
    if (plan.status == model::Status::kInfeasible || !broken_rules(plan, setup).empty()) continue;
    if (!best || plan.iteration_time_s < best->iteration_time_s) best = std::move(plan);
  }
  if (best) return *std::move(best);
  fastest.reason =
      fastest.reason.empty() ? std::move(broken) : fmt::format("{}; {}", broken, fastest.reason);
  fastest.status = model::Status::kInfeasible;
  return fastest;
}

}  // namespace

JudgedPlan judge_plan(const Flags& flags, const std::string& plan_file) {
  const SavedPlan saved = read_saved_plan(plan_file);
  Flags effective = flags;
  if (!effective.objective) effective.objective = saved.objective;
  if (!effective.target) effective.target = saved.target;
  if (saved.overlap) effective.overlap = changed(*saved.overlap, flags);
  JudgedPlan judged;
  judged.setup = load_setup(effective, flags.model.empty() ? NeededDegrees{} : saved.degrees);
  judged.setup.search_options.reset();
  const model::Problem& problem = judged.setup.problem;
  const std::int64_t devices = problem.cluster.devices();
  if (saved.devices && *saved.devices != devices) {
    judged.setup.remarks.push_back(fmt::format("{} was made for a cluster of {}; {} has {}",
                                               plan_file, counted(*saved.devices, "device"),
                                               flags.cluster, util::format_count(devices)));
  }
  print_remarks(flags, judged.setup);
  model::PartialPlan partial = io::parse_plan(saved.text, plan_file, problem.graph);
  if (flags.schedule) partial.schedule = problem.options.schedule;
  judged.plan = completed(judged.setup, partial);
  return judged;
}

}  // namespace nestplan::cli
