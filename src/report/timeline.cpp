#include "report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "nestplan/simulate/engine.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "report/figure.hpp"
#include "report/palette.hpp"

namespace nestplan::report {
namespace {

using simulate::Step;
using simulate::StepTimes;

constexpr double kLeft = 58;  ///< of the rows, which have names before them
constexpr double kWidth = 790;
constexpr double kBreak = 34;
constexpr double kRow = 22;
constexpr double kBox = 16;
constexpr double kTop = 6;
constexpr double kAxis = 24;
constexpr double kDigit = 6.6;  ///< width of a digit at 11 px
constexpr std::int64_t kMostSteps = 96;
constexpr double kMostOfAll = 0.8;  ///< windows that leave out less are not worth their breaks

using util::idx;

bool is_forward(const Step& step) { return step.kind == Step::Kind::kForward; }

/// Where the phases of an iteration are, on the last stage.
class Milestones final : public simulate::Observer {
 public:
  explicit Milestones(std::int64_t stages) : last_stage_(stages - 1) {}

  void done(std::int64_t stage, const Step& step, const StepTimes& times) override {
    if (stage != last_stage_) return;
    if (is_forward(step)) {
      if (first_forward_end_s < 0) first_forward_end_s = times.end_s;
      last_forward_end_s = times.end_s;
    } else {
      last_backward_start_s = times.start_s;
    }
  }

  double first_forward_end_s = -1;
  double last_forward_end_s = 0;
  double last_backward_start_s = 0;

 private:
  std::int64_t last_stage_;
};

/// 1, 2 or 5 times a power of ten, `least` or more.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

/// Seconds to the right of the rows' beginning.
class Scale {
 public:
  explicit Scale(std::vector<Window> windows) : windows_(std::move(windows)) {
    double seconds = 0;
    for (const Window& window : windows_) seconds += window.length_s();
    per_second_ = (kWidth - kBreak * static_cast<double>(windows_.size() - 1)) / seconds;
  }

  const std::vector<Window>& windows() const { return windows_; }
  double length(double seconds) const { return seconds * per_second_; }
  double begin(std::size_t window) const {
    double x = kLeft;
    for (std::size_t w = 0; w < window; ++w) x += length(windows_[w].length_s()) + kBreak;
    return x;
  }
  double end(std::size_t window) const {
    return begin(window) + length(windows_[window].length_s());
  }
  double at(std::size_t window, double seconds) const {
    return begin(window) + length(seconds - windows_[window].begin_s);
  }

 private:
  std::vector<Window> windows_;
  double per_second_ = 1;
};

/// Gathers what is drawn of each row.
class Rows final : public simulate::Observer {
 public:
  Rows(const Scale& scale, std::size_t stages)
      : scale_(scale), row_(stages, kNoRow), drawn_(drawn_of(stages)) {
    double y = kTop;
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      if (i > 0 && drawn_[i] > drawn_[i - 1] + 1) y += kRow;
      row_[drawn_[i]] = y;
      y += kRow;
    }
    height_ = y - kTop;
  }

  void done(std::int64_t stage, const Step& step, const StepTimes& times) override {
    const double y = row_[idx(stage)];
    if (y == kNoRow) return;
    add(kReceive, stage, times.start_s, times.received_s);
    const Work work = is_forward(step) ? kForward : kBackward;
    for (std::size_t w = 0; w < scale_.windows().size(); ++w) {
      const auto box = rectangle(w, y, times.received_s, times.end_s);
      if (!box) continue;
      paths_[work].add(*box);
      if (step.chunk % 2 == 1) pale_.add(*box);
      const std::string number = fmt::format("{}", step.microbatch + 1);
      if (box->width < kDigit * static_cast<double>(number.size()) + 3) continue;
      labels_.push_back({box->x + box->width / 2, box->y + 12, number});
    }
  }

  void add_end(const simulate::Simulation& simulation) {
    for (const std::size_t s : drawn_) {
      const simulate::StageSummary& stage = simulation.stages[s];
      add(kSync, static_cast<std::int64_t>(s), stage.sync_start_s, stage.sync_end_s);
    }
    for (const simulate::TieEvent& tie : simulation.ties) {
      add(kTie, 0, tie.start_s, tie.end_s);
      add(kTie, tie.stage, tie.start_s, tie.end_s);
    }
  }

  void write(Html& html) const {
    paths_[kForward].write(html, {{"class", "forward thin"}});
    paths_[kBackward].write(html, {{"class", "backward thin"}});
    pale_.write(html, {{"class", "pale"}});
    for (const Work work : {kReceive, kSync, kTie}) {
      paths_[work].write(html, {{"fill", fill_of(look_of(work))}, {"class", "line thin"}});
    }
    for (const auto& [x, y, text] : labels_) write_label(html, x, y, text, "middle", "on");
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      const double y = row_[drawn_[i]];
      write_label(html, 0, y + 12, fmt::format("stage {}", drawn_[i] + 1), "start");
      if (i == 0 || drawn_[i] == drawn_[i - 1] + 1) continue;
      write_label(html, kLeft, y - kRow + 12,
                  fmt::format("… {} more stages", drawn_[i] - drawn_[i - 1] - 1), "start", "quiet");
    }
  }

  double height() const { return height_; }

  std::vector<LegendEntry> legend(bool has_chunks) const {
    const char* const forward =
        labels_.empty() ? "forward" : "forward, with the number of the micro-batch";
    std::vector<LegendEntry> entries{{0, forward, "forward"}, {0, "backward", "backward"}};
    if (has_chunks) entries.push_back({0, "every second chunk is paler", "panel"});
    for (const auto& [work, name] : {std::pair{kReceive, "receiving, where nothing else is done"},
                                     {kSync, "synchronising gradients"},
                                     {kTie, "exchanging gradients of shared parameters"}}) {
      if (!paths_[work].empty()) entries.push_back({look_of(work), name});
    }
    return entries;
  }

 private:
  enum Work : std::size_t { kForward, kBackward, kReceive, kSync, kTie, kWorks };
  struct Label {
    double x, y;
    std::string text;
  };
  static constexpr double kNoRow = -1;

  static std::size_t look_of(Work work) { return work == kReceive ? 1 : work == kSync ? 2 : 4; }

  /// The part of a time that lies in a window; nothing if none does.
  std::optional<Rectangle> rectangle(std::size_t window, double y, double start_s,
                                     double end_s) const {
    const Window& shown = scale_.windows()[window];
    const double from = std::max(start_s, shown.begin_s);
    const double to = std::min(end_s, shown.end_s);
    if (to <= from) return std::nullopt;
    return Rectangle{scale_.at(window, from), y, scale_.length(to - from), kBox};
  }

  /// Low boxes, so that shape as well as colour tells them from steps.
  void add(Work work, std::int64_t stage, double start_s, double end_s) {
    const double y = row_[idx(stage)];
    if (y == kNoRow) return;
    for (std::size_t w = 0; w < scale_.windows().size(); ++w) {
      auto box = rectangle(w, y, start_s, end_s);
      if (!box) continue;
      if (work == kReceive) *box = {box->x, y + kBox / 2, box->width, kBox / 2};
      paths_[work].add(*box);
    }
  }

  const Scale& scale_;
  std::vector<double> row_;  ///< by stage: its y
  std::vector<std::size_t> drawn_;
  double height_ = 0;
  std::array<Path, kWorks> paths_;
  Path pale_;
  std::vector<Label> labels_;
};

void write_axis(Html& html, const Scale& scale, double y) {
  constexpr double kLeastApart = 74;
  Path line;
  const double step_s = round_step(kLeastApart / scale.length(1));
  for (std::size_t w = 0; w < scale.windows().size(); ++w) {
    const Window& window = scale.windows()[w];
    line.line(scale.begin(w), y, scale.end(w), y);
    for (double t = std::ceil(window.begin_s / step_s - 1e-9) * step_s;
         t <= window.end_s * (1 + 1e-12); t += step_s) {
      const double x = scale.at(w, t);
      line.line(x, y, x, y + 4);
      const bool at_end = x > kLeft + kWidth - 30;
      write_label(html, x, y + 16, util::format_seconds(t), at_end ? "end" : "middle", "quiet");
    }
  }
  line.write(html, {{"class", "edge"}});
}

/// A zigzag between windows.
void write_breaks(Html& html, const Scale& scale, double height) {
  constexpr double kTooth = 5;
  Path zigzag;
  for (std::size_t w = 1; w < scale.windows().size(); ++w) {
    for (const double x : {scale.end(w - 1) + kBreak / 3, scale.begin(w) - kBreak / 3}) {
      double y = kTop;
      for (int tooth = 0; y < kTop + height; ++tooth, y += kTooth) {
        const double from = x + (tooth % 2 == 0 ? -2.0 : 2.0);
        zigzag.line(from, y, 2 * x - from, std::min(y + kTooth, kTop + height));
      }
    }
  }
  zigzag.write(html, {{"class", "edge"}});
}

std::string left_out_text(const std::vector<Window>& windows) {
  std::vector<std::string> parts;
  for (std::size_t w = 1; w < windows.size(); ++w) {
    parts.push_back(fmt::format("from {} to {}", util::precise_seconds(windows[w - 1].end_s),
                                util::precise_seconds(windows[w].begin_s)));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

FigureText text_of(const simulate::Pipeline& pipeline, const simulate::Simulation& simulation,
                   const std::vector<Window>& windows) {
  double idle_s = 0;
  for (const simulate::StageSummary& stage : simulation.stages) idle_s += stage.idle_s;
  const double bubble = idle_s / (simulation.makespan_s * static_cast<double>(pipeline.stages));
  std::string description = fmt::format(
      "{} at work on {} for {}. Stages are idle {} of the time in the mean.",
      util::counted(pipeline.stages, "stage"), util::counted(pipeline.microbatches, "micro-batch"),
      util::precise_seconds(simulation.makespan_s), util::percent(bubble));
  if (windows.size() > 1) description += " Left out: " + left_out_text(windows) + ".";
  return {"timeline", "Timeline of one iteration", description};
}

}  // namespace

std::vector<Window> windows_of(const simulate::Pipeline& pipeline,
                               const simulate::Simulation& simulation) {
  const Window all{0, simulation.makespan_s};
  if (2 * pipeline.microbatches * pipeline.chunks <= kMostSteps) return {all};
  Milestones milestones(pipeline.stages);
  run(pipeline, pipeline.kinds[simulation.slowest_kind], true, &milestones);
  double pace_s = 0;
  for (const simulate::StageSummary& stage : simulation.stages) {
    pace_s = std::max(pace_s, stage.forward_s + stage.backward_s + stage.receive_s);
  }
  pace_s /= static_cast<double>(pipeline.microbatches);
  const double middle_s =
      pipeline.schedule == model::Schedule::kGPipe ? milestones.last_forward_end_s : all.end_s / 2;
  const std::vector<Window> windows{{0, milestones.first_forward_end_s + 2 * pace_s},
                                    {middle_s - 1.5 * pace_s, middle_s + 1.5 * pace_s},
                                    {milestones.last_backward_start_s - 2 * pace_s, all.end_s}};
  double shown_s = 0;
  for (const Window& window : windows) shown_s += window.length_s();
  const bool apart = windows[0].end_s < windows[1].begin_s && windows[1].end_s < windows[2].begin_s;
  return apart && shown_s < kMostOfAll * all.end_s ? windows : std::vector<Window>{all};
}

void write_timeline(Html& html, const simulate::Pipeline& pipeline,
                    const simulate::Simulation& simulation) {
  const Scale scale(windows_of(pipeline, simulation));
  Rows rows(scale, idx(pipeline.stages));
  run(pipeline, pipeline.kinds[simulation.slowest_kind], true, &rows);
  rows.add_end(simulation);

  const FigureText text = text_of(pipeline, simulation, scale.windows());
  const auto figure = html.open("figure");
  {
    const Drawing drawing(html, text, kLeft + kWidth + 6, kTop + rows.height() + kAxis);
    rows.write(html);
    write_breaks(html, scale, rows.height());
    write_axis(html, scale, kTop + rows.height());
  }
  write_legend(html, rows.legend(pipeline.chunks > 1));
  html.add("figcaption", text.description);
}

}  // namespace nestplan::report
