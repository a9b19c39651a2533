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

/// A document with three levels: nodes of `fanout`, the given keys on the second level.
Json three_levels(const Json& fanout, const Json& second = Json::object()) {
  Json document = test::sample_cluster();
  Json& levels = document["network"]["levels"];
  levels[0]["fanout"] = fanout;
  levels[1].update(second);
  levels.push_back(
      {{"name", "spine"}, {"fanout", 2}, {"bandwidth", "50 GB/s"}, {"latency", "10 us"}});
  return document;
}

TEST(ClusterFile, ListsOfUnevenBlocks) {
  const model::Cluster cluster = parse(three_levels({8, 8, 4, 2, 8}, {{"fanout", {3, 2}}}));
  const auto& levels = cluster.hierarchy().levels;
  EXPECT_EQ(levels[0].fanouts, (std::vector<std::int64_t>{8, 8, 4, 2, 8}));
  EXPECT_EQ(levels[0].fanout, 8);
  EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(levels[1].fanout, 3);
  EXPECT_TRUE(levels[2].fanouts.empty());
  EXPECT_EQ(cluster.places(), 30);
  EXPECT_EQ(cluster.host_sizes(), (std::vector<std::int64_t>{8, 8, 4, 2, 8}));
}

TEST(ClusterFile, ListsOfEqualBlocksAreANumber) {
  EXPECT_EQ(parse(three_levels({8, 8, 8, 8}, {{"fanout", {2, 2}}})).hierarchy(),
            parse(three_levels(8, {{"fanout", 2}})).hierarchy());
}

TEST(ClusterFile, ListsOfBlocksMustAddUp) {
  const auto message = [](const Json& fanout, const Json& second) {
    return message_of([&] { parse(three_levels(fanout, {{"fanout", second}})); });
  };
  EXPECT_EQ(message({8, 8, 4}, 2),
            "c.json: network.levels[0].fanout: lists 3 blocks, but the levels above have 4");
  EXPECT_EQ(message({8, 8, 4}, {1, 3}),
            "c.json: network.levels[0].fanout: lists 3 blocks, but the levels above have 4");
  EXPECT_EQ(message(8, {1, 3, 1}),
            "c.json: network.levels[1].fanout: lists 3 blocks, but the levels above have 2");
  expect_contains(message(8, Json::array()), "levels[1].fanout: must list at least one block");
  expect_contains(message({8, 0, 4, 8}, 2), "levels[0].fanout[1]: must be at least 1");
  expect_contains(error_with("/network/levels/1/fanout", {4, 4}),
                  "levels[1].fanout: lists 2 blocks, but the last level is one block");
  expect_contains(message({2000000000, 2000000000, 1, 1}, 2), "the fan-outs make more than");
}

TEST(ClusterFile, PortsBackgroundAndReduction) {
  const model::Cluster cluster =
      parse(three_levels(8, {{"nics", 4}, {"background", 0.3}, {"in_network_reduction", true}}));
  const model::NetworkLevel& level = cluster.hierarchy().levels[1];
  EXPECT_EQ(level.ports, 4);
  EXPECT_EQ(level.background, 0.3);
  EXPECT_TRUE(level.in_network_reduction);
  EXPECT_EQ(cluster.hierarchy().levels[0].ports, 0);
  EXPECT_EQ(cluster.hierarchy().levels[0].background, 0);
  EXPECT_FALSE(cluster.hierarchy().levels[0].in_network_reduction);
  expect_contains(error_with("/network/levels/0/nics", 4),
                  "c.json: network.levels[0].nics: is what a block of the level below has");
  expect_contains(error_with("/network/levels/1/nics", 0), "levels[1].nics: must be at least 1");
  expect_contains(error_with("/network/levels/1/background", 1),
                  "levels[1].background: must be below 1");
  expect_contains(error_with("/network/levels/1/background", -0.1), "levels[1].background: must");
  expect_contains(error_with("/network/levels/1/in_network_reduction", "yes"),
                  "levels[1].in_network_reduction: must be");
}

TEST(ClusterFile, Rails) {
  const auto rails = [](const char* text) {
    return parse(three_levels(8, {{"rails", text}})).hierarchy().levels[1].rails;
  };
  EXPECT_EQ(rails("joined"), model::Rails::kJoined);
  EXPECT_EQ(rails("isolated"), model::Rails::kIsolated);
  expect_contains(
      error_with("/network/levels/1/rails", "isolate"),
      "c.json: network.levels[1].rails: unknown kind of rails \"isolate\" (did you mean "
      "\"isolated\"?)");
  expect_contains(error_with("/network/levels/1/rails", "joined"),
                  "levels[1].rails: joined rails meet on the level above, and there is none");
  expect_contains(error_with("/network/levels/0/rails", "isolated"),
                  "levels[0].rails: only the second level, right above the nodes, has rails");
  EXPECT_EQ(parse([] {
              Json document = test::sample_cluster();
              document["network"]["levels"][1]["rails"] = "isolated";
              return document;
            }())
                .hierarchy()
                .levels[1]
                .rails,
            model::Rails::kIsolated);
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
