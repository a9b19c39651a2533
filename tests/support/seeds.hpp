#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace nestplan::testing {

/// How many random instances a test tries when `usual` are its usual number: `usual` times the
/// factor in the environment variable NESTPLAN_SHARE (below 1 for slow builds), 20 times as many
/// with NESTPLAN_SOAK=1; at least one.
inline std::uint64_t seeds(std::uint64_t usual) {
  const char* soak = std::getenv("NESTPLAN_SOAK");
  const char* share = std::getenv("NESTPLAN_SHARE");
  double factor = share == nullptr ? 1 : std::stod(share);
  if (soak != nullptr && std::string(soak) != "0") factor *= 20;
  return std::max<std::uint64_t>(1,
                                 static_cast<std::uint64_t>(static_cast<double>(usual) * factor));
}

}  // namespace nestplan::testing
