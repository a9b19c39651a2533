#pragma once

#include <cstdint>
#include <string>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::testing {

/// A problem small enough for `brute_force`, the same for the same seed on every platform.
///
/// 2–5 layers (chains, branches, skip edges, several sources and sinks), 1–3 levels with up to 16
/// devices, oversubscribed or not, 1–4 strategies (tp, cp, ep, two micro-batch sizes), bytes per
/// strategy, layers that lack a column, experts, all-to-all, tight and ample memory, even and
/// uneven batches, both schedules, restricted lists of every kind, and, in every third instance,
/// layers and strategies that cost exactly the same, so that many plans tie. Half of the instances
/// are also asked what frameworks and machine rooms add, communication beside computation in half
/// of these: see random_problem.cpp, and
/// random_network.hpp for the trees, tori and meshes that half of those have instead of plain
/// levels.
model::Problem random_problem(std::uint64_t seed);

/// One line that tells all choices of a plan: equal plans, equal lines.
std::string describe(const cost::PlacedPlan& plan);

}  // namespace nestplan::testing
