#include <gtest/gtest.h>

#include <string>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/network/slurm_topology.hpp"
#include "util/expect_error.hpp"

namespace nestplan::io {
namespace {

using test::expect_contains;
using test::Json;
using test::message_of;

/// A topology, and a cluster file beside it.
class ClusterSlurm : public ::testing::Test {
 protected:
  ClusterSlurm() {
    test::write(directory_ / "topology.conf",
                "SwitchName=leaf0 Nodes=n[1-3]\nSwitchName=leaf1 Nodes=n[4-8]\n"
                "SwitchName=spine Switches=leaf[0-1]\n");
    document_ = test::sample_cluster();
    document_["network"] = Json::parse(R"({"kind": "slurm", "collectives": "ring",
      "topology": "topology.conf", "devices_per_node": 4,
      "node": {"bandwidth": "450 GB/s", "latency": "1 us"},
      "levels": [{"name": "leaf", "bandwidth": "50 GB/s", "latency": "4 us", "nics": 4},
                 {"bandwidth": "50 GB/s", "latency": "8 us", "oversubscription": 2}]})");
  }

  model::Cluster read() const {
    test::write(directory_ / "cluster.json", document_.dump());
    return read_cluster(directory_ / "cluster.json");
  }
  std::string refusal(const std::string& where, const Json& value) {
    document_[Json::json_pointer(where)] = value;
    return message_of([&] { read(); });
  }

  test::TemporaryDirectory directory_;
  Json document_;
};

TEST_F(ClusterSlurm, BlocksOfTheFileRatesOfTheCluster) {
  const model::Cluster cluster = read();
  EXPECT_EQ(cluster.hierarchy().collectives, "ring");
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 3U);
  EXPECT_EQ(levels[0].name, "node");
  EXPECT_EQ(levels[0].fanout, 4);
  EXPECT_EQ(levels[0].bandwidth, 450e9);
  EXPECT_EQ(levels[1].name, "leaf");
  EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(levels[1].ports, 4);
  EXPECT_EQ(levels[2].name, "level2");
  EXPECT_EQ(levels[2].fanout, 2);
  EXPECT_EQ(levels[2].oversubscription, 2);
  EXPECT_EQ(levels[2].latency_s, 8e-6);
  ASSERT_EQ(cluster.hosts.size(), 8U);
  EXPECT_EQ(cluster.hosts[7], (model::Host{"n8", 4, {}}));
  EXPECT_EQ(cluster.devices(), 32);
}

TEST_F(ClusterSlurm, NodesOfTheCluster) {
  document_["network"]["nodes"] = "n[2-5],x[1-2]";
  const model::Cluster cluster = read();
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 4U);
  EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{2, 2, 1, 1}));
  EXPECT_EQ(levels[3].name, network::kUnknownPlace);
  EXPECT_EQ(levels[3].latency_s, 8e-6);
  EXPECT_EQ(cluster.hosts[4].name, "x1");
  EXPECT_EQ(cluster.devices(), 24);
}

TEST_F(ClusterSlurm, ErrorsNameFieldAndLine) {
  expect_contains(refusal("/network/levels/2", document_["network"]["levels"][1]),
                  "network.levels: has 3 levels, but the topology has 2 levels above its nodes");
  document_["network"]["levels"].erase(2);
  expect_contains(refusal("/network/nodes", "n[1-8],n1"), "network.nodes: host \"n1\" is given");
  expect_contains(refusal("/network/nodes", "m[1-8]"), "network.nodes: the topology has none");
  expect_contains(refusal("/network/nodes", "n[1-"), "position 2: the bracket is not closed");
  document_["network"].erase("nodes");
  expect_contains(refusal("/network/node/nics", 4),
                  "network.node.nics: is what a node goes out by");
  document_["network"]["node"].erase("nics");
  expect_contains(refusal("/network/topology", "topologyconf"), "(did you mean");
  test::write(directory_ / "other.conf", "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n");
  const std::string message = refusal("/network/topology", "other.conf");
  expect_contains(message, "cluster.json: network.topology: ");
  expect_contains(message, "other.conf: line 2: switch a has been given on line 1 already");
}

TEST_F(ClusterSlurm, SeveralRoots) {
  test::write(directory_ / "topology.conf", "BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\n");
  EXPECT_EQ(read().hierarchy().levels[2].fanout, 2);
  test::write(directory_ / "topology.conf",
              "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=c Nodes=n5\n");
  EXPECT_EQ(read().hierarchy().levels[2].fanout, 3);
  document_["network"]["levels"].erase(1);
  expect_contains(
      message_of([&] { read(); }),
      "has 1 level, but the topology has 2 levels above its nodes, the last to join its "
      "3 roots");
}

TEST_F(ClusterSlurm, FilesInOtherDirectories) {
  const model::Cluster cluster =
      read_cluster(NESTPLAN_SOURCE_DIR "/inputs/clusters/h100-slurm-440.json");
  EXPECT_EQ(cluster.devices(), 440);
  const auto& levels = cluster.hierarchy().levels;
  ASSERT_EQ(levels.size(), 4U);
  EXPECT_EQ(levels[1].fanouts, (std::vector<std::int64_t>{16, 16, 15, 8}));
  EXPECT_TRUE(levels[2].fanouts.empty());
  const auto network = network::make_network(cluster);
  EXPECT_EQ(network->devices(), 440);
  EXPECT_EQ(network->level(0, 8), 1);
  EXPECT_EQ(network->level(0, 8 * 16), 2);
  EXPECT_EQ(network->level(8 * 32, 439), 2);
  EXPECT_EQ(network->level(0, 439), 3);
}

TEST_F(ClusterSlurm, ABareTopologyIsNoCluster) {
  const std::string message = message_of([&] { read_cluster(directory_ / "topology.conf"); });
  expect_contains(message, "topology.conf: is a Slurm topology, which has no devices and rates");
  expect_contains(message, R"("topology": "topology.conf")");
  expect_contains(message, R"("levels": [2 of the same, from the leaves up])");
  test::write(directory_ / "damaged.conf", "SwitchName=a Nodes=n[1-\n");
  expect_contains(message_of([&] { read_cluster(directory_ / "damaged.conf"); }), "line 1: Nodes:");
}

}  // namespace
}  // namespace nestplan::io
