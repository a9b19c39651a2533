#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::cli {

/// Options that were given and cannot change anything for `graph` beside the others, a remark each.
std::vector<std::string> remarks_on_idle_options(const Flags& flags, const model::Graph& graph);

}  // namespace nestplan::cli
