#pragma once

#include <cstdint>

#include "nestplan/model/problem.hpp"

namespace nestplan::bench {

/// `layers` equal layers in a row under tp 1, 2, 4 and 8, on `devices` accelerators in nodes of 8,
/// leaves of 4 nodes and one spine. Every layer moves the same bytes on and into all-reduces, so
/// that placement matters. `devices` is a multiple of 32.
model::Problem chain(std::int64_t layers, std::int64_t devices, std::int64_t global_batch);

}  // namespace nestplan::bench
