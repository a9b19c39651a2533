#pragma once

#include <string>
#include <vector>

#include "frameworks/framework.hpp"
#include "nestplan/frameworks/recipe.hpp"
#include "nestplan/model/plan_outline.hpp"

namespace nestplan::frameworks {

struct Fit {
  Recipe recipe;  ///< normalised
  ModelKind kind = ModelKind::kDecoder;
  std::vector<std::string> remarks;
};

/// `plan` as `framework` can be told it. Throws InvalidInput naming the field of the plan for what
/// the plan leaves open, and for the first rule or demand that it breaks; with `nearest` remedies
/// are applied where there are some, each with a remark.
Fit fit(const model::PlanOutline& plan, const Job& job, placement::RankOrder order,
        const Framework& framework, bool nearest);

}  // namespace nestplan::frameworks
