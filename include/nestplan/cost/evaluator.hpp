#pragma once

#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::cost {

/// A plan with every choice made.
struct PlacedStage {
  std::vector<int> layers;  ///< indices into Graph::layers, any order
  int strategy = 0;
  std::int64_t position = 0;
  model::Recompute recompute = model::Recompute::kNone;
  int zero = 0;
  model::ShardSpan shard = model::ShardSpan::kAll;
  /// With interleaving: `layers` by chunk, chunk `c` of stage `i` of `p` being the `c·p + i`-th
  /// part of the model. All stages have equally many. Empty: one chunk, all layers.
  std::vector<std::vector<int>> chunks{};
};

struct PlacedPlan {
  std::int64_t dp = 1;
  std::int64_t dp_inner = 1;
  std::vector<PlacedStage> stages;
};

/// Cost of a plan, straight from the formulas: no dynamic program, no prefix sums, every group of
/// every pod listed device by device. It is the judge of what the search returns, so it shares with
/// the search only the network's primitive times, the bytes of the optimizer's step and the
/// rounding of memory.
///
/// Returns a plan with status kOptimal (meaning here: legal and within memory) or kInfeasible with
/// the reason (memory exceeded, pod too small, batch not divisible, illegal group…); times and
/// memory are filled in as far as they are defined. `iteration_time_s` is in seconds.
/// With `v` chunks a stage (interleaved 1F1B, Narayanan et al., arXiv 2104.04473) a stage's time
/// `t_i` holds all of its chunks with a transfer for each of their boundaries, the bubble is `v`
/// times shorter and the iteration takes `Σ t_i / v + (m - 1/v)·max t_i + sync_1`, for `paper`
/// `(m + (p-1)/v)·max t_i + sync_1`. The micro-batches must be a multiple of the stages.
///
/// Communication beside computation (model::Overlap) shortens `t_i` and `sync_1`. Transfers between
/// the stages of an interleaved pipeline that run beside computation shorten the `t_i` under the
/// maximum alone, `τ_i = t_i - min(share·R_i, t_i - R_i)` with all that stage `i` receives in
/// `R_i`: the first micro-batch on its way down and the last on its way up wait for every transfer.
///
/// The optimizer's step (Graph::updates, cost/update.hpp) is part of a stage's `sync_s` and named
/// in `update_s`; it needs the reduced gradients, so no overlap hides it.
///
/// Ties: every stage but the first that holds some, but not all, of the tied layers exchanges their
/// gradients once per iteration with the devices of its ranks in the first stage, over one
/// point-to-point transfer in both directions at once. These times are added up. They are not part
/// of the objective `paper`, which knows of no such thing.
///
/// Throws InvalidInput if the stages are not a partition of the layers into a chain of downsets, if
/// a layer cannot use its stage's strategy, or if micro-batches of stages differ.
model::Plan evaluate(const model::Problem& problem, const network::Network& network,
                     const PlacedPlan& plan);

}  // namespace nestplan::cost
