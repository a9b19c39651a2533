#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "facts/bridge_recipes.hpp"
#include "nestplan/model/cluster.hpp"

namespace nestplan::facts {

/// The systems that the runs of throughput.csv were measured on: those of `Machines`, and for the
/// sources that had others what is known of these.
class MeasuredSystems {
 public:
  /// Throws IoError.
  explicit MeasuredSystems(const std::filesystem::path& facts) : reference_(facts) {}

  /// So many devices, in whole nodes of eight where these have a description of their own. Throws
  /// InvalidInput for a kind of devices that is not known.
  model::Cluster cluster(const std::string& source, const std::string& gpu,
                         std::int64_t devices) const;

 private:
  Machines reference_;
};

}  // namespace nestplan::facts
