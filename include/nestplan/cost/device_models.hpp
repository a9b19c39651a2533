#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/device.hpp"

namespace nestplan::cost {

/// A generation of accelerators whose parameters were fitted to measured training. The same
/// numbers, with the data sheets of their devices, are in inputs/devices.
struct DeviceGeneration {
  std::string name;
  std::vector<std::string> words;  ///< in lower case: one of them is a word of a device's name
  model::DeviceModel model;
  model::DeviceModel relative_error;  ///< standard error of each parameter over its value
};

/// What is known by itself: NVIDIA's Volta, Ampere, Hopper and Blackwell.
std::span<const DeviceGeneration> device_generations();

/// That of `device`: its own model where it has one; else the generation that its name tells, such
/// as "h100" in "H100-80GB SXM"; else a general one, whose share of the peak falls as peaks rise:
/// 0.80 up to the 312 TFLOP/s of an A100 and (312 TFLOP/s / peak)^0.10 of that beyond, because
/// peaks have grown faster than what feeds them and than the power that they may draw.
DeviceGeneration generation_of(const model::Device& device);

inline model::DeviceModel model_of(const model::Device& device) {
  return device.model ? *device.model : generation_of(device).model;
}

}  // namespace nestplan::cost
