#include "cli/describe_device.hpp"

#include <fmt/format.h>

#include "cli/device_remarks.hpp"
#include "cli/plan_report.hpp"
#include "cli/text.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/io/device_file.hpp"
#include "nestplan/io/keys.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using model::DeviceParameter;

std::string value_text(const DeviceParameter& parameter, double value) {
  switch (parameter.unit) {
    case DeviceParameter::Unit::kSeconds:
      return util::format_seconds(value);
    case DeviceParameter::Unit::kShare:
      return fmt::format("{:.3f}", value);
    case DeviceParameter::Unit::kCount:
      return fmt::format("{:g}", value);
  }
  return "";
}

std::string parameter_table(const io::DeviceFile& file) {
  const model::DeviceModel values = cost::model_of(file.device);
  Table table({{"parameter"}, {"value", Table::Align::kRight}, {"meaning"}});
  for (const DeviceParameter& parameter : model::device_parameters()) {
    table.add(
        {parameter.name,
         parameter_text(parameter, values.*parameter.value, file.relative_error.*parameter.value),
         parameter.meaning});
  }
  return table.text(2);
}

Json parameters_json(const io::DeviceFile& file) {
  const model::DeviceModel values = cost::model_of(file.device);
  Json parameters;
  for (const DeviceParameter& parameter : model::device_parameters()) {
    Json& entry = parameters[parameter.name];
    entry = {{"value", values.*parameter.value},
             {"relative_error", file.relative_error.*parameter.value},
             {"meaning", parameter.meaning}};
    const auto source = file.sources.find(parameter.name);
    if (source != file.sources.end()) entry["source"] = source->second;
  }
  return parameters;
}

}  // namespace

std::string parameter_text(const DeviceParameter& parameter, double value, double relative_error) {
  return value_text(parameter, value) +
         (relative_error > 0 ? fmt::format(" ± {:.0f} %", 100 * relative_error) : "");
}

std::string device_text(const model::Device& device) {
  std::string text =
      fmt::format("{}: {}", printable(device.name), util::format_bytes_binary(device.memory_bytes));
  if (device.reserved_bytes > 0) {
    text += fmt::format(" less {} reserved", util::format_bytes_binary(device.reserved_bytes));
  }
  if (device.memory_bandwidth > 0) {
    text += fmt::format(" at {}", util::format_si(device.memory_bandwidth, "B/s"));
  }
  for (const auto& [precision, flops] : device.peak_flops) {
    text += fmt::format(", {} {}", precision, util::format_si(flops, "FLOP/s"));
  }
  return text;
}

nlohmann::ordered_json device_json(const model::Device& device) {
  return {{"name", device.name},
          {"memory_bytes", device.memory_bytes},
          {"reserved_bytes", device.reserved_bytes},
          {"memory_bytes_per_s", device.memory_bandwidth},
          {"peak_flops_per_s", device.peak_flops},
          {"parameters_from", parameters_from(device)}};
}

Description describe_device(const std::string& path, std::string_view text) {
  const io::DeviceFile file = io::parse_device_file(text, path);
  Description description;
  description.text =
      title("device", file.device.name, path) + described("data sheet", device_text(file.device));
  const std::string remark = remark_on_device(file.device, path, "name");
  if (!remark.empty()) description.text += labelled_paragraph("  remark", remark);
  description.text += '\n' + parameter_table(file);
  description.json = {{"kind", "device"}, {"file", path}};
  description.json.update(device_json(file.device));
  description.json["provenance"] = file.provenance;
  description.json["parameters"] = parameters_json(file);
  return description;
}

}  // namespace nestplan::cli
