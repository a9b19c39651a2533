#pragma once

#include "distributed/performance.hpp"
#include "nestplan/distributed/solve.hpp"
#include "solver/configuration.hpp"

namespace nestplan::distributed {

/// The layout that this model chooses for so many ranks; the same on all of them.
///
/// Looked at are the eight configurations with the best bounds, and of these the one with the
/// largest table, 8 · downsets · depths · positions bytes without pruning.
///
/// 1. A table below 16 MiB is filled by one rank: groups of one, fewer and larger only if there are
///    fewer configurations than ranks.
/// 2. Otherwise every `groups x downsets x stages` with that product is looked at that has no more
///    groups than configurations and no more blocks than depths. Those stay whose ranks have the
///    memory for the table without pruning; if there is none, for the table as it is predicted; if
///    there is none either, those that need least.
/// 3. Of them the one is taken that is predicted (`performance.hpp`) to be done first. With `T` for
///    one table and `c` configurations, that is
///
///        T·(1 + (c - 1)/(10·groups)) + c·(listing and bounding one)/groups
///
///    since the first table, which finds a plan, is what the others wait for, and what it finds
///    leaves them a tenth of its work or less. Ties go to fewer blocks, then to more groups.
///
/// Work is counted for stages up to 1.25 times the least bottleneck that the bounds allow, at the
/// depths whose bounds are within that factor of the best.
RankLayout choose_layout(const solver::Instance& instance, int ranks, double bytes_per_rank,
                         const Machine& machine = assumed_cluster());

/// A table that rule 2 is about: what there is to do for the first one of `configuration`.
TableSummary estimate_table(const solver::Instance& instance,
                            const solver::Configuration& configuration, const solver::Floor& floor);

}  // namespace nestplan::distributed
