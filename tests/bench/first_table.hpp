#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "distributed/performance.hpp"
#include "nestplan/network/network.hpp"
#include "solver/table.hpp"
#include "solver/visit.hpp"

namespace nestplan::bench {

/// What a search knows before its last rung, searched alone on this process: a plan's cost in
/// ticks.
solver::Total known_before(const model::Problem& problem, const network::Network& network);

/// The first table that a search fills on its last rung, given what is known by then: that of the
/// configuration with the best bound.
class FirstTable {
 public:
  FirstTable(const model::Problem& problem, const network::Network& network, solver::Total known);

  const solver::Instance& instance() const { return instance_; }
  const solver::Placement& placement() const { return *placement_; }
  const solver::PortLayers& layers() const { return *layers_; }
  const solver::TableRequest& request() const { return *visit_->request(); }

  /// Its work, from walks up from so many downsets.
  distributed::TableSummary summary(std::int64_t walks = kAll) const;
  /// The same of the waves before that of `next`.
  distributed::TableSummary summary_until(solver::DownsetId next, std::int64_t walks = kAll) const;
  static constexpr std::int64_t kAll = std::numeric_limits<std::int32_t>::max();

  /// The table, empty.
  solver::Table make(solver::Team& team) const;

 private:
  solver::Instance instance_;
  solver::ConfigurationSpace space_;
  solver::ClassCache classes_;
  std::vector<solver::Configuration> configurations_;
  solver::Incumbent incumbent_;
  std::unique_ptr<solver::Placement> placement_;
  std::unique_ptr<solver::DepthBounds> bounds_;
  std::unique_ptr<solver::Visit> visit_;
  std::unique_ptr<solver::PortLayers> layers_;
};

}  // namespace nestplan::bench
