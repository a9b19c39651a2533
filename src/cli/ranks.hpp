#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

/// All ranks know that one of them failed, and one of them has said why.
class AgreedFailure : public Error {
 public:
  explicit AgreedFailure(ExitCode code) : Error(code, "a rank failed") {}
};

/// The processes of this run. MPI is started only under a launcher. Every rank follows the same
/// steps; the first one speaks.
class Ranks {
 public:
  Ranks();

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool speaks() const { return rank_ == 0; }
  const mpi::Comm& world() const { return *world_; }

  /// Runs `step` on every rank. If it throws on some, the first of these says why, once, and all
  /// ranks leave with AgreedFailure. *Collective.*
  void together(const std::function<void()>& step) const;

  /// Rank 0's exit code for all. *Collective.*
  ExitCode agree(ExitCode mine) const;

  /// Throws InvalidConfig unless every rank was started with the arguments of the first.
  /// *Collective.*
  void refuse_different_arguments(std::span<const char* const> arguments) const;

  /// What the file at `path` holds; only the first rank reads it, since it may be a pipe, and since
  /// thousands of ranks would. Throws like `io::read_text`. *Collective.*
  std::string read_text(const std::string& path) const;

  /// The texts of all ranks, in their order. *Collective.*
  std::vector<std::string> all_gather(const std::string& mine) const;

  /// Throws InvalidConfig if this is the only process but the batch system meant several.
  void refuse_lonely() const;

  /// Ends the whole run after the failure in flight, which others may have seen too or may not, so
  /// that no agreeing is possible any more. Of ranks in a row that fail at once, as those of a team
  /// do, the first says why. Call inside a handler; on a single rank it does nothing.
  void end_all() const;

 private:
  bool rank_before_failed() const;

  std::unique_ptr<mpi::Environment> environment_;
  std::unique_ptr<mpi::Comm> world_;
  int rank_ = 0;
  int size_ = 1;
};

/// What to tell the user of an exception in flight, and the exit code. Call inside a handler.
std::pair<ExitCode, std::string> describe_failure();

}  // namespace nestplan::cli
