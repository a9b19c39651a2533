#include "io/checkpoint_file_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostHolderBytes = 512;

/// Different for every holder, so that others can tell that they see this very file.
std::string describe_holder() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  const char* job = std::getenv("SLURM_JOB_ID");
  const std::string in_job = job == nullptr ? "" : fmt::format(", job {}", job);
  std::random_device random;
  return fmt::format("process {} on {}{} [{:08x}{:08x}]", ::getpid(), host.data(), in_job, random(),
                     random());
}

std::string read_holder(int file) {
  std::string text(kMostHolderBytes, '\0');
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  text.resize(std::min(text.find(" ["), text.size()));
  return text.empty() ? "another process" : text;
}

bool cannot_lock(int error) {
  return error == ENOSYS || error == ENOLCK || error == EOPNOTSUPP || error == EINVAL;
}

/// What HDF5 takes as the user's word that nobody else uses the file.
bool may_go_without() {
  const char* setting = std::getenv("HDF5_USE_FILE_LOCKING");
  if (setting == nullptr) return false;
  const std::string_view value = setting;
  return value == "FALSE" || value == "0" || value == "BEST_EFFORT";
}

}  // namespace

FileLock::FileLock(fs::path path) : path_(std::move(path)), holder_(describe_holder()) {
  while (!acquire()) {
  }
  sign();
}

FileLock::~FileLock() {
  // Removed while it is held: who opened it in between finds that it is not in place any more.
  if (in_place()) ::unlink(path_.c_str());
}

bool FileLock::in_place() const {
  struct stat opened {};
  struct stat named {};
  return ::fstat(file_->get(), &opened) == 0 && ::stat(path_.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/// False: the file was removed by its last holder meanwhile.
bool FileLock::acquire() {
  Descriptor file(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.valid()) {
    throw IoError(fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
  }
  int result = 0;
  do {
    result = ::flock(file.get(), LOCK_EX | LOCK_NB);
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno == EWOULDBLOCK) {
    throw IoError(
        fmt::format("{}: the checkpoint is in use by {}", path_.string(), read_holder(file.get())));
  }
  if (result != 0 && !(cannot_lock(errno) && may_go_without())) {
    throw IoError(fmt::format(
        "{}: its file system cannot lock files ({}); keep the checkpoint on one that can, or set "
        "HDF5_USE_FILE_LOCKING=FALSE and see to it that no other search writes it",
        path_.string(), std::strerror(errno)));
  }
  file_.emplace(std::move(file));
  return in_place();
}

void FileLock::sign() {
  const auto fail = [&] {
    throw IoError(fmt::format("{}: cannot be written: {}", path_.string(), std::strerror(errno)));
  };
  if (::ftruncate(file_->get(), 0) != 0) fail();
  const std::string line = holder_ + "\n";
  if (::pwrite(file_->get(), line.data(), line.size(), 0) != static_cast<ssize_t>(line.size())) {
    fail();
  }
  if (::fsync(file_->get()) != 0 && errno != EINVAL) fail();  // for other nodes to see
}

}  // namespace nestplan::io
