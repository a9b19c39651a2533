#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/best_plans.hpp"
#include "cli/cost_terms.hpp"
#include "cli/flags.hpp"
#include "cli/inquiry.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How far a term may be off in one direction.
struct MarginSide {
  std::optional<double> factor;  ///< where another plan becomes faster; nothing: not up to kMostOff
  model::Plan winner;            ///< there
  /// A search right before that factor, or at the last one, found no strategy that is faster.
  bool searched = false;
};

/// How far one term may be off, all others being right, before the plan is not the best.
struct CostMargin {
  std::string term;
  MarginSide cheaper, dearer;
};

/// Factors are looked at up to this, and down to its inverse.
inline constexpr double kMostOff = 4;

/// How far costs may be off before another of the best plans is faster than the first. The times
/// under a factor are those of the evaluator for the scaled problem; the first factor at which
/// another plan is faster lies in the first of the intervals between the steps 2^(i/8) whose end
/// shows one to be so, and is found there by bisection to 1e-7.
///
/// With `search` the whole space is searched right before that factor. If a further strategy is
/// faster there, its own crossing takes the place, and so on until a search agrees: the plan's
/// strategy stays best up to there, with stages cut differently or not. (Breakpoints of parametric
/// programs are found so; Eisner and Severance, Journal of the ACM 23, 1976.) Between 1 and such a
/// factor nothing is searched; were times linear in it, nothing could be faster there.
///
/// Known on the first rank. *Collective.*
std::vector<CostMargin> cost_margins(const Flags& flags, const Inquiry& inquiry,
                                     const BestPlans& best, bool search);

/// The least change of one term that matters, in either direction, as a share: 0.1 for 10 %.
/// Nothing: there is none up to kMostOff.
std::optional<double> robust_share(const std::vector<CostMargin>& margins);

/// A table, and what it comes to; of a single plan with which none is compared, that.
std::string margins_text(const std::vector<CostMargin>& margins, const BestPlans& best);

/// `within_factor` is null where nothing is compared.
nlohmann::ordered_json margins_json(const std::vector<CostMargin>& margins, const BestPlans& best);

}  // namespace nestplan::cli
