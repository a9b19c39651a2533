#pragma once

#include <optional>
#include <string>

#include "nestplan/model/problem.hpp"
#include "nestplan/mpi/mpi.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/solver/team.hpp"

namespace nestplan::distributed {

/// How the ranks share a search: `groups` of `team.size()` ranks each take configurations, and the
/// ranks of a group fill each table together.
struct RankLayout {
  int groups = 1;
  solver::Grid team;
};

/// Reads "groups x downsets x stages", like "2x3x1". Throws InvalidConfig unless the product is
/// `ranks`.
RankLayout parse_layout(const std::string& text, int ranks);

/// `solver::solve` on all ranks of `world`: the same plan, to the byte. The plan comes back on rank
/// 0, nothing on the others. Without a layout, one is chosen by table size and memory
/// (`src/distributed/layout.hpp`). *Collective over `world`.* An exception on one rank does not
/// reach the others: whoever catches it must end the run (`mpi::Comm::abort`).
std::optional<model::Plan> solve(const model::Problem& problem, const network::Network& network,
                                 const solver::SearchSettings& settings, const mpi::Comm& world,
                                 const std::optional<RankLayout>& layout = {});

/// Bytes of memory a rank may use: what is free on its node over the ranks there. Without a
/// communicator, this process has it all. *Collective over `world`.*
double memory_per_rank(const mpi::Comm* world);

}  // namespace nestplan::distributed
