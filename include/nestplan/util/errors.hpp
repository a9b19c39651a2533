#pragma once

#include <stdexcept>
#include <string>

namespace nestplan {

/// Process exit codes, the only place where they are numbered.
enum class ExitCode : int {
  kDone = 0,
  kInternalError = 1,
  kBadInput = 2,
  kInfeasible = 3,
  kStopped = 4,
  kSystemFailure = 5,
  kOutOfMemory = 6,
};

/// Base of every error nestplan throws on purpose; `what()` is one line for the user.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// A file says something that it may not say. The message names file and field.
class InvalidInput : public Error {
 public:
  explicit InvalidInput(const std::string& message) : Error(ExitCode::kBadInput, message) {}
};

/// A flag or an option says something that it may not say, or options contradict each other.
class InvalidConfig : public Error {
 public:
  explicit InvalidConfig(const std::string& message) : Error(ExitCode::kBadInput, message) {}
};

/// The file system failed.
class IoError : public Error {
 public:
  explicit IoError(const std::string& message) : Error(ExitCode::kSystemFailure, message) {}
};

/// The search would not fit into memory.
class MemoryLimit : public Error {
 public:
  explicit MemoryLimit(const std::string& message) : Error(ExitCode::kOutOfMemory, message) {}
};

/// nestplan contradicts itself.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ExitCode::kInternalError, message) {}
};

}  // namespace nestplan
