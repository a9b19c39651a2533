#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/plan_outline.hpp"
#include "nestplan/placement/placement.hpp"
#include "support/dice.hpp"

namespace nestplan::testing {

/// A plan, the job that it is of and where its ranks are.
struct Case {
  model::PlanOutline plan;
  frameworks::Job job;
  model::Cluster cluster;
  placement::RankOrder order = placement::RankOrder::kPipelineLast;

  placement::Placement placed() const { return placement::place(plan, cluster, order); }
  frameworks::Settings settings(const std::string& format, bool nearest = false) const {
    return frameworks::settings_of(format, plan, job, placed(), nearest);
  }
};

/// Degrees of a plan whose stages are alike.
struct Shape {
  std::int64_t tp = 1, cp = 1, ep = 1;
  std::optional<std::int64_t> etp{};  ///< tp unless given
  std::int64_t dp_inner = 1, dp_outer = 1, vpp = 1;
  std::int64_t micro_batch = 1, microbatches = 1;
  int zero = 0;
  model::Recompute recompute = model::Recompute::kNone;
  std::int64_t tokens = 4096;
};

/// A plan of stages side by side whose parts hold `layers` layers each, in the order in which a
/// micro-batch passes them; `predictions` modules stand in front of the head.
model::PlanOutline plan_of(const Shape& shape, const std::vector<std::int64_t>& layers,
                           std::int64_t predictions = 0);

/// Nodes of `per_node` devices.
model::Cluster cluster_of(std::int64_t nodes, std::int64_t per_node);

/// `slices` slices of a torus of `x` · `y` chips.
model::Cluster torus_of(std::int64_t slices, std::int64_t x, std::int64_t y);

/// The recipe that `plan` stands for, worked out field by field.
frameworks::Recipe expected_recipe(const Case& from);

/// Plans of up to 128 ranks that frameworks can and cannot run; on a torus for MaxText, else on
/// nodes. What stages differ in, where they differ, and which batches divide is random, too.
Case random_case(Dice& dice, bool torus);

}  // namespace nestplan::testing
