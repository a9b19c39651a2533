#include "nestplan/io/device_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "io/cluster_network.hpp"
#include "io/json.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"
#include "nestplan/util/units.hpp"

namespace nestplan::io {
namespace {

using model::DeviceModel;
using model::DeviceParameter;
using Output = nlohmann::ordered_json;

constexpr double kMostRelativeError = 10;

double read_parameter(const Field& field, const DeviceParameter& parameter) {
  const double value = parameter.unit == DeviceParameter::Unit::kSeconds
                           ? field.quantity(util::parse_seconds, "3 us")
                           : field.number(parameter.most);
  if (value < parameter.least || value > parameter.most) {
    field.fail(fmt::format("must be from {} to {}{}", parameter.least, parameter.most,
                           parameter.unit == DeviceParameter::Unit::kSeconds ? " s" : ""));
  }
  return value;
}

/// Calls `read(member, parameter)` for the parameters that `field` has.
template <typename Read>
void for_each_parameter(const Field& field, Read read) {
  field.expect(device_keys::kModel);
  for (const DeviceParameter& parameter : model::device_parameters()) {
    if (const auto given = field.find(parameter.name)) read(*given, parameter);
  }
}

/// The value in the first unit, of those below it, in which it is written exactly; in the last,
/// which is 1, any is.
std::string exact_quantity(double value, const std::vector<std::pair<double, const char*>>& units,
                           double (*parse)(std::string_view)) {
  for (const auto& [size, unit] : units) {
    if (value < size) continue;
    std::string text = fmt::format("{} {}", value / size, unit);
    if (parse(text) == value) return text;
  }
  return fmt::format("{} {}", value, units.back().second);
}

std::string bytes_text(double value) {
  return exact_quantity(value, {{1 << 30, "GiB"}, {1e9, "GB"}, {1, "B"}}, util::parse_bytes);
}
std::string bandwidth_text(double value) {
  return exact_quantity(value, {{1e12, "TB/s"}, {1e9, "GB/s"}, {1, "B/s"}}, util::parse_bandwidth);
}
std::string flops_text(double value) {
  return exact_quantity(value, {{1e12, "TFLOP/s"}, {1, "FLOP/s"}}, util::parse_flops);
}
std::string seconds_text(double value) {
  return exact_quantity(value, {{1e-6, "us"}, {1, "s"}}, util::parse_seconds);
}

Output parameter_to_json(double value, const DeviceParameter& parameter) {
  if (parameter.unit == DeviceParameter::Unit::kSeconds) return seconds_text(value);
  return number_to_json(value);
}

DeviceFile to_device_file(const Document& document) {
  const Field root = document.root_of(kDeviceFormat).expect(device_keys::kDevice);
  DeviceFile file;
  file.device = read_device(root);
  const cost::DeviceGeneration* const known = cost::known_generation(file.device.name);
  if (!file.device.model && known != nullptr) file.device.model = known->model;
  file.relative_error = cost::generation_of(file.device).relative_error;
  if (const auto uncertainty = root.find("uncertainty")) {
    for_each_parameter(*uncertainty, [&file](const Field& given, const DeviceParameter& parameter) {
      file.relative_error.*parameter.value = given.number(kMostRelativeError);
    });
  }
  if (const auto sources = root.find("sources")) {
    for_each_parameter(*sources, [&file](const Field& given, const DeviceParameter& parameter) {
      file.sources[parameter.name] = given.text();
    });
  }
  if (const auto provenance = root.find("provenance")) file.provenance = provenance->text();
  return file;
}

/// The parameters in `field`; for others those in `device`.
DeviceModel read_model(const Field& field, const model::Device& device) {
  DeviceModel parameters = cost::model_of(device);
  for_each_parameter(field, [&parameters](const Field& given, const DeviceParameter& parameter) {
    parameters.*parameter.value = read_parameter(given, parameter);
  });
  return parameters;
}

std::map<std::string, double> read_peaks(const Field& field) {
  const std::vector<std::string> known = cost::peak_names();
  std::map<std::string, double> peaks;
  for (const auto& [precision, rate] : field.members()) {
    if (!std::binary_search(known.begin(), known.end(), precision)) {
      field.fail(fmt::format("unknown precision {}{}", util::quoted(precision),
                             util::hint(precision, known)));
    }
    peaks[precision] = positive(rate, util::parse_flops, "989 TFLOP/s");
  }
  if (peaks.empty()) {
    field.fail("must give at least one precision, such as {\"bf16\": \"989 TFLOP/s\"}");
  }
  return peaks;
}

/// The device of the file that `field` names, beside the file that it is in.
model::Device device_beside(const Field& field) {
  const std::string named = field.identifier();
  if (std::any_of(named.begin(), named.end(),
                  [](unsigned char c) { return std::iscntrl(c) != 0; })) {
    field.fail(fmt::format("{} is no name of a file", util::quoted(named)));
  }
  const std::filesystem::path path = std::filesystem::path(field.file()).parent_path() / named;
  try {
    return read_device_file(path).device;
  } catch (const InvalidInput& error) {
    field.fail(error.what());
  }
}

void check_reserve(const Field& field, const model::Device& device) {
  if (device.reserved_bytes <= device.memory_bytes) return;
  const std::string problem =
      fmt::format("is more than the memory ({})", bytes_text(device.memory_bytes));
  const auto reserved = field.find("reserved");
  (reserved ? *reserved : field.at("memory")).fail(reserved ? problem : "is less than the reserve");
}

}  // namespace

model::Device read_device(const Field& field) {
  if (field.json().is_string()) return device_beside(field);
  const auto file = field.find("file");
  model::Device device;
  if (file) device = device_beside(*file);
  // what the file of a device has may be left out
  const auto given = [&](const char* key) {
    return file ? field.find(key) : std::optional(field.at(key));
  };
  if (const auto name = given("name")) device.name = name->identifier();
  if (const auto memory = given("memory")) {
    device.memory_bytes = positive(*memory, util::parse_bytes, "80 GiB");
  }
  if (const auto reserved = field.find("reserved")) {
    device.reserved_bytes = reserved->quantity(util::parse_bytes, "2 GiB");
  }
  check_reserve(field, device);
  if (const auto peak = given("peak")) device.peak_flops = read_peaks(*peak);
  if (const auto bandwidth = field.find("memory_bandwidth")) {
    device.memory_bandwidth = positive(*bandwidth, util::parse_bandwidth, "3.35 TB/s");
  }
  if (const auto speed = field.find("speed")) {
    device.speed = speed->number(kMostCount);
    if (device.speed <= 0) speed->fail("must be more than 0");
  }
  if (const auto parameters = field.find("model")) {
    device.model = read_model(*parameters, device);
  }
  return device;
}

DeviceFile read_device_file(const std::filesystem::path& path) {
  return to_device_file(Document::read(path));
}

DeviceFile parse_device_file(std::string_view text, const std::string& file) {
  return to_device_file(Document(text, file));
}

std::string device_file_to_json(const DeviceFile& file) {
  const model::Device& device = file.device;
  Output out{{"format", kDeviceFormat}, {"name", device.name}};
  if (!file.provenance.empty()) out["provenance"] = file.provenance;
  out["memory"] = bytes_text(device.memory_bytes);
  if (device.reserved_bytes > 0) out["reserved"] = bytes_text(device.reserved_bytes);
  out["peak"] = Output::object();
  for (const auto& [precision, flops] : device.peak_flops) {
    out["peak"][precision] = flops_text(flops);
  }
  if (device.memory_bandwidth > 0) {
    out["memory_bandwidth"] = bandwidth_text(device.memory_bandwidth);
  }
  Output parameters = Output::object(), uncertainty = Output::object(), sources = Output::object();
  const DeviceModel& values = cost::model_of(device);
  for (const DeviceParameter& parameter : model::device_parameters()) {
    parameters[parameter.name] = parameter_to_json(values.*parameter.value, parameter);
    uncertainty[parameter.name] = number_to_json(file.relative_error.*parameter.value);
    const auto source = file.sources.find(parameter.name);
    if (source != file.sources.end()) sources[parameter.name] = source->second;
  }
  out["model"] = std::move(parameters);
  out["uncertainty"] = std::move(uncertainty);
  if (!sources.empty()) out["sources"] = std::move(sources);
  return to_text(out);
}

}  // namespace nestplan::io
