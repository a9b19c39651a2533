#pragma once

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/problem.hpp"
#include "solver/instance.hpp"

namespace nestplan::solver {

/// The stages of `partial` one behind the other, with the first options that are allowed.
cost::PlacedPlan one_behind_another(const model::Problem& problem,
                                    const model::PartialPlan& partial, std::int64_t dp_inner);

/// What a stage may do: what it asks for, else what the options allow.
StageRule rule_of(const model::PartialStage& stage, const model::PlanOptions& options);

}  // namespace nestplan::solver
