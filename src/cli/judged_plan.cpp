#include "cli/judged_plan.hpp"

#include <fmt/format.h>

#include "cli/overlap.hpp"
#include "cli/plan_output.hpp"
#include "cli/saved_plan.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {
namespace {

/// Words of `--overlap` for what a plan says and the flags change.
std::vector<std::string> changed(model::Overlap overlap, const Flags& flags) {
  if (flags.no_transfer_overlap) overlap.pipeline = 0;
  std::vector<std::string> words = overlap_words(overlap);
  words.insert(words.end(), flags.overlap.begin(), flags.overlap.end());
  return words;
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
  const model::Problem& problem = judged.setup.problem;
  const std::int64_t devices = problem.cluster.devices();
  if (saved.devices && *saved.devices != devices) {
    judged.setup.remarks.push_back(fmt::format("{} was made for a cluster of {} devices; {} has {}",
                                               plan_file, *saved.devices, flags.cluster, devices));
  }
  print_remarks(flags, judged.setup);
  model::PartialPlan partial = io::parse_plan(saved.text, plan_file, problem.graph);
  if (flags.schedule) partial.schedule = problem.options.schedule;
  judged.plan = solver::complete(problem, *judged.setup.network, partial);
  return judged;
}

}  // namespace nestplan::cli
