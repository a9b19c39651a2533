#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/calibrate/fit.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/model.hpp"
#include "nestplan/model/overlap.hpp"

namespace nestplan::calibrate {

/// What measurements were made on, and where their models are.
struct Setting {
  /// The first of its types of devices is the one to be calibrated; others keep their parameters. A
  /// run on fewer devices has the first of them.
  model::Cluster cluster;
  model::Overlap overlap;  ///< of its runs
  /// The model that a cell of the column `model` names. Throws InvalidInput.
  std::function<model::Model(const std::string&)> load_model;
};

/// Tables of comma-separated values with a header (util::Csv). Columns may be in any order; unknown
/// ones are refused. An empty cell counts as left out.
///
/// All tables:
///
///     model           a config.json or its directory
///     seq             tokens per sequence; not for models without sequences
///     micro_batch     1
///     tp, cp, ep, etp 1; etp as tp
///     precision       bf16
///     attention       fused (the device's own kernels), flash1, flash2 or unfused
///     sequence_parallel  yes or no (yes)
///     device          the name of the device to be calibrated, or nothing; others are refused
///     group           rows of a group are held out together; else those that differ in the time
///                     alone
///     note            anything
///
/// Runs: an iteration of a 1F1B pipeline of equal stages, interleaved if vpp > 1, on the cluster.
///
///     global_batch    sequences
///     devices         all of the cluster
///     pp, vpp, dp     1, 1, devices/(tp·cp·pp)
///     zero            0 to 3 (1)
///     recompute       none, selective or full (none)
///     iteration_s, tokens_per_s   one of them
///
/// Layers: one or both directions of one layer on one device, without its messages.
///
///     layer           as the graph of the model calls it ("layer.0", "head", …)
///     granularity     layer, block or operator (layer)
///     forward_s, backward_s
///
/// Both throw InvalidInput with "file:line: column: what is wrong (what would be right)".
std::vector<Sample> read_runs(std::string_view text, const std::string& file,
                              const Setting& setting);
std::vector<Sample> read_layers(std::string_view text, const std::string& file,
                                const Setting& setting);

}  // namespace nestplan::calibrate
