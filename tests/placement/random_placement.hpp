#pragma once

#include "nestplan/model/cluster.hpp"
#include "nestplan/model/plan_outline.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// A hierarchy, sometimes with places that are unavailable, a limit, or hosts of its own.
model::Cluster random_cluster(Dice& dice);

/// A plan that lies within the cluster's pods: all stages alike, or, if `different`, each split in
/// its own way.
model::PlanOutline random_outline(Dice& dice, const model::Cluster& cluster, bool different);

/// Levels of so many blocks each, from the inside out.
model::Cluster cluster_of(const std::vector<std::int64_t>& fanouts);

}  // namespace nestplan::testing
