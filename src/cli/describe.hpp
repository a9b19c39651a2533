#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "cli/flags.hpp"

namespace nestplan::cli {

/// What is in a file, for people and for programs.
struct Description {
  std::string text;
  nlohmann::ordered_json json;  ///< SI numbers, units in the keys
};

/// All throw InvalidInput or IoError like the readers they use.
Description describe_model(const std::string& path, const Flags& flags);
Description describe_cluster(const std::string& path);
Description describe_graph(const std::string& path);
Description describe_plan(const std::string& path);

}  // namespace nestplan::cli
