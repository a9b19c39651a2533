#pragma once

#include "nestplan/distributed/solve.hpp"
#include "solver/configuration.hpp"

namespace nestplan::distributed {

/// The layout that this model chooses. A configuration's table is filled by one rank unless
/// - its bytes, 8 · downsets · depths · positions unpruned, are 128 MiB or more and the downsets do
///   not all lie in a row: then by all ranks, since one table is the bulk of the work and its waves
///   have enough downsets for everybody; or
/// - its bytes are more than a rank has: then by as many as hold it; or
/// - there are fewer configurations than groups.
/// The ranks of a team share the downsets of a wave first, and cut the depths only when the average
/// wave is narrower than the team.
RankLayout choose_layout(const solver::Instance& instance, int ranks, double bytes_per_rank);

}  // namespace nestplan::distributed
