#pragma once

#include <string>

#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::solver {

/// The same with so much memory on every device.
model::Problem with_memory(model::Problem problem, double bytes);

/// Whether any plan satisfies everything that is asked. Looks no further than the first.
bool has_plan(const model::Problem& problem, const network::Network& network);

/// Why demands on stages, with `--pp`, leave no plan where without them there is one: those that
/// contradict one another, none of which could be left out of the contradiction, and the least
/// change. First is asked about devices of any memory; then, of demands on places alone, about
/// those that there are. Empty if that is not what hinders.
///
/// `thorough`: single demands are told apart, by a number of searches that grows with the logarithm
/// of how many there are; otherwise all are named together.
std::string contradiction(const model::Problem& problem, const network::Network& network,
                          bool thorough);

}  // namespace nestplan::solver
