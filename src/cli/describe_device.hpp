#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "cli/describe.hpp"
#include "nestplan/model/device.hpp"

namespace nestplan::cli {

/// "NAME: MEMORY at BANDWIDTH, PRECISION PEAK, …".
std::string device_text(const model::Device& device);

/// "0.667 ± 5 %"; without the error if it is 0.
std::string parameter_text(const model::DeviceParameter& parameter, double value,
                           double relative_error);

/// The data sheet, and where the parameters of the cost model are from.
nlohmann::ordered_json device_json(const model::Device& device);

/// A `nestplan.device/1` file: the data sheet, and every parameter of the cost model with how well
/// it is known and what it means.
Description describe_device(const std::string& path, std::string_view text);

}  // namespace nestplan::cli
