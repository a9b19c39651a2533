#pragma once

#include <string>
#include <vector>

namespace nestplan::cli {

/// What the planner itself is called among the methods of a comparison.
inline constexpr const char* kPlanner = "nestplan";

/// The planner and its baselines, in the order of reports.
std::vector<std::string> compared_methods();

}  // namespace nestplan::cli
