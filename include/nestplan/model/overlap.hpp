#pragma once

#include <array>

#include "nestplan/model/graph.hpp"

namespace nestplan::model {

/// Communication that frameworks hide: of each kind, the share of its seconds, in [0, 1], that runs
/// beside computation of the same device where there is enough of it.
///
/// *Per micro-batch* a stage computes for `C` seconds (forward, backward and what is recomputed)
/// and communicates for `K` seconds: the collectives of its layers, recomputed ones included, and
/// the traffic of ZeRO. With `H = Σ share·seconds` over the terms of `K`, the part `min(H, C)` is
/// hidden, so that the stage takes
///
///     A = C + K - min(H, C) = max(C + K - H, K)
///
/// and what it receives from its neighbours. What is not hidden, and communication itself, still
/// takes its time one after the other.
///
/// *Transfers between stages* are hidden by interleaved schedules alone. With one chunk a stage,
/// stage `i` of `p` has `p - i + 1` micro-batches in flight, so the way of one of them from a stage
/// to the last and back again has no slack: with transfers of `x` seconds one way, a period of a
/// balanced pipeline takes `t + 2x(p-1)/p` even if sending and receiving cost the devices nothing.
/// Interleaving has about twice as many micro-batches of warm-up in flight, which is the slack, and
/// Megatron-LM's `overlap_p2p_comm` exists for it alone (Narayanan et al., arXiv 2104.04473,
/// section 2.2; `megatron/core/pipeline_parallel/schedules.py`). While such a pipeline is full, a
/// stage that receives for `R` seconds in all takes `A + R - min(pipeline·R, A)`; filling it pays
/// for every transfer.
///
/// *Synchronisation* hides where it is next to computation of one micro-batch: what reduces
/// gradients beside the last backward (and recomputed) step, what gathers weights beside the first
/// forward step of the next iteration.
struct Overlap {
  double tensor = 0;    ///< collectives of tensor-parallel groups
  double context = 0;   ///< exchanges round a ring of context-parallel groups, not all-to-all
  double expert = 0;    ///< collectives of expert-parallel groups
  double shards = 0;    ///< traffic of ZeRO per micro-batch, and of data-parallel groups in layers
  double sync = 0;      ///< synchronisation once per iteration
  double pipeline = 0;  ///< transfers between stages, with several chunks a stage

  bool none() const { return *this == Overlap{}; }
  /// The share of a layer's collective.
  double of(const Collective& collective) const;
  bool operator==(const Overlap&) const = default;
};

/// The shares by name, in the order in which they are shown.
struct OverlapTerm {
  const char* name;
  double Overlap::*share;
};
inline constexpr std::array<OverlapTerm, 6> kOverlapTerms{{{"tensor", &Overlap::tensor},
                                                           {"context", &Overlap::context},
                                                           {"expert", &Overlap::expert},
                                                           {"shards", &Overlap::shards},
                                                           {"sync", &Overlap::sync},
                                                           {"pipeline", &Overlap::pipeline}}};

}  // namespace nestplan::model
