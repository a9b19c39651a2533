#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "nestplan/solver/solver.hpp"

namespace nestplan::cli {

/// How far a search is, in one line: "12 %, 290 of 2,426 configurations (97/s), about 22 s left,
/// best 9.43 s, bound 9.1 s (gap 3.5 %)". `done` is the share of the work, if it is known.
std::string progress_text(const solver::Progress& progress, std::optional<double> done);

/// "███▌      ": `done` of `width` columns.
std::string progress_bar(double done, std::size_t width);

/// Shows that a long search is alive: one line that is rewritten on a terminal, in a log a line now
/// and then, the rarer the longer it takes. Silent at first.
class ProgressLine {
 public:
  /// Where the lines go.
  struct Sink {
    bool terminal = false;
    std::size_t width = 80;  ///< columns of the terminal
    std::function<void(std::string_view)> write;
  };

  /// `what` is being done: lines of a log start with it.
  ProgressLine(std::string what, Sink sink);
  /// To stderr.
  explicit ProgressLine(std::string what = "searching");
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// `progress.seconds` is the clock. Without `done`, the share of configurations stands for it.
  void show(const solver::Progress& progress, std::optional<double> done = std::nullopt);

  /// Takes the line off a terminal.
  void wipe();

 private:
  std::string what_;
  Sink sink_;
  bool drawn_ = false;
  double next_s_;  ///< seconds of the search at which to speak again
};

}  // namespace nestplan::cli
