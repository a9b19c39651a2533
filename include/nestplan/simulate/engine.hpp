#pragma once

#include <cstdint>
#include <vector>

#include "nestplan/simulate/pipeline.hpp"
#include "nestplan/simulate/step_order.hpp"

namespace nestplan::simulate {

/// What a stage did with its time up to its last backward step.
struct StageUse {
  double forward_s = 0;
  double backward_s = 0;
  double receive_s = 0;  ///< beside no step
  double finish_s = 0;   ///< end of the last backward step
};

/// What went over the links of one level.
struct LevelUse {
  std::int64_t transfers = 0;
  double bytes = 0;   ///< by all devices of one pod
  double busy_s = 0;  ///< while at least one transfer was on its way
};

/// When a step began to receive, to compute, and was done, in seconds from the start.
struct StepTimes {
  double start_s = 0;
  double received_s = 0;
  double end_s = 0;
};

/// Sees every step once, when it is done.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void done(std::int64_t stage, const Step& step, const StepTimes& times) = 0;
};

/// How one pod came through all micro-batches.
struct PodRun {
  std::vector<StageUse> stages;
  std::vector<LevelUse> levels;  ///< as many as some transfer reached
  std::int64_t events = 0;       ///< ends of transfers and of computations
};

/// Runs the steps of one pod, event by event. A stage takes them in the order of StepOrder; a step
/// starts when the stage is free and the step whose result it needs is done, then receives, then
/// computes. Nothing else holds a step up and sending costs nothing, so the times of a stage's
/// steps add up to its `t` in the cost of a plan.
///
/// With Pipeline::transfer_overlap a stage receives this share of what a step needs beside other
/// steps, as soon as the step before is done, and the rest when the step starts. It receives one
/// thing at a time, what is ready first being first; what a step in progress waits for goes before.
///
/// With `contention`, transfers that share a link share its capacity: rates are max-min fair,
/// found by filling all at once until a link is full or a transfer has all it can use (Bertsekas
/// and Gallager, Data Networks, 1992, section 6.5.2), and found anew whenever a transfer starts to
/// send or ends. Without, each runs as if alone.
///
/// Deterministic. Time O(steps · log stages), with contention times the transfers under way that
/// share links; memory O(stages · chunks).
PodRun run(const Pipeline& pipeline, const PodKind& kind, bool contention,
           Observer* observer = nullptr);

}  // namespace nestplan::simulate
