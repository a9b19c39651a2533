#pragma once

#include <optional>
#include <string>

#include "cli/inputs.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// How the ranks of a plan lie on its cluster; nothing for a plan that does not lie within it.
std::optional<io::PlanNotes::Placement> placement_of(const model::Plan& plan, const Setup& setup);

/// The same for people, after an empty line; empty where there is nothing to say.
std::string placement_text(const std::optional<io::PlanNotes::Placement>& placement,
                           const network::Network& network);

}  // namespace nestplan::cli
