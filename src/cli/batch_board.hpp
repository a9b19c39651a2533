#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch_result.hpp"
#include "nestplan/mpi/mpi.hpp"

namespace nestplan::cli {

/// What a crew did with a job, for the board.
struct JobReport {
  std::int64_t job = 0;
  JobResult result;
  bool stopped = false;              ///< a signal came
  std::vector<std::string> remarks;  ///< on its inputs
};

/// Hands out the jobs of a batch to crews. The first rank of `leaders` keeps the queue, works like
/// the others, and answers them whenever it is told to (`serve`).
class BatchBoard {
 public:
  /// `leaders`: the first ranks of all crews, or nothing if there is just one crew. `queue`: what
  /// is to be done, first things first; `on_report` is told what was done. Both count on the first
  /// rank alone.
  BatchBoard(std::optional<mpi::Comm> leaders, std::deque<std::int64_t> queue,
             std::function<void(const JobReport&)> on_report);

  /// Brings back what was done last, if anything, and takes the next job. Nothing: no more.
  std::optional<std::int64_t> next(const std::optional<JobReport>& last);

  /// Answers and hears what has arrived. Cheap; call it often while working.
  void serve();

  /// A signal has come, here or elsewhere: work is to stop.
  bool stopping() const { return stopping_; }
  void stop();

  /// Waits until everybody knows that there is no more. To be called behind the last `next`.
  void close();

 private:
  bool keeps() const { return !leaders_ || leaders_->rank() == 0; }
  void take_in(const JobReport& report);
  std::int64_t take_job();
  void answer(int leader);

  std::optional<mpi::Comm> leaders_;
  std::deque<std::int64_t> queue_;
  std::function<void(const JobReport&)> on_report_;
  int dismissed_ = 0;  ///< leaders that know that there is no more
  bool stopping_ = false;
};

}  // namespace nestplan::cli
