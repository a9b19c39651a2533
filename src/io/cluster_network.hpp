#pragma once

#include <string_view>

#include "io/json.hpp"
#include "nestplan/model/cluster.hpp"

namespace nestplan::io {

/// A quantity above 0, and below what any machine has.
double positive(const Field& field, double (*parse)(std::string_view), std::string_view example);

/// Reads the `network` of a cluster, by its kind, into `cluster`: the network itself, which devices
/// of it there are and, where the kind knows them, the hosts.
void read_hierarchy(const Field& field, model::Cluster& cluster);

}  // namespace nestplan::io
