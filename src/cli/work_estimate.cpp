#include "cli/work_estimate.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "nestplan/lattice/lattice.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

/// Divisors of `number` up to `most`.
double divisors(std::int64_t number, std::int64_t most) {
  double count = 0;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    if (d <= most) ++count;
    if (d * d != number && number / d <= most) ++count;
  }
  return count;
}

double configurations(const model::Problem& problem) {
  const model::PlanOptions& options = problem.options;
  double count = 0;
  for (const model::Strategy& strategy : problem.graph.strategies) {
    const std::int64_t batch = options.global_batch / strategy.micro_batch;
    const std::int64_t copies = problem.cluster.devices() / (strategy.tp * strategy.cp);
    const double dp = options.allow_uneven_batch ? static_cast<double>(std::min(batch, copies))
                                                 : divisors(batch, copies);
    count += dp;
  }
  return count;
}

/// Stops counting after a moment: then it is a large one in any case.
double downsets(const model::Graph& graph) {
  constexpr std::chrono::milliseconds kMoment{200};
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto late = [&] { return std::chrono::steady_clock::now() - start > kMoment; };
    return lattice::Lattice::enumerate(graph, lattice::Lattice::kDefaultMax, late).size();
  } catch (const lattice::Interrupted&) {
  } catch (const MemoryLimit&) {
  }
  return static_cast<double>(lattice::Lattice::kDefaultMax);
}

}  // namespace

double estimated_work(const model::Problem& problem) {
  const double sets = downsets(problem.graph);
  return configurations(problem) * sets * sets;
}

}  // namespace nestplan::cli
