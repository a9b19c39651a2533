#include <fmt/format.h>

#include <utility>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

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

}  // namespace

void read_hierarchy(const Field& field, model::Cluster& cluster) {
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
    cluster.limit = limit->integer(1, kMostDevices);
    if (*cluster.limit > devices) {
      limit->fail(fmt::format("is {}, but the fan-outs make only {}", *cluster.limit, devices));
    }
  }
  cluster.network = std::move(network);
}

}  // namespace nestplan::io
