#pragma once

#include <string>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::cli {

/// Where the parameters of the cost model of `device` are from: "file", the generation that its
/// name tells (cost::DeviceGeneration), or "general".
std::string parameters_from(const model::Device& device);

/// "FILE: FIELD: …", what to say of a device that stands there if its parameters are general; empty
/// if they are not.
std::string remark_on_device(const model::Device& device, const std::string& file,
                             const std::string& field);

/// The same of all types of a cluster.
std::vector<std::string> remarks_on_devices(const model::Cluster& cluster, const std::string& file);

}  // namespace nestplan::cli
