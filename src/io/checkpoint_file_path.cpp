#include "io/checkpoint_file_path.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "nestplan/util/errors.hpp"

namespace nestplan::io {

namespace fs = std::filesystem;

fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel's own limit
  const fs::path given = path;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return path;
    path = target.is_absolute() ? target : directory_of(path) / target;
  }
  throw IoError(fmt::format("{}: {}", given.string(), std::strerror(ELOOP)));
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path previous_of(fs::path path) { return path += ".1"; }

}  // namespace nestplan::io
