#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "io/descriptor.hpp"

namespace nestplan::io {

/// An exclusive lock on a file, which tells others who holds it. The kernel gives it back when the
/// process ends in whatever way.
class FileLock {
 public:
  /// Throws IoError if the file cannot be made or locked, and, with its holder, if it is taken.
  explicit FileLock(std::filesystem::path path);
  /// Removes the file.
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

  /// One line: who holds it.
  const std::string& holder() const { return holder_; }
  /// Whether the path still leads to what is locked. If not, others may lock it.
  bool in_place() const;

 private:
  bool acquire();
  void sign();

  std::filesystem::path path_;
  std::string holder_;
  std::optional<Descriptor> file_;
};

}  // namespace nestplan::io
