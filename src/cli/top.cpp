#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/best_plans.hpp"
#include "cli/cost_margins.hpp"
#include "cli/plan_output.hpp"
#include "cli/questions.hpp"
#include "cli/top_list.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

ExitCode answer_top(const Flags& flags, const Inquiry& inquiry) {
  std::optional<PlanOutput> output;
  inquiry.ranks().together([&] {
    if (inquiry.ranks().speaks()) output.emplace(flags);
  });
  const BestPlans best(flags, inquiry, *flags.top);
  std::vector<CostMargin> margins;
  if (!best.found().empty()) margins = cost_margins(flags, inquiry, best, /*search=*/false);
  ExitCode code = ExitCode::kDone;
  inquiry.ranks().together([&] {
    if (!inquiry.ranks().speaks()) return;
    const auto& [setup, plan] = best.first();
    std::string document = with_member(plan_document(*plan, setup), "top", top_json(best));
    document = with_member(document, "margins", margins_json(margins, best));
    const std::string text =
        margins.empty() ? ""
                        : '\n' + top_text(best, *flags.top) + '\n' + margins_text(margins, best);
    output->write(*plan, setup, {.fold_stages = !flags.verbose, .breakdown = flags.verbose},
                  document, text);
    code = best.stopped() ? ExitCode::kStopped : exit_code_of(*plan);
  });
  return inquiry.ranks().agree(code);
}

}  // namespace nestplan::cli
