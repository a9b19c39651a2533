#include <fmt/format.h>

#include <map>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

void read_network(const Field& field, model::Cluster& cluster) {
  const Field kind = field.at("kind");
  using Read = void (*)(const Field&, model::Cluster&);
  const std::map<std::string, Read> readers{{"hierarchy", read_hierarchy},
                                            {"torus", read_torus},
                                            {"mesh", read_torus},
                                            {"links", read_links},
                                            {"slurm", read_slurm}};
  const auto reader = readers.find(kind.text());
  if (reader == readers.end()) {
    std::vector<std::string> known;
    for (const auto& [name, read] : readers) known.push_back(name);
    kind.fail(fmt::format("unknown network kind {}{}", util::quoted(kind.text()),
                          util::hint(kind.text(), known)));
  }
  reader->second(field, cluster);
}

/// An object, or the path of a device file.
model::Device read_first_device(const Field& field) {
  if (field.json().is_object()) {
    field.expect(field.find("file") ? cluster_keys::kDeviceOfFile : cluster_keys::kDevice);
  } else if (!field.json().is_string()) {
    field.fail("must be a device, or the path of a nestplan.device/1 file");
  }
  return read_device(field);
}

model::Cluster to_cluster(const Document& document) {
  const Field root = document.root_of(kClusterFormat);
  root.expect(cluster_keys::kCluster);
  if (const auto provenance = root.find("provenance")) provenance->text();
  model::Cluster cluster;
  cluster.name = root.at("name").identifier();
  cluster.device = read_first_device(root.at("device"));
  read_network(root.at("network"), cluster);
  read_what_is_there(root, cluster);
  if (const auto memory = root.find("host_memory")) {
    cluster.host_memory_bytes = positive(*memory, util::parse_bytes, "2 TB");
  }
  return cluster;
}

}  // namespace

double positive(const Field& field, double (*parse)(std::string_view), std::string_view example) {
  const double value = field.quantity(parse, example);
  if (value == 0) field.fail("must be more than 0");
  if (value > kMostCount)
    field.fail(fmt::format("is {}, which no machine has", field.json().dump()));
  return value;
}

void read_rates(const Field& field, model::NetworkLevel& level) {
  level.bandwidth = positive(field.at("bandwidth"), util::parse_bandwidth, "450 GB/s");
  const Field latency = field.at("latency");
  level.latency_s = latency.quantity(util::parse_seconds, "2.5 us");
  if (level.latency_s > kMostSeconds) latency.fail("is longer than any network's");
  if (const auto oversubscription = field.find("oversubscription")) {
    level.oversubscription = oversubscription->number(kMostCount);
    if (level.oversubscription < 1) oversubscription->fail("must be at least 1");
  }
  if (const auto ports = field.find("nics")) {
    level.ports = ports->integer(1, kMostDevices);
  }
  if (const auto background = field.find("background")) {
    level.background = background->number(1);
    if (level.background == 1) background->fail("must be below 1, or nothing is left");
  }
  if (const auto reduces = field.find("in_network_reduction")) {
    level.in_network_reduction = reduces->boolean();
  }
}

model::Cluster read_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_text(path), path.string());
}

model::Cluster parse_cluster(std::string_view text, const std::string& file) {
  refuse_bare_topology(text, file);
  return to_cluster(Document(text, file));
}

}  // namespace nestplan::io
