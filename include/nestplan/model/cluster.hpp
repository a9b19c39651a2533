#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nestplan::model {

/// An accelerator. Rates are decimal SI (FLOP/s, bytes/s), sizes are bytes.
struct Device {
  std::string name;
  double memory_bytes = 0;
  double reserved_bytes = 0;                 ///< not available to the plan
  std::map<std::string, double> peak_flops;  ///< by precision: "bf16", "fp8", …
  double memory_bandwidth = 0;               ///< bytes/s; 0: not given

  double usable_bytes() const { return memory_bytes - reserved_bytes; }
  bool operator==(const Device&) const = default;
};

/// One level of a hierarchical network; level 0 is the nearest.
struct NetworkLevel {
  std::string name;
  std::int64_t fanout = 1;      ///< blocks of the level below (devices for level 0) per block
  double bandwidth = 0;         ///< bytes/s, per device and direction
  double latency_s = 0;         ///< one way, of a message whose lca is this level
  double oversubscription = 1;  ///< ≥ 1
  bool operator==(const NetworkLevel&) const = default;
};

/// `"kind": "hierarchy"`.
struct HierarchySpec {
  std::string collectives = "hierarchical-ring";
  std::vector<NetworkLevel> levels;
  std::optional<std::int64_t> devices{};  ///< only the first so many are there; ≥ 1
  bool operator==(const HierarchySpec&) const = default;
};

struct Cluster {
  std::string name;
  Device device;
  HierarchySpec network;
  double host_memory_bytes = 0;  ///< of what a block of the nearest level shares; 0: not given

  /// Product of the fan-outs, or the first so many as the network is limited to.
  std::int64_t devices() const;
  bool operator==(const Cluster&) const = default;
};

}  // namespace nestplan::model
