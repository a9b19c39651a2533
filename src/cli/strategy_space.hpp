#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::cli {

/// The degrees that make two plans different strategies, where all stages share one.
enum Degree : std::size_t { kMicroBatch, kDp, kPp, kVpp, kTp, kCp, kEp, kDegrees };

inline constexpr std::array<const char*, kDegrees> kDegreeNames{"micro_batch", "dp", "pp", "vpp",
                                                                "tp",          "cp", "ep"};

using StrategyKey = std::array<std::int64_t, kDegrees>;
using StrategySpace = std::array<std::vector<std::int64_t>, kDegrees>;

/// The list of a degree among the options.
std::vector<std::int64_t>& list_of(model::PlanOptions& options, Degree degree);

/// The degrees of a plan that has stages.
StrategyKey key_of(const model::Plan& plan, const model::Graph& graph);

/// Every degree that a plan of `problem` can have, ascending, without empty lists that mean all.
StrategySpace whole_space(const model::Problem& problem);

/// Leaves of `problem` the plans with degrees of `space` only.
void restrict_to(const StrategySpace& space, model::Problem& problem);

}  // namespace nestplan::cli
