#include "facts/throughput_machines.hpp"

#include <algorithm>

#include "facts/readings.hpp"

namespace nestplan::facts {
namespace {

constexpr double kGiga = 1e9;
constexpr double kTera = 1e12;

/// NCCL's tuner constants of a step of a ring, over NVLink and between nodes, of its protocol for
/// large messages (Simple; NVIDIA/nccl, src/graph/tuning.cc).
constexpr double kNodeLatency = 3.4e-6;
constexpr double kFabricLatency = 14e-6;
constexpr std::int64_t kNode = 8;

/// Share of the links inside a node that large all-reduces reach by rings: 235 of 300 GB/s on A100,
/// 366 of 450 on H100 and 682 of 900 on B200 (stas00/ml-engineering, network/README.md).
double bus_share(const std::string& gpu) {
  if (gpu.starts_with("A100")) return 235.0 / 300;
  return gpu.starts_with("H100") ? 366.0 / 450 : 682.0 / 900;
}

/// A system of nodes of eight devices in networks.json, and its devices in accelerators.json.
struct System {
  const char *source, *gpu;
  double bf16_tflops, fp8_tflops, memory_gbps;
  double node_gbps, fabric_gbps;  ///< per device and direction
};

/// Jean Zay's nodes have four Omni-Path links of 100 Gb/s, of which 135 Gb/s were observed in
/// all (bigscience in networks.json); vTrain's cluster has 800 Gb/s a node, Selene eight of 200;
/// MosaicML states 1600 Gb/s a node of A100 and nothing of H100, and torchtitan nothing: these are
/// taken to be eight of 400 Gb/s, as of the DGX H100. Within 500 W the H100 of torchtitan is
/// between the 989 TFLOP/s of 700 W and the 835 of 400 W (H100 SXM and NVL in NVIDIA's data sheet).
constexpr System kSystems[] = {
    {"bigscience", "A100-80GB", 312, 0, 2039, 300, 2.1},
    {"korthikanti22", "A100-80GB", 312, 0, 2039, 300, 25},
    {"vtrain_multi", "A100", 312, 0, 2039, 300, 12.5},
    {"llmfoundry", "A100-40GB", 312, 0, 1555, 300, 25},
    {"llmfoundry", "A100-80GB", 312, 0, 2039, 300, 25},
    {"llmfoundry", "H100-80GB SXM", 989, 1979, 3350, 450, 50},
    {"torchtitan", "H100 96GB HBM2e (2.4 TB/s, 500 W)", 912, 1824, 2400, 450, 50}};

model::Cluster cluster_of(const System& system, std::int64_t devices) {
  model::Cluster cluster;
  cluster.name = std::to_string(devices) + " x " + system.gpu;
  cluster.device.name = system.gpu;
  cluster.device.memory_bytes = device_bytes(system.gpu);
  cluster.device.peak_flops["bf16"] = kTera * system.bf16_tflops;
  if (system.fp8_tflops > 0) cluster.device.peak_flops["fp8"] = kTera * system.fp8_tflops;
  cluster.device.memory_bandwidth = kGiga * system.memory_gbps;
  auto& levels = cluster.hierarchy().levels;
  levels.push_back({"node", std::min(devices, kNode), kGiga * system.node_gbps, kNodeLatency, 1});
  if (devices > kNode) {
    levels.push_back({"fabric", devices / kNode, kGiga * system.fabric_gbps, kFabricLatency, 1});
  }
  return cluster;
}

}  // namespace

model::Cluster MeasuredSystems::cluster(const std::string& source, const std::string& gpu,
                                        std::int64_t devices) const {
  const auto system = std::find_if(std::begin(kSystems), std::end(kSystems), [&](const System& s) {
    return source == s.source && gpu == s.gpu;
  });
  model::Cluster cluster = system == std::end(kSystems) ? reference_.cluster(gpu, devices)
                                                        : cluster_of(*system, devices);
  cluster.hierarchy().levels.front().bandwidth *= bus_share(gpu);
  return cluster;
}

}  // namespace nestplan::facts
