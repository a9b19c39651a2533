#pragma once

#include <vector>

#include "nestplan/model/problem.hpp"
#include "solver/instance.hpp"

namespace nestplan::solver {

/// A search of part of the plans.
struct Rung {
  model::Problem problem;
  Lattice lattice;
  bool shared = false;  ///< the lattice lies in memory that the ranks of a node share
};

/// The searches that lead to the answer, the last of them: each has the plans of those before it
/// among its own, and far more states. `lattice` is that of the problem.
std::vector<Rung> ladder(const model::Problem& problem, const Lattice& lattice, bool shared);

/// The downsets of the layers of `graph` in a row: each layer after those that feed it, as early as
/// its index allows.
Lattice row_lattice(const model::Graph& graph);

}  // namespace nestplan::solver
