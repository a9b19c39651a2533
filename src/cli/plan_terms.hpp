#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/plan_terms.hpp"
#include "nestplan/util/format.hpp"

namespace nestplan::cli {

using model::kPlanTerms;
using model::PlanTerm;
using util::difference_text;

/// "1.2 s", or "0 s" for what is too short to matter.
std::string term_text(double seconds);

/// The terms of `split` less those of `from`, in seconds by key.
nlohmann::ordered_json terms_json(const model::TimeSplit& split, const model::TimeSplit& from = {});

}  // namespace nestplan::cli
