#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/network/links.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

constexpr std::size_t kMostMeasured = 4096;  ///< devices of a matrix
constexpr std::size_t kMostLinks = std::size_t{1} << 22;
constexpr std::int64_t kMostPerHost = 1024;

std::vector<std::string> read_names(const Field& field) {
  std::vector<std::string> names = field.named(util::expand_hosts);
  if (names.empty()) field.fail("must not be empty");
  return names;
}

double read_latency(const Field& field) {
  const double seconds = field.quantity(util::parse_seconds, "2.5 us");
  if (seconds > kMostSeconds) field.fail("is longer than any network's");
  return seconds;
}

/// Devices and switches by name, numbered as in network::LinkGraph.
class Vertices {
 public:
  void add(const Field& field, const std::string& name) {
    if (!index_.emplace(name, std::ssize(names_)).second) {
      field.fail(fmt::format("{} is given twice", util::quoted(name)));
    }
    names_.push_back(name);
  }

  /// Of all names in a list.
  std::vector<std::int64_t> find(const Field& field) const {
    std::vector<std::int64_t> result;
    for (const std::string& name : read_names(field)) {
      const auto found = index_.find(name);
      if (found == index_.end()) {
        field.fail(fmt::format("there is no device or switch {}{}", util::quoted(name),
                               util::hint(name, names_)));
      }
      result.push_back(found->second);
    }
    return result;
  }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t> index_;
};

/// What LinkGraph and PairMatrix have in common.
struct Devices {
  std::vector<std::string> names;
  std::vector<std::string> hosts;
  std::vector<std::int32_t> host_of_device;
};

class DeviceReader {
 public:
  DeviceReader(const Field& field, Vertices& vertices) : vertices_(vertices) {
    const std::vector<Field> items = field.items();
    for (const Field& item : items) read(item);
    if (devices_.host_of_device.empty() ||
        devices_.host_of_device.size() == devices_.names.size()) {
      return;
    }
    field.fail("some devices have a host and others have none");
  }

  Devices take() { return std::move(devices_); }

 private:
  void read(const Field& item) {
    item.expect(cluster_keys::kLinkDevice);
    const auto name = item.find("name");
    const auto host = item.find("host");
    const auto count = item.find("count");
    if (name) {
      if (count) count->fail("goes with \"host\" alone; \"name\" may be a list such as gpu[0-7]");
      const std::string one = host ? single_name(*host) : "";
      for (const std::string& device : read_names(*name)) add(*name, device, one);
      return;
    }
    if (!host || !count) {
      item.fail(
          "needs a \"name\", or \"host\" and \"count\" (then they are called host:0, host:1, …)");
    }
    const std::int64_t per_host = count->integer(1, kMostPerHost);
    for (const std::string& one : read_names(*host)) {
      for (std::int64_t i = 0; i < per_host; ++i) add(*host, fmt::format("{}:{}", one, i), one);
    }
  }

  static std::string single_name(const Field& field) {
    std::vector<std::string> names = read_names(field);
    if (names.size() > 1) field.fail("must be one host, or go with \"count\" instead of \"name\"");
    return std::move(names.front());
  }

  void add(const Field& field, const std::string& device, const std::string& host) {
    if (std::ssize(devices_.names) == util::kMostHostNames)
      field.fail("there are too many devices");
    vertices_.add(field, device);
    devices_.names.push_back(device);
    if (host.empty()) return;
    const auto [index, fresh] =
        hosts_.try_emplace(host, static_cast<std::int32_t>(devices_.hosts.size()));
    if (fresh) devices_.hosts.push_back(host);
    devices_.host_of_device.push_back(index->second);
  }

  Vertices& vertices_;
  Devices devices_;
  std::unordered_map<std::string, std::int32_t> hosts_;
};

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// Which of `a` are linked with which of `b`: all with all, or in order, where each of the fewer
/// serves as many neighbours of the others.
Pairs pairs_of(const Field& field, const std::vector<std::int64_t>& a,
               const std::vector<std::int64_t>& b, bool complete) {
  Pairs pairs;
  if (complete) {
    if (a.size() * b.size() > kMostLinks) field.fail("makes too many links");
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (std::size_t j = a == b ? i + 1 : 0; j < b.size(); ++j) pairs.emplace_back(a[i], b[j]);
    }
  } else {
    const std::size_t most = std::max(a.size(), b.size());
    if (most % std::min(a.size(), b.size()) != 0) {
      field.fail(fmt::format(
          "joins {} with {}, which cannot be shared out evenly (\"complete\": true joins each with "
          "each)",
          a.size(), b.size()));
    }
    for (std::size_t i = 0; i < most; ++i) {
      pairs.emplace_back(a[i / (most / a.size())], b[i / (most / b.size())]);
    }
  }
  for (const auto& [x, y] : pairs) {
    if (x == y) field.fail("joins something with itself");
  }
  return pairs;
}

void read_link(const Field& field, const Vertices& vertices, network::LinkGraph& graph) {
  field.expect(cluster_keys::kLink);
  const auto between = field.find("between");
  const auto from = field.find("from"), to = field.find("to");
  std::vector<Field> ends;
  if (between && !from && !to) {
    ends = between->items();
    if (ends.size() != 2) between->fail("must be a list of two ends");
  } else if (!between && from && to) {
    ends = {*from, *to};
  } else {
    field.fail("needs either \"between\" or, for one direction, \"from\" and \"to\"");
  }
  const auto complete = field.find("complete");
  const Pairs pairs = pairs_of(field, vertices.find(ends[0]), vertices.find(ends[1]),
                               complete && complete->boolean());
  double bandwidth = positive(field.at("bandwidth"), util::parse_bandwidth, "50 GB/s");
  const double latency_s = read_latency(field.at("latency"));
  if (const auto count = field.find("count")) {
    bandwidth *= static_cast<double>(count->integer(1, kMostDegree));
  }
  for (const auto& [a, b] : pairs) {
    graph.links.push_back({a, b, bandwidth, between ? bandwidth : 0, latency_s});
  }
  if (graph.links.size() > kMostLinks) field.fail("makes too many links");
}

/// `read` of every entry of a square of lists but those on the diagonal.
template <class Read>
std::vector<double> read_square(const Field& field, std::size_t size, Read&& read) {
  const std::vector<Field> rows = field.items();
  if (rows.size() != size) {
    field.fail(fmt::format("has {} rows for {} devices", rows.size(), size));
  }
  std::vector<double> values(size * size, 0);
  for (std::size_t i = 0; i < size; ++i) {
    const std::vector<Field> row = rows[i].items();
    if (row.size() != size) {
      rows[i].fail(fmt::format("has {} entries for {} devices", row.size(), size));
    }
    for (std::size_t j = 0; j < size; ++j) {
      if (i != j) values[i * size + j] = read(row[j]);
    }
  }
  return values;
}

network::PairMatrix read_matrix(const Field& field, Devices devices) {
  field.expect(cluster_keys::kMatrix);
  const std::size_t size = devices.names.size();
  if (size > kMostMeasured) field.fail(fmt::format("is for {} devices at most", kMostMeasured));
  network::PairMatrix matrix{std::move(devices.names),
                             std::move(devices.hosts),
                             std::move(devices.host_of_device),
                             {},
                             {}};
  double unit = 0;
  if (const auto written = field.find("unit")) {
    const std::string text = written->identifier();
    try {
      unit = util::parse_bandwidth("1 " + text);
    } catch (const InvalidInput&) {
      written->fail(
          fmt::format("{} is no unit of bandwidth, such as \"GB/s\"", util::quoted(text)));
    }
  }
  matrix.bandwidth = read_square(field.at("bandwidth"), size, [&](const Field& entry) {
    if (unit == 0) return positive(entry, util::parse_bandwidth, "50 GB/s");
    const double value = entry.number(kMostCount) * unit;
    if (value == 0) entry.fail("must be more than 0");
    if (value > kMostCount) entry.fail("is more than any network has");
    return value;
  });
  const Field latency = field.at("latency");
  matrix.latency_s = latency.json().is_array() ? read_square(latency, size, read_latency)
                                               : std::vector<double>{read_latency(latency)};
  return matrix;
}

/// The hierarchy of what was read at `field`.
template <class Links>
network::LinkHierarchy hierarchy_at(const Field& field, const Links& links) {
  try {
    return network::hierarchy_of(links);
  } catch (const InvalidInput& error) {
    field.fail(error.what());
  }
}

network::LinkHierarchy read_graph(const Field& field, const Field& links, Devices devices,
                                  Vertices& vertices) {
  network::LinkGraph graph;
  graph.devices = std::move(devices.names);
  graph.hosts = std::move(devices.hosts);
  graph.host_of_device = std::move(devices.host_of_device);
  if (const auto switches = field.find("switches")) {
    for (const Field& item : switches->items()) {
      for (const std::string& name : read_names(item)) {
        vertices.add(item, name);
        graph.switches.push_back(name);
      }
    }
  }
  for (const Field& link : links.items()) read_link(link, vertices, graph);
  return hierarchy_at(links, graph);
}

}  // namespace

void read_links(const Field& field, model::Cluster& cluster) {
  field.expect(cluster_keys::kLinks);
  model::HierarchySpec spec;
  if (const auto collectives = field.find("collectives")) {
    spec.collectives = collectives->identifier();
  }
  Vertices vertices;
  Devices devices = DeviceReader(field.at("devices"), vertices).take();
  const std::vector<std::string> names = devices.names;
  const auto links = field.find("links"), matrix = field.find("matrix");
  if (links.has_value() == matrix.has_value()) {
    field.fail("needs either \"links\" or a \"matrix\" of what was measured");
  }
  network::LinkHierarchy hierarchy;
  if (links) {
    hierarchy = read_graph(field, *links, std::move(devices), vertices);
  } else {
    if (const auto switches = field.find("switches")) switches->fail("goes with \"links\" alone");
    hierarchy = hierarchy_at(*matrix, read_matrix(*matrix, std::move(devices)));
  }
  spec.levels = std::move(hierarchy.levels);
  cluster.network = std::move(spec);
  cluster.hosts = std::move(hierarchy.hosts);
  if (!cluster.hosts.empty()) return;
  for (const std::int64_t device : hierarchy.order) {
    cluster.hosts.push_back({names[static_cast<std::size_t>(device)], 1, {}});
  }
}

}  // namespace nestplan::io
