#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "cli/commands.hpp"
#include "cli/compare_report.hpp"
#include "cli/compared_methods.hpp"
#include "cli/console.hpp"
#include "cli/inputs.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/plan_search.hpp"
#include "cli/ranks.hpp"
#include "nestplan/baselines/baselines.hpp"
#include "nestplan/distributed/solve.hpp"

namespace nestplan::cli {
namespace {

/// Where a comparison goes: stdout, and the files of `--csv` and `--svg`.
class ComparisonOutput {
 public:
  /// Proves that the files can be written. Throws InvalidConfig or IoError.
  explicit ComparisonOutput(const Flags& flags) : flags_(flags) {
    const bool csv = is_standard_output(flags.csv), svg = is_standard_output(flags.svg);
    if (csv && flags.json) throw InvalidConfig("--json and --csv cannot share stdout");
    if (svg && flags.json) throw InvalidConfig("--json and --svg cannot share stdout");
    if (svg && csv) throw InvalidConfig("--csv and --svg cannot share stdout");
    refuse_shared_outputs({{"--csv", flags.csv}, {"--svg", flags.svg}}, input_names(flags));
    if (!flags.csv.empty() && !csv) csv_.emplace(flags.csv);
    if (!flags.svg.empty() && !svg) svg_.emplace(flags.svg);
  }

  void write(const Comparison& comparison, const Setup& setup) {
    if (csv_) csv_->commit(comparison_csv(comparison, setup));
    if (svg_) svg_->commit(comparison_svg(comparison, setup));
    print_result(flags_.json                      ? comparison_json(comparison, setup)
                 : is_standard_output(flags_.csv) ? comparison_csv(comparison, setup)
                 : is_standard_output(flags_.svg)
                     ? comparison_svg(comparison, setup)
                     : comparison_text(comparison, setup, flags_.verbose));
  }

 private:
  const Flags& flags_;
  std::optional<io::OutputFile> csv_;
  std::optional<io::OutputFile> svg_;
};

/// The methods of `--methods`, in the order of reports; all by default.
std::vector<std::string> chosen_methods(const Flags& flags) {
  std::vector<std::string> methods = compared_methods();
  if (flags.methods.empty()) return methods;
  std::erase_if(methods, [&](const std::string& method) {
    return std::find(flags.methods.begin(), flags.methods.end(), method) == flags.methods.end();
  });
  return methods;
}

baselines::SearchBudget budget_of(const Flags& flags) {
  baselines::SearchBudget budget;
  if (flags.seed) budget.seed = static_cast<std::uint64_t>(*flags.seed);
  if (flags.mcmc_steps) budget.mcmc_steps = *flags.mcmc_steps;
  budget.time_limit_s = flags.time_limit.value_or(budget.time_limit_s);
  budget.stop_requested = [] { return stop_requested(); };
  return budget;
}

model::Plan find_baseline(const std::string& name, const Flags& flags, const Setup& setup) {
  const std::vector<std::string> names = baselines::method_names();
  const auto index = std::find(names.begin(), names.end(), name) - names.begin();
  return baselines::find_plan(baselines::methods()[static_cast<std::size_t>(index)], setup.problem,
                              *setup.network, budget_of(flags));
}

/// The planner's own plan, by all ranks. On the first rank. *Collective.*
model::Plan find_own(const Flags& flags, const Setup& setup, const Ranks& ranks) {
  return search(flags, setup, ranks, nullptr, end_of(flags)).value_or(model::Plan{});
}

/// Of all rows on the first rank: whether any search was stopped, else whether any found a plan.
ExitCode exit_code_of(const Comparison& comparison) {
  const auto& rows = comparison.rows;
  if (std::any_of(rows.begin(), rows.end(),
                  [](const ComparedPlan& row) { return row.plan.search.stopped; })) {
    return ExitCode::kStopped;
  }
  const bool any = std::any_of(rows.begin(), rows.end(), std::mem_fn(&ComparedPlan::fits));
  return any ? ExitCode::kDone : ExitCode::kInfeasible;
}

}  // namespace

ExitCode run_compare(const Flags& flags, const Ranks& ranks) {
  if (!flags.single_process) ranks.refuse_lonely();
  install_stop_handlers();
  Setup setup;
  std::optional<ComparisonOutput> output;
  ranks.together([&] {
    if (!flags.grid.empty()) distributed::parse_layout(flags.grid, ranks.size());
    if (!ranks.speaks()) return;
    output.emplace(flags);
    setup = load_setup(flags);
  });
  if (ranks.size() > 1) share_setup(ranks.world(), setup);
  print_remarks(flags, setup);
  Comparison comparison;
  for (const std::string& method : chosen_methods(flags)) {
    ComparedPlan& row = comparison.rows.emplace_back(ComparedPlan{method, {}});
    if (method == kPlanner) {
      row.plan = find_own(flags, setup, ranks);
      continue;
    }
    ranks.together([&] {
      if (ranks.speaks()) row.plan = find_baseline(method, flags, setup);
    });
  }
  ExitCode code = ExitCode::kDone;
  ranks.together([&] {
    if (!ranks.speaks()) return;
    output->write(comparison, setup);
    code = exit_code_of(comparison);
  });
  return ranks.agree(code);
}

}  // namespace nestplan::cli
