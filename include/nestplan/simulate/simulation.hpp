#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/simulate/engine.hpp"
#include "nestplan/simulate/pipeline.hpp"

namespace nestplan::simulate {

/// Limits of an iteration without contention, in seconds.
///
/// Let stage `k` of `p` have steps of `f_k` and `b_k`, their transfers included, `t_k = f_k + b_k`,
/// and `T = max t_k`. No schedule is faster than
///
///     least = max_k [ Σ_(j<k) t_j + m·t_k ] + sync_1,
///
/// since stage `k` waits for the first micro-batch to come down, has `m` of them to work on, and
/// the last gradient has to go up again. It is `Σ_(j>k) t_j` below `Σ t + (m-1)·T` if stage `k` is
/// the slowest, so the formula of 1f1b is exact where that is the last stage, if it is a bound at
/// all:
///
/// - `1f1b`: stage `k` is through with its forward step `n ≥ p-k+1` (from 1) by
///   `Σ f + Σ_(j>k) b_j + (n-1-p+k)·T + E` and with its backward step `n` by
///   `Σ f + Σ_(j≥k) b_j + (n-1)·T + E`: by induction, as each step that one of these waits for is
///   at least its own time earlier. The first `p-k+1` forward steps of stage `k` have only forward
///   steps before them, the longest row of which takes `w_k`; hence
///   `E = max_k max(0, w_k - Σ_(j≤k) f_j - Σ_(j>k) t_j)` and
///
///       most = Σ t + (m-1)·T + E + sync.
///
///   `E = 0` where no forward step takes longer than any stage's whole `t`, since
///   `w_k ≤ Σ_(j≤k) f_j + (p-k)·max f`. So the formula is an upper bound of almost every plan.
/// - `gpipe`: exactly `Σ t + (m-1)·(max f + max b)`, never less than the formula.
/// - interleaved `1f1b`: no upper bound is known here. Equal chunks with `f ≤ b` meet the formula
///   exactly. `Σ_(j<k) t_j` counts the first chunk of each stage alone, and `m·t_k` no transfers
///   that run beside steps. Of these the formula counts one way through all stages while the
///   pipeline fills, but a micro-batch comes through the stages once for each of their `v` chunks:
///   with equal chunks and transfers shorter than a step all of which are beside it, an iteration
///   takes `(v-1)/v` of one micro-batch's transfers longer than the formula says.
///
/// `sync` is `sync_1`, or `sync_k - Σ_(j<k) b_j` if that is more for another stage, and the ties of
/// all stages are added.
struct Bounds {
  double least_s = 0;
  std::optional<double> most_s;
};

Bounds bounds_of(const Pipeline& pipeline, const PodKind& kind);

/// One stage over an iteration. The items up to `idle_s` add up to the iteration; receiving is what
/// the slowest kind of pods had to do.
struct StageSummary {
  double forward_s = 0;
  double backward_s = 0;
  double receive_s = 0;
  double sync_s = 0;
  double update_s = 0;  ///< the part of it that is the optimizer's step
  double tie_s = 0;     ///< of the first stage: all of them
  double idle_s = 0;
  double sync_start_s = 0;
  double sync_end_s = 0;
};

/// One level of the network over an iteration; transfers between stages only.
struct LevelSummary {
  std::string name;
  std::int64_t transfers = 0;
  double bytes = 0;       ///< by all devices
  double busy_share = 0;  ///< of the iteration, while at least one transfer was on its way
  /// Bytes through the fullest uplink to this level, of what it could have carried.
  double fullest_uplink_share = 0;
};

/// A row of events at the end of an iteration: the exchange of one stage's tied gradients.
struct TieEvent {
  std::int64_t stage = 0;
  double start_s = 0;
  double end_s = 0;
};

/// What an iteration takes and why it is not what the formula says. The three differences add up to
/// `makespan_s - predicted_s`.
struct Simulation {
  double makespan_s = 0;
  double predicted_s = 0;           ///< Plan::iteration_time_s
  double without_contention_s = 0;  ///< each transfer as if it had the network for itself
  double contention_s = 0;          ///< makespan_s - without_contention_s
  double schedule_s = 0;         ///< last backward step of stage 1, less the formula's sum and max
  double synchronisation_s = 0;  ///< what is after that step, less what the formula counts
  Bounds bounds;                 ///< of without_contention_s
  std::vector<StageSummary> stages;
  std::vector<LevelSummary> levels;
  std::vector<TieEvent> ties;
  std::int64_t pod_kinds = 1;
  std::int64_t events = 0;  ///< of one simulation of all kinds of pods, with synchronisation
  std::size_t slowest_kind = 0;
};

/// Simulates one iteration of a plan that cost::evaluate found feasible, with and without
/// contention. An iteration ends when all stages have synchronised. A stage synchronises over all
/// pods at once, when its last backward step is done in all of them; then stages that share
/// parameters with the first exchange gradients with it, one after the other, in the order in which
/// Megatron-LM finalises gradients. What model::Overlap hides of it is taken off beforehand, and no
/// more runs beside steps. The formula counts the synchronisation of the first stage alone.
///
/// Pods of one kind are simulated once: see PodKind.
Simulation simulate(const Pipeline& pipeline, const network::Network& network,
                    const model::Plan& plan);

}  // namespace nestplan::simulate
