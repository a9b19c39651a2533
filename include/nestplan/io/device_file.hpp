#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "nestplan/model/device.hpp"

namespace nestplan::io {

/// A `nestplan.device/1` file: the data sheet of an accelerator, the parameters of its cost model,
/// and how well each of them is known. A cluster file's `device` may name one.
struct DeviceFile {
  model::Device device;  ///< without a `model` only if neither the file nor its name tells one
  model::DeviceModel relative_error;  ///< standard error of each parameter over its value
  std::map<std::string, std::string> sources{};  ///< by parameter
  std::string provenance;
};

/// Parameters that the file leaves out, and their errors, are those of the device's generation.
/// Throws InvalidInput naming file and field.
DeviceFile read_device_file(const std::filesystem::path& path);
DeviceFile parse_device_file(std::string_view text, const std::string& file);

/// The text of such a file; `parse_device_file` of it gives the same device back.
std::string device_file_to_json(const DeviceFile& file);

}  // namespace nestplan::io
