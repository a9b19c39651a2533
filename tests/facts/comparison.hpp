#pragma once

#include <string>

#include "facts/bridge_recipes.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::facts {

/// What a search found.
struct Solved {
  model::Plan plan;
  model::Strategy strategy;  ///< of the first stage
  bool experts = false;      ///< whether the model has any

  bool feasible() const { return plan.status != model::Status::kInfeasible; }
};

Solved solve(const model::Problem& problem);

/// In which choices a faster plan differs from the recipe's, and the part of the time that gains
/// most by them: "tp 2 -> 1, pp 4 -> 1: tp/cp/ep 3.1 -> 1 s". Where that part is communication,
/// what the model does not know of it is said as well.
std::string explanation(const BridgeRecipe& recipe, const Solved& theirs, const Solved& ours);

/// What the time of a plan consists of, in percent: "compute 80, tp/cp/ep 12".
std::string shares(const model::Plan& plan);

}  // namespace nestplan::facts
