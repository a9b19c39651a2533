#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/model/plan.hpp"
#include "solver/configuration.hpp"
#include "solver/instance.hpp"
#include "solver/placement.hpp"
#include "solver/stage_pricer.hpp"

namespace nestplan::baselines {

/// One way to run a stage, and what it takes.
struct StageOption {
  model::Recompute recompute = model::Recompute::kNone;
  solver::ShardChoice shard;
  double stable_s = 0;              ///< per micro-batch, without what is received
  double once_s = 0;                ///< per iteration: synchronisation
  std::int64_t most_in_flight = 0;  ///< micro-batches of which the activations fit; 0: none
};

/// Stages of layers in a row as they are profiled: on the first devices of the cluster, whatever
/// devices they get later. A cut is counted in layers from the start of the row.
class StageCosts {
 public:
  /// `instance`: on a row of layers. It and the others must outlive this.
  StageCosts(const solver::Instance& instance, const solver::Configuration& configuration,
             solver::ClassCache& cache);

  const solver::Configuration& configuration() const { return configuration_; }
  int layers() const { return instance_.lattice().layers(); }
  /// Strategies that stages may choose from, by their place in the configuration's list.
  int choices() const { return static_cast<int>(configuration_.strategies.size()); }
  int strategy(int choice) const {
    return configuration_.strategies[static_cast<std::size_t>(choice)];
  }
  /// Devices of a stage.
  std::int64_t devices(int choice) const;

  /// All that options and rules allow for layers `[begin, end)`, in canonical order. Empty if a
  /// layer cannot use the strategy or a rule keeps them apart.
  std::vector<StageOption> options(int choice, int begin, int end);

  /// Seconds for what enters at `cut`, from the stage before it next to it, one way; 0 at the ends.
  double receive_s(int choice, int cut) const;

  /// Micro-batches in flight in the stage that is the `place`-th from the end.
  std::int64_t in_flight(std::int64_t place) const;

 private:
  std::int64_t most_in_flight(const cost::StageFootprint& stage, int choice,
                              const solver::StageOption& option, bool alone) const;

  const solver::Instance& instance_;
  const solver::Configuration& configuration_;
  solver::Placement placement_;
  std::vector<solver::StagePricer> pricers_;
  double usable_bytes_ = 0;
};

}  // namespace nestplan::baselines
