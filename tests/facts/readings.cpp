#include "facts/readings.hpp"

#include <array>

namespace nestplan::facts {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

}  // namespace

const char* to_string(Quantity quantity) {
  constexpr std::array<const char*, 5> kNames{"states", "activations", "allocated", "reserved",
                                              "driver"};
  return kNames[static_cast<std::size_t>(quantity)];
}

model::MemoryReserve usual_reserve() {
  model::MemoryReserve reserve;
  reserve.context_bytes = 1.6e9 + 0.7e9;
  reserve.communicator_bytes = 0.7e9;
  reserve.margin = 0.06;
  return reserve;
}

/// As PyTorch reports them when memory runs out, "has a total capacity of 79.18 GiB".
double device_bytes(const std::string& name) {
  static const std::map<std::string, double> gib{
      {"A100-40GB", 39.39}, {"A100", 79.32},          {"A100-80GB", 79.32}, {"A800-80GB", 79.32},
      {"H100", 79.18},      {"H100-80GB SXM", 79.18}, {"GH-96", 95.0},      {"H200", 139.8},
      {"B200", 178.35},     {"B300", 267.69},         {"GB200", 184.31},    {"GB300", 276.5}};
  if (name.starts_with("H100 96GB")) return 95.0 * kGib;
  const auto found = gib.find(name);
  return found == gib.end() ? 0 : found->second * kGib;
}

}  // namespace nestplan::facts
