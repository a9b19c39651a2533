#pragma once

#include <optional>
#include <string>

#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How Megatron-LM is told the layers of every part of a pipeline; see targets::megatron_layout.
/// Nothing if counts of layers do not say it, see frameworks::counted, nor if modules of prediction
/// are in several parts, which has no layout. The text is read back and checked.
std::optional<std::string> megatron_layout_of(const model::Plan& plan, const model::Graph& graph);

/// Whether the parts hold different numbers of layers and no pair of numbers, for the first and
/// the last stage, says so.
bool needs_layout(const model::Plan& plan, const model::Graph& graph);

}  // namespace nestplan::cli
