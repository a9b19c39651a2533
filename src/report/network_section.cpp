#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "nestplan/util/format.hpp"
#include "nestplan/util/text.hpp"
#include "report/sections.hpp"
#include "report/table.hpp"

namespace nestplan::report {
namespace {

const char* name_of(placement::GroupKind kind) {
  switch (kind) {
    case placement::GroupKind::kTensor:
      return "tensor parallel (tp)";
    case placement::GroupKind::kContext:
      return "context parallel (cp)";
    case placement::GroupKind::kExpert:
      return "expert parallel (ep)";
    case placement::GroupKind::kData:
      return "data parallel (dp)";
    case placement::GroupKind::kExpertData:
      return "copies of an expert shard (edp)";
    case placement::GroupKind::kPipeline:
      return "pipeline (pp)";
  }
  return "";
}

/// What a kind of groups sends.
const char* traffic_of(placement::GroupKind kind) {
  switch (kind) {
    case placement::GroupKind::kTensor:
      return "activations, in every layer";
    case placement::GroupKind::kContext:
      return "keys and values, in every attention";
    case placement::GroupKind::kExpert:
      return "tokens, to their experts and back";
    case placement::GroupKind::kData:
      return "gradients, and weights under ZeRO";
    case placement::GroupKind::kExpertData:
      return "gradients of experts";
    case placement::GroupKind::kPipeline:
      return "activations and gradients, from stage to stage";
  }
  return "";
}

void write_groups(Html& html, const placement::Placement& placed, const network::Network& network) {
  const std::vector<std::string> domains = network.domains();
  std::vector<std::vector<Cell>> rows;
  for (const placement::Spread& spread : placement::spreads(placed, network)) {
    std::vector<std::string> parts;
    for (std::size_t d = 0; d < domains.size(); ++d) {
      if (spread.in_domain[d] == 0) continue;
      parts.push_back(fmt::format("{} {} {}", util::format_count(spread.in_domain[d]),
                                  d + 1 == domains.size() ? "across" : "in", domains[d]));
    }
    rows.push_back({std::string(name_of(spread.kind)), util::format_count(spread.groups),
                    util::format_count(spread.members), fmt::format("{}", fmt::join(parts, ", ")),
                    std::string(traffic_of(spread.kind))});
  }
  if (rows.empty()) {
    html.add("p", "No two devices communicate.");
    return;
  }
  write_table(html, "Groups of devices, and the nearest part of the network that holds them",
              {{"groups of", false, true},
               {"groups", true},
               {"members", true},
               {"where", false, true},
               {"what they send", false, true}},
              rows);
}

/// "8", or "4 to 8" where blocks differ.
std::string fanout_text(const model::NetworkLevel& level) {
  if (level.fanouts.empty()) return util::format_count(level.fanout);
  const auto [least, most] = std::minmax_element(level.fanouts.begin(), level.fanouts.end());
  if (*least == *most) return util::format_count(*most);
  return fmt::format("{} to {}", util::format_count(*least), util::format_count(*most));
}

void write_levels(Html& html, const model::HierarchySpec& spec) {
  std::vector<std::vector<Cell>> rows;
  for (const model::NetworkLevel& level : spec.levels) {
    rows.push_back({level.name, fanout_text(level), util::format_bytes(level.bandwidth) + "/s",
                    util::format_seconds(level.latency_s),
                    fmt::format("{:.4g}", level.oversubscription)});
  }
  write_table(html, "Levels of the network, nearest first",
              {{"level"},
               {"joins", true},
               {"per device and direction", true},
               {"latency", true},
               {"oversubscription", true}},
              rows);
}

void write_dimensions(Html& html, const model::TorusSpec& spec) {
  std::vector<std::vector<Cell>> rows;
  for (const model::TorusDimension& dimension : spec.dimensions) {
    rows.push_back({dimension.name, util::format_count(dimension.size),
                    std::string(dimension.switched ? "switched"
                                : dimension.wrap   ? "ring"
                                                   : "line"),
                    util::format_bytes(dimension.bandwidth) + "/s",
                    util::format_seconds(dimension.latency_s)});
  }
  write_table(html, "Dimensions of the network",
              {{"dimension"},
               {"devices", true},
               {"form"},
               {"per link and direction", true},
               {"latency of a hop", true}},
              rows);
}

void write_loads(Html& html, const simulate::Pipeline& pipeline,
                 const simulate::Simulation& simulation) {
  if (simulation.levels.empty()) {
    html.add("p", "There are no transfers between stages.");
    return;
  }
  std::vector<std::vector<Cell>> rows;
  for (const simulate::LevelSummary& level : simulation.levels) {
    rows.push_back({level.name, util::format_count(level.transfers),
                    util::format_bytes(level.bytes), util::percent(level.busy_share),
                    level.fullest_uplink_share > 0 ? util::percent(level.fullest_uplink_share)
                                                   : std::string("–")});
  }
  write_table(
      html, "Transfers between stages in the simulated iteration, by level",
      {{"level"}, {"transfers", true}, {"bytes", true}, {"busy", true}, {"fullest uplink", true}},
      rows);
  html.add("p",
           "Busy: the share of the iteration in which at least one transfer is on its way. "
           "Collectives inside stages are not among them.");
  if (!pipeline.has_uplinks) {
    html.add("p",
             "The levels of this network do not tell which transfers share its wires: in the "
             "simulation they share the ports of devices only.");
  }
}

}  // namespace

void write_network(Html& html, const PlanReport& report, const placement::Placement* placed,
                   const simulate::Pipeline* pipeline, const simulate::Simulation* simulation) {
  if (placed != nullptr) write_groups(html, *placed, report.network);
  if (simulation != nullptr) write_loads(html, *pipeline, *simulation);
  const model::NetworkSpec& network = report.problem.cluster.network;
  if (const auto* torus = std::get_if<model::TorusSpec>(&network)) {
    write_dimensions(html, *torus);
  } else {
    write_levels(html, std::get<model::HierarchySpec>(network));
  }
}

}  // namespace nestplan::report
