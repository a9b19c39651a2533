#include "nestplan/model/device.hpp"

#include <array>

namespace nestplan::model {
namespace {

using Unit = DeviceParameter::Unit;

constexpr double kLeastShare = 1e-3;

constexpr std::array<DeviceParameter, 13> kParameters{{
    {"matmul_efficiency", &DeviceModel::matmul_efficiency, Unit::kShare, kLeastShare, 1, true,
     "share of the peak that large matrix products in 16 bits and more sustain"},
    {"narrow_matmul_efficiency", &DeviceModel::narrow_matmul_efficiency, Unit::kShare, kLeastShare,
     1, true, "the same of products in 8 bits"},
    {"unaligned_matmul_efficiency", &DeviceModel::unaligned_matmul_efficiency, Unit::kShare,
     kLeastShare, 1, true,
     "the part of it that is left to products over rows of no whole multiple of 16 bytes"},
    {"attention_forward_efficiency", &DeviceModel::attention_forward_efficiency, Unit::kShare,
     kLeastShare, 1, true,
     "share of the 16-bit peak that the generation's own fused attention sustains forward, over "
     "long sequences"},
    {"attention_backward_efficiency", &DeviceModel::attention_backward_efficiency, Unit::kShare,
     kLeastShare, 1, true, "the same backward"},
    {"ampere_attention_efficiency", &DeviceModel::ampere_attention_efficiency, Unit::kShare,
     kLeastShare, 1, true,
     "the part of both that kernels written for Ampere (FlashAttention-2) reach"},
    {"attention_token_ramp", &DeviceModel::attention_token_ramp, Unit::kCount, 0, 1e6, false,
     "tokens of a sequence at which fused attention reaches half of it"},
    {"attention_head_ramp", &DeviceModel::attention_head_ramp, Unit::kCount, 0, 1e4, false,
     "head width at which fused attention reaches half of it"},
    {"memory_efficiency", &DeviceModel::memory_efficiency, Unit::kShare, kLeastShare, 1, true,
     "share of the memory bandwidth that element-wise kernels sustain, each tensor counted once"},
    {"kernel_time", &DeviceModel::kernel_s, Unit::kSeconds, 0, 1e-2, true,
     "launch, ramp-up and drain of a kernel in a busy stream"},
    {"compute_units", &DeviceModel::compute_units, Unit::kCount, 1, 1e6, false,
     "output tiles that run at once"},
    {"tile", &DeviceModel::tile, Unit::kCount, 1, 1e4, false,
     "rows and columns of the output tile of a matrix product"},
    {"depth_ramp", &DeviceModel::depth_ramp, Unit::kCount, 0, 1e4, false,
     "steps along the summed dimension that filling the pipeline and writing a tile cost"},
}};

}  // namespace

std::span<const DeviceParameter> device_parameters() { return kParameters; }

}  // namespace nestplan::model
