#pragma once

#include <string_view>

#include "io/json.hpp"
#include "nestplan/model/cluster.hpp"

namespace nestplan::io {

/// A quantity above 0, and below what any machine has.
double positive(const Field& field, double (*parse)(std::string_view), std::string_view example);

/// Most types of devices of a cluster.
inline constexpr std::int64_t kMostDeviceTypes = 16;

/// A device: an object, which may name a device file beside its own and change what is in there, or
/// the path of such a file alone. Which keys there may be is the caller's to check.
model::Device read_device(const Field& field);

/// Reads `hosts`, `other_devices` and `unavailable` of a cluster whose network is known.
void read_what_is_there(const Field& root, model::Cluster& cluster);

/// What a level has besides its name and its place: bandwidth, latency, oversubscription, ports,
/// background load and in-network reduction.
void read_rates(const Field& field, model::NetworkLevel& level);

/// Reads the `network` of a cluster, by its kind, into `cluster`: the network itself, which devices
/// of it there are and, where the kind knows them, the hosts.
void read_hierarchy(const Field& field, model::Cluster& cluster);
void read_torus(const Field& field, model::Cluster& cluster);
void read_links(const Field& field, model::Cluster& cluster);
/// Reads the topology file too, relative to the file of the cluster.
void read_slurm(const Field& field, model::Cluster& cluster);

/// Fails if the text is a topology.conf instead of a cluster file, and says what to write.
void refuse_bare_topology(std::string_view text, const std::string& file);

}  // namespace nestplan::io
