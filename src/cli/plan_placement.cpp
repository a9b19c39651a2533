#include "cli/plan_placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/placement/placement.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::size_t kMostHostList = 300;  ///< columns

using Groups = io::PlanNotes::Placement::Groups;

Groups to_groups(const placement::Spread& spread, const std::vector<std::string>& domains,
                 bool rails) {
  Groups groups{placement::to_string(spread.kind), spread.groups, spread.members, {}, {}};
  if (rails) groups.mixed_rails = spread.mixed_rails;
  for (std::size_t d = 0; d < domains.size(); ++d) {
    if (spread.in_domain[d] == 0) continue;
    const auto same = [&](const auto& known) { return known.first == domains[d]; };
    const auto known = std::find_if(groups.domains.begin(), groups.domains.end(), same);
    if (known == groups.domains.end()) {
      groups.domains.emplace_back(domains[d], spread.in_domain[d]);
    } else {
      known->second += spread.in_domain[d];
    }
  }
  return groups;
}

/// "in node" or, of the whole network, "across spine".
std::string where(const std::string& domain, const std::string& whole) {
  return fmt::format("{} {}", domain == whole ? "across" : "in", printable(domain));
}

std::string spread_text(const Groups& kind, const std::string& whole) {
  if (kind.domains.size() == 1) {
    return fmt::format("{} {}", kind.kind, where(kind.domains.front().first, whole));
  }
  std::vector<std::string> parts;
  for (const auto& [domain, count] : kind.domains) {
    parts.push_back(fmt::format("{} {}", util::format_count(count), where(domain, whole)));
  }
  const auto& [nearest, inside] = kind.domains.front();
  return fmt::format("{} of {} {} groups straddle a {} ({})",
                     util::format_count(kind.groups - inside), util::format_count(kind.groups),
                     kind.kind, printable(nearest), fmt::join(parts, ", "));
}

std::string groups_text(const io::PlanNotes::Placement& placement, const std::string& whole) {
  std::vector<std::string> alike;
  std::vector<std::string> straddling;
  for (const Groups& kind : placement.groups) {
    (kind.domains.size() == 1 ? alike : straddling).push_back(spread_text(kind, whole));
  }
  for (const Groups& kind : placement.groups) {
    if (kind.mixed_rails.value_or(0) == 0) continue;
    straddling.push_back(fmt::format("{} of {} {} groups mix rails",
                                     util::format_count(*kind.mixed_rails),
                                     util::format_count(kind.groups), kind.kind));
  }
  std::string text = fmt::format("{}", fmt::join(alike, ", "));
  if (!text.empty() && !straddling.empty()) text += "; ";
  return text + fmt::format("{}", fmt::join(straddling, "; "));
}

std::string hosts_text(const io::PlanNotes::Placement& placement) {
  const std::int64_t all = placement.hosts + placement.idle_hosts;
  std::string text =
      placement.idle_hosts == 0
          ? fmt::format("all {}", util::format_count(all))
          : fmt::format("{} of {}", util::format_count(placement.hosts), util::format_count(all));
  if (placement.idle_hosts > 0 && !placement.host_list.empty()) {
    text += fmt::format(", ask for {}", shortened(printable(placement.host_list), kMostHostList));
  }
  return text;
}

}  // namespace

std::optional<io::PlanNotes::Placement> placement_of(const model::Plan& plan, const Setup& setup) {
  const model::Cluster& cluster = setup.problem.cluster;
  const model::PlanOutline outline = placement::outline_of(plan, setup.problem.graph);
  if (outline.stages.empty() || !placement::obstacle(outline, cluster).empty()) return {};
  const placement::Placement placed = placement::place(outline, cluster);
  io::PlanNotes::Placement notes;
  notes.rank_order = placement::to_string(placed.order);
  notes.hosts = std::ssize(placed.used_hosts());
  notes.idle_hosts = std::ssize(placed.hosts) - notes.hosts;
  notes.host_list = placement::host_list(placed);
  const placement::Segment segment = placement::segment(placed);
  notes.segment_span = segment.span;
  notes.segment_nodes = segment.nodes;
  const std::vector<std::string> domains = setup.network->domains();
  for (const placement::Spread& spread : placement::spreads(placed, *setup.network)) {
    notes.groups.push_back(to_groups(spread, domains, placed.rails));
  }
  return notes;
}

std::string placement_text(const std::optional<io::PlanNotes::Placement>& placement,
                           const network::Network& network) {
  if (!placement) return "";
  std::string out = '\n' + labelled_paragraph("placement", "hosts: " + hosts_text(*placement));
  if (!placement->groups.empty()) {
    out += labelled_paragraph("", groups_text(*placement, network.domains().back()));
  }
  if (placement->segment_nodes > 0) {
    out += labelled_paragraph(
        "", fmt::format("Slurm: --segment={} keeps each expert group in one block ({} nodes each)",
                        placement->segment_nodes, placement->segment_span));
  }
  return out;
}

}  // namespace nestplan::cli
