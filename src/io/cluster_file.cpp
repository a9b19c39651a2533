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

model::Cluster to_cluster(const Document& document) {
  const Field root = document.root_of(kClusterFormat);
  root.expect(cluster_keys::kCluster);
  if (const auto provenance = root.find("provenance")) provenance->text();
  model::Cluster cluster;
  cluster.name = root.at("name").identifier();
  cluster.device = read_device(root.at("device").expect(cluster_keys::kDevice));
  read_network(root.at("network"), cluster);
  read_what_is_there(root, cluster);
  if (const auto memory = root.find("host_memory")) {
    cluster.host_memory_bytes = positive(*memory, util::parse_bytes, "2 TB");
  }
  return cluster;
}

}  // namespace

model::Device read_device(const Field& field) {
  model::Device device;
  device.name = field.at("name").identifier();
  device.memory_bytes = positive(field.at("memory"), util::parse_bytes, "80 GiB");
  if (const auto reserved = field.find("reserved")) {
    device.reserved_bytes = reserved->quantity(util::parse_bytes, "2 GiB");
    if (device.reserved_bytes > device.memory_bytes) {
      reserved->fail(fmt::format("is more than the memory ({})", field.at("memory").text()));
    }
  }
  const Field peak = field.at("peak");
  for (const auto& [precision, rate] : peak.members()) {
    device.peak_flops[precision] = positive(rate, util::parse_flops, "989 TFLOP/s");
  }
  if (device.peak_flops.empty()) {
    peak.fail("must give at least one precision, such as {\"bf16\": \"989 TFLOP/s\"}");
  }
  if (const auto bandwidth = field.find("memory_bandwidth")) {
    device.memory_bandwidth = positive(*bandwidth, util::parse_bandwidth, "3.35 TB/s");
  }
  if (const auto speed = field.find("speed")) {
    device.speed = speed->number(kMostCount);
    if (device.speed <= 0) speed->fail("must be more than 0");
  }
  return device;
}

double positive(const Field& field, double (*parse)(std::string_view), std::string_view example) {
  const double value = field.quantity(parse, example);
  if (value == 0) field.fail("must be more than 0");
  if (value > kMostCount)
    field.fail(fmt::format("is {}, which no machine has", field.json().dump()));
  return value;
}

model::Cluster read_cluster(const std::filesystem::path& path) {
  return parse_cluster(read_text(path), path.string());
}

model::Cluster parse_cluster(std::string_view text, const std::string& file) {
  refuse_bare_topology(text, file);
  return to_cluster(Document(text, file));
}

}  // namespace nestplan::io
