#pragma once

#include "cli/flags.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// What the flags say about the layers of stages: `--pin`, `--together`, `--cut` and those about
/// numbers of layers. Layers are called by their ids in `graph`, or by patterns in which `*` is any
/// text and `?` any letter. Throws InvalidConfig that names the flag, for what matches no layer
/// with the nearest id.
model::StageConstraints stage_rules(const Flags& flags, const model::Graph& graph);

/// Whether `pattern`, in which `*` is any text and `?` any letter, is all of `text`.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace nestplan::cli
