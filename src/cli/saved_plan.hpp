#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/inputs.hpp"

namespace nestplan::cli {

/// The text of a plan file, and what has to be known of it before the graph that it is a plan for
/// can be built. Everything else is for `io::parse_plan` to judge.
struct SavedPlan {
  std::string text;
  std::optional<std::string> objective;
  std::optional<std::string> target;
  std::optional<std::int64_t> devices;  ///< of the cluster that it was made for
  std::optional<model::Overlap> overlap;
  NeededDegrees degrees;  ///< from the names of its strategies, as `cost::build_graph` gives them
};

/// Throws InvalidInput if the file cannot be read.
SavedPlan read_saved_plan(const std::filesystem::path& path);

}  // namespace nestplan::cli
