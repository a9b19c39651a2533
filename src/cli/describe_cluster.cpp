#include "cli/describe_cluster.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include "cli/describe_device.hpp"
#include "cli/describe_network.hpp"
#include "cli/device_remarks.hpp"
#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "network/level_rates.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
constexpr auto kRight = Table::Align::kRight;
constexpr std::size_t kTextWidth = 84;  ///< beside the label of a line

using util::idx;

std::string counts_text(std::int64_t least, std::int64_t most) {
  if (least == most) return util::format_count(most);
  return fmt::format("{}–{}", util::format_count(least), util::format_count(most));
}

/// The blocks of a level of a hierarchy, as built.
struct LevelBlocks {
  std::int64_t count = 0;
  std::int64_t least = 0;  ///< places of the smallest
  std::int64_t most = 0;
};

std::vector<LevelBlocks> blocks_of(const model::Cluster& cluster) {
  std::vector<LevelBlocks> result;
  std::vector<std::int64_t> below(idx(cluster.places()), 1);
  for (const model::NetworkLevel& level : cluster.hierarchy().levels) {
    std::vector<std::int64_t> sizes;
    for (std::size_t begin = 0; begin < below.size();) {
      const std::int64_t fanout =
          level.fanouts.empty() ? level.fanout : level.fanouts[sizes.size()];
      std::int64_t size = 0;
      for (std::int64_t i = 0; i < fanout; ++i) size += below[begin++];
      sizes.push_back(size);
    }
    const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
    result.push_back({std::ssize(sizes), *least, *most});
    below = std::move(sizes);
  }
  return result;
}

/// Bytes/s that a device gets on its way up to each level when all send.
std::vector<double> effective_bandwidths(const std::vector<model::NetworkLevel>& levels,
                                         const std::vector<LevelBlocks>& blocks) {
  std::vector<std::int64_t> least, most;
  for (const LevelBlocks& level : blocks) {
    least.push_back(level.least);
    most.push_back(level.most);
  }
  std::vector<double> effective;
  for (const network::LevelRates& rates : network::level_rates(levels, least, most)) {
    effective.push_back(rates.beta);
  }
  return effective;
}

const char* rails_text(model::Rails rails) {
  switch (rails) {
    case model::Rails::kNone:
      return "none";
    case model::Rails::kJoined:
      return "joined";
    case model::Rails::kIsolated:
      return "isolated";
  }
  throw InternalError("rails without a name");
}

/// A column that is there only if one of the rows has something to say in it.
struct ExtraColumn {
  const char* heading;
  bool (*said)(const model::NetworkLevel& level);
  std::string (*text)(const model::NetworkLevel& level);
};

constexpr ExtraColumn kExtraColumns[] = {
    {"ports", [](const model::NetworkLevel& level) { return level.ports > 0; },
     [](const model::NetworkLevel& level) {
       return level.ports > 0 ? util::format_count(level.ports) : std::string("one each");
     }},
    {"rails", [](const model::NetworkLevel& level) { return level.rails != model::Rails::kNone; },
     [](const model::NetworkLevel& level) { return std::string(rails_text(level.rails)); }},
    {"taken", [](const model::NetworkLevel& level) { return level.background > 0; },
     [](const model::NetworkLevel& level) { return percent(level.background); }},
    {"in network", [](const model::NetworkLevel& level) { return level.in_network_reduction; },
     [](const model::NetworkLevel& level) {
       return std::string(level.in_network_reduction ? "sums" : "");
     }}};

/// What there is of a network, for people and for programs.
struct NetworkText {
  std::string table;
  std::string picture;
  Json json = Json::array();
};

NetworkText describe_hierarchy(const model::Cluster& cluster) {
  const auto& levels = cluster.hierarchy().levels;
  const std::vector<LevelBlocks> blocks = blocks_of(cluster);
  const std::vector<double> effective = effective_bandwidths(levels, blocks);
  std::vector<Table::Column> columns{{"level", kRight},          {"name"},
                                     {"blocks", kRight},         {"devices each", kRight},
                                     {"bandwidth", kRight},      {"oversubscription", kRight},
                                     {"in collectives", kRight}, {"latency", kRight}};
  std::vector<ExtraColumn> extra;
  for (const ExtraColumn& column : kExtraColumns) {
    if (std::none_of(levels.begin(), levels.end(), column.said)) continue;
    extra.push_back(column);
    columns.push_back({column.heading, kRight});
  }
  Table table(std::move(columns));
  NetworkText network;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const model::NetworkLevel& level = levels[l];
    // of blocks that are all alike and cut off by a limit, those that are there
    const std::int64_t count = cluster.limit && blocks[l].least == blocks[l].most
                                   ? (cluster.devices() + blocks[l].most - 1) / blocks[l].most
                                   : blocks[l].count;
    std::vector<std::string> row{fmt::format("{}", l),
                                 printable(level.name),
                                 util::format_count(count),
                                 counts_text(blocks[l].least, blocks[l].most),
                                 util::format_si(level.bandwidth, "B/s"),
                                 fmt::format("{} : 1", plain_number(level.oversubscription)),
                                 util::format_si(effective[l], "B/s"),
                                 util::format_seconds(level.latency_s)};
    for (const ExtraColumn& column : extra) row.push_back(column.text(level));
    table.add(std::move(row));
    network.json.push_back(
        {{"name", level.name},
         {"fanout", level.fanouts.empty() ? Json(level.fanout) : Json(level.fanouts)},
         {"blocks", count},
         {"devices", blocks[l].most},
         {"least_devices", blocks[l].least},
         {"bandwidth_bytes_per_s", level.bandwidth},
         {"oversubscription", level.oversubscription},
         {"effective_bytes_per_s", effective[l]},
         {"latency_s", level.latency_s},
         {"ports", level.ports > 0 ? Json(level.ports) : Json()},
         {"rails", rails_text(level.rails)},
         {"background", level.background},
         {"in_network_reduction", level.in_network_reduction}});
  }
  network.table = table.text(1);
  network.picture = tree_picture(cluster);
  return network;
}

NetworkText describe_torus(const model::Cluster& cluster) {
  const auto& spec = std::get<model::TorusSpec>(cluster.network);
  const bool loaded = std::any_of(spec.dimensions.begin(), spec.dimensions.end(),
                                  [](const auto& each) { return each.background > 0; });
  std::vector<Table::Column> columns{{"dimension"},         {"size", kRight},    {"wraps"},
                                     {"bandwidth", kRight}, {"latency", kRight}, {"host", kRight},
                                     {"cube", kRight}};
  if (loaded) columns.push_back({"taken", kRight});
  Table table(std::move(columns));
  NetworkText network;
  const auto extent = [](const std::vector<std::int64_t>& box, std::size_t d) {
    return box.empty() ? std::string("-") : util::format_count(box[d]);
  };
  for (std::size_t d = 0; d < spec.dimensions.size(); ++d) {
    const model::TorusDimension& each = spec.dimensions[d];
    std::vector<std::string> row{printable(each.name),
                                 util::format_count(each.size),
                                 each.switched ? "switched"
                                 : each.wrap   ? "yes"
                                               : "no",
                                 util::format_si(each.bandwidth, "B/s"),
                                 util::format_seconds(each.latency_s),
                                 extent(spec.host, d),
                                 extent(spec.cube, d)};
    if (loaded) row.push_back(percent(each.background));
    table.add(std::move(row));
    network.json.push_back({{"name", each.name},
                            {"size", each.size},
                            {"wrap", each.wrap},
                            {"switched", each.switched},
                            {"bandwidth_bytes_per_s", each.bandwidth},
                            {"latency_s", each.latency_s},
                            {"background", each.background}});
  }
  network.table = table.text(0);
  network.picture = torus_picture(cluster);
  return network;
}

std::string devices_text(const model::Cluster& cluster) {
  model::Cluster whole = cluster;
  whole.limit.reset();
  if (whole.devices() == cluster.devices()) return util::format_count(whole.devices());
  return fmt::format("the first {} of {}", util::format_count(cluster.devices()),
                     util::format_count(whole.devices()));
}

/// Available devices of each type.
std::vector<std::int64_t> type_counts(const model::Cluster& cluster) {
  std::vector<std::int64_t> counts(idx(cluster.type_count()), 0);
  for (const int type : types_of_places(cluster)) {
    if (type != kNothing) ++counts[idx(type)];
  }
  return counts;
}

std::string types_text(const model::Cluster& cluster) {
  if (cluster.type_count() == 1) return described("device", device_text(cluster.device));
  std::string text;
  const std::vector<std::int64_t> counts = type_counts(cluster);
  for (int type = 0; type < cluster.type_count(); ++type) {
    text += described(type == 0 ? "devices of" : "",
                      fmt::format("{} × {}", util::format_count(counts[idx(type)]),
                                  device_text(cluster.type(type))));
  }
  return text;
}

std::string remarks_text(const model::Cluster& cluster, const std::string& file) {
  std::string text;
  for (const std::string& remark : remarks_on_devices(cluster, file)) {
    text += labelled_paragraph("  remark", remark);
  }
  return text;
}

std::string memory_text(const model::Cluster& cluster) {
  if (cluster.host_memory_bytes <= 0) return "";
  return described("host memory", fmt::format("{} for every {}",
                                              util::format_bytes_binary(cluster.host_memory_bytes),
                                              counted(cluster.host_sizes().front(), "device")));
}

/// Names of the hosts as Slurm writes them; empty if the cluster does not name them so.
std::string host_list(const model::Cluster& cluster) {
  std::vector<std::string> names;
  for (const model::Host& host : cluster.hosts) names.push_back(host.name);
  try {
    return names.empty() ? "" : util::compress_hosts(names);
  } catch (const InvalidInput&) {
    return "";
  }
}

/// Sizes of hosts with how many there are of each, ascending.
std::vector<std::pair<std::int64_t, std::int64_t>> host_counts(const model::Cluster& cluster) {
  std::map<std::int64_t, std::int64_t> counts;
  for (const std::int64_t size : cluster.host_sizes()) ++counts[size];
  return {counts.begin(), counts.end()};
}

std::string hosts_text(const model::Cluster& cluster) {
  if (cluster.hosts.empty()) return "";
  const auto counts = host_counts(cluster);
  const std::string list = host_list(cluster);
  return described(
      "hosts", fmt::format("{} of {} {}{}", util::format_count(std::ssize(cluster.hosts)),
                           counts_text(counts.front().first, counts.back().first),
                           counts.back().first == 1 ? "device" : "devices",
                           list.empty() ? "" : ": " + shortened(printable(list), kTextWidth - 30)));
}

std::string unavailable_text(const model::Cluster& cluster) {
  if (cluster.unavailable.empty()) return "";
  std::vector<Range> ranges;
  std::int64_t count = 0;
  for (const model::PlaceRun& run : cluster.unavailable) {
    ranges.push_back({run.first, run.first + run.count});
    count += run.count;
  }
  return described("unavailable",
                   fmt::format("{} of {}: {}", util::format_count(count),
                               counted(cluster.places(), "place"), ranges_text(ranges)));
}

Json hosts_json(const model::Cluster& cluster) {
  Json sizes = Json::array();
  for (const auto& [size, count] : host_counts(cluster)) {
    sizes.push_back({{"devices", size}, {"hosts", count}});
  }
  const std::string list = host_list(cluster);
  return {{"count", cluster.host_sizes().size()},
          {"list", list.empty() ? Json() : Json(list)},
          {"sizes", std::move(sizes)}};
}

Json types_json(const model::Cluster& cluster) {
  const std::vector<std::int64_t> counts = type_counts(cluster);
  Json types = Json::array();
  for (int type = 0; type < cluster.type_count(); ++type) {
    Json entry = device_json(cluster.type(type));
    entry["speed"] = cluster.type(type).speed;
    entry["count"] = counts[idx(type)];
    types.push_back(std::move(entry));
  }
  return types;
}

Json unavailable_json(const model::Cluster& cluster) {
  Json runs = Json::array();
  for (const model::PlaceRun& run : cluster.unavailable) {
    runs.push_back({{"first", run.first}, {"count", run.count}});
  }
  return runs;
}

}  // namespace

Description describe_cluster(const std::string& path, std::string_view text) {
  const model::Cluster cluster = io::parse_cluster(text, path);
  const bool torus = std::holds_alternative<model::TorusSpec>(cluster.network);
  const NetworkText network = torus ? describe_torus(cluster) : describe_hierarchy(cluster);
  const std::string collectives =
      std::visit([](const auto& spec) { return spec.collectives; }, cluster.network);

  Description d;
  d.text = title("cluster", cluster.name, path) + described("devices", devices_text(cluster)) +
           unavailable_text(cluster) + types_text(cluster) + remarks_text(cluster, path) +
           hosts_text(cluster) + memory_text(cluster) + described("collectives", collectives) +
           '\n' + network.table + '\n' + network.picture;
  d.json = Json{{"kind", "cluster"},
                {"file", path},
                {"name", cluster.name},
                {"devices", cluster.devices()},
                {"places", cluster.places()},
                {"device", device_json(cluster.device)},
                {"types", types_json(cluster)},
                {"unavailable", unavailable_json(cluster)},
                {"hosts", hosts_json(cluster)},
                {"host_memory_bytes",
                 cluster.host_memory_bytes > 0 ? Json(cluster.host_memory_bytes) : Json(nullptr)},
                {"network", torus ? "torus" : "hierarchy"},
                {"collectives", collectives},
                {torus ? "dimensions" : "levels", network.json}};
  if (torus) {
    const auto& spec = std::get<model::TorusSpec>(cluster.network);
    d.json["host_box"] = spec.host.empty() ? Json() : Json(spec.host);
    d.json["cube_box"] = spec.cube.empty() ? Json() : Json(spec.cube);
  }
  return d;
}

}  // namespace nestplan::cli
