#pragma once

#include <optional>

#include "nestplan/cost/evaluator.hpp"
#include "solver/configuration.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// A plan drawn from all that `configuration` allows by its form: any chain of downsets, any of its
/// strategies, any gaps, any recomputation and ZeRO stage. It need not fit into memory. Empty when
/// the stages drawn do not fit into a pod or a layer lacks a column.
std::optional<cost::PlacedPlan> random_plan(const solver::Instance& instance,
                                            const solver::Configuration& configuration, Dice& dice);

}  // namespace nestplan::testing
