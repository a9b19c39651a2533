#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nestplan/model/device.hpp"

namespace nestplan::model {

/// Which devices of different blocks a level joins directly.
enum class Rails : std::uint8_t {
  kNone,     ///< all of them
  kJoined,   ///< those with the same index in their nearest blocks; others over the next level
  kIsolated  ///< those with the same index; others only by way of a neighbour in their own block
};

/// One level of a hierarchical network; level 0 is the nearest.
struct NetworkLevel {
  std::string name;
  std::int64_t fanout = 1;      ///< blocks of the level below (devices for level 0) per block
  double bandwidth = 0;         ///< bytes/s, per device and direction
  double latency_s = 0;         ///< one way, of a message whose lca is this level
  double oversubscription = 1;  ///< ≥ 1
  /// Blocks of the level below in each block, in order, where they differ; `fanout` is the most.
  std::vector<std::int64_t> fanouts{};
  /// Ports of `bandwidth` by which a block of the level below goes up; 0: one for each device.
  std::int64_t ports = 0;
  Rails rails = Rails::kNone;
  bool in_network_reduction = false;  ///< switches sum what passes through them
  double background = 0;              ///< share of the bandwidth that others take; [0, 1)
  bool operator==(const NetworkLevel&) const = default;
};

/// `"kind": "hierarchy"`.
struct HierarchySpec {
  std::string collectives = "hierarchical-ring";
  std::vector<NetworkLevel> levels;
  bool operator==(const HierarchySpec&) const = default;
};

struct TorusDimension {
  std::string name;
  std::int64_t size = 1;
  bool wrap = true;
  double bandwidth = 0;   ///< bytes/s of one link, per direction
  double latency_s = 0;   ///< of one hop
  double background = 0;  ///< share of the bandwidth that others take; [0, 1)
  /// Of slices rather than of devices, the last dimension only: a switched network joins all of
  /// them, one hop apart and with `bandwidth` for every device.
  bool switched = false;
  bool operator==(const TorusDimension&) const = default;
};

/// `"kind": "torus"`, meshes included. Boxes give a size for every dimension; empty: there is no
/// such box.
struct TorusSpec {
  std::string collectives = "auto";
  std::vector<TorusDimension> dimensions;
  std::vector<std::int64_t> host;  ///< the box of devices that one host has
  /// Boxes that optical switches join: a box of whole cubes closes its rings by itself.
  std::vector<std::int64_t> cube;
  bool operator==(const TorusSpec&) const = default;
};

using NetworkSpec = std::variant<HierarchySpec, TorusSpec>;

/// Neighbouring places.
struct PlaceRun {
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool operator==(const PlaceRun&) const = default;
};

/// Neighbouring places with devices of one type.
struct TypeRun {
  PlaceRun places;
  int type = 0;  ///< 1: the first of Cluster::other_devices
  bool operator==(const TypeRun&) const = default;
};

/// A machine that holds neighbouring places.
struct Host {
  std::string name;
  std::int64_t places = 1;
  /// The index inside the host of the device at each of its places; empty: 0, 1, 2, …
  std::vector<std::int32_t> local{};
  bool operator==(const Host&) const = default;
};

/// A machine room: a network whose *places* are numbered so that near ones are next to each other,
/// and what is plugged in there. The *devices* of a plan are the places that are available, in
/// order, numbered from 0.
struct Cluster {
  std::string name;
  Device device;
  NetworkSpec network;
  double host_memory_bytes = 0;  ///< of what a host's devices share; 0: not given
  std::vector<Device> other_devices{};
  std::vector<TypeRun> types{};  ///< ascending, disjoint; elsewhere are devices of the first type
  std::vector<PlaceRun> unavailable{};  ///< ascending, disjoint
  std::optional<std::int64_t> limit{};  ///< only the first so many of the available devices; ≥ 1
  /// In the order of their places, all of them; empty: every `places_per_host` are one.
  std::vector<Host> hosts{};
  std::int64_t places_per_host = 0;  ///< 0: as many as a block of the nearest level has

  /// Of the network, available or not.
  std::int64_t places() const;
  std::int64_t devices() const;
  /// Place of every device. Its length is devices().
  std::vector<std::int64_t> places_of_devices() const;
  /// Type of every device: 0 for the first; empty if there is one type only.
  std::vector<std::uint8_t> types_of_devices() const;
  /// The network, of a cluster whose network is of that kind.
  HierarchySpec& hierarchy() { return std::get<HierarchySpec>(network); }
  const HierarchySpec& hierarchy() const { return std::get<HierarchySpec>(network); }
  const Device& type(int index) const {
    return index == 0 ? device : other_devices[static_cast<std::size_t>(index) - 1];
  }
  int type_count() const { return 1 + static_cast<int>(other_devices.size()); }
  /// Places that share a host, in the order of the places; with `hosts` empty all of one size but
  /// maybe the last.
  std::vector<std::int64_t> host_sizes() const;

  bool operator==(const Cluster&) const = default;
};

}  // namespace nestplan::model
