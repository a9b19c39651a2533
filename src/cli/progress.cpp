#include "cli/progress.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cli/console.hpp"
#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr double kTerminalSilence = 1;  ///< seconds before the first word
constexpr double kLogSilence = 3;
constexpr double kTerminalPeriod = 0.2;
constexpr double kLogPeriod = 10;
constexpr double kLogGrowth = 0.1;  ///< of the search's time, once that is more than the period
constexpr double kTelling = 0.02;   ///< share from which on the rest can be foretold
constexpr std::size_t kBarWidth = 24;
constexpr const char* kClearLine = "\r\x1b[K";

/// The table in progress counts for as much of its configuration as is filled.
std::optional<double> share_of_configurations(const solver::Progress& progress) {
  if (progress.configurations_total <= 0) return std::nullopt;
  const double done = static_cast<double>(progress.configurations_done) + progress.table_done;
  return done / static_cast<double>(progress.configurations_total);
}

std::string configurations_text(const solver::Progress& progress) {
  if (progress.configurations_total <= 0) return "counting configurations";
  std::string text = fmt::format("{} of {}", util::format_count(progress.configurations_done),
                                 counted(progress.configurations_total, "configuration"));
  const double rate = static_cast<double>(progress.configurations_done) / progress.seconds;
  if (progress.seconds > 0 && rate > 0) text += fmt::format(" ({:.3g}/s)", rate);
  return text;
}

/// Seconds that people read: "45 s", "12 min", "3 h 20 min".
std::string rough_seconds(double seconds) {
  const auto minutes = static_cast<std::int64_t>(std::llround(seconds / 60));
  if (seconds < 100) return fmt::format("{:.0f} s", std::max(1.0, seconds));
  if (minutes < 100) return fmt::format("{} min", minutes);
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

ProgressLine::Sink standard_error() {
  const bool terminal = stderr_is_terminal();
  return {terminal, terminal ? stderr_columns() : 0, print_error_text};
}

}  // namespace

std::string progress_bar(double done, std::size_t width) {
  constexpr std::array<const char*, 8> kPart{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double eighths = std::clamp(done, 0.0, 1.0) * 8 * static_cast<double>(width);
  const auto filled = static_cast<std::size_t>(eighths);
  std::string bar;
  for (std::size_t i = 0; i < filled / 8; ++i) bar += "█";
  bar += kPart[filled % 8];
  bar.append(width - (filled + 7) / 8, ' ');
  return bar;
}

std::string progress_text(const solver::Progress& progress, std::optional<double> done) {
  std::string text;
  if (done) text += fmt::format("{:.0f} %, ", std::floor(100 * std::clamp(*done, 0.0, 1.0)));
  text += configurations_text(progress);
  if (done && *done >= kTelling && *done < 1) {
    const double left = progress.seconds * (1 - *done) / *done;
    text += fmt::format(", about {} left", rough_seconds(left));
  }
  if (progress.best_s > 0) {
    text += fmt::format(", best {}, bound {} (gap {})", util::format_seconds(progress.best_s),
                        util::format_seconds(progress.lower_bound_s),
                        percent((progress.best_s - progress.lower_bound_s) / progress.best_s));
  }
  return text;
}

ProgressLine::ProgressLine(std::string what) : ProgressLine(std::move(what), standard_error()) {}

ProgressLine::ProgressLine(std::string what, Sink sink)
    : what_(std::move(what)),
      sink_(std::move(sink)),
      next_s_(sink_.terminal ? kTerminalSilence : kLogSilence) {}

void ProgressLine::wipe() {
  if (std::exchange(drawn_, false)) sink_.write(kClearLine);
}

void ProgressLine::show(const solver::Progress& progress, std::optional<double> done) {
  if (progress.seconds < next_s_) return;
  if (!done) done = share_of_configurations(progress);
  const std::string text = progress_text(progress, done);
  if (sink_.terminal) {
    next_s_ = progress.seconds + kTerminalPeriod;
    const std::string bar = done ? fmt::format("[{}] ", progress_bar(*done, kBarWidth)) : "";
    sink_.write(kClearLine + shortened(bar + text, sink_.width - 1));
    drawn_ = true;
  } else {
    next_s_ = progress.seconds + std::max(kLogPeriod, kLogGrowth * progress.seconds);
    sink_.write(
        fmt::format("nestplan: {} for {}: {}\n", what_, rough_seconds(progress.seconds), text));
  }
}

}  // namespace nestplan::cli
