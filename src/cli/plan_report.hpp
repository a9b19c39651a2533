#pragma once

#include <string>
#include <string_view>

#include "cli/inputs.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How much of a plan is told.
struct ReportDetail {
  bool fold_stages = true;  ///< draw equal consecutive stages together
  bool breakdown = false;   ///< a second table with the time of every stage
  bool search = true;       ///< bound and search, which a given plan does not have
};

/// Text behind a label, broken into lines that fit.
std::string labelled_paragraph(std::string_view label, const std::string& text);

/// Degrees and micro-batches in one line.
std::string strategy_text(const model::Plan& plan, const model::Graph& graph);

/// Bytes of the fullest stage.
double peak_bytes(const model::Plan& plan);

/// FLOP/s of a device of the cluster in the mean; 0 if a type does not say.
double peak_flops(const model::Cluster& cluster, const std::string& precision);

/// A plan for people: at most 120 columns of UTF-8.
std::string plan_report(const model::Plan& plan, const Setup& setup, const ReportDetail& detail);

}  // namespace nestplan::cli
