#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "nestplan/placement/placement.hpp"
#include "nestplan/simulate/simulation.hpp"
#include "report/breakdowns.hpp"
#include "report/page.hpp"
#include "report/sections.hpp"

namespace nestplan::report {
namespace {

/// Where the plan's ranks are; nothing for a plan that does not lie within its cluster.
std::optional<placement::Placement> placed(const PlanReport& report) {
  const model::PlanOutline outline = placement::outline_of(report.plan, report.problem.graph);
  if (!placement::obstacle(outline, report.problem.cluster).empty()) return std::nullopt;
  return placement::place(outline, report.problem.cluster);
}

}  // namespace

std::string plan_page(const PlanReport& report) {
  const std::vector<StageRecord> stages = records_of(report.plan, report.problem.graph);
  const auto placement = placed(report);
  std::optional<simulate::Pipeline> pipeline;
  std::optional<simulate::Simulation> simulation;
  if (report.plan.status != model::Status::kInfeasible) {
    pipeline = simulate::build_pipeline(report.problem, report.network, report.plan);
    simulation = simulate::simulate(*pipeline, report.network, report.plan);
  }

  std::vector<Section> sections{
      {"summary", "Summary", [&](Html& html) { write_summary(html, report, stages); }}};
  if (placement) {
    sections.push_back({"cluster", "Where stages stand",
                        [&](Html& html) { write_cluster(html, report, *placement); }});
  }
  if (simulation) {
    sections.push_back({"schedule", "One iteration",
                        [&](Html& html) { write_schedule(html, *pipeline, *simulation); }});
  }
  sections.push_back({"memory", "Memory", [&](Html& html) { write_memory(html, stages); }});
  if (report.plan.iteration_time_s > 0) {
    sections.push_back({"time", "Where the time goes", [&](Html& html) {
                          write_time(html, report, stages, simulation ? &*simulation : nullptr);
                        }});
  }
  sections.push_back({"network", "Network", [&](Html& html) {
                        write_network(html, report, placement ? &*placement : nullptr,
                                      pipeline ? &*pipeline : nullptr,
                                      simulation ? &*simulation : nullptr);
                      }});
  sections.push_back({"alternatives", "Other plans, and why they lost",
                      [&](Html& html) { write_alternatives(html, report.alternatives); }});
  const std::size_t looks =
      std::max(kBreakdownLooks, static_cast<std::size_t>(report.plan.strategy.pp));
  return page(fmt::format("{} on {}", report.problem.graph.name, report.problem.cluster.name),
              sections, looks);
}

}  // namespace nestplan::report
