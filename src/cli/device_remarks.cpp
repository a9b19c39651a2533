#include "cli/device_remarks.hpp"

#include <fmt/format.h>

#include <utility>

#include "nestplan/cost/device_models.hpp"
#include "nestplan/util/letters.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {

std::string parameters_from(const model::Device& device) {
  return device.model ? "file" : cost::generation_of(device).name;
}

std::string remark_on_device(const model::Device& device, const std::string& file,
                             const std::string& field) {
  if (device.model || cost::known_generation(device.name) != nullptr) return "";
  const double error = cost::generation_of(device).relative_error.matmul_efficiency;
  return fmt::format(
      "{}: {}: nothing is known of {}{}: its times are from general parameters, that of matrix "
      "products ±{:.0f} %; its \"model\" sets them, and nestplan calibrate finds them",
      file, field, util::quoted(device.name),
      util::hint(util::lower(device.name), cost::known_chips()), 100 * error);
}

std::vector<std::string> remarks_on_devices(const model::Cluster& cluster,
                                            const std::string& file) {
  std::vector<std::string> remarks;
  for (int type = 0; type < cluster.type_count(); ++type) {
    const std::string field = type == 0 ? "device" : fmt::format("other_devices[{}]", type - 1);
    std::string remark = remark_on_device(cluster.type(type), file, field);
    if (!remark.empty()) remarks.push_back(std::move(remark));
  }
  return remarks;
}

}  // namespace nestplan::cli
