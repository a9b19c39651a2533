#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/device.hpp"

namespace nestplan::cost {

/// A generation of accelerators with the parameters of the cost model. The same numbers, with the
/// data sheets of their devices, are in inputs/devices.
struct DeviceGeneration {
  std::string name;
  std::vector<std::string> chips;  ///< in lower case, a few letters and a number: "gh200"
  model::DeviceModel model;
  model::DeviceModel relative_error;  ///< standard error of each parameter over its value
};

/// What is known by itself: NVIDIA's Volta, Ampere, Hopper and Blackwell, and apart from these the
/// H20, a Hopper with a seventh of the others' rate.
std::span<const DeviceGeneration> device_generations();

/// The chips of all generations.
std::vector<std::string> known_chips();

/// The generation of which a chip stands in `name`, in whatever case and with anything around it
/// but letters before and digits after: "NVIDIA_H100_80GB_HBM3", "H100SXM", "dgxh100", "h-100".
/// nullptr: there is none.
const DeviceGeneration* known_generation(std::string_view name);

/// That of the name of `device`; else a general one, whose share of the peak falls as peaks rise:
/// 0.80 up to the 312 TFLOP/s of an A100 and (312 TFLOP/s / peak)^0.10 of that beyond, because
/// peaks have grown faster than what feeds them and than the power that they may draw.
DeviceGeneration generation_of(const model::Device& device);

/// Its own parameters where it has some, else those of its generation.
inline model::DeviceModel model_of(const model::Device& device) {
  return device.model ? *device.model : generation_of(device).model;
}

}  // namespace nestplan::cost
