#include "nestplan/cost/device_models.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "nestplan/util/letters.hpp"

namespace nestplan::cost {
namespace {

using model::DeviceModel;

constexpr double kMatmulCeiling = 0.80;
constexpr double kReferencePeak = 312e12;  // FLOP/s, of an A100
constexpr double kPeakDecay = 0.10;

/// Of what was fitted to several sources: what leaving out any one of them changes in a fit, and
/// for what was not fitted the spread among its sources.
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

/// Those errors where less is known: of the shares of matrix products, in 16 and in 8 bits, and of
/// the memory bandwidth. The attention of earlier kernels is assumed.
constexpr DeviceModel wider_errors(double matmul, double narrow_matmul, double memory) {
  DeviceModel e = kRelativeError;
  e.matmul_efficiency = matmul;
  e.narrow_matmul_efficiency = narrow_matmul;
  e.ampere_attention_efficiency = 0.5;
  e.memory_efficiency = memory;
  return e;
}

/// Of what was fitted to one source, which nothing can be left out of: as much more as its runs
/// scatter about their predictions (1.4826 times the median distance of the logarithms from their
/// median is 0.17 for the 71 runs of Blackwell, 0.07 for the 194 of Hopper). The share in 16 bits
/// is that in 8 bits times Hopper's ratio, and has the errors of all three.
constexpr DeviceModel kOneSource = wider_errors(0.21, 0.19, 0.36);

/// Of what was never fitted: three times the distance of the fitted generations from the general
/// formula (up to 7 %), because other makers' libraries may differ more, and the range of the
/// fitted shares of the bandwidth.
constexpr DeviceModel kNeverFitted = wider_errors(0.2, 0.2, 0.35);

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

/// Hopper's silicon with 78 of its multiprocessors and 148 of its 989 TFLOP/s, but all of its
/// memory: never fitted. Products that so little rate asks for are fed as an Ampere's are, and
/// kernels written for Ampere no longer fall behind.
DeviceModel slow_hopper() {
  DeviceModel m = hopper();
  m.matmul_efficiency = kMatmulCeiling;
  m.narrow_matmul_efficiency = kMatmulCeiling;
  m.unaligned_matmul_efficiency = 0.3;  // 44 of 148 TFLOP/s
  m.ampere_attention_efficiency = 1;
  m.compute_units = 78;
  return m;
}

const std::array<DeviceGeneration, 5>& generations() {
  static const std::array<DeviceGeneration, 5> all{{
      {"volta", {"v100"}, volta(), kNeverFitted},
      {"ampere", {"a100", "a800"}, ampere(), kRelativeError},
      {"hopper", {"h100", "h200", "h800", "gh200"}, hopper(), kRelativeError},
      {"slow hopper", {"h20"}, slow_hopper(), kNeverFitted},
      {"blackwell", {"b200", "b300", "gb200", "gb300"}, blackwell(), kOneSource},
  }};
  return all;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

/// Whether a chip's name may begin behind `before`: behind a separator, or the name of a maker or a
/// system written without one.
bool ends_a_word(std::string_view before) {
  if (before.empty() || !(is_letter(before.back()) || is_digit(before.back()))) return true;
  constexpr std::array<std::string_view, 4> kMakers{"nvidia", "tesla", "dgx", "hgx"};
  return std::any_of(kMakers.begin(), kMakers.end(),
                     [before](std::string_view maker) { return before.ends_with(maker); });
}

/// Whether `text` begins with `chip`, maybe with a separator before the number, and not with a
/// longer number.
bool begins_with_chip(std::string_view text, std::string_view chip) {
  const std::size_t letters = chip.find_first_of("0123456789");
  if (!text.starts_with(chip.substr(0, letters))) return false;
  text.remove_prefix(letters);
  if (text.starts_with('-') || text.starts_with('_') || text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  const std::string_view number = chip.substr(letters);
  if (!text.starts_with(number)) return false;
  text.remove_prefix(number.size());
  return text.empty() || !is_digit(text.front());
}

/// Whether `name`, in lower case, has `chip` in it: "nvidia_h100_80gb_hbm3", "h100sxm" and "h-100"
/// have "h100", "h1000" and "gh100" do not.
bool names_chip(std::string_view name, std::string_view chip) {
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (begins_with_chip(name.substr(i), chip) && ends_a_word(name.substr(0, i))) return true;
  }
  return false;
}

/// Share of `peak`, of large matrix products.
double general_efficiency(double peak) {
  return kMatmulCeiling * std::pow(std::min(1.0, kReferencePeak / peak), kPeakDecay);
}

DeviceGeneration general(const model::Device& device) {
  DeviceGeneration generation{"general", {}, {}, kNeverFitted};
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

std::vector<std::string> known_chips() {
  std::vector<std::string> chips;
  for (const DeviceGeneration& generation : generations()) {
    chips.insert(chips.end(), generation.chips.begin(), generation.chips.end());
  }
  return chips;
}

const DeviceGeneration* known_generation(std::string_view name) {
  const std::string lowered = util::lower(name);
  for (const DeviceGeneration& generation : generations()) {
    for (const std::string& chip : generation.chips) {
      if (names_chip(lowered, chip)) return &generation;
    }
  }
  return nullptr;
}

DeviceGeneration generation_of(const model::Device& device) {
  const DeviceGeneration* const known = known_generation(device.name);
  return known != nullptr ? *known : general(device);
}

}  // namespace nestplan::cost
