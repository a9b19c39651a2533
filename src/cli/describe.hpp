#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/flags.hpp"

namespace nestplan::cli {

/// What is in a file, for people and for programs.
struct Description {
  std::string text;
  nlohmann::ordered_json json;  ///< SI numbers, units in the keys
};

/// All throw InvalidInput or IoError like the readers they use. `text` is what the file at `path`
/// holds: a pipe can be read only once.
Description describe_model(const std::string& path, const Flags& flags);
Description describe_graph(const std::string& path, std::string_view text);
Description describe_plan(const std::string& path, std::string_view text);

/// A saved search. Where the file is damaged or missing and its previous generation is good, that
/// is described, after a warning.
Description describe_checkpoint(const std::string& path);

/// The rules of the frameworks called `target`. Throws InvalidConfig for an unknown one.
Description describe_rules(std::string_view target);

/// Whether the file, or its previous generation in its absence, may be a saved search.
bool is_checkpoint(const std::string& path);

/// "KIND NAME (PATH)", ended.
std::string title(const char* kind, const std::string& name, const std::string& path);

/// "  label         text", ended.
std::string described(std::string_view label, const std::string& text);

}  // namespace nestplan::cli
