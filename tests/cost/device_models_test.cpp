#include "nestplan/cost/device_models.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cost/samples.hpp"

namespace nestplan::cost {
namespace {

using model::DeviceModel;
using test::a100;
using test::h100;

std::string generation(const std::string& name) {
  model::Device device = h100();
  device.name = name;
  return generation_of(device).name;
}

TEST(DeviceModels, GenerationsAreToldByTheChipInTheName) {
  for (const char* name : {"h100-sxm", "NVIDIA H200", "H100SXM", "NVIDIA_H100_80GB_HBM3", "h-100",
                           "H800", "GH200", "dgxh100", "Hopper H100 PCIe", "gh200-480gb"}) {
    EXPECT_EQ(generation(name), "hopper") << name;
  }
  for (const char* name : {"A100-80GB", "a100_sxm4", "NVIDIA A100X", "A800"}) {
    EXPECT_EQ(generation(name), "ampere") << name;
  }
  for (const char* name : {"gb300", "GB300", "B200", "nvidia-b300", "GB200NVL72"}) {
    EXPECT_EQ(generation(name), "blackwell") << name;
  }
  for (const char* name : {"v100-sxm2-32gb", "Tesla V100S", "TeslaV100"}) {
    EXPECT_EQ(generation(name), "volta") << name;
  }
  for (const char* name : {"mi300x", "MI300X", "TPU v5p", "h1000", "h100000", "gh100", "sb200",
                           "l40s", "h", "100", ""}) {
    EXPECT_EQ(generation(name), "general") << name;
    EXPECT_EQ(known_generation(name), nullptr) << name;
  }
}

TEST(DeviceModels, AnH20IsFedAsAnAmpereIs) {
  for (const char* name : {"h20", "NVIDIA H20", "H20-3e", "h20_141gb"}) {
    EXPECT_EQ(generation(name), "slow hopper") << name;
  }
  const DeviceGeneration& slow = *known_generation("H20");
  const DeviceGeneration& hopper = *known_generation("H200");
  EXPECT_EQ(slow.model.matmul_efficiency, known_generation("A100")->model.matmul_efficiency);
  EXPECT_EQ(slow.model.memory_efficiency, hopper.model.memory_efficiency);
  EXPECT_GT(slow.relative_error.matmul_efficiency, hopper.relative_error.matmul_efficiency);
}

TEST(DeviceModels, WhatIsFittedToLessIsLessCertain) {
  const auto error = [](const char* name, double DeviceModel::*parameter) {
    model::Device device = h100();
    device.name = name;
    return generation_of(device).relative_error.*parameter;
  };
  for (const auto parameter :
       {&DeviceModel::matmul_efficiency, &DeviceModel::narrow_matmul_efficiency,
        &DeviceModel::memory_efficiency}) {
    EXPECT_EQ(error("A100", parameter), error("H100", parameter));
    for (const char* name : {"GB300", "V100", "H20", "accelerator"}) {
      EXPECT_GT(error(name, parameter), 2 * error("H100", parameter)) << name;
    }
  }
}

TEST(DeviceModels, UnknownDevicesSustainLessOfHigherPeaks) {
  model::Device device = h100();
  device.name = "accelerator";
  device.peak_flops = {{"bf16", 100e12}, {"fp8", 3120e12}};
  const model::DeviceModel slow = generation_of(device).model;
  EXPECT_DOUBLE_EQ(slow.matmul_efficiency, 0.80);
  EXPECT_DOUBLE_EQ(slow.narrow_matmul_efficiency, 0.80 * std::pow(0.1, 0.10));
}

TEST(DeviceModels, ADevicesOwnComesFirst) {
  model::Device device = h100();
  device.model = generation_of(device).model;
  device.model->matmul_efficiency /= 2;
  const Matmul large{65536, 65536, 65536};
  const Precision precision = precision_of("bf16");
  EXPECT_NEAR(AnalyticalCostModel(device, precision).seconds(large) /
                  AnalyticalCostModel(h100(), precision).seconds(large),
              2, 1e-3);
}

TEST(DeviceModels, ParametersAreWithinTheirBounds) {
  for (const DeviceGeneration& generation : device_generations()) {
    SCOPED_TRACE(generation.name);
    for (const model::DeviceParameter& parameter : model::device_parameters()) {
      SCOPED_TRACE(parameter.name);
      EXPECT_GE(generation.model.*parameter.value, parameter.least);
      EXPECT_LE(generation.model.*parameter.value, parameter.most);
      EXPECT_GT(generation.relative_error.*parameter.value, 0);
    }
  }
}

TEST(AttentionKernels, EarlierOnesAreSlower) {
  const auto seconds = [](const model::Device& device, AttentionKernel kernel) {
    const Attention op{1, 8192, 32, 8, 128, 8192.0 * 4096};
    return AnalyticalCostModel(device, precision_of("bf16"), kernel).seconds(op);
  };
  for (const model::Device& device : {a100(), h100()}) {
    EXPECT_GT(seconds(device, AttentionKernel::kFlash1), seconds(device, AttentionKernel::kFlash2));
  }
  EXPECT_EQ(seconds(a100(), AttentionKernel::kFlash2), seconds(a100(), AttentionKernel::kNative));
  EXPECT_GT(seconds(h100(), AttentionKernel::kFlash2), seconds(h100(), AttentionKernel::kNative));
}

TEST(AttentionKernels, HeadsThatAreNotAlignedAreSlow) {
  const AnalyticalCostModel costs(a100(), precision_of("bf16"));
  const auto seconds = [&costs](double head_dim, bool fused) {
    Attention op{1, 2048, 64, 64, head_dim, 2048.0 * 2048};
    op.fused = fused;
    return costs.seconds(op);
  };
  // 108 elements of two bytes are 13.5 units of 16 bytes
  EXPECT_GT(seconds(108, false), 2 * seconds(112, false));
  EXPECT_LT(seconds(104, false), seconds(112, false));
  // one kernel pads both to 128
  EXPECT_NEAR(seconds(108, true) / seconds(128, true), 1, 1e-9);
}

TEST(Precisions, NarrowOperandsAreCastFirst) {
  for (const char* name : {"fp8", "mxfp8"}) {
    const Precision precision = precision_of(name);
    EXPECT_TRUE(precision.narrow());
    EXPECT_EQ(precision.peak_name, "fp8");
    // read once in 16 bits, written twice in 8 with their scales
    EXPECT_EQ(precision.cast_bytes, 2 + 2 * precision.operand_bytes);
  }
  EXPECT_GT(precision_of("mxfp8").operand_bytes, precision_of("fp8").operand_bytes);
  EXPECT_EQ(precision_of("bf16").cast_bytes, 0);
}

TEST(Experts, DifferAboutTheirMeanSize) {
  const AnalyticalCostModel costs(h100(), precision_of("bf16"));
  Matmul one{1024, 4096, 4096};
  Matmul many{128, 4096, 4096};
  many.groups = 8;
  EXPECT_EQ(one.flops(), many.flops());
  // each of the eight fills one tile in the mean and starts another half of the times
  EXPECT_GT(costs.seconds(many), 1.3 * costs.seconds(one));
}

}  // namespace
}  // namespace nestplan::cost
