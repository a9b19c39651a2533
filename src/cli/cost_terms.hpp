#pragma once

#include <functional>
#include <string>
#include <vector>

#include "nestplan/model/problem.hpp"

namespace nestplan::cli {

/// A part of what plans cost that a model of costs may misjudge by a factor, the same everywhere.
struct CostTerm {
  std::string name;
  /// Makes that part of `problem` cost `factor` (> 0) times as much, and nothing else: the solver
  /// and the evaluator then work as ever. Of what is communicated the seconds per byte are
  /// multiplied, not what a message takes whatever its size. Memory stays as it is.
  std::function<void(model::Problem& problem, double factor)> scale;
};

/// The terms that plans of `problem` can have: computation (recomputed or not), collectives of
/// tensor, context and expert groups, transfers between stages, traffic of data parallelism (ties
/// and ZeRO included), and each level or dimension of the network by itself.
///
/// Seconds per byte of data parallelism are multiplied by those of the whole network, while all
/// else moves as many times fewer bytes, since the bytes of its own that the options name also
/// decide on memory. Every algorithm's time per byte is inversely proportional to bandwidths, so
/// the two cancel.
std::vector<CostTerm> cost_terms(const model::Problem& problem);

/// The seconds per byte of one level or dimension of the network.
struct NetworkTerm {
  std::string level;
  std::function<void(model::Problem& problem, double factor)> scale;
};

/// Nearest first.
std::vector<NetworkTerm> network_terms(const model::Problem& problem);

}  // namespace nestplan::cli
