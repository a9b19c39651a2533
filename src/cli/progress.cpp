#include "cli/progress.hpp"

#include <fmt/format.h>

#include <string>

#include "cli/console.hpp"
#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr double kSilence = 3;  ///< seconds before the first word
constexpr double kTerminalPeriod = 0.2;
constexpr double kLogPeriod = 10;
constexpr const char* kClearLine = "\r\x1b[K";

std::string describe(const solver::Progress& progress) {
  std::string text =
      fmt::format("searching: {}, {} of {} configurations", util::format_seconds(progress.seconds),
                  util::format_count(progress.configurations_done),
                  util::format_count(progress.configurations_total));
  if (progress.best_s > 0) {
    text += fmt::format(", best {}, bound {} (gap {})", util::format_seconds(progress.best_s),
                        util::format_seconds(progress.lower_bound_s),
                        percent((progress.best_s - progress.lower_bound_s) / progress.best_s));
  }
  return text;
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(stderr_is_terminal()), next_s_(kSilence) {}

ProgressLine::~ProgressLine() {
  if (drawn_) print_error_text(kClearLine);
}

void ProgressLine::show(const solver::Progress& progress) {
  if (progress.seconds < next_s_) return;
  next_s_ = progress.seconds + (terminal_ ? kTerminalPeriod : kLogPeriod);
  if (terminal_) {
    print_error_text(kClearLine + describe(progress));
    drawn_ = true;
  } else {
    print_message("nestplan: " + describe(progress));
  }
}

}  // namespace nestplan::cli
