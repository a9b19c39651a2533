#include "cli/simulate_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using simulate::Simulation;
using simulate::StageSummary;

constexpr const char* kSimulationFormat = "nestplan.simulation/1";
constexpr std::size_t kColumns = 96;    ///< of the timeline
constexpr std::size_t kFewStages = 16;  ///< shown without being asked for all

using util::idx;

/// "+1.2 ms", "−30 us", "0 s".
std::string signed_seconds(double seconds) {
  const std::string text = util::format_seconds(std::abs(seconds));
  return seconds > 0 ? "+" + text : seconds < 0 ? "−" + text : "0 s";
}

/// What each stage mostly does in each column of the iteration.
class Timeline : public simulate::Observer {
 public:
  Timeline(std::int64_t stages, double makespan_s)
      : column_s_(makespan_s / static_cast<double>(kColumns)), time_(idx(stages)) {}

  void done(std::int64_t stage, const simulate::Step& step,
            const simulate::StepTimes& times) override {
    const bool forward = step.kind == simulate::Step::Kind::kForward;
    add(stage, kReceive, times.start_s, times.received_s);
    add(stage, forward ? kForward : kBackward, times.received_s, times.end_s);
  }

  void add_end(const Simulation& simulation) {
    for (std::size_t s = 0; s < time_.size(); ++s) {
      const StageSummary& stage = simulation.stages[s];
      add(static_cast<std::int64_t>(s), kSync, stage.sync_start_s, stage.sync_end_s);
    }
    for (const simulate::TieEvent& tie : simulation.ties) {
      add(0, kSync, tie.start_s, tie.end_s);
      add(tie.stage, kSync, tie.start_s, tie.end_s);
    }
  }

  std::string row(std::size_t stage) const {
    std::string text;
    for (const Column& column : time_[stage]) {
      double idle = column_s_;
      for (const double seconds : column) idle -= seconds;
      const auto most = std::max_element(column.begin(), column.end());
      text += *most >= idle ? kMarks[idx(most - column.begin())] : " ";
    }
    return text;
  }

  static std::string legend() {
    return fmt::format("{} forward  {} backward  {} receive  {} synchronise", kMarks[kForward],
                       kMarks[kBackward], kMarks[kReceive], kMarks[kSync]);
  }

 private:
  enum Work : std::size_t { kForward, kBackward, kReceive, kSync, kWorks };
  using Column = std::array<double, kWorks>;
  static constexpr const char* kMarks[] = {"▒", "█", "·", "s"};

  void add(std::int64_t stage, Work work, double start_s, double end_s) {
    if (end_s <= start_s) return;
    const auto last = std::min(kColumns - 1, static_cast<std::size_t>(end_s / column_s_));
    for (auto c = std::min(last, static_cast<std::size_t>(start_s / column_s_)); c <= last; ++c) {
      const double from = std::max(start_s, static_cast<double>(c) * column_s_);
      const double to = std::min(end_s, static_cast<double>(c + 1) * column_s_);
      time_[idx(stage)][c][work] += std::max(0.0, to - from);
    }
  }

  double column_s_;
  std::vector<std::array<Column, kColumns>> time_;
};

class Report {
 public:
  Report(const simulate::Pipeline& pipeline, const Simulation& simulation, const model::Plan& plan,
         const Setup& setup, bool all_stages)
      : pipeline_(pipeline), simulation_(simulation), plan_(plan), setup_(setup) {
    const std::size_t stages = simulation.stages.size();
    const bool all = all_stages || stages <= kFewStages;
    for (std::size_t s = 0; s < stages; ++s) {
      if (all || s < kFewStages / 2 || s + kFewStages / 2 >= stages) shown_.push_back(s);
    }
  }

  std::string text() const {
    return header() + differences() + '\n' + stages() + '\n' + timeline() + levels();
  }

 private:
  std::string header() const {
    const model::PlanStrategy& s = plan_.strategy;
    const std::string pods = s.dp_outer == 1 ? "1 pod"
                                             : counted(s.dp_outer, "pod") + " of " +
                                                   counted(simulation_.pod_kinds, "kind");
    return labelled_paragraph(
               "strategy",
               fmt::format("{} · {} · {}", strategy_text(plan_, setup_.problem.graph),
                           counted(s.microbatches, "micro-batch"), model::to_string(s.schedule))) +
           labelled_paragraph(
               "simulated",
               fmt::format("{}, in {} events of {}", precise_seconds(simulation_.makespan_s),
                           util::format_count(simulation_.events), pods)) +
           labelled_paragraph("formula", fmt::format("{} (objective {}); the simulation is {}",
                                                     precise_seconds(simulation_.predicted_s),
                                                     model::to_string(plan_.objective), how_far()));
  }

  std::string how_far() const {
    const double difference = simulation_.makespan_s - simulation_.predicted_s;
    if (std::abs(difference) <= 1e-9 * simulation_.predicted_s) return "equal";
    return fmt::format("{} {} ({})", util::format_seconds(std::abs(difference)),
                       difference > 0 ? "above" : "below",
                       percent(std::abs(difference) / simulation_.predicted_s));
  }

  std::string differences() const {
    const double noise_s = 1e-9 * simulation_.predicted_s;
    std::string out;
    const auto add = [&](double seconds, const std::string& what) {
      if (std::abs(seconds) <= noise_s) return;
      out += labelled_paragraph(out.empty() ? "of this" : "",
                                fmt::format("{} {}", signed_seconds(seconds), what));
    };
    add(simulation_.schedule_s, schedule_text());
    add(simulation_.contention_s, "contention: transfers that share ports or uplinks");
    add(simulation_.synchronisation_s,
        "synchronisation: the formula counts that of stage 1, here all stages have to end");
    if (!pipeline_.has_uplinks && simulation_.stages.size() > 1) {
      out += labelled_paragraph(
          "note",
          "the levels of this network do not tell which transfers share its wires: they "
          "share the ports of devices only");
    }
    return out;
  }

  std::string schedule_text() const {
    const simulate::Bounds& bounds = simulation_.bounds;
    std::string text = "schedule: ";
    text += simulation_.schedule_s < 0
                ? "stages behind the slowest one are partly hidden, which the formula adds up"
                : fmt::format(
                      "{} of unequal length keep each other waiting, which the formula leaves out",
                      pipeline_.chunks > 1 ? "chunks" : "steps");
    text += bounds.most_s
                ? fmt::format(" (without contention at least {}, at most {})",
                              precise_seconds(bounds.least_s), precise_seconds(*bounds.most_s))
                : fmt::format(" (without contention at least {})", precise_seconds(bounds.least_s));
    return text;
  }

  /// Calls `row` for the stages that are shown and `gap` where others are left out.
  template <typename Row, typename Gap>
  void for_shown(Row row, Gap gap) const {
    for (std::size_t i = 0; i < shown_.size(); ++i) {
      if (i > 0 && shown_[i] != shown_[i - 1] + 1) gap(shown_[i] - shown_[i - 1] - 1);
      row(shown_[i]);
    }
  }

  std::string stages() const {
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"stage", kRight},
                 {"forward", kRight},
                 {"backward", kRight},
                 {"receive", kRight},
                 {"sync", kRight},
                 {"update in it", kRight},
                 {"ties", kRight},
                 {"idle", kRight},
                 {"bubble", kRight}});
    for_shown(
        [&](std::size_t s) {
          const StageSummary& stage = simulation_.stages[s];
          table.add({fmt::format("{}", s + 1), util::format_seconds(stage.forward_s),
                     util::format_seconds(stage.backward_s), util::format_seconds(stage.receive_s),
                     util::format_seconds(stage.sync_s), util::format_seconds(stage.update_s),
                     util::format_seconds(stage.tie_s), util::format_seconds(stage.idle_s),
                     percent(stage.idle_s / simulation_.makespan_s)});
        },
        [&](std::size_t) {
          table.add({"…", "", "", "", "", "", "", "", ""});
        });
    return "time per iteration\n" + table.text(0);
  }

  std::string timeline() const {
    Timeline timeline(pipeline_.stages, simulation_.makespan_s);
    run(pipeline_, pipeline_.kinds[simulation_.slowest_kind], true, &timeline);
    timeline.add_end(simulation_);
    std::string out = fmt::format("timeline of {} ({})\n", precise_seconds(simulation_.makespan_s),
                                  Timeline::legend());
    for_shown(
        [&](std::size_t s) {
          const std::string row = fmt::format("  {:>5}  {}", s + 1, timeline.row(s));
          out += row.substr(0, row.find_last_not_of(' ') + 1) + '\n';
        },
        [&](std::size_t left_out) { out += fmt::format("  {:>7}  ({} more)\n", "…", left_out); });
    return out;
  }

  std::string levels() const {
    if (simulation_.levels.empty()) return "";
    constexpr auto kRight = Table::Align::kRight;
    Table table({{"level"},
                 {"transfers", kRight},
                 {"bytes", kRight},
                 {"busy", kRight},
                 {"fullest uplink", kRight}});
    for (const simulate::LevelSummary& level : simulation_.levels) {
      table.add({printable(level.name), util::format_count(level.transfers),
                 util::format_bytes(level.bytes), percent(level.busy_share),
                 level.fullest_uplink_share > 0 ? percent(level.fullest_uplink_share) : "-"});
    }
    return "\ntransfers between stages (busy: while at least one is on its way)\n" + table.text(0);
  }

  const simulate::Pipeline& pipeline_;
  const Simulation& simulation_;
  const model::Plan& plan_;
  const Setup& setup_;
  std::vector<std::size_t> shown_;
};

std::string dumped(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string simulation_report(const simulate::Pipeline& pipeline, const Simulation& simulation,
                              const model::Plan& plan, const Setup& setup, bool all_stages) {
  return Report(pipeline, simulation, plan, setup, all_stages).text();
}

std::string simulation_json(const simulate::Pipeline& pipeline, const Simulation& simulation,
                            const model::Plan& plan) {
  const double difference = simulation.makespan_s - simulation.predicted_s;
  Json out{{"format", kSimulationFormat},
           {"status", "feasible"},
           {"objective", model::to_string(plan.objective)},
           {"schedule", model::to_string(plan.strategy.schedule)},
           {"makespan_s", simulation.makespan_s},
           {"predicted_s", simulation.predicted_s},
           {"without_contention_s", simulation.without_contention_s}};
  out["difference"] = {
      {"total_s", difference},
      {"schedule_s", simulation.schedule_s},
      {"contention_s", simulation.contention_s},
      {"synchronisation_s", simulation.synchronisation_s},
      {"contention_share",
       difference != 0 ? Json(simulation.contention_s / difference) : Json(nullptr)}};
  out["bounds"] = {{"least_s", simulation.bounds.least_s},
                   {"most_s", simulation.bounds.most_s ? Json(*simulation.bounds.most_s) : Json()}};
  out["microbatches"] = pipeline.microbatches;
  out["pods"] = plan.strategy.dp_outer;
  out["pod_kinds"] = simulation.pod_kinds;
  out["events"] = simulation.events;
  out["uplinks_known"] = pipeline.has_uplinks;
  out["stages"] = Json::array();
  for (const StageSummary& stage : simulation.stages) {
    out["stages"].push_back(
        {{"forward_s", stage.forward_s},
         {"backward_s", stage.backward_s},
         {"busy_s", stage.forward_s + stage.backward_s},
         {"receive_s", stage.receive_s},
         {"sync_s", stage.sync_s},
         {"update_s", stage.update_s},
         {"tie_s", stage.tie_s},
         {"idle_s", stage.idle_s},
         {"bubble_share", simulation.makespan_s > 0 ? stage.idle_s / simulation.makespan_s : 0.0}});
  }
  out["levels"] = Json::array();
  for (const simulate::LevelSummary& level : simulation.levels) {
    out["levels"].push_back({{"name", level.name},
                             {"transfers", level.transfers},
                             {"bytes", level.bytes},
                             {"busy_share", level.busy_share},
                             {"fullest_uplink_share", level.fullest_uplink_share}});
  }
  return dumped(out);
}

std::string infeasible_simulation_json(const model::Plan& plan) {
  return dumped({{"format", kSimulationFormat},
                 {"status", "infeasible"},
                 {"reason", plan.reason},
                 {"makespan_s", nullptr},
                 {"predicted_s", nullptr}});
}

}  // namespace nestplan::cli
