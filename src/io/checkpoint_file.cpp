#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "io/checkpoint_file_lock.hpp"
#include "io/checkpoint_file_path.hpp"
#include "io/checkpoint_file_ranks.hpp"
#include "io/checkpoint_file_reader.hpp"
#include "io/checkpoint_file_writer.hpp"
#include "io/descriptor.hpp"
#include "nestplan/io/checkpoint.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;

fs::path with_suffix(fs::path path, const char* suffix) { return path += suffix; }

[[noreturn]] void fail_write(const fs::path& path, int error) {
  throw IoError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(error)));
}

/// What can be known to fail before a long search.
void check_target(const fs::path& path) {
  if (path.empty() || !path.has_filename()) {
    throw IoError(fmt::format("\"{}\": does not name a file", path.string()));
  }
  std::error_code error;
  const fs::path directory = directory_of(path);
  if (!fs::is_directory(directory, error)) {
    throw IoError(
        fmt::format("{}: its directory {} does not exist", path.string(), directory.string()));
  }
  if (fs::is_directory(path, error)) fail_write(path, EISDIR);
  refuse_foreign(path);
}

/// Some file systems cannot flush a directory, and say so by EINVAL; a rename is then as durable
/// as they make it.
void flush_directory(const fs::path& path) {
  const Descriptor directory(
      ::open(directory_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return;  // a directory may be writable but not readable
  if (::fsync(directory.get()) != 0 && errno != EINVAL) fail_write(path, errno);
}

void rename_file(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail_write(to, errno);
}

bool cannot_link(int error) {
  return error == EPERM || error == EOPNOTSUPP || error == ENOSYS || error == EMLINK;
}

void remove_file(const fs::path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw IoError(fmt::format("{}: cannot be removed: {}", path.string(), std::strerror(errno)));
  }
}

}  // namespace

class CheckpointFile::Parts {
 public:
  Parts(fs::path path, const mpi::Comm* comm) : ranks_(comm), path_(std::move(path)) {
    ranks_.agree([&] {
      path_ = follow_links(path_);
      if (ranks_.rank() != 0) return;
      check_target(path_);
      lock_.emplace(lock_path());
    });
    check_shared();
    const TemporaryFile probe(temporary_path(), ranks_);
  }

  const fs::path& path() const { return path_; }

  std::int64_t write(const Fill& fill, const Observer& observer) {
    ranks_.agree([&] {
      if (ranks_.rank() != 0 || (lock_ && lock_->in_place())) return;
      lock_.reset();
      lock_.emplace(lock_path());
    });
    if (!newest_is_good_) newest_is_good_ = open_generation(path_, ranks_).reader != nullptr;
    TemporaryFile temporary(temporary_path(), ranks_);
    tell(observer, "created");
    {
      StateWriter writer(temporary, ranks_);
      writer.run(fill);
      tell(observer, "filled");
      writer.close();
    }
    tell(observer, "closed");
    const std::int64_t bytes = temporary.sync();
    tell(observer, "synced");
    read_back(temporary.path());
    tell(observer, "verified");
    if (newest_is_good_) {
      ranks_.agree([&] {
        if (ranks_.rank() == 0) keep_newest();
      });
      tell(observer, "kept");
    }
    ranks_.agree([&] {
      if (ranks_.rank() == 0) rename_file(temporary.path(), path_);
    });
    temporary.renamed();
    newest_is_good_ = true;
    tell(observer, "renamed");
    ranks_.agree([&] {
      if (ranks_.rank() == 0) flush_directory(path_);
    });
    tell(observer, "done");
    return bytes;
  }

  void discard() {
    newest_is_good_ = false;
    ranks_.agree([&] {
      if (ranks_.rank() != 0) return;
      // the older first: a crash in between leaves the newest
      remove_file(previous_of(path_));
      remove_file(path_);
      flush_directory(path_);
    });
  }

 private:
  fs::path lock_path() const { return with_suffix(path_, ".lock"); }
  fs::path temporary_path() const { return with_suffix(path_, ".tmp"); }

  void tell(const Observer& observer, std::string_view step) const {
    if (observer) ranks_.agree([&] { observer(step); });
  }

  /// A directory of this node alone would take the shares of other nodes elsewhere.
  void check_shared() const {
    const std::string holder = ranks_.broadcast(lock_ ? lock_->holder() : "");
    ranks_.agree([&] {
      if (ranks_.rank() == 0) return;
      std::string line;
      try {
        line = read_text(lock_path());
      } catch (const Error&) {
        line.clear();
      }
      if (line == holder + "\n") return;
      throw IoError(
          fmt::format("{}: its directory is not the same on all ranks: it must be on a "
                      "file system that they share",
                      path_.string()));
    });
  }

  /// PATH.1 becomes another name of PATH, without a moment in which either is missing.
  void keep_newest() const {
    const fs::path link = with_suffix(path_, ".tmp1");
    remove_file(link);
    if (::link(path_.c_str(), link.c_str()) == 0) {
      rename_file(link, previous_of(path_));
      return remove_file(link);  // still there if both were the same file already
    }
    if (errno == ENOENT) return;  // somebody removed it
    if (!cannot_link(errno)) fail_write(previous_of(path_), errno);
    rename_file(path_, previous_of(path_));
  }

  void read_back(const fs::path& file) const {
    const OpenedGeneration written = open_generation(file, ranks_);
    if (written.reader) return;
    try {
      std::rethrow_exception(written.error);
    } catch (const Error& error) {
      throw IoError(
          fmt::format("{}: was not written as it should: {}", path_.string(), error.what()));
    }
  }

  Ranks ranks_;
  fs::path path_;
  std::optional<FileLock> lock_;  ///< of rank 0
  bool newest_is_good_ = false;
};

CheckpointFile::CheckpointFile(fs::path path, const mpi::Comm* comm)
    : parts_(std::make_unique<Parts>(std::move(path), comm)) {}

CheckpointFile::~CheckpointFile() = default;

std::int64_t CheckpointFile::write(const Fill& fill, const Observer& observer) {
  return parts_->write(fill, observer);
}

void CheckpointFile::discard() { parts_->discard(); }

const fs::path& CheckpointFile::path() const { return parts_->path(); }

}  // namespace nestplan::io
