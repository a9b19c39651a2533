#include <fmt/format.h>

#include "io/json.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

double positive(const Field& field, double (*parse)(std::string_view), std::string_view example) {
  const double value = field.quantity(parse, example);
  if (value == 0) field.fail("must be more than 0");
  if (value > kMostCount)
    field.fail(fmt::format("is {}, which no machine has", field.json().dump()));
  return value;
}

model::Device read_device(const Field& field) {
  field.expect(cluster_keys::kDevice);
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
  return device;
}

model::NetworkLevel read_level(const Field& field, std::size_t index) {
  field.expect(cluster_keys::kLevel);
  model::NetworkLevel level;
  const auto name = field.find("name");
  level.name = name ? name->identifier() : fmt::format("level{}", index);
  level.fanout = field.at("fanout").integer(1, kMostDevices);
  level.bandwidth = positive(field.at("bandwidth"), util::parse_bandwidth, "450 GB/s");
  const Field latency = field.at("latency");
  level.latency_s = latency.quantity(util::parse_seconds, "2.5 us");
  if (level.latency_s > kMostSeconds) latency.fail("is longer than any network's");
  if (const auto oversubscription = field.find("oversubscription")) {
    level.oversubscription = oversubscription->number(kMostCount);
    if (level.oversubscription < 1) oversubscription->fail("must be at least 1");
  }
  return level;
}

model::HierarchySpec read_network(const Field& field) {
  const Field kind = field.at("kind");
  if (kind.text() != "hierarchy") {
    const std::vector<std::string> known{"hierarchy"};
    kind.fail(fmt::format("unknown network kind {}{}", util::quoted(kind.text()),
                          util::hint(kind.text(), known)));
  }
  field.expect(cluster_keys::kNetwork);
  model::HierarchySpec network;
  if (const auto collectives = field.find("collectives")) {
    network.collectives = collectives->identifier();
  }
  const Field levels = field.at("levels");
  std::int64_t devices = 1;
  for (const Field& item : levels.items()) {
    network.levels.push_back(read_level(item, network.levels.size()));
    devices *= network.levels.back().fanout;  // both factors are below 2^31
    if (devices > kMostDevices) {
      levels.fail(fmt::format("the fan-outs make more than {} devices", kMostDevices));
    }
  }
  if (network.levels.empty()) levels.fail("must have at least one level");
  if (const auto limit = field.find("devices")) {
    network.devices = limit->integer(1, kMostDevices);
    if (*network.devices > devices) {
      limit->fail(fmt::format("is {}, but the fan-outs make only {}", *network.devices, devices));
    }
  }
  return network;
}

model::Cluster to_cluster(const Document& document) {
  const Field root = document.root_of(kClusterFormat);
  root.expect(cluster_keys::kCluster);
  if (const auto provenance = root.find("provenance")) provenance->text();
  model::Cluster cluster;
  cluster.name = root.at("name").identifier();
  cluster.device = read_device(root.at("device"));
  cluster.network = read_network(root.at("network"));
  if (const auto memory = root.find("host_memory")) {
    cluster.host_memory_bytes = positive(*memory, util::parse_bytes, "2 TB");
  }
  return cluster;
}

}  // namespace

model::Cluster read_cluster(const std::filesystem::path& path) {
  return to_cluster(Document::read(path));
}

model::Cluster parse_cluster(std::string_view text, const std::string& file) {
  return to_cluster(Document(text, file));
}

}  // namespace nestplan::io
