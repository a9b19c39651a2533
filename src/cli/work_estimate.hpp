#pragma once

#include "nestplan/model/problem.hpp"

namespace nestplan::cli {

/// How much work the search of `problem` is likely to be, compared with others: configurations
/// (micro-batch, dp, dp_inner, strategy) times pairs of downsets. In no unit.
double estimated_work(const model::Problem& problem);

}  // namespace nestplan::cli
