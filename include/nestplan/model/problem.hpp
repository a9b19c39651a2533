#pragma once

#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::model {

/// Everything a search needs: the model with its costs, the machine, and what may be chosen.
struct Problem {
  Graph graph;
  Cluster cluster;
  PlanOptions options;
  bool operator==(const Problem&) const = default;
};

}  // namespace nestplan::model
