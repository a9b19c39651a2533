#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "nestplan/cost/evaluator.hpp"
#include "solver/placement.hpp"

namespace nestplan::solver {

/// The best interleaved pipelines of one configuration, `v = vpp` chunks a stage.
///
/// Layers stand in a row, all stages have one strategy and stand side by side without gaps; chunk
/// `c` of stage `i` of `p` is part `c·p + i` of the row. A stage's time `t_i` holds all of its
/// chunks with a transfer at each end of each, and an iteration takes
///
///     Σ t_i / v + (m - 1/v)·max τ_i + sync_1 + ties
///
/// (Narayanan et al., arXiv 2104.04473: the bubble is v times shorter, there are v times as many
/// transfers), with `τ_i` the time of a stage without the transfers that run beside its work, see
/// cost::evaluate. Memory holds what interleaved warm-up leaves in flight.
///
/// **Which layouts.** A stage's time and memory depend on how many layers of each kind it has, not
/// on which chunk they are in. The row falls into runs of layers that cost the same; given in which
/// part each run ends, the stages can have any numbers of each run's layers that leave no part
/// empty. So for every way to end the runs there is a dynamic program over the stages whose state
/// is what is left of each run,
///
///     W_τ[i][left] = min over numbers n of  t_i(n) + W_τ[i+1][left - n],  τ_i(n) ≤ τ,
///
/// made for caps τ as in Visit. Layers between which other tensors cross than between most are not
/// parted. Rows of more kinds of layers than that can handle are searched with equally many counted
/// layers in every part only, as where the rules on stages or the target say so.
///
/// Time O(ways · p · Π lengths · numbers · caps); ways are few for models of one kind of block.
/// The same answer everywhere: nothing depends on ranks.
class Interleaved {
 public:
  Interleaved(const Instance& instance, const Placement& placement);
  ~Interleaved();

  /// The least total of pipelines of `depth` stages if it is no more than `limit`; kNoTotal if not.
  Total best(std::int64_t depth, Total limit);

  /// A pipeline with the least total, which there must be.
  cost::PlacedPlan plan(std::int64_t depth);

  /// Stages priced so far.
  std::int64_t priced() const;

 private:
  class Depth;
  struct Shared;  ///< what all depths have in common
  std::unique_ptr<Shared> shared_;
};

/// Whether `partial` has chunks; then `complete_interleaved` finishes it: positions side by side
/// where they are not given, and the options of each stage, chosen optimally.
bool is_interleaved(const model::PartialPlan& partial);
model::Plan complete_interleaved(const model::Problem& problem, const network::Network& network,
                                 const model::PartialPlan& partial);

}  // namespace nestplan::solver
