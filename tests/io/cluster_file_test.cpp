#include <gtest/gtest.h>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

model::Cluster parse(const Json& document) { return parse_cluster(document.dump(), "c.json"); }

/// The message for the sample with `value` at the JSON pointer `where`.
std::string error_with(const std::string& where, const Json& value) {
  Json document = test::sample_cluster();
  document[Json::json_pointer(where)] = value;
  return message_of([&] { parse(document); });
}

std::string error_without(const std::string& parent, const std::string& key) {
  Json document = test::sample_cluster();
  document[Json::json_pointer(parent)].erase(key);
  return message_of([&] { parse(document); });
}

TEST(ClusterFile, ReadsEverything) {
  const model::Cluster cluster = parse(test::sample_cluster());
  EXPECT_EQ(cluster.name, "small");
  EXPECT_EQ(cluster.device.name, "gpu");
  EXPECT_EQ(cluster.device.memory_bytes, 80e9);
  EXPECT_EQ(cluster.device.reserved_bytes, 2147483648.0);
  EXPECT_EQ(cluster.device.peak_flops.at("bf16"), 989e12);
  EXPECT_EQ(cluster.device.memory_bandwidth, 3.35e12);
  EXPECT_EQ(cluster.hierarchy().collectives, "hierarchical-ring");
  ASSERT_EQ(cluster.hierarchy().levels.size(), 2U);
  EXPECT_EQ(cluster.hierarchy().levels[0].fanout, 8);
  EXPECT_EQ(cluster.hierarchy().levels[0].oversubscription, 1);
  EXPECT_EQ(cluster.hierarchy().levels[1].name, "leaf");
  EXPECT_EQ(cluster.hierarchy().levels[1].bandwidth, 50e9);
  EXPECT_EQ(cluster.hierarchy().levels[1].latency_s, 5e-6);
  EXPECT_EQ(cluster.hierarchy().levels[1].oversubscription, 2);
  EXPECT_EQ(cluster.devices(), 16);
}

TEST(ClusterFile, Defaults) {
  Json document = test::sample_cluster();
  document["provenance"] = "vendor sheet";
  document["device"].erase("reserved");
  document["device"].erase("memory_bandwidth");
  document["network"].erase("collectives");
  document["network"]["levels"][1].erase("name");
  const model::Cluster cluster = parse(document);
  EXPECT_EQ(cluster.device.reserved_bytes, 0);
  EXPECT_EQ(cluster.device.memory_bandwidth, 0);
  EXPECT_EQ(cluster.hierarchy().collectives, "hierarchical-ring");
  EXPECT_EQ(cluster.hierarchy().levels[1].name, "level1");
}

TEST(ClusterFile, UnknownCollectivesAreTheNetworksToJudge) {
  Json document = test::sample_cluster();
  document["network"]["collectives"] = "carrier-pigeon";
  EXPECT_EQ(parse(document).hierarchy().collectives, "carrier-pigeon");
}

TEST(ClusterFile, FirstDevicesAlone) {
  Json document = test::sample_cluster();
  EXPECT_EQ(parse(document).devices(), 16);
  document["network"]["devices"] = 11;
  EXPECT_EQ(parse(document).devices(), 11);
  EXPECT_EQ(error_with("/network/devices", 17),
            "c.json: network.devices: is 17, but the fan-outs make only 16");
  expect_contains(error_with("/network/devices", 0), "c.json: network.devices: ");
}

TEST(ClusterFile, UnknownKeysNameTheNearest) {
  EXPECT_EQ(error_with("/nmae", "x"), "c.json: unknown key \"nmae\" (did you mean \"name\"?)");
  EXPECT_EQ(error_with("/device/memry", "1 GB"),
            "c.json: device: unknown key \"memry\" (did you mean \"memory\"?)");
  EXPECT_EQ(error_with("/network/levels/1/bandwith", "1 GB/s"),
            "c.json: network.levels[1]: unknown key \"bandwith\" (did you mean \"bandwidth\"?)");
}

TEST(ClusterFile, MissingKeysAreNamed) {
  EXPECT_EQ(error_without("/device", "peak"), "c.json: device: missing key \"peak\"");
  EXPECT_EQ(error_without("/device", "memory"), "c.json: device: missing key \"memory\"");
  EXPECT_EQ(error_without("/network/levels/0", "latency"),
            "c.json: network.levels[0]: missing key \"latency\"");
  EXPECT_EQ(error_without("/network", "kind"), "c.json: network: missing key \"kind\"");
  EXPECT_EQ(error_without("", "network"), "c.json: missing key \"network\"");
  expect_contains(error_without("", "format"), "missing key \"format\"");
}

TEST(ClusterFile, NumbersNeedUnits) {
  EXPECT_EQ(error_with("/device/memory", 80),
            "c.json: device.memory: must be text with a unit, such as \"80 GiB\", not 80");
  expect_contains(error_with("/device/memory", "80"), "c.json: device.memory: \"80\" has no unit");
  EXPECT_EQ(error_with("/network/levels/0/bandwidth", "450 GBps"),
            "c.json: network.levels[0].bandwidth: \"450 GBps\" is not a bandwidth (did you mean "
            "\"450 GB/s\"?)");
  expect_contains(error_with("/network/levels/1/latency", "5 GB"),
                  "network.levels[1].latency: \"5 GB\" is not a time");
  expect_contains(error_with("/device/peak/bf16", 989e12), "device.peak.bf16: must be text");
}

TEST(ClusterFile, ValuesMustMakeSense) {
  expect_contains(error_with("/network/levels/1/oversubscription", 0.5),
                  "network.levels[1].oversubscription: must be at least 1");
  expect_contains(error_with("/network/levels/0/fanout", 0),
                  "levels[0].fanout: must be at least 1");
  expect_contains(error_with("/network/levels/0/fanout", 2.5), "levels[0].fanout: must be a whole");
  expect_contains(error_with("/network/levels/0/fanout", -8), "levels[0].fanout: must be at least");
  expect_contains(error_with("/network/levels/0/bandwidth", "0 GB/s"),
                  "levels[0].bandwidth: must be more than 0");
  expect_contains(error_with("/network/levels/0/latency", "-1 us"),
                  "latency: \"-1 us\" is negative");
  expect_contains(error_with("/device/reserved", "81 GB"),
                  "device.reserved: is more than the memory");
  expect_contains(error_with("/device/memory", "0 GB"), "device.memory: must be more than 0");
  expect_contains(error_with("/device/peak", Json::object()),
                  "device.peak: must give at least one");
  expect_contains(error_with("/device/peak/fp8", "0 FLOP/s"),
                  "device.peak.fp8: must be more than 0");
  expect_contains(error_with("/network/levels", Json::array()),
                  "network.levels: must have at least");
  expect_contains(error_with("/network/kind", "hierarhcy"),
                  "network.kind: unknown network kind \"hierarhcy\" (did you mean \"hierarchy\"?)");
  expect_contains(error_with("/name", ""), "name: must not be empty");
  expect_contains(error_with("/network/levels/0/fanout", 2147483647),
                  "network.levels: the fan-outs make more than");
  expect_contains(error_with("/network", Json::array()), "network: must be an object, not a list");
}

TEST(ClusterFile, OtherFormatsAreRefused) {
  expect_contains(error_with("/format", "nestplan.graph/1"), "expected \"nestplan.cluster/1\"");
  expect_contains(error_with("/format", "nestplan.cluster/2"), "format: is \"nestplan.cluster/2\"");
  expect_contains(error_with("/format", 1), "format: must be text");
}

}  // namespace
}  // namespace nestplan::io
