#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/block_picture.hpp"
#include "report/breakdowns.hpp"
#include "report/figure.hpp"
#include "report/sections.hpp"
#include "report/table.hpp"
#include "report/torus_picture.hpp"

namespace nestplan::report {
namespace {

/// First and last place of every pod.
std::vector<PlaceSpan> spans_of(const placement::Placement& placed) {
  std::vector<PlaceSpan> spans(static_cast<std::size_t>(placed.plan.dp_outer));
  for (const placement::Seat& seat : placed.seats) {
    PlaceSpan& span = spans[static_cast<std::size_t>(seat.pod)];
    if (span.end == 0) span = {seat.place, seat.place + 1};
    span.begin = std::min(span.begin, seat.place);
    span.end = std::max(span.end, seat.place + 1);
  }
  return spans;
}

/// `copies`: of the model that are drawn.
void write_looks(Html& html, const Looks& looks, const std::vector<StageRecord>& stages,
                 std::int64_t copies, bool other_pods, bool free_places) {
  std::vector<LegendEntry> entries;
  const std::size_t count =
      looks.by_copy() ? std::min(looks.count(), static_cast<std::size_t>(copies)) : looks.count();
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back({i, looks.by_copy() ? fmt::format("copy {}", i + 1)
                                          : fmt::format("stage {}: {}", i + 1, stages[i].layers)});
  }
  if (looks.by_copy() && copies > static_cast<std::int64_t>(looks.count())) {
    entries.back().text += ", and so on with the same colours again";
  }
  if (other_pods) entries.push_back({0, "of another pod", "panel"});
  if (free_places) entries.push_back({0, "idle or not available", "none"});
  write_legend(html, entries);
}

std::string legend_of_cells(const Looks& looks, const model::PlanStrategy& strategy) {
  if (looks.by_copy()) return "Cells are numbered by copy of the model.";
  return strategy.dp_inner == 1
             ? "Cells have the number of their stage."
             : fmt::format(
                   "Cells have the number of their stage and of its copy in the pod, of {}; "
                   "every second copy is paler.",
                   strategy.dp_inner);
}

/// "8 × node, 2 × leaf": blocks of the levels below the whole that hold some of the first pod.
std::string size_of(const BlockTree& tree, const PlaceSpan& pod) {
  std::vector<std::string> parts;
  for (int level = 0; level + 1 < tree.levels(); ++level) {
    const std::int64_t blocks =
        tree.block_of(level, pod.end - 1) - tree.block_of(level, pod.begin) + 1;
    parts.push_back(fmt::format("{} × {}", util::format_count(blocks), tree.name(level)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

void write_hierarchy(Html& html, const PlanReport& report, const std::vector<PlaceUse>& uses,
                     const std::vector<PlaceSpan>& pods, const Looks& looks,
                     const std::vector<StageRecord>& stages) {
  const BlockTree tree(report.problem.cluster.hierarchy());
  const model::PlanStrategy& strategy = report.plan.strategy;
  const std::string where = size_of(tree, pods.front());
  html.add("h3", pods.size() == 1 ? "The pod, in full" : "The first pod, in full");
  {
    const auto figure = html.open("figure");
    const BlockContents drawn = write_blocks(html, tree, uses, looks, pods.front());
    const BlockDetail detail = detail_of(tree, pods.front());
    write_looks(html, looks, stages, strategy.dp_inner, drawn.others, drawn.free);
    std::string caption = where.empty() ? "" : fmt::format("The pod lies in {}. ", where);
    if (detail.labels) {
      caption += legend_of_cells(looks, strategy);
    } else {
      caption += detail.cells < 0
                     ? "Each cell is a device."
                     : fmt::format("Each cell is a whole {}, striped where several {} share it.",
                                   tree.name(detail.cells), looks.by_copy() ? "copies" : "stages");
    }
    html.add("figcaption", caption);
  }
  if (pods.size() == 1) return;
  html.add("h3", "All pods");
  write_pods(html, tree, pods);
}

void write_stage_devices(Html& html, const PlanReport& report,
                         const std::vector<StageRecord>& stages) {
  const auto details = html.open("details");
  html.add("summary", "Stages and their devices, as a table");
  std::vector<std::vector<Cell>> rows;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const model::StagePlan& stage = report.plan.stages[s];
    rows.push_back({fmt::format("{}", s + 1), stages[s].layers, stages[s].strategy,
                    util::range_text({stage.position, stage.position + stage.devices}),
                    stages[s].recompute, fmt::format("{}", stage.zero)});
  }
  write_table(html, "Stages of the first pod; devices are counted from its start",
              {{"stage", true},
               {"layers", false, true},
               {"strategy"},
               {"devices", true},
               {"recompute"},
               {"ZeRO", true}},
              rows);
}

}  // namespace

void write_cluster(Html& html, const PlanReport& report, const placement::Placement& placed) {
  const model::Cluster& cluster = report.problem.cluster;
  const std::vector<PlaceUse> uses = uses_of(placed, cluster.places());
  const std::vector<PlaceSpan> pods = spans_of(placed);
  const std::vector<StageRecord> stages = records_of(report.plan, report.problem.graph);
  const Looks looks(report.plan.strategy);
  const std::int64_t pod_count = std::ssize(pods);
  const std::int64_t copies = report.plan.strategy.dp_inner;
  html.add("p",
           fmt::format("{} pod{} of {} device{}: a pod is one copy of the whole pipeline{}.",
                       util::format_count(pod_count), pod_count == 1 ? "" : "s",
                       util::format_count(cluster.devices() / pod_count),
                       cluster.devices() / pod_count == 1 ? "" : "s",
                       copies == 1 ? ""
                                   : fmt::format(", with {} copies of every stage side by side",
                                                 util::format_count(copies))));
  if (const auto* torus = std::get_if<model::TorusSpec>(&cluster.network)) {
    write_torus(html, *torus, uses, looks);
    const bool free_places =
        !std::all_of(uses.begin(), uses.end(), [](const PlaceUse& use) { return use.busy(); });
    write_looks(html, looks, stages, report.plan.strategy.dp, false, free_places);
  } else {
    write_hierarchy(html, report, uses, pods, looks, stages);
  }
  write_stage_devices(html, report, stages);
}

}  // namespace nestplan::report
