#pragma once

#include <string>
#include <vector>

#include "importers/chakra_reader.hpp"
#include "nestplan/importers/importers.hpp"

namespace nestplan::importers {

/// The graph of a trace of one iteration, with one strategy: that which it was taken with, of the
/// tensor-parallel degree in `options`.
///
/// - Layers are the forward computations that take time; where some ran on an accelerator, only
///   those count. All else hands dependencies on. At the granularity of blocks those whose names
///   have the same path up to the first numbered part ("layers.3/mlp") are one layer.
/// - Backward computations are those with "BWD" or "backward" in their names, or with a thread of
///   their forward operator (fw_tid, as PyTorch's autograd has it). One belongs to the layer of the
///   same sequence number (seq_id), or the same name in front of "_FWD" and "_BWD", as the
///   converter of mlcommons/chakra writes them (src/converter/text_converter.py). In a trace
///   without any the backward pass is taken to be twice as long as the forward one, which is
///   remarked on.
/// - An edge is as large as what its producer puts out. All of that is also kept for the backward
///   pass.
/// - A collective belongs to the computation that it waits for. One behind a backward computation
///   for which no backward computation waits sums up gradients over data-parallel copies: it tells
///   the parameters of the layer, which are its bytes over those of `gradient_bytes`. The others
///   are among tensor-parallel devices.
///
/// Throws InvalidInput for a trace without computations, with layers that run more than once, and
/// without the size of a tensor that is needed; InvalidConfig for several degrees or micro-batches.
Imported layers_of_trace(std::vector<TraceNode> nodes, const std::string& file,
                         double gradient_bytes, const Options& options);

}  // namespace nestplan::importers
