#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/breakdowns.hpp"
#include "report/figure.hpp"
#include "report/sections.hpp"
#include "report/table.hpp"
#include "report/timeline.hpp"

namespace nestplan::report {
namespace {

/// "+1.2 ms", "−30 us", "0 s".
std::string signed_seconds(double seconds) {
  const std::string text = util::format_seconds(std::abs(seconds));
  return seconds > 0 ? "+" + text : seconds < 0 ? "−" + text : "0 s";
}

void write_simulated_stages(Html& html, const simulate::Simulation& simulation) {
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < simulation.stages.size(); ++s) {
    const simulate::StageSummary& stage = simulation.stages[s];
    std::vector<Cell>& row = rows.emplace_back();
    row.emplace_back(fmt::format("{}", s + 1));
    for (const double seconds : {stage.forward_s, stage.backward_s, stage.receive_s, stage.sync_s,
                                 stage.tie_s, stage.idle_s}) {
      row.emplace_back(util::format_seconds(seconds));
    }
    row.emplace_back(util::percent(stage.idle_s / simulation.makespan_s));
  }
  write_table(html, "Simulated time of every stage, an iteration",
              {{"stage", true},
               {"forward", true},
               {"backward", true},
               {"receive", true},
               {"sync", true},
               {"ties", true},
               {"idle", true},
               {"idle share", true}},
              rows);
}

/// The formula of the objective with the plan's numbers in it.
std::string formula_text(const model::Plan& plan, const std::vector<StageRecord>& stages) {
  const model::PlanStrategy& s = plan.strategy;
  double sum_s = 0;
  double ties_s = 0;
  double most_s = 0;
  for (const StageRecord& stage : stages) {
    sum_s += stage.time.total_s;
    ties_s += stage.time.tie_s;
    most_s = std::max(most_s, stage.time.pace_s());
  }
  const std::string v = s.vpp > 1 ? "/v" : "";
  std::string text =
      plan.objective == model::Objective::kPaper
          ? fmt::format("(m + {}) · max t + sync of stage 1", s.vpp > 1 ? "(p − 1)/v" : "p − 1")
          : fmt::format("Σ t{} + (m − {}) · max t + sync of stage 1{}", v, s.vpp > 1 ? "1/v" : "1",
                        ties_s > 0 ? " + ties" : "");
  text += fmt::format(", with m = {}, ", util::counted(s.microbatches, "micro-batch"));
  text += plan.objective == model::Objective::kPaper
              ? fmt::format("p = {}, ", util::counted(s.pp, "stage"))
              : fmt::format("Σ t = {}, ", util::precise_seconds(sum_s));
  if (s.vpp > 1) text += fmt::format("v = {} chunks a stage, ", s.vpp);
  text += fmt::format("max t = {}, sync = {}", util::precise_seconds(most_s),
                      util::format_seconds(stages.front().time.sync_s));
  if (ties_s > 0 && plan.objective != model::Objective::kPaper) {
    text += fmt::format(", ties = {}", util::format_seconds(ties_s));
  }
  return text;
}

void write_comparison(Html& html, const simulate::Simulation& simulation) {
  const double difference = simulation.makespan_s - simulation.predicted_s;
  std::vector<std::vector<Cell>> rows{
      {std::string("formula"), util::precise_seconds(simulation.predicted_s), std::string()},
      {std::string("simulation"), util::precise_seconds(simulation.makespan_s),
       fmt::format("{} ({})", signed_seconds(difference),
                   util::percent(std::abs(difference) / simulation.predicted_s))}};
  const double noise_s = 1e-9 * simulation.predicted_s;
  const auto add = [&](double seconds, const char* what) {
    if (std::abs(seconds) > noise_s) {
      rows.push_back({std::string(what), std::string(), signed_seconds(seconds)});
    }
  };
  add(simulation.schedule_s, "of this: schedule, stages that wait for each other or are hidden");
  add(simulation.contention_s, "of this: contention, transfers that share ports or uplinks");
  add(simulation.synchronisation_s,
      "of this: synchronisation of all stages, where the formula counts that of stage 1");
  write_table(html, "An iteration by formula and by simulation",
              {{"", false, true}, {"time", true}, {"difference", true}}, rows);
}

}  // namespace

void write_schedule(Html& html, const simulate::Pipeline& pipeline,
                    const simulate::Simulation& simulation) {
  write_timeline(html, pipeline, simulation);
  const auto details = html.open("details");
  html.add("summary", "Time and bubble of every stage, as a table");
  write_simulated_stages(html, simulation);
}

void write_memory(Html& html, const std::vector<StageRecord>& stages) {
  write_memory_bars(html, "memory-bar", stages);
  const auto details = html.open("details");
  html.add("summary", "Memory of every stage, as a table");
  write_memory_table(html, "GiB per device", stages);
}

void write_time(Html& html, const PlanReport& report, const std::vector<StageRecord>& stages,
                const simulate::Simulation* simulation) {
  html.add("p", "Along the slowest stage, what an iteration consists of:");
  write_time_split(html, "time-split", report.plan.split);
  html.add("p", "Formula: " + formula_text(report.plan, stages) + ".");
  if (simulation != nullptr) write_comparison(html, *simulation);
  const auto details = html.open("details");
  html.add("summary", "Time of every stage, as a table");
  write_time_table(html, "Per micro-batch; sync and ties: once an iteration", stages);
}

}  // namespace nestplan::report
