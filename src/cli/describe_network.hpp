#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::cli {

/// What is plugged in at every place of a cluster: the number of a device type, or kNothing where
/// no device is available.
inline constexpr int kNothing = -1;
std::vector<int> types_of_places(const model::Cluster& cluster);

/// The tree of a hierarchy: one line a level where all blocks are alike and complete; else blocks
/// with what is missing, runs of equal ones drawn together, and no more of them than fit a screen.
std::string tree_picture(const model::Cluster& cluster);

/// A torus or mesh as grids, slice by slice, with the host at every place.
std::string torus_picture(const model::Cluster& cluster);

}  // namespace nestplan::cli
