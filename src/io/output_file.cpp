#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <system_error>

#include "io/descriptor.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_write(const fs::path& path, const char* reason) {
  throw IoError(fmt::format("{}: cannot be written: {}", path.string(), reason));
}

fs::path directory_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Names of this process's open files: their links cannot be followed by name.
bool is_open_file(const fs::path& path) {
  const std::string name = path.lexically_normal().string();
  return name.starts_with("/proc/") || name.starts_with("/dev/fd/");
}

/// A symbolic link stays one: what it points to is replaced.
fs::path follow_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as the kernel's own limit
  const fs::path given = path;
  for (int i = 0; i < kMostLinks; ++i) {
    if (is_open_file(path)) return path;
    std::error_code error;
    const fs::path target = fs::read_symlink(path, error);
    if (error) return path;
    path = target.is_absolute() ? target : directory_of(path) / target;
  }
  fail_write(given, std::strerror(ELOOP));
}

/// Devices, pipes and open files cannot be replaced, only written to.
bool is_special(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status) || fs::is_directory(status)) return false;
  return is_open_file(path) || !fs::is_regular_file(status);
}

/// Short, so that it fits wherever the target's name does, and different for every writer, also on
/// other hosts that share the file system.
std::string temporary_name() {
  std::random_device random;
  return fmt::format(".nestplan-{:08x}{:08x}.tmp", random(), random());
}

Descriptor create_temporary(const fs::path& temporary, const fs::path& path) {
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.valid()) fail_write(path, std::strerror(errno));
  return file;
}

void write_all(int file, const std::string& content, const fs::path& path) {
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t count = ::write(file, content.data() + done, content.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_write(path, std::strerror(errno));
    done += static_cast<std::size_t>(count);
  }
}

/// Some file systems cannot flush a directory, and say so by EINVAL; the rename is then as durable
/// as they make it.
void flush_directory(const fs::path& path) {
  Descriptor directory(::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return;  // a directory may be writable but not readable
  if (::fsync(directory.get()) != 0 && errno != EINVAL) fail_write(path, std::strerror(errno));
}

void write_special(const fs::path& path, const std::string& content) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  if (!file.valid()) fail_write(path, std::strerror(errno));
  write_all(file.get(), content, path);
  if (file.reset() != 0) fail_write(path, std::strerror(errno));
}

}  // namespace

OutputFile::OutputFile(fs::path path) : path_(follow_links(std::move(path))) {
  if (path_.empty() || !path_.has_filename()) fail_write(path_, "it does not name a file");
  std::error_code error;
  if (fs::is_directory(path_, error)) fail_write(path_, "it is a directory");
  if (::access(path_.c_str(), F_OK) == 0 && ::access(path_.c_str(), W_OK) != 0) {
    fail_write(path_, std::strerror(errno));
  }
  if (is_special(path_)) return;

  const fs::path temporary = directory_of(path_) / temporary_name();
  create_temporary(temporary, path_);
  // Removed until there is something to write: a process that is killed leaves nothing behind.
  ::unlink(temporary.c_str());
  temporary_ = temporary;
}

OutputFile::~OutputFile() = default;

void OutputFile::commit(const std::string& content) {
  if (temporary_.empty()) return write_special(path_, content);

  struct stat existing {};
  const bool replaces = ::stat(path_.c_str(), &existing) == 0;
  Descriptor file = create_temporary(temporary_, path_);
  try {
    if (replaces && ::fchmod(file.get(), existing.st_mode & 07777U) != 0) {
      fail_write(path_, std::strerror(errno));
    }
    write_all(file.get(), content, path_);
    if (::fsync(file.get()) != 0) fail_write(path_, std::strerror(errno));
    if (file.reset() != 0) fail_write(path_, std::strerror(errno));
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, std::strerror(errno));
  } catch (...) {
    ::unlink(temporary_.c_str());
    throw;
  }
  flush_directory(path_);
}

}  // namespace nestplan::io
