#pragma once

#include <string>
#include <string_view>

#include "cli/describe.hpp"

namespace nestplan::cli {

/// A cluster with a picture of its network, at most 100 columns wide.
Description describe_cluster(const std::string& path, std::string_view text);

}  // namespace nestplan::cli
