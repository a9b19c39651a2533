#include "cli/export_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <variant>

#include "nestplan/frameworks/frameworks.hpp"
#include "nestplan/network/torus.hpp"
#include "nestplan/placement/launch_files.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using placement::Placement;

constexpr const char* kPlacementFormat = "nestplan.placement/1";

/// Devices as JSON, with their coordinates where the network has some.
class DeviceWriter {
 public:
  DeviceWriter(const Placement& placement, const model::Cluster& cluster) : placement_(placement) {
    if (const auto* torus = std::get_if<model::TorusSpec>(&cluster.network)) grid_.emplace(*torus);
  }

  Json operator()(const placement::Seat& seat) const {
    Json out{{"device", seat.device},
             {"place", seat.place},
             {"host", placement_.hosts[static_cast<std::size_t>(seat.host)].name},
             {"local", seat.local}};
    if (grid_) out["coordinates"] = grid_->coordinates(seat.place);
    return out;
  }

 private:
  const Placement& placement_;
  std::optional<network::TorusGrid> grid_;
};

Json ranks_json(const Placement& placement, const DeviceWriter& device) {
  Json ranks = Json::array();
  for (const placement::Seat& seat : placement.seats) {
    Json rank{{"rank", seat.rank}};
    rank.update(device(seat));
    rank.update({{"pod", seat.pod},
                 {"stage", seat.stage},
                 {"dp", seat.dp},
                 {"cp", seat.cp},
                 {"tp", seat.tp},
                 {"ep", seat.ep},
                 {"etp", seat.etp}});
    ranks.push_back(std::move(rank));
  }
  return ranks;
}

Json spreads_json(const Placement& placement, const network::Network& network) {
  const std::vector<std::string> domains = network.domains();
  Json kinds = Json::array();
  for (const placement::Spread& spread : placement::spreads(placement, network)) {
    Json counts = Json::array();
    for (std::size_t d = 0; d < domains.size(); ++d) {
      if (spread.in_domain[d] == 0) continue;
      counts.push_back({{"domain", domains[d]}, {"groups", spread.in_domain[d]}});
    }
    const auto straddling = spread.groups - spread.in_domain[static_cast<std::size_t>(spread.best)];
    Json kind{{"kind", placement::to_string(spread.kind)},
              {"groups", spread.groups},
              {"members", spread.members},
              {"worst_domain", domains[static_cast<std::size_t>(spread.worst)]},
              {"straddling", straddling},
              {"domains", std::move(counts)}};
    if (placement.rails) kind["mixed_rails"] = spread.mixed_rails;
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

Json groups_json(const Placement& placement) {
  Json kinds = Json::object();
  for (const placement::GroupKind kind : placement::kGroupKinds) {
    kinds[placement::to_string(kind)] = placement::groups(placement, kind);
  }
  return kinds;
}

/// On a torus: the ranks of every group in the order of a ring whose steps are to neighbours where
/// there is one, see network::TorusGrid::ring. For frameworks that take the order of devices in a
/// mesh as that of their rings.
Json rings_json(const Placement& placement, const model::TorusSpec& torus) {
  const network::TorusGrid grid(torus);
  std::map<std::int64_t, std::int64_t> rank_at;
  std::vector<std::int64_t> place_of(placement.seats.size());
  for (const placement::Seat& seat : placement.seats) {
    rank_at[seat.place] = seat.rank;
    place_of[static_cast<std::size_t>(seat.rank)] = seat.place;
  }
  Json kinds = Json::object();
  for (const placement::GroupKind kind : placement::kGroupKinds) {
    Json rings = Json::array();
    for (const placement::Group& group : placement::groups(placement, kind)) {
      std::vector<std::int64_t> places;
      for (const std::int64_t rank : group)
        places.push_back(place_of[static_cast<std::size_t>(rank)]);
      std::sort(places.begin(), places.end());
      std::vector<std::int64_t> ring;
      for (const std::int64_t place : grid.ring(places)) ring.push_back(rank_at.at(place));
      rings.push_back(ring);
    }
    kinds[placement::to_string(kind)] = std::move(rings);
  }
  return kinds;
}

std::string placement_json(const Placement& placement, const ExportDetail& detail) {
  const placement::Segment segment = placement::segment(placement);
  const std::string hosts = placement::host_list(placement);
  const DeviceWriter device(placement, detail.cluster);
  Json idle = Json::array();
  for (const placement::Seat& seat : placement.idle) idle.push_back(device(seat));
  Json stages = Json::array();
  for (const model::StageOutline& stage : placement.plan.stages) {
    stages.push_back({{"position", stage.position},
                      {"tp", stage.tp},
                      {"cp", stage.cp},
                      {"ep", stage.ep * stage.tp / stage.etp},
                      {"etp", stage.etp}});
  }
  Json out{{"format", kPlacementFormat},
           {"model", placement.plan.model},
           {"cluster", detail.cluster.name},
           {"rank_order", placement::to_string(placement.order)},
           {"dp_inner", placement.plan.dp_inner},
           {"dp_outer", placement.plan.dp_outer},
           {"stages", std::move(stages)},
           {"host_list", hosts.empty() ? Json() : Json(hosts)},
           {"segment_span", segment.span > 0 ? Json(segment.span) : Json()},
           {"segment_nodes", segment.nodes > 0 ? Json(segment.nodes) : Json()},
           {"spread", spreads_json(placement, detail.network)},
           {"ranks", ranks_json(placement, device)},
           {"idle", std::move(idle)}};
  if (detail.groups) {
    out["groups"] = groups_json(placement);
    if (const auto* torus = std::get_if<model::TorusSpec>(&detail.cluster.network)) {
      out["rings"] = rings_json(placement, *torus);
    }
  }
  return out.dump(1, ' ', false, Json::error_handler_t::replace) + '\n';
}

struct Format {
  const char* name;
  std::string (*write)(const Placement& placement, const ExportDetail& detail);
};

template <std::string (*Write)(const Placement&)>
std::string plain(const Placement& placement, const ExportDetail&) {
  return Write(placement);
}

constexpr Format kFormats[] = {{"placement", placement_json},
                               {"csv", plain<placement::csv>},
                               {"rankfile", plain<placement::rankfile>},
                               {"hostfile", plain<placement::hostfile>},
                               {"slurm-hosts", plain<placement::slurm_hosts>},
                               {"slurm", plain<placement::slurm_script>}};

}  // namespace

std::vector<std::string> export_format_names() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.name);
  for (std::string& name : frameworks::format_names()) names.push_back(std::move(name));
  return names;
}

std::string exported(const Placement& placement, const std::string& format,
                     const ExportDetail& detail) {
  for (const Format& known : kFormats) {
    if (format == known.name) return known.write(placement, detail);
  }
  throw InternalError(fmt::format("no format is called {}", format));
}

}  // namespace nestplan::cli
