#pragma once

#include <functional>
#include <optional>
#include <string>

#include "nestplan/mpi/mpi.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {

class Ranks;

/// Why a step failed.
struct Failure {
  ExitCode code = ExitCode::kInternalError;
  std::string message;
};

/// Ranks that work on one job of a batch together: `width` neighbours each, the last crew with what
/// is left over.
class Crew {
 public:
  /// *Collective over all ranks.*
  Crew(const Ranks& ranks, int width);

  int size() const { return comm_ ? comm_->size() : 1; }
  bool leads() const { return !comm_ || comm_->rank() == 0; }
  /// Only with several ranks.
  const mpi::Comm& comm() const { return *comm_; }
  /// The first ranks of all crews; nothing on other ranks, and where there is one crew.
  std::optional<mpi::Comm> take_leaders() { return std::move(leaders_); }

  /// The first rank's number, on all ranks of the crew. *Collective.*
  std::int64_t agree(std::int64_t number) const;

  /// Whether `here` is true on any rank. *Collective.*
  bool anywhere(bool here) const;

  /// Runs `step` on every rank of the crew and says if, and why, it failed on one. Unlike a
  /// collective it ends if a failure leaves others waiting for ever in `step`: then by an
  /// exception. `meanwhile` is called while waiting. *Collective.*
  std::optional<Failure> together(const std::function<void()>& step,
                                  const std::function<void()>& meanwhile) const;

 private:
  std::optional<Failure> gather(std::optional<Failure> own,
                                const std::function<void()>& meanwhile) const;
  std::optional<Failure> hear_verdict(const std::optional<Failure>& own) const;

  std::optional<mpi::Comm> comm_;
  std::optional<mpi::Comm> leaders_;
};

}  // namespace nestplan::cli
