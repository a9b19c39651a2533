#pragma once

#include <string>
#include <string_view>

#include "io/json.hpp"
#include "nestplan/importers/importers.hpp"

namespace nestplan::importers {

/// The format of a JSON file. Throws InvalidInput that says what it is, and what to do with it, for
/// every other kind, and for what is no JSON.
Format format_of_json(std::string_view content, const std::string& file);

/// Throws InvalidInput for files of other tools that are known by how they begin or are called.
void refuse_known_files(std::string_view content, const std::string& file);

/// Whether several JSON objects are in `content`, one behind the other.
bool holds_several_objects(std::string_view content);

/// The end of the JSON object that starts at `begin`; npos if it does not end.
std::size_t end_of_object(std::string_view text, std::size_t begin);

}  // namespace nestplan::importers
