#include "nestplan/io/device_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/samples.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

const std::filesystem::path kDevices = NESTPLAN_SOURCE_DIR "/inputs/devices";

Json sample_device() {
  return Json::parse(R"({
    "format": "nestplan.device/1", "name": "h100-mine", "memory": "80 GB",
    "peak": {"bf16": "989 TFLOP/s", "fp8": "1979 TFLOP/s"}, "memory_bandwidth": "3.35 TB/s",
    "model": {"matmul_efficiency": 0.7, "kernel_time": "4 us"},
    "uncertainty": {"matmul_efficiency": 0.02},
    "sources": {"matmul_efficiency": "our own"}})");
}

DeviceFile parse(const Json& document) { return parse_device_file(document.dump(), "d.json"); }

std::string error_with(const std::string& where, const Json& value) {
  Json document = sample_device();
  document[Json::json_pointer(where)] = value;
  return message_of([&] { parse(document); });
}

TEST(DeviceFile, LeavesOutWhatItsGenerationHas) {
  const DeviceFile file = parse(sample_device());
  const cost::DeviceGeneration hopper = cost::generation_of(file.device);
  ASSERT_EQ(hopper.name, "hopper");
  ASSERT_TRUE(file.device.model);
  EXPECT_EQ(file.device.model->matmul_efficiency, 0.7);
  EXPECT_EQ(file.device.model->kernel_s, 4e-6);
  EXPECT_EQ(file.device.model->memory_efficiency, hopper.model.memory_efficiency);
  EXPECT_EQ(file.relative_error.matmul_efficiency, 0.02);
  EXPECT_EQ(file.relative_error.memory_efficiency, hopper.relative_error.memory_efficiency);
  EXPECT_EQ(file.sources.at("matmul_efficiency"), "our own");
}

TEST(DeviceFile, KnowsThePrecisionsOfItsPeaks) {
  const std::string error = error_with("/peak/bf61", "989 TFLOP/s");
  expect_contains(error, "d.json: peak: unknown precision \"bf61\" (did you mean \"bf16\"?)");
  expect_contains(error_with("/peak/int4", "1 TFLOP/s"), "unknown precision \"int4\"");
  for (const std::string& name : cost::peak_names()) {
    Json document = sample_device();
    document["peak"] = {{name, "989 TFLOP/s"}};
    EXPECT_EQ(parse(document).device.peak_flops.at(name), 989e12);
  }
}

TEST(DeviceFile, HasNoModelWhereNothingIsKnownOfTheDevice) {
  Json document = sample_device();
  document["name"] = "accelerator";
  EXPECT_TRUE(parse(document).device.model);
  document.erase("model");
  const DeviceFile unknown = parse(document);
  EXPECT_FALSE(unknown.device.model);
  EXPECT_EQ(unknown.relative_error.memory_efficiency,
            cost::generation_of(unknown.device).relative_error.memory_efficiency);
}

TEST(DeviceFile, IsWrittenAsItIsRead) {
  DeviceFile file = parse(sample_device());
  file.device.model->kernel_s = 3.14159265358979e-6;
  file.device.model->memory_efficiency = 0.1 + 0.2;
  file.device.memory_bytes = 84934656001;
  file.device.reserved_bytes = 1073741824;
  file.provenance = "a \"test\"";
  const DeviceFile again = parse_device_file(device_file_to_json(file), "again.json");
  EXPECT_EQ(again.device, file.device);
  EXPECT_EQ(again.relative_error, file.relative_error);
  EXPECT_EQ(again.sources, file.sources);
  EXPECT_EQ(again.provenance, file.provenance);
}

TEST(DeviceFile, TimesOfAnySizeAreWritten) {
  DeviceFile file = parse(sample_device());
  for (const double seconds : {0.0, 7e-9, 1e-6, 1.0 / 3e6, 0.01}) {
    file.device.model->kernel_s = seconds;
    EXPECT_EQ(parse_device_file(device_file_to_json(file), "f").device.model->kernel_s, seconds);
  }
}

TEST(DeviceFile, TellsWhatIsWrong) {
  expect_contains(error_with("/model/matmul_efficiency", 1.5), "d.json: model.matmul_efficiency: ");
  EXPECT_EQ(error_with("/model/matmul_efficiency", 0),
            "d.json: model.matmul_efficiency: must be from 0.001 to 1");
  expect_contains(error_with("/model/kernel_time", 4), "d.json: model.kernel_time: must be text");
  EXPECT_EQ(error_with("/model/kernel_time", "1 s"),
            "d.json: model.kernel_time: must be from 0 to 0.01 s");
  EXPECT_EQ(error_with("/model/memory_eficiency", 0.5),
            "d.json: model: unknown key \"memory_eficiency\" (did you mean "
            "\"memory_efficiency\"?)");
  expect_contains(error_with("/uncertainty/tile", -1), "d.json: uncertainty.tile: ");
  expect_contains(error_with("/sources/tiles", "x"), "d.json: sources: unknown key \"tiles\"");
  expect_contains(error_with("/speed", 1), "d.json: unknown key \"speed\"");
}

class ClusterDevice : public ::testing::Test {
 protected:
  void SetUp() override { test::write(folder_ / "mine.json", sample_device().dump()); }

  model::Cluster cluster_with(const Json& device) const {
    Json document = test::sample_cluster();
    document["device"] = device;
    return parse_cluster(document.dump(), (folder_ / "c.json").string());
  }

  test::TemporaryDirectory folder_;
};

TEST_F(ClusterDevice, IsThatOfAFile) {
  const model::Device device = parse(sample_device()).device;
  EXPECT_EQ(cluster_with("mine.json").device, device);
  EXPECT_EQ(cluster_with({{"file", "mine.json"}}).device, device);
}

TEST_F(ClusterDevice, ChangesWhatTheFileSays) {
  const Json changes{
      {"file", "mine.json"}, {"reserved", "1 GB"}, {"model", {{"memory_efficiency", 0.6}}}};
  const model::Device device = cluster_with(changes).device;
  EXPECT_EQ(device.name, "h100-mine");
  EXPECT_EQ(device.reserved_bytes, 1e9);
  EXPECT_EQ(device.model->memory_efficiency, 0.6);
  EXPECT_EQ(device.model->matmul_efficiency, 0.7);
}

TEST_F(ClusterDevice, HasAModelOfItsOwnOrNone) {
  Json device = test::sample_cluster()["device"];
  EXPECT_FALSE(cluster_with(device).device.model);
  device["model"] = {{"matmul_efficiency", 0.5}};
  const model::Device read = cluster_with(device).device;
  EXPECT_EQ(read.model->matmul_efficiency, 0.5);
  EXPECT_EQ(read.model->memory_efficiency, cost::generation_of(read).model.memory_efficiency);
}

TEST_F(ClusterDevice, NamesTheFileThatIsWrong) {
  const auto error = [this](const Json& device) {
    return message_of([&] { cluster_with(device); });
  };
  expect_contains(error("mein.json"), "device: ");
  expect_contains(error("mein.json"), "mine.json");
  expect_contains(error(7), "c.json: device: must be a device, or the path of");
  expect_contains(error({{"file", "mine.json"}, {"speed", 2}}), "unknown key \"speed\"");
  test::write(folder_ / "mine.json", "{}");
  expect_contains(error({{"file", "mine.json"}}), "mine.json");
}

TEST(Devices, HaveTheParametersOfTheirGeneration) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kDevices)) {
    SCOPED_TRACE(entry.path());
    const DeviceFile file = read_device_file(entry.path());
    const cost::DeviceGeneration generation = cost::generation_of(file.device);
    EXPECT_NE(generation.name, "general");
    EXPECT_EQ(file.device.model, generation.model);
    EXPECT_EQ(file.relative_error, generation.relative_error);
    for (const model::DeviceParameter& parameter : model::device_parameters()) {
      EXPECT_TRUE(file.sources.contains(parameter.name)) << parameter.name;
    }
    EXPECT_EQ(entry.path().stem(), file.device.name);
    ++files;
  }
  EXPECT_GE(files, 6);
}

}  // namespace
}  // namespace nestplan::io
