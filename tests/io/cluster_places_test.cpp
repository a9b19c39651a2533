#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

model::Cluster parse(const Json& document) { return parse_cluster(document.dump(), "c.json"); }

std::string error_of(const Json& document) {
  return message_of<InvalidInput>([&] { parse(document); });
}

/// Two nodes of eight.
Json named() {
  Json document = test::sample_cluster();
  document["network"]["levels"] = Json::parse(R"([
    {"name": "node", "fanout": 8, "bandwidth": "450 GB/s", "latency": "1 us"},
    {"name": "leaf", "fanout": 2, "bandwidth": "50 GB/s", "latency": "5 us"}])");
  document["hosts"] = "n[07-08]";
  return document;
}

Json slow_device() {
  return Json::parse(R"({"name": "slow", "memory": "40 GiB", "peak": {"bf16": "312 TFLOP/s"},
                         "speed": 0.5, "hosts": "n08"})");
}

TEST(ClusterPlaces, HostsAreNamedInTheOrderOfTheirPlaces) {
  const model::Cluster cluster = parse(named());
  ASSERT_EQ(cluster.hosts.size(), 2U);
  EXPECT_EQ(cluster.hosts[0].name, "n07");
  EXPECT_EQ(cluster.hosts[1].places, 8);
  Json document = named();
  document["hosts"] = "n[1-3]";
  EXPECT_EQ(error_of(document), "c.json: hosts: names 3 hosts, but the network has 2");
  document["hosts"] = "n1,n1";
  EXPECT_EQ(error_of(document), "c.json: hosts: names \"n1\" twice");
  document["hosts"] = "n[1-";
  expect_contains(error_of(document), "c.json: hosts: ");
}

TEST(ClusterPlaces, HostsMayBePartsOrSeveralBlocks) {
  Json document = named();
  document["devices_per_host"] = 4;
  document["hosts"] = "n[0-3]";
  EXPECT_EQ(parse(document).host_sizes(), (std::vector<std::int64_t>(4, 4)));
  document["devices_per_host"] = 16;
  document["hosts"] = "n0";
  EXPECT_EQ(parse(document).host_sizes(), (std::vector<std::int64_t>{16}));
  document["devices_per_host"] = 3;
  expect_contains(error_of(document), "c.json: devices_per_host: is 3, which neither divides");
  document["devices_per_host"] = 0;
  expect_contains(error_of(document), "c.json: devices_per_host: ");
}

TEST(ClusterPlaces, OtherDevicesAreWhereTheirHostsAre) {
  Json document = named();
  document["other_devices"] = {slow_device()};
  const model::Cluster cluster = parse(document);
  ASSERT_EQ(cluster.other_devices.size(), 1U);
  EXPECT_EQ(cluster.other_devices[0].speed, 0.5);
  EXPECT_EQ(cluster.types, (std::vector<model::TypeRun>{{{8, 8}, 1}}));
  EXPECT_EQ(cluster.type(1).name, "slow");
  const std::vector<std::uint8_t> types = cluster.types_of_devices();
  ASSERT_EQ(types.size(), 16U);
  EXPECT_EQ(types[7], 0);
  EXPECT_EQ(types[8], 1);
}

TEST(ClusterPlaces, OtherDevicesAreSomewhereAndAlone) {
  Json document = named();
  Json slow = slow_device();
  slow.erase("hosts");
  document["other_devices"] = {slow};
  expect_contains(error_of(document), "c.json: other_devices[0]: says nowhere where it is");
  slow["places"] = "4-6,15";
  document["other_devices"] = {slow, slow_device()};
  EXPECT_EQ(error_of(document),
            "c.json: other_devices[1]: place 15 already has devices of another type");
  document["other_devices"] = {slow};
  document["other_devices"][0]["speed"] = 0;
  expect_contains(error_of(document), "c.json: other_devices[0].speed: must be more than 0");
  document["other_devices"][0] = slow_device();
  document["other_devices"][0]["hosts"] = "n09";
  expect_contains(error_of(document),
                  "c.json: other_devices[0].hosts: no host is called \"n09\" (did you mean");
}

TEST(ClusterPlaces, UnavailablePlacesAreLeftOut) {
  Json document = named();
  document["unavailable"] = {{"devices", {"n07:1-2", "n08:0"}}, {"places", "15"}};
  const model::Cluster cluster = parse(document);
  EXPECT_EQ(cluster.unavailable, (std::vector<model::PlaceRun>{{1, 2}, {8, 1}, {15, 1}}));
  EXPECT_EQ(cluster.devices(), 12);
  document["unavailable"] = {{"hosts", "n08"}};
  EXPECT_EQ(parse(document).devices(), 8);
}

TEST(ClusterPlaces, WhatCannotBeLeftOutIsNamed) {
  const auto error_with = [](const Json& unavailable) {
    Json document = named();
    document["unavailable"] = unavailable;
    return error_of(document);
  };
  expect_contains(error_with({{"hosts", "n[07-08]"}}), "c.json: unavailable: leaves no device");
  EXPECT_EQ(error_with({{"places", "16"}}),
            "c.json: unavailable.places: 16 is beyond the last, 15");
  EXPECT_EQ(error_with({{"places", "5-2"}}), "c.json: unavailable.places: \"5-2\" runs backwards");
  expect_contains(error_with({{"places", "five"}}), "\"five\" is no number or range");
  expect_contains(error_with({{"devices", {"n07"}}}),
                  "c.json: unavailable.devices[0]: \"n07\" is not HOST:NUMBERS");
  expect_contains(error_with({{"devices", {"n07:8"}}}), "8 is beyond the last, 7");
  expect_contains(error_with({{"host", "n07"}}), "did you mean \"hosts\"");
  Json document = named();
  document.erase("hosts");
  document["unavailable"] = {{"hosts", "n07"}};
  expect_contains(error_of(document), "the cluster does not name its hosts");
  document["unavailable"] = {{"places", "0-7"}};
  document["network"]["devices"] = 12;
  expect_contains(error_of(document), "c.json: unavailable: leaves 8 devices, less than the 12");
}

}  // namespace
}  // namespace nestplan::io
