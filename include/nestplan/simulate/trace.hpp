#pragma once

#include <cstdint>
#include <ostream>

#include "nestplan/simulate/simulation.hpp"

namespace nestplan::simulate {

/// Writes an iteration as a trace that chrome://tracing and ui.perfetto.dev open: the JSON object
/// format with complete events ("ph": "X"), times in microseconds (Google, Trace Event Format).
/// A process is one kind of pods, a thread is a stage. Every step is an event `forward` or
/// `backward`, with `receive` before it if it had to, and arguments `microbatch` (from 0) and
/// `chunk` where there are several; then `sync` and `tie`.
///
/// Runs the simulation once more and keeps nothing of it, so the number of micro-batches does not
/// matter. The caller checks the stream.
void write_trace(const Pipeline& pipeline, const Simulation& simulation, std::ostream& out);

}  // namespace nestplan::simulate
