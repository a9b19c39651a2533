#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "facts/run.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/overlap.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::facts {

/// A measured iteration beside the one that the model predicts, or why there is none.
struct TimedRun {
  std::string source;
  std::string name;      ///< the source's, with a number
  std::string left_out;  ///< why; empty if there is a prediction
  std::string gpu;
  std::string sweep;  ///< what the runs have in common that only their strategies tell apart
  std::string strategy;
  Run run;
  model::Cluster cluster;
  model::Overlap overlap;
  double measured_s = 0;
  double predicted_s = 0;
  model::TimeSplit split;  ///< of the prediction

  /// What the iteration would take on devices of these parameters.
  double seconds(const model::DeviceModel& parameters) const;

  double error() const { return predicted_s / measured_s - 1; }  ///< > 0: predicted to be slower
};

/// The rows of throughput.csv whose configuration is complete and that ran, in their order. Plans
/// are Megatron-LM's: stages one behind the other, and of the ranks of a stage tensor, context and
/// data parallel from the fastest, so that all copies of a stage are neighbours.
std::vector<TimedRun> timed_runs(const std::filesystem::path& facts);

}  // namespace nestplan::facts
