#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/inputs.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// What one method came to.
struct ComparedPlan {
  std::string method;
  model::Plan plan;

  bool fits() const { return plan.status != model::Status::kInfeasible; }
};

/// Plans of the same inputs by several methods.
struct Comparison {
  std::vector<ComparedPlan> rows;

  /// Throughput of a row over that of the recipe by hand. Empty unless both have a plan.
  std::optional<double> over_manual(const ComparedPlan& row) const;
};

/// A table for people: at most 120 columns of UTF-8, or as wide as reasons are, if `in_full`.
std::string comparison_text(const Comparison& comparison, const Setup& setup, bool in_full);

/// A document with `rows`; the same, row by row, as comma-separated values.
std::string comparison_json(const Comparison& comparison, const Setup& setup);
std::string comparison_csv(const Comparison& comparison, const Setup& setup);

/// A chart of throughputs as an SVG document that stands on its own: bars with their figures and
/// plans in text, told apart in grey too; a method without a plan has an X and the reason.
std::string comparison_svg(const Comparison& comparison, const Setup& setup);

}  // namespace nestplan::cli
