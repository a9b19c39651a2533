#pragma once

#include "cli/inputs.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// What is said beside a plan: padded tables, the host memory that loading takes, and what is odd
/// about it or has to be known to run it, in sentences:
///
/// - a layer that is worth more layers than a stage's share, and what would help;
/// - with ZeRO 3, that weights are gathered again for every micro-batch, and what keeping them
///   would take (the two ways of pytorch/torchtitan, `fsdp_reshard_after_forward`);
/// - for torchtitan, matrices with fewer rows than ranks that share them: FSDP deals out whole
/// rows;
/// - hosts whose memory does not hold what every rank may read when the run is loaded to go on.
///
/// Nothing for a plan without stages.
io::PlanNotes plan_notes(const model::Plan& plan, const Setup& setup);

}  // namespace nestplan::cli
