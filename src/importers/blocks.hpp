#pragma once

#include <string>
#include <vector>

#include "importers/operator_graph.hpp"

namespace nestplan::importers {

/// The block that each operator of `graph` belongs to, by name.
///
/// With module paths it is the path up to the first numbered part, or the first part where none is
/// numbered; an operator outside of all modules goes with the last that it reads from, or else with
/// the first that reads from it. Without any the operators, in their order, are cut where a single
/// tensor crosses, and a part without products or tables goes with the part before: for residual
/// networks these are the branches with their sums.
std::vector<std::string> blocks_of(const OperatorGraph& graph);

/// The block of a module path, with dots; empty for an empty one.
std::string block_of(const std::vector<std::string>& scope);

}  // namespace nestplan::importers
