#pragma once

#include <vector>

#include "nestplan/simulate/simulation.hpp"
#include "report/html.hpp"

namespace nestplan::report {

/// A part of an iteration, in seconds from its start.
struct Window {
  double begin_s = 0;
  double end_s = 0;
  double length_s() const { return end_s - begin_s; }
};

/// What of an iteration is drawn: all of it where its steps are wide enough to be seen, else three
/// windows: while the pipeline fills, some steps in the middle (with GPipe: where the last stage
/// turns from forward to backward), and while it drains and synchronises.
std::vector<Window> windows_of(const simulate::Pipeline& pipeline,
                               const simulate::Simulation& simulation);

/// The steps of the stages of the slowest pods, one row for each stage, all windows to the same
/// scale and a break between them.
void write_timeline(Html& html, const simulate::Pipeline& pipeline,
                    const simulate::Simulation& simulation);

}  // namespace nestplan::report
