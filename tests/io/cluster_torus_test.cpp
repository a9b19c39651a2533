#include <gtest/gtest.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

Json sample() {
  Json document = test::sample_cluster();
  document["network"] = Json::parse(R"({
    "kind": "torus", "host": [2, 2, 1], "cube": [4, 4, 2], "dimensions": [
      {"name": "east", "size": 8, "wrap": true, "bandwidth": "45 GB/s", "latency": "1 us",
       "background": 0.25},
      {"size": 4, "bandwidth": "400 Gb/s", "latency": "2 us"},
      {"size": 2, "wrap": false, "bandwidth": "1 GB/s", "latency": "0 us"}]})");
  return document;
}

model::TorusSpec parse(const Json& document) {
  return std::get<model::TorusSpec>(parse_cluster(document.dump(), "c.json").network);
}

/// The message for the sample with `value` at the JSON pointer `where` in its network.
std::string error_with(const std::string& where, const Json& value) {
  Json document = sample();
  document["network"][Json::json_pointer(where)] = value;
  return message_of([&] { parse(document); });
}

TEST(ClusterTorus, ReadsEverything) {
  const model::TorusSpec torus = parse(sample());
  EXPECT_EQ(torus.collectives, "auto");
  EXPECT_EQ(torus.host, std::vector<std::int64_t>({2, 2, 1}));
  EXPECT_EQ(torus.cube, std::vector<std::int64_t>({4, 4, 2}));
  ASSERT_EQ(torus.dimensions.size(), 3U);
  EXPECT_EQ(torus.dimensions[0], (model::TorusDimension{"east", 8, true, 45e9, 1e-6, 0.25}));
  EXPECT_EQ(torus.dimensions[1], (model::TorusDimension{"y", 4, true, 50e9, 2e-6, 0}));
  EXPECT_EQ(torus.dimensions[2], (model::TorusDimension{"z", 2, false, 1e9, 0, 0}));
  EXPECT_EQ(parse_cluster(sample().dump(), "c.json").devices(), 64);
}

TEST(ClusterTorus, MeshesDoNotWrapUnlessTheySaySo) {
  Json document = sample();
  document["network"]["kind"] = "mesh";
  document["network"]["collectives"] = "ring";
  document["network"].erase("host");
  document["network"].erase("cube");
  const model::TorusSpec mesh = parse(document);
  EXPECT_EQ(mesh.collectives, "ring");
  EXPECT_TRUE(mesh.dimensions[0].wrap);
  EXPECT_FALSE(mesh.dimensions[1].wrap);
  EXPECT_TRUE(mesh.host.empty());
  EXPECT_TRUE(mesh.cube.empty());
}

TEST(ClusterTorus, BoxesMustDivideWhatTheyAreIn) {
  EXPECT_EQ(error_with("/cube", {4, 3, 2}),
            "c.json: network.cube: 4x3x2 does not divide the whole of 8x4x2: 3 is no divisor of 4 "
            "(the nearest is 2)");
  EXPECT_EQ(error_with("/host", {8, 1, 1}),
            "c.json: network.host: 8x1x1 does not divide the cube of 4x4x2: 8 is no divisor of 4 "
            "(the nearest is 4)");
  EXPECT_EQ(error_with("/host", {2, 2}),
            "c.json: network.host: has 2 sizes, but there are 3 dimensions");
  expect_contains(error_with("/host", {2, 0, 1}), "network.host[1]: must be at least 1");
  expect_contains(error_with("/cube", 4), "network.cube: must be a list");
}

TEST(ClusterTorus, SlicesAreOneMoreDimension) {
  Json document = sample();
  document["network"]["slices"] = {{"count", 2}, {"bandwidth", "6.25 GB/s"}, {"latency", "10 us"}};
  const model::TorusSpec torus = parse(document);
  ASSERT_EQ(torus.dimensions.size(), 4U);
  EXPECT_EQ(torus.dimensions[3],
            (model::TorusDimension{"slice", 2, false, 6.25e9, 10e-6, 0, true}));
  EXPECT_EQ(torus.host, std::vector<std::int64_t>({2, 2, 1, 1}));
  EXPECT_EQ(torus.cube, std::vector<std::int64_t>({4, 4, 2, 1}));
  EXPECT_EQ(parse_cluster(document.dump(), "c.json").devices(), 128);
  document["network"]["slices"]["count"] = 4194304;
  EXPECT_EQ(message_of([&] { parse(document); }),
            "c.json: network.slices: make more than 4194304 devices");
  document["network"]["slices"] = 2;
  expect_contains(message_of([&] { parse(document); }), "network.slices: must be an object");
}

TEST(ClusterTorus, ValuesMustMakeSense) {
  expect_contains(error_with("/dimensions", Json::array()),
                  "network.dimensions: must be 1 to 6 dimensions, not 0");
  Json many = Json::array();
  for (int d = 0; d < 7; ++d) {
    many.push_back({{"size", 1}, {"bandwidth", "1 GB/s"}, {"latency", "1 us"}});
  }
  expect_contains(error_with("/dimensions", many), "must be 1 to 6 dimensions, not 7");
  expect_contains(error_with("/dimensions/1/name", "east"),
                  "network.dimensions[1]: a second dimension named \"east\"");
  expect_contains(error_with("/dimensions/0/bandwidth", "0 GB/s"),
                  "network.dimensions[0].bandwidth: must be more than 0");
  expect_contains(error_with("/dimensions/0/bandwidth", "45 GBps"), "did you mean \"45 GB/s\"?");
  expect_contains(error_with("/dimensions/0/background", 1),
                  "network.dimensions[0].background: must be below 1");
  expect_contains(error_with("/dimensions/0/size", 0), "dimensions[0].size: must be at least 1");
  expect_contains(error_with("/dimensions/0/size", 4194304),
                  "network.dimensions: make more than 4194304 devices");
  expect_contains(error_with("/dimensions/0/wrap", 1), "network.dimensions[0].wrap: must be");
}

TEST(ClusterTorus, UnknownKeysAndKindsNameTheNearest) {
  EXPECT_EQ(error_with("/dimensions/0/sise", 4),
            "c.json: network.dimensions[0]: unknown key \"sise\" (did you mean \"size\"?)");
  EXPECT_EQ(error_with("/hosts", 4),
            "c.json: network: unknown key \"hosts\" (did you mean \"host\"?)");
  EXPECT_EQ(error_with("/kind", "taurus"),
            "c.json: network.kind: unknown network kind \"taurus\" (did you mean \"torus\"?)");
}

TEST(ClusterTorus, ShippedOnesHaveTheSizeOfTheirName) {
  const auto read = [](const std::string& name) {
    return read_cluster(NESTPLAN_SOURCE_DIR "/inputs/clusters/" + name + ".json");
  };
  EXPECT_EQ(read("tpu-v4-4096").devices(), 4096);
  EXPECT_EQ(read("tpu-v5p-8960").devices(), 8960);
  EXPECT_EQ(read("mesh-2x2x4").devices(), 16);
  EXPECT_EQ(read("tpu-v4-4096").host_sizes(), std::vector<std::int64_t>(1024, 4));
}

}  // namespace
}  // namespace nestplan::io
