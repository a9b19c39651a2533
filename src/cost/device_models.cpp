#include "nestplan/cost/device_models.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace nestplan::cost {
namespace {

using model::DeviceModel;

constexpr double kMatmulCeiling = 0.80;
constexpr double kReferencePeak = 312e12;  // FLOP/s, of an A100
constexpr double kPeakDecay = 0.10;

/// Of every generation unless it says otherwise: what leaving out any one source of the measured
/// runs changes in a fit, and for what was never fitted the spread among its sources.
constexpr DeviceModel kRelativeError{.matmul_efficiency = 0.05,
                                     .narrow_matmul_efficiency = 0.08,
                                     .unaligned_matmul_efficiency = 0.5,
                                     .attention_forward_efficiency = 0.15,
                                     .attention_backward_efficiency = 0.15,
                                     .ampere_attention_efficiency = 0.2,
                                     .attention_token_ramp = 0.5,
                                     .attention_head_ramp = 0.5,
                                     .memory_efficiency = 0.15,
                                     .kernel_s = 0.5,
                                     .compute_units = 0.3,
                                     .tile = 0.3,
                                     .depth_ramp = 0.5};

/// The shares of matrix products and of the memory bandwidth are fitted to iterations of six
/// sources, one generation at a time. In the median they predict these within 5 % (Hopper, Ampere)
/// and 13 % (Blackwell, all of whose runs are of one source, a third of them off by more than 30
/// %), and within 6 % the sources on Hopper and Ampere that are left out of the fit. The shares of
/// long attention are what isolated kernels reach (arXiv 2307.08691, arXiv 2407.08608) less a
/// tenth. Products over unaligned rows fall back to the rate of fp32.
DeviceModel ampere() {
  DeviceModel m;
  m.matmul_efficiency = 0.80;
  m.narrow_matmul_efficiency = 0.80;
  m.unaligned_matmul_efficiency = 0.06;  // 19.5 of 312 TFLOP/s
  m.memory_efficiency = 0.61;
  return m;
}

/// Never fitted.
DeviceModel volta() {
  DeviceModel m = ampere();
  m.unaligned_matmul_efficiency = 0.12;  // 15.7 of 125 TFLOP/s
  m.compute_units = 80;
  return m;
}

DeviceModel hopper() {
  DeviceModel m;
  m.matmul_efficiency = 0.667;
  m.narrow_matmul_efficiency = 0.625;
  m.unaligned_matmul_efficiency = 0.07;  // 67 of 989 TFLOP/s
  m.ampere_attention_efficiency = 0.58;  // 0.35 of the peak (arXiv 2407.08608)
  m.memory_efficiency = 0.44;
  return m;
}

/// In 16 bits as much faster than in 8 as on Hopper: what was measured in 16 bits is one model of
/// experts.
DeviceModel blackwell() {
  DeviceModel m;
  m.matmul_efficiency = 0.61;
  m.narrow_matmul_efficiency = 0.57;
  m.unaligned_matmul_efficiency = 0.036;  // 80 of 2250 TFLOP/s
  m.ampere_attention_efficiency = 0.3;
  m.memory_efficiency = 0.62;
  return m;
}

const std::array<DeviceGeneration, 4>& generations() {
  static const std::array<DeviceGeneration, 4> all{{
      {"volta", {"v100"}, volta(), kRelativeError},
      {"ampere", {"a100", "a800"}, ampere(), kRelativeError},
      {"hopper", {"h100", "h200", "h800", "h20", "gh200", "gh"}, hopper(), kRelativeError},
      {"blackwell", {"b200", "b300", "gb200", "gb300"}, blackwell(), kRelativeError},
  }};
  return all;
}

/// Runs of letters and digits, in lower case.
std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) {
      words.back() += static_cast<char>(std::tolower(letter));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

/// Share of `peak`, of large matrix products.
double general_efficiency(double peak) {
  return kMatmulCeiling * std::pow(std::min(1.0, kReferencePeak / peak), kPeakDecay);
}

DeviceGeneration general(const model::Device& device) {
  DeviceGeneration generation{"general", {}, {}, kRelativeError};
  double wide = 0, narrow = 0;
  for (const auto& [precision, flops] : device.peak_flops) {
    double& most = precision.starts_with("fp8") ? narrow : wide;
    most = std::max(most, flops);
  }
  if (wide > 0) generation.model.matmul_efficiency = general_efficiency(wide);
  if (narrow > 0) generation.model.narrow_matmul_efficiency = general_efficiency(narrow);
  return generation;
}

}  // namespace

std::span<const DeviceGeneration> device_generations() { return generations(); }

DeviceGeneration generation_of(const model::Device& device) {
  const std::vector<std::string> words = words_of(device.name);
  for (const DeviceGeneration& generation : generations()) {
    for (const std::string& word : generation.words) {
      if (std::find(words.begin(), words.end(), word) != words.end()) return generation;
    }
  }
  return general(device);
}

}  // namespace nestplan::cost
