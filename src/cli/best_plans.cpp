#include "cli/best_plans.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "cli/plan_output.hpp"

namespace nestplan::cli {

BestPlans::BestPlans(const Flags& flags, const Inquiry& inquiry, std::int64_t count)
    : flags_(flags), inquiry_(inquiry), wanted_(count) {
  ask_whole();
  while (std::ssize(found_) < count) {
    const std::int64_t next = inquiry_.agree(fastest());
    if (next < 0) break;
    const auto taken = open_.begin() + static_cast<std::ptrdiff_t>(next);
    Part best = std::move(*taken);
    open_.erase(taken);
    if (std::ssize(found_) + 1 < count) split(best);
    found_.push_back(std::move(best.finding));
  }
}

void BestPlans::ask_whole() {
  Part& whole = open_.emplace_back();
  whole.finding = inquiry_.ask(flags_);
  whole.space = whole_space(whole.finding.setup.problem);
  if (!inquiry_.ranks().speaks()) return;
  print_remarks(flags_, whole.finding.setup);
  stopped_ = whole.finding.plan->search.stopped;
}

/// Of the open parts; -1: none has a plan. On the first rank.
std::int64_t BestPlans::fastest() const {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < open_.size(); ++i) {
    if (!open_[i].finding.fits()) continue;
    if (best < 0 || open_[i].finding.plan->iteration_time_s <
                        open_[static_cast<std::size_t>(best)].finding.plan->iteration_time_s) {
      best = static_cast<std::int64_t>(i);
    }
  }
  return best;
}

/// Searches the parts of a space that its best plan's strategy leaves. *Collective.*
void BestPlans::split(const Part& best) {
  // Lists that the first rank alone knows are not needed on the others.
  StrategySpace fixed = best.space;
  StrategyKey key{};
  if (best.finding.plan) key = key_of(*best.finding.plan, best.finding.setup.problem.graph);
  for (std::size_t i = 0; i < kDegrees; ++i) {
    Part part{fixed, {}};
    std::erase(part.space[i], key[i]);
    fixed[i] = {key[i]};
    if (inquiry_.agree(part.space[i].empty() ? 1 : 0) != 0) continue;
    if (inquiry_.over()) {
      stopped_ = true;
      return;
    }
    part.finding = inquiry_.ask(
        flags_, [&part](model::Problem& problem) { restrict_to(part.space, problem); });
    if (part.finding.plan) stopped_ = stopped_ || part.finding.plan->search.stopped;
    open_.push_back(std::move(part));
  }
}

}  // namespace nestplan::cli
