#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace nestplan::model {

/// How much of a device's rates its kernels sustain in training: all that the analytical cost model
/// (cost::AnalyticalCostModel) knows of a device beside its data sheet. Each parameter has its
/// meaning, unit and bounds in `device_parameters`; the values of a generation and their sources
/// are in cost/device_models.hpp. The defaults are those of an Ampere GPU.
struct DeviceModel {
  double matmul_efficiency = 0.80;
  double narrow_matmul_efficiency = 0.80;
  double unaligned_matmul_efficiency = 0.25;
  double attention_forward_efficiency = 0.60;
  double attention_backward_efficiency = 0.50;
  double ampere_attention_efficiency = 1;
  double attention_token_ramp = 512;
  double attention_head_ramp = 16;
  double memory_efficiency = 0.55;
  double kernel_s = 3e-6;
  double compute_units = 128;
  double tile = 128;
  double depth_ramp = 128;

  bool operator==(const DeviceModel&) const = default;
};

/// A parameter of DeviceModel: the only place that knows its name, bounds and meaning.
struct DeviceParameter {
  enum class Unit : std::uint8_t {
    kShare,    ///< of a rate; in (0, 1]
    kSeconds,  ///< written with a unit in files
    kCount
  };
  const char* name;  ///< as files write it
  double DeviceModel::*value;
  Unit unit;
  double least;
  double most;
  /// Whether measured runs may move it. What they may not is a property of the hardware or of the
  /// libraries' kernels.
  bool measurable;
  const char* meaning;
};

/// All of them, in the order of DeviceModel.
std::span<const DeviceParameter> device_parameters();

/// An accelerator. Rates are decimal SI (FLOP/s, bytes/s), sizes are bytes.
struct Device {
  std::string name;
  double memory_bytes = 0;
  double reserved_bytes = 0;                 ///< not available to the plan
  std::map<std::string, double> peak_flops;  ///< by precision: "bf16", "fp8", …
  double memory_bandwidth = 0;               ///< bytes/s; 0: not given
  /// How fast it works through a graph's measured layers, the cluster's first type being 1.
  double speed = 1;
  std::optional<DeviceModel> model{};  ///< empty: that of its generation

  double usable_bytes() const { return memory_bytes - reserved_bytes; }
  bool operator==(const Device&) const = default;
};

}  // namespace nestplan::model
