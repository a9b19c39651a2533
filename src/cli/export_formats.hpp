#pragma once

#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/placement/placement.hpp"

namespace nestplan::cli {

/// What `export --to` knows.
std::vector<std::string> export_format_names();

/// What else there is to write.
struct ExportDetail {
  const network::Network& network;
  const model::Cluster& cluster;
  bool groups = false;
};

/// `format`: one of the names that is no framework's. Throws InvalidInput for hosts without names
/// where these are needed.
std::string exported(const placement::Placement& placement, const std::string& format,
                     const ExportDetail& detail);

}  // namespace nestplan::cli
