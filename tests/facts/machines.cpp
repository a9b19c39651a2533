#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "facts/bridge_recipes.hpp"
#include "facts/readings.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::facts {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

/// Where networks.json has no latency: NCCL's tuner constants for NVLink and for one hop (NVIDIA/
/// nccl, src/graph/tuning.cc), and the second for every hop.
constexpr double kDomainLatency = 0.6e-6;
constexpr double kHopLatency = 2.7e-6;

Json read_json(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw IoError("facts: cannot read " + path.string());
  return Json::parse(in);
}

const Json& entry(const Json& list, const char* key, const std::string& value) {
  for (const Json& each : list) {
    if (each.at(key) == value) return each;
  }
  throw InvalidInput("facts: there is no " + value);
}

model::Device device_of(const Json& accelerator, const std::string& gpu) {
  model::Device device;
  device.name = gpu;
  device.memory_bytes = device_bytes(gpu);
  device.peak_flops = {{"bf16", kTera * accelerator.at("peak_bf16_dense_tflops").get<double>()},
                       {"fp8", kTera * accelerator.at("peak_fp8_dense_tflops").get<double>()}};
  device.memory_bandwidth = kGiga * accelerator.at("hbm_gbps").get<double>();
  return device;
}

/// Levels of the same bandwidth are one: compute trays and the rack that they are in.
std::vector<model::NetworkLevel> levels_of(const Json& cluster) {
  std::vector<model::NetworkLevel> levels;
  for (const Json& each : cluster.at("levels")) {
    const double bandwidth = kGiga * each.at("bw_per_device_unidir_gbps").get<double>();
    const std::int64_t fanout =
        each.at("children").is_null() ? 1 : each.at("children").get<std::int64_t>();
    if (levels.size() == 1 && levels.front().bandwidth == bandwidth) {
      levels.front().fanout *= fanout;
      continue;
    }
    const double latency = levels.empty() ? kDomainLatency : kHopLatency;
    levels.push_back({each.at("name"), fanout, bandwidth, latency, 1});
  }
  return levels;
}

std::int64_t largest_divisor(std::int64_t number, std::int64_t most) {
  for (std::int64_t d = std::min(number, most); d > 1; --d) {
    if (number % d == 0) return d;
  }
  return 1;
}

}  // namespace

Machines::Machines(const std::filesystem::path& facts) {
  struct Source {
    const char *gpu, *accelerator, *network;
  };
  // Racks of GB300 have the NICs of B300: accelerators.json, "800G".
  const Source sources[] = {{"H100", "H100 SXM 80GB", "dgx-h100-superpod"},
                            {"B200", "B200 SXM", "dgx-b200-superpod"},
                            {"B300", "B300 SXM", "dgx-b300-superpod"},
                            {"GB200", "GB200 (NVL72)", "gb200-nvl72-superpod"},
                            {"GB300", "GB300 (NVL72)", "gb200-nvl72-superpod"}};
  const Json accelerators = read_json(facts / "accelerators.json");
  const Json networks = read_json(facts / "networks.json").at("clusters");
  for (const Source& source : sources) {
    Fabric& fabric = fabrics_[source.gpu];
    fabric.device = device_of(entry(accelerators, "name", source.accelerator), source.gpu);
    fabric.levels = levels_of(entry(networks, "id", source.network));
  }
  for (model::NetworkLevel& level : fabrics_.at("GB300").levels) {
    if (level.bandwidth < 100 * kGiga) level.bandwidth = 100 * kGiga;
  }
}

model::Cluster Machines::cluster(const std::string& gpu, std::int64_t devices) const {
  const auto found = fabrics_.find(gpu);
  if (found == fabrics_.end()) throw InvalidInput("facts: no machine with " + gpu);
  model::Cluster cluster;
  cluster.name = std::to_string(devices) + " x " + gpu;
  cluster.device = found->second.device;
  std::int64_t left = devices;
  for (model::NetworkLevel level : found->second.levels) {
    if (left == 1) break;
    level.fanout = largest_divisor(left, level.fanout);
    left /= level.fanout;
    if (level.fanout > 1) cluster.hierarchy().levels.push_back(level);
  }
  cluster.hierarchy().levels.back().fanout *= left;
  return cluster;
}

}  // namespace nestplan::facts
