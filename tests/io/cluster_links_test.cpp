#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/util/host_list.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

Json with_network(const char* network) {
  Json document = test::sample_cluster();
  document["network"] = Json::parse(network);
  return document;
}

/// Two hosts of NVSwitches, below a leaf.
Json sample() {
  return with_network(R"({"kind": "links", "collectives": "ring",
    "devices": [{"host": "n[1-2]", "count": 4}],
    "switches": ["nv[1-2]", "leaf"],
    "links": [
      {"between": ["n[1-2]:[0-3]", "nv[1-2]"], "bandwidth": "25 GB/s", "count": 12,
       "latency": "0.3 us"},
      {"between": ["n[1-2]:[0-3]", "leaf"], "bandwidth": "200 Gb/s", "latency": "2 us"}]})");
}

Json measured() {
  return with_network(R"({"kind": "links",
    "devices": [{"name": "gpu[0-3]", "host": "box"}],
    "matrix": {"unit": "GB/s", "latency": "3 us",
      "bandwidth": [[900, 5, 50, 5], [5, null, 5, 50], [50, 5, 0, 5], [5, 49, 6, 0]]}})");
}

model::Cluster parse(const Json& document) { return parse_cluster(document.dump(), "c.json"); }

std::string refusal(Json document, const std::string& where, const Json& value) {
  document[Json::json_pointer(where)] = value;
  return message_of([&] { parse(document); });
}

TEST(ClusterLinks, HostsOfSwitchesBelowALeaf) {
  const model::Cluster cluster = parse(sample());
  EXPECT_EQ(cluster.hierarchy().collectives, "ring");
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[0].name, "host");
  EXPECT_EQ(levels[0].fanout, 4);
  EXPECT_EQ(levels[0].bandwidth, 300e9);
  EXPECT_DOUBLE_EQ(levels[0].latency_s, 0.6e-6);
  EXPECT_EQ(levels[1].fanout, 2);
  EXPECT_EQ(levels[1].bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(levels[1].latency_s, 4e-6);
  EXPECT_EQ(cluster.hosts, (std::vector<model::Host>{{"n1", 4, {}}, {"n2", 4, {}}}));
}

TEST(ClusterLinks, MeasuredPairs) {
  const model::Cluster cluster = parse(measured());
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[0].fanout, 2);
  EXPECT_EQ(levels[0].bandwidth, 49e9);
  EXPECT_EQ(levels[1].name, "host");
  EXPECT_EQ(levels[1].bandwidth, 5e9);
  EXPECT_EQ(levels[1].latency_s, 3e-6);
  EXPECT_EQ(cluster.hosts, (std::vector<model::Host>{{"box", 4, {0, 2, 1, 3}}}));
}

TEST(ClusterLinks, MeasuredWithUnitsAndLatencies) {
  Json document = with_network(R"({"kind": "links", "devices": [{"name": "a"}, {"name": "b"}],
    "matrix": {"bandwidth": [["", "8 Gb/s"], ["2 GB/s", ""]],
               "latency": [["", "1 us"], ["2 us", ""]]}})");
  const model::Cluster cluster = parse(document);
  EXPECT_EQ(cluster.hierarchy().levels[0].bandwidth, 1e9);
  EXPECT_EQ(cluster.hierarchy().levels[0].latency_s, 2e-6);
  // devices without a host are hosts of their own
  EXPECT_EQ(cluster.hosts, (std::vector<model::Host>{{"a", 1, {}}, {"b", 1, {}}}));
}

TEST(ClusterLinks, OneWayAndCompleteLinks) {
  Json document = with_network(R"({"kind": "links", "devices": [{"name": "g[0-3]"}],
    "links": [{"between": ["g[0-3]", "g[0-3]"], "complete": true, "bandwidth": "7 GB/s",
               "latency": "1 us"}]})");
  EXPECT_EQ(parse(document).hierarchy().levels[0].bandwidth, 7e9);
  document["network"]["links"] = Json::parse(R"([
      {"from": "g[0-2]", "to": "g[1-3]", "bandwidth": "5 GB/s", "latency": "1 us"},
      {"from": "g3", "to": "g0", "bandwidth": "4 GB/s", "latency": "1 us"}])");
  EXPECT_EQ(parse(document).hierarchy().levels[0].bandwidth, 4e9);
  document["network"]["links"].erase(1);
  expect_contains(message_of([&] { parse(document); }),
                  "c.json: network.links: no links lead both ways between \"g0\" and \"g1\"");
}

const std::filesystem::path kClusters = NESTPLAN_SOURCE_DIR "/inputs/clusters";

TEST(ClusterLinks, HybridCubeMeshOfADgx1) {
  const model::Cluster cluster = read_cluster(kClusters / "dgx-1-v100.json");
  EXPECT_EQ(cluster.devices(), 8);
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 1U);
  EXPECT_EQ(levels[0].bandwidth, 50e9);  // of a doubled link; rings of them reach all eight
  EXPECT_EQ(levels[0].oversubscription, 1);
  EXPECT_DOUBLE_EQ(levels[0].latency_s, 1.2e-6);  // no two are farther apart than two links
  // six links at every device
  std::ifstream file(kClusters / "dgx-1-v100.json");
  const Json document = Json::parse(file);
  std::map<std::string, int> at;
  for (const Json& link : document["network"]["links"]) {
    for (const Json& end : link["between"]) {
      for (const std::string& name : util::expand_hosts(end.get<std::string>())) {
        at[name] += link.value("count", 1);
      }
    }
  }
  EXPECT_EQ(at.size(), 8U);
  for (const auto& [name, links] : at) EXPECT_EQ(links, 6) << name;
}

TEST(ClusterLinks, BridgedPairs) {
  const model::Cluster cluster = read_cluster(kClusters / "rtx-3090-pairs.json");
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_EQ(levels[0].bandwidth, 49.77e9);
  EXPECT_EQ(levels[1].bandwidth, 7.86e9);
  EXPECT_EQ(cluster.hosts.at(0).local, (std::vector<std::int32_t>{0, 2, 1, 3}));
}

TEST(ClusterLinks, ErrorsNameTheField) {
  EXPECT_EQ(refusal(sample(), "/network/links/1/between/0", "n[1-3]:0"),
            "c.json: network.links[1].between[0]: there is no device or switch \"n3:0\" (did you "
            "mean \"n1:0\"?)");
  expect_contains(refusal(sample(), "/network/links/1/between/1", "laef"),
                  "\"laef\" (did you mean \"leaf\"?)");
  expect_contains(refusal(sample(), "/network/links/1/between/1", "leaf[1"),
                  "between[1]: \"leaf[1\": position 5: the bracket is not closed");
  expect_contains(refusal(sample(), "/network/links/0/between/1", "n1:[0-2]"),
                  "network.links[0]: joins 8 with 3, which cannot be shared out evenly");
  expect_contains(refusal(sample(), "/network/links/0/between/1", "n[1-2]:[0-3]"),
                  "joins something with itself");
  expect_contains(refusal(sample(), "/network/links/0/from", "leaf"), "needs either \"between\"");
  expect_contains(refusal(sample(), "/network/links/0/bandwidth", "0 GB/s"), "more than 0");
  expect_contains(refusal(sample(), "/network/links/0/latencies", 1),
                  "unknown key \"latencies\" (did you mean \"latency\"?)");
  expect_contains(refusal(sample(), "/network/switches/0", "leaf"), "\"leaf\" is given twice");
  expect_contains(refusal(sample(), "/network/devices/1", Json{{"name", "x"}}),
                  "network.devices: some devices have a host");
  expect_contains(refusal(sample(), "/network/devices/0", Json{{"host", "a"}}),
                  "network.devices[0]: needs a \"name\"");
  expect_contains(refusal(measured(), "/network/devices/0/host", "box[1-2]"),
                  "network.devices[0].host: must be one host");
  expect_contains(refusal(sample(), "/network/devices/0/count", 0), "must be at least 1");
  expect_contains(refusal(sample(), "/network/matrix", Json::object()), "needs either \"links\"");
  expect_contains(refusal(sample(), "/network/links", Json::array()),
                  "network.links: no links lead both ways between");
}

TEST(ClusterLinks, MatrixErrors) {
  expect_contains(refusal(measured(), "/network/matrix/bandwidth/1", Json::array({1, 2})),
                  "network.matrix.bandwidth[1]: has 2 entries for 4 devices");
  expect_contains(refusal(measured(), "/network/matrix/bandwidth", Json::array()),
                  "has 0 rows for 4 devices");
  expect_contains(refusal(measured(), "/network/matrix/bandwidth/0/1", 0), "must be more than 0");
  expect_contains(refusal(measured(), "/network/matrix/bandwidth/0/1", "5 GB/s"),
                  "bandwidth[0][1]: must be a number");
  expect_contains(refusal(measured(), "/network/matrix/unit", "GB"),
                  "\"GB\" is no unit of bandwidth, such as \"GB/s\"");
  expect_contains(refusal(measured(), "/network/switches", Json::array({"s"})),
                  "network.switches: goes with \"links\" alone");
  Json document = measured();
  document["network"]["matrix"].erase("unit");
  expect_contains(message_of([&] { parse(document); }),
                  "bandwidth[0][1]: must be text with a unit");
}

}  // namespace
}  // namespace nestplan::io
