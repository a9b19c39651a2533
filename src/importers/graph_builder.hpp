#pragma once

#include <string>
#include <vector>

#include "importers/operator_graph.hpp"
#include "nestplan/importers/importers.hpp"

namespace nestplan::importers {

/// The graph of a model that was read once for every micro-batch, with one strategy for each and
/// for every tensor-parallel degree that some of it can be split for. Throws InvalidInput if the
/// readings differ in more than sizes, InvalidConfig if no degree is left.
Imported build_graph(std::vector<OperatorGraph> readings, const std::string& file,
                     const cost::CostModel& costs, const Options& options);

}  // namespace nestplan::importers
