#pragma once

#include <cstddef>

#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {

/// Shows on stderr that a long search is alive: one line that is rewritten on a terminal, a line
/// now and then elsewhere. Silent for the first seconds.
class ProgressLine {
 public:
  ProgressLine();
  /// Wipes the line off a terminal.
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const solver::Progress& progress);

 private:
  bool terminal_;
  bool drawn_ = false;
  double next_s_;  ///< seconds of the search at which to speak again
};

}  // namespace nestplan::cli
