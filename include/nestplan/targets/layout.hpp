#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::targets {

/// What one part of a pipeline holds: a stage, or a chunk of one.
struct LayoutPart {
  bool embedding = false;
  std::int64_t layers = 0;
  std::int64_t predictions = 0;  ///< modules of multi-token prediction
  bool loss = false;             ///< output layer and loss
  bool operator==(const LayoutPart&) const = default;
};

/// The parts of a pipeline in the order in which a micro-batch passes them: with `v` chunks on each
/// of `p` stages, part `c·p + i` is chunk `c` of stage `i`.
using PipelineLayout = std::vector<LayoutPart>;

/// As Megatron-LM's --pipeline-model-parallel-layout takes it, with runs of equal parts drawn
/// together: "Et*2|(tt|)*34ttt|…|tL" (E embedding, t layer, m prediction, L loss;
/// NVIDIA/Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py).
std::string megatron_layout(const PipelineLayout& layout);

/// Reads what `megatron_layout` and people write. Throws InvalidConfig naming the place.
PipelineLayout parse_megatron_layout(std::string_view text);

/// Parts that hold modules of multi-token prediction.
std::int64_t parts_with_predictions(const PipelineLayout& layout);

/// Throws InvalidConfig with both numbers unless the parts are pp·vpp, hold `layers` layers and
/// `predictions` modules in all, and embedding and loss once, first and last; and unless all
/// modules are in one part, the last of its stage, with no layers behind it (validate_layer_layout
/// of the same file).
void check_layout(const PipelineLayout& layout, std::int64_t layers, std::int64_t predictions,
                  std::int64_t pp, std::int64_t vpp);

}  // namespace nestplan::targets
