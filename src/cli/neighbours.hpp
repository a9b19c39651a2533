#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::cli {

/// A plan that differs from another one in a single choice, all others being free again.
struct Neighbour {
  std::string label;    ///< "tp 8", short
  std::string change;   ///< "tp 8 instead of 4"
  std::string option;   ///< what chooses it, such as "--tp"
  Flags flags;          ///< that leave nothing else
  bool offered = true;  ///< false: the search was not free to choose it
};

/// The neighbours of `plan`, the same strategy in all stages, one step away each:
///
/// - tp, cp, ep, pp, vpp, dp, dp_inner and micro-batch at half and at twice the value; where that
///   cannot be, at the nearest value that the search may choose; where there is none, at half and
///   at twice the value all the same, as what was not offered (not of a graph's strategies);
/// - ZeRO and recomputation at one of the plan's own stages, or the next less or more, everywhere;
/// - the other schedule.
std::vector<Neighbour> neighbours_of(const Flags& flags, const model::Problem& problem,
                                     const model::Plan& plan);

}  // namespace nestplan::cli
