#pragma once

#include <filesystem>

namespace nestplan::io {

/// What a chain of links ends at, whether it is there or not. Throws IoError if it has no end.
std::filesystem::path follow_links(std::filesystem::path path);

/// The directory that `path` is in.
std::filesystem::path directory_of(const std::filesystem::path& path);

/// The generation before that at `path`.
std::filesystem::path previous_of(std::filesystem::path path);

}  // namespace nestplan::io
