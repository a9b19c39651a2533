#pragma once

#include <cstdint>

#include "nestplan/simulate/engine.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// Any schedule, 1–6 stages, 1–3 chunks, steps and transfers of 0 to 1 s, in some of those with
/// several chunks partly beside other steps, links that are shared or not, synchronisation.
/// `balanced`: all steps of a kind take equally long but for one in ten thousand, backward steps
/// not less than forward ones, and transfers as good as nothing.
simulate::Pipeline random_pipeline(Dice& dice, bool balanced = false);

/// End of the last backward step of every stage without contention, by the longest path to each
/// step: no events, no clock. All transfers hold up the steps that need them.
std::vector<double> longest_paths(const simulate::Pipeline& pipeline);

}  // namespace nestplan::testing
