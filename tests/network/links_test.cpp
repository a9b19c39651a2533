#include "nestplan/network/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using test::expect_contains;
using test::message_of;
using testing::Dice;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Blocks per block and level, from the nearest.
using Fanouts = std::vector<std::vector<std::int64_t>>;

Fanouts fanouts_of(const LinkHierarchy& hierarchy) {
  Fanouts result;
  std::int64_t blocks = 1;
  for (auto level = hierarchy.levels.rbegin(); level != hierarchy.levels.rend(); ++level) {
    std::vector<std::int64_t> list = level->fanouts;
    if (list.empty()) list.assign(at(blocks), level->fanout);
    EXPECT_EQ(std::ssize(list), blocks);
    EXPECT_EQ(*std::max_element(list.begin(), list.end()), level->fanout);
    blocks = std::accumulate(list.begin(), list.end(), std::int64_t{0});
    result.insert(result.begin(), std::move(list));
  }
  EXPECT_EQ(blocks, std::ssize(hierarchy.order));
  return result;
}

/// For every pair of devices (not places) the level where they meet.
std::vector<std::vector<std::size_t>> levels_of_pairs(const LinkHierarchy& hierarchy) {
  const std::size_t n = hierarchy.order.size();
  std::vector<std::vector<std::size_t>> result(n, std::vector<std::size_t>(n, 0));
  std::vector<std::size_t> block(n);
  std::iota(block.begin(), block.end(), std::size_t{0});
  std::size_t l = 0;
  for (const std::vector<std::int64_t>& fanouts : fanouts_of(hierarchy)) {
    std::vector<std::size_t> outer;
    for (std::size_t b = 0; b < fanouts.size(); ++b) outer.insert(outer.end(), at(fanouts[b]), b);
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        if (block[a] != block[b]) result[at(hierarchy.order[a])][at(hierarchy.order[b])] = l + 1;
      }
    }
    for (std::size_t& b : block) b = outer[b];
    ++l;
  }
  return result;
}

double share(const model::NetworkLevel& level) { return level.bandwidth / level.oversubscription; }

LinkGraph devices_only(std::int64_t count) {
  LinkGraph graph;
  for (std::int64_t d = 0; d < count; ++d) graph.devices.push_back("gpu" + std::to_string(d));
  return graph;
}

void connect(LinkGraph& graph, std::int64_t a, std::int64_t b, double bandwidth,
             double latency_s = 1e-6) {
  graph.links.push_back({a, b, bandwidth, bandwidth, latency_s});
}

std::int64_t add_switch(LinkGraph& graph) {
  graph.switches.push_back("s" + std::to_string(graph.switches.size()));
  return std::ssize(graph.devices) + std::ssize(graph.switches) - 1;
}

void set_hosts(LinkGraph& graph, std::int64_t per_host) {
  for (std::int64_t d = 0; d < std::ssize(graph.devices); ++d) {
    if (d % per_host == 0) graph.hosts.push_back("h" + std::to_string(d / per_host));
    graph.host_of_device.push_back(static_cast<std::int32_t>(d / per_host));
  }
}

/// Leaves of `per_leaf` devices with 50 GB/s each, below spines that each leaf has one link to.
LinkGraph leaf_spine(std::int64_t leaves, std::int64_t per_leaf, std::int64_t spines,
                     double uplink) {
  LinkGraph graph = devices_only(leaves * per_leaf);
  std::vector<std::int64_t> leaf, spine;
  for (std::int64_t l = 0; l < leaves; ++l) leaf.push_back(add_switch(graph));
  for (std::int64_t s = 0; s < spines; ++s) spine.push_back(add_switch(graph));
  for (std::int64_t d = 0; d < leaves * per_leaf; ++d)
    connect(graph, d, leaf[at(d / per_leaf)], 50e9);
  for (const std::int64_t l : leaf) {
    for (const std::int64_t s : spine) connect(graph, l, s, uplink);
  }
  return graph;
}

TEST(Links, OneSwitchIsOneLevel) {
  LinkGraph graph = devices_only(8);
  const std::int64_t nvswitch = add_switch(graph);
  for (std::int64_t d = 0; d < 8; ++d) connect(graph, d, nvswitch, 450e9, 0.3e-6);
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  ASSERT_EQ(hierarchy.levels.size(), 1U);
  EXPECT_EQ(hierarchy.levels[0].fanout, 8);
  EXPECT_EQ(hierarchy.levels[0].bandwidth, 450e9);
  EXPECT_EQ(hierarchy.levels[0].oversubscription, 1);
  EXPECT_DOUBLE_EQ(hierarchy.levels[0].latency_s, 0.6e-6);
}

/// Eight V100 of a DGX-1: rings of doubled links reach all of them.
TEST(Links, HybridCubeMesh) {
  LinkGraph graph = devices_only(8);
  for (const auto& [a, b, count] : std::vector<std::array<int, 3>>{{0, 1, 1},
                                                                   {0, 2, 1},
                                                                   {0, 3, 2},
                                                                   {0, 4, 2},
                                                                   {1, 2, 2},
                                                                   {1, 3, 1},
                                                                   {1, 5, 2},
                                                                   {2, 3, 2},
                                                                   {2, 6, 1},
                                                                   {3, 7, 1},
                                                                   {4, 5, 1},
                                                                   {4, 6, 1},
                                                                   {4, 7, 2},
                                                                   {5, 6, 2},
                                                                   {5, 7, 1},
                                                                   {6, 7, 2}}) {
    connect(graph, a, b, 25e9 * count);
  }
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  ASSERT_EQ(hierarchy.levels.size(), 1U);
  EXPECT_EQ(hierarchy.levels[0].bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(hierarchy.levels[0].latency_s, 2e-6);
}

/// One flow of each of 8 NICs crosses an uplink oversubscribed 4:1 without loss, 32 flows share it.
TEST(Links, OversubscribedLeaves) {
  const LinkHierarchy hierarchy = hierarchy_of(leaf_spine(2, 32, 4, 100e9));
  ASSERT_EQ(hierarchy.levels.size(), 2U);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{32, 32}, {2}}));
  const model::NetworkLevel& leaf = hierarchy.levels[0];
  const model::NetworkLevel& spine = hierarchy.levels[1];
  EXPECT_EQ(leaf.bandwidth, 50e9);
  EXPECT_EQ(leaf.oversubscription, 1);
  EXPECT_EQ(spine.bandwidth, 50e9);
  EXPECT_EQ(spine.oversubscription, 4);
  EXPECT_DOUBLE_EQ(leaf.latency_s, 2e-6);
  EXPECT_DOUBLE_EQ(spine.latency_s, 4e-6);
  const double uplink = 32 * spine.bandwidth / spine.oversubscription;
  EXPECT_EQ(std::min(spine.bandwidth, uplink / 8), 50e9);
  EXPECT_EQ(std::min(spine.bandwidth, uplink / 32), 12.5e9);
}

TEST(Links, EqualBandwidthIsSplitByTiers) {
  const LinkHierarchy hierarchy = hierarchy_of(leaf_spine(4, 8, 4, 100e9));
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{8, 8, 8, 8}, {4}}));
  EXPECT_EQ(share(hierarchy.levels[1]), 50e9);
}

/// A leaf that lost half its uplinks is slow by itself; the others go on as they were.
TEST(Links, PartlyFailedLeafIsALevelOfItsOwn) {
  LinkGraph graph = leaf_spine(4, 8, 4, 100e9);
  const std::int64_t failed = 32 + 1;  // the second leaf
  int lost = 0;
  std::erase_if(graph.links,
                [&](const LinkGraph::Link& link) { return link.a == failed && ++lost <= 2; });
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{8, 8, 8, 8}, {3, 1}, {2}}));
  EXPECT_EQ(share(hierarchy.levels[1]), 50e9);
  EXPECT_EQ(share(hierarchy.levels[2]), 25e9);
  EXPECT_EQ(hierarchy.levels[2].oversubscription, 2);
  EXPECT_EQ(hierarchy.order[at(24)], 8);
}

/// Nodes of NVLink and a NIC for each device, rail by rail.
LinkGraph railed(std::int64_t nodes) {
  LinkGraph graph = devices_only(nodes * 8);
  set_hosts(graph, 8);
  std::vector<std::int64_t> rail;
  for (int r = 0; r < 8; ++r) rail.push_back(add_switch(graph));
  for (std::int64_t n = 0; n < nodes; ++n) {
    const std::int64_t nvswitch = add_switch(graph);
    for (std::int64_t i = 0; i < 8; ++i) {
      connect(graph, n * 8 + i, nvswitch, 450e9);
      connect(graph, n * 8 + i, rail[at(i)], 50e9, 2e-6);
    }
  }
  return graph;
}

TEST(Links, NodesWithNicsAreTwoLevels) {
  const LinkHierarchy hierarchy = hierarchy_of(railed(4));
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{8, 8, 8, 8}, {4}}));
  EXPECT_EQ(hierarchy.levels[0].name, "host");
  EXPECT_EQ(hierarchy.levels[0].bandwidth, 450e9);
  EXPECT_EQ(hierarchy.levels[1].bandwidth, 50e9);
  EXPECT_EQ(hierarchy.levels[1].oversubscription, 1);
  EXPECT_DOUBLE_EQ(hierarchy.levels[1].latency_s, 6e-6);  // over another rail
  ASSERT_EQ(hierarchy.hosts.size(), 4U);
  EXPECT_EQ(hierarchy.hosts[3], (model::Host{"h3", 8, {}}));
}

TEST(Links, NodeWithoutOneNicIsALevelOfItsOwn) {
  LinkGraph graph = railed(4);
  std::erase_if(graph.links,
                [](const LinkGraph::Link& l) { return l.a == 9 && l.forward == 50e9; });
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{8, 8, 8, 8}, {3, 1}, {2}}));
  EXPECT_DOUBLE_EQ(share(hierarchy.levels[2]), 50e9 * 7 / 8);
  EXPECT_EQ(hierarchy.hosts[3].name, "h1");
}

/// Two NICs for eight devices, which share them behind PCIe switches.
TEST(Links, SharedNics) {
  LinkGraph graph = devices_only(16);
  set_hosts(graph, 8);
  const std::int64_t leaf = add_switch(graph);
  for (std::int64_t half = 0; half < 4; ++half) {
    const std::int64_t pcie = add_switch(graph);
    connect(graph, pcie, leaf, 50e9);
    for (std::int64_t i = 0; i < 4; ++i) connect(graph, half * 4 + i, pcie, 64e9);
  }
  for (std::int64_t host = 0; host < 2; ++host) {
    const std::int64_t nvswitch = add_switch(graph);
    for (std::int64_t i = 0; i < 8; ++i) connect(graph, host * 8 + i, nvswitch, 450e9);
  }
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{8, 8}, {2}}));
  EXPECT_EQ(hierarchy.levels[1].bandwidth, 50e9);
  EXPECT_EQ(share(hierarchy.levels[1]), 12.5e9);
}

/// Devices of a host that are nearer to those of another host than to each other.
TEST(Links, HostsStayTogether) {
  LinkGraph graph = devices_only(4);
  graph.hosts = {"a", "b"};
  graph.host_of_device = {0, 1, 0, 1};
  connect(graph, 0, 1, 100e9);
  connect(graph, 2, 3, 100e9);
  connect(graph, 0, 2, 10e9);
  connect(graph, 1, 3, 10e9);
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(hierarchy.order, (std::vector<std::int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(hierarchy.hosts, (std::vector<model::Host>{{"a", 2, {}}, {"b", 2, {}}}));
  for (const model::NetworkLevel& level : hierarchy.levels) EXPECT_EQ(level.bandwidth, 10e9);
}

TEST(Links, LocalIndicesOfReorderedDevices) {
  LinkGraph graph = devices_only(4);
  graph.hosts = {"a"};
  graph.host_of_device = {0, 0, 0, 0};
  connect(graph, 0, 2, 100e9);
  connect(graph, 1, 3, 100e9);
  connect(graph, 0, 1, 20e9);
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{2, 2}, {2}}));
  EXPECT_EQ(hierarchy.order, (std::vector<std::int64_t>{0, 2, 1, 3}));
  EXPECT_EQ(hierarchy.hosts, (std::vector<model::Host>{{"a", 4, {0, 2, 1, 3}}}));
}

TEST(Links, TheSlowerDirectionCounts) {
  LinkGraph graph = devices_only(2);
  graph.links.push_back({0, 1, 100e9, 30e9, 1e-6});
  EXPECT_EQ(hierarchy_of(graph).levels[0].bandwidth, 30e9);
  // a ring of one-way links
  graph = devices_only(4);
  for (std::int64_t d = 0; d < 4; ++d) graph.links.push_back({d, (d + 1) % 4, 25e9, 0, 1e-6});
  const LinkHierarchy ring = hierarchy_of(graph);
  ASSERT_EQ(ring.levels.size(), 1U);
  EXPECT_EQ(ring.levels[0].bandwidth, 25e9);
  EXPECT_DOUBLE_EQ(ring.levels[0].latency_s, 3e-6);
}

TEST(Links, OneWayChainsOfSwitches) {
  LinkGraph graph = devices_only(2);
  std::vector<std::int64_t> chain{
      0, add_switch(graph), add_switch(graph), add_switch(graph), 1, add_switch(graph), 0};
  for (std::size_t i = 1; i < chain.size(); ++i) {
    graph.links.push_back({chain[i - 1], chain[i], static_cast<double>(i) * 1e9, 0, 1e-6});
  }
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  ASSERT_EQ(hierarchy.levels.size(), 1U);
  EXPECT_EQ(hierarchy.levels[0].bandwidth, 1e9);
  EXPECT_DOUBLE_EQ(hierarchy.levels[0].latency_s, 4e-6);
}

TEST(Links, UnreachableDevicesAreNamed) {
  LinkGraph graph = devices_only(5);
  connect(graph, 0, 1, 1e9);
  connect(graph, 1, 2, 1e9);
  expect_contains(message_of([&] { hierarchy_of(graph); }),
                  R"(both ways between "gpu0" and "gpu3", "gpu4")");
  graph.links.push_back({2, 3, 1e9, 0, 0});
  connect(graph, 3, 4, 1e9);
  expect_contains(message_of([&] { hierarchy_of(graph); }), R"(and "gpu3", "gpu4")");
  expect_contains(message_of([&] { hierarchy_of(devices_only(9)); }), "and 4 more");
  expect_contains(message_of([&] { hierarchy_of(devices_only(1)); }), "two devices");
}

TEST(Links, ValuesWithinFivePercentAreOneLevel) {
  LinkGraph graph = devices_only(4);
  connect(graph, 0, 1, 100e9);
  connect(graph, 1, 2, 96e9);
  connect(graph, 2, 3, 94e9);
  const LinkHierarchy hierarchy = hierarchy_of(graph);
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{3, 1}, {2}}));
  EXPECT_EQ(hierarchy.levels[0].bandwidth, 96e9);
  EXPECT_EQ(hierarchy.levels[1].bandwidth, 94e9);
}

/// A tree of switches in which a block's uplink is what its devices can send at `share` each.
struct Tree {
  LinkGraph graph;
  Fanouts fanouts;
  std::vector<double> share;
};

Tree random_tree(Dice& dice, bool even) {
  Tree tree;
  const std::int64_t levels = dice.between(1, 4);
  std::int64_t blocks = 1;
  for (std::int64_t l = levels - 1; l >= 0; --l) {
    std::vector<std::int64_t> list;
    const std::int64_t same = dice.between(2, 4);
    for (std::int64_t b = 0; b < blocks; ++b) list.push_back(even ? same : dice.between(2, 5));
    blocks = std::accumulate(list.begin(), list.end(), std::int64_t{0});
    tree.fanouts.insert(tree.fanouts.begin(), list);
  }
  double share = 1024e9;
  for (std::int64_t l = 0; l < levels; ++l) {
    tree.share.push_back(share);
    share /= dice.pick({1.0, 2.0, 3.0, 8.0});
  }
  tree.graph = devices_only(blocks);
  std::vector<std::int64_t> top(at(blocks)), size(at(blocks), 1);  // vertex and devices of blocks
  std::iota(top.begin(), top.end(), std::int64_t{0});
  for (std::size_t l = 0; l < tree.fanouts.size(); ++l) {
    std::vector<std::int64_t> outer_top, outer_size;
    std::size_t child = 0;
    for (const std::int64_t fanout : tree.fanouts[l]) {
      outer_top.push_back(add_switch(tree.graph));
      outer_size.push_back(0);
      for (std::int64_t i = 0; i < fanout; ++i, ++child) {
        connect(tree.graph, top[child], outer_top.back(),
                tree.share[l] * static_cast<double>(size[child]));
        outer_size.back() += size[child];
      }
    }
    top = outer_top;
    size = outer_size;
  }
  return tree;
}

void shuffle_links(Dice& dice, LinkGraph& graph) {
  for (std::size_t i = graph.links.size(); i > 1; --i) {
    std::swap(graph.links[i - 1],
              graph.links[at(dice.between(0, std::ssize(graph.links) - 1)) % i]);
  }
  for (LinkGraph::Link& link : graph.links) {
    if (dice.chance(50)) std::swap(link.a, link.b);
  }
}

TEST(Links, TreesGiveBackTheirHierarchy) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    Tree tree = random_tree(dice, dice.chance(40));
    shuffle_links(dice, tree.graph);
    const LinkHierarchy hierarchy = hierarchy_of(tree.graph);
    ASSERT_EQ(hierarchy.levels.size(), tree.fanouts.size()) << i;
    ASSERT_EQ(fanouts_of(hierarchy), tree.fanouts) << i;
    ASSERT_TRUE(std::is_sorted(hierarchy.order.begin(), hierarchy.order.end()));
    for (std::size_t l = 0; l < tree.share.size(); ++l) {
      ASSERT_NEAR(share(hierarchy.levels[l]), tree.share[l], 1e-9 * tree.share[l]) << i << ' ' << l;
      ASSERT_DOUBLE_EQ(hierarchy.levels[l].latency_s, 2e-6 * static_cast<double>(l + 1));
    }
  }
}

LinkGraph random_graph(Dice& dice) {
  LinkGraph graph = devices_only(dice.between(2, 12));
  const std::int64_t switches = dice.between(0, 4);
  for (std::int64_t s = 0; s < switches; ++s) add_switch(graph);
  const std::int64_t vertices = std::ssize(graph.devices) + switches;
  for (std::int64_t v = 1; v < vertices; ++v) {
    connect(graph, v, dice.between(0, v - 1), static_cast<double>(dice.between(1, 40)) * 1e9);
  }
  for (std::int64_t extra = dice.between(0, 2 * vertices); extra > 0; --extra) {
    const std::int64_t a = dice.between(0, vertices - 1), b = dice.between(0, vertices - 1);
    if (a != b) connect(graph, a, b, static_cast<double>(dice.between(1, 40)) * 1e9);
  }
  if (dice.chance(50)) set_hosts(graph, dice.between(1, 4));
  return graph;
}

/// Bandwidth of the best path between all pairs, each link alone, by its definition.
std::vector<std::vector<double>> widest_paths(const LinkGraph& graph) {
  const std::size_t n = graph.devices.size() + graph.switches.size();
  std::vector<std::vector<double>> width(n, std::vector<double>(n, 0));
  for (const LinkGraph::Link& link : graph.links) {
    width[at(link.a)][at(link.b)] += link.forward;
    width[at(link.b)][at(link.a)] += link.backward;
  }
  for (std::size_t via = 0; via < n; ++via) {
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        width[a][b] = std::max(width[a][b], std::min(width[a][via], width[via][b]));
      }
    }
  }
  return width;
}

TEST(Links, NoLevelPromisesMoreThanTheBestPath) {
  Dice dice(2);
  for (std::uint64_t i = 0; i < testing::seeds(1000); ++i) {
    const LinkGraph graph = random_graph(dice);
    const LinkHierarchy hierarchy = hierarchy_of(graph);
    const auto level = levels_of_pairs(hierarchy);
    const auto width = widest_paths(graph);
    for (std::size_t a = 0; a < graph.devices.size(); ++a) {
      for (std::size_t b = 0; b < graph.devices.size(); ++b) {
        if (a == b) continue;
        const model::NetworkLevel& meeting = hierarchy.levels[level[a][b] - 1];
        ASSERT_LE(share(meeting), width[a][b] * (1 + 1e-12)) << i << ": " << a << ' ' << b;
        ASSERT_LE(meeting.bandwidth, width[a][b] * (1 + 1e-12)) << i << ": " << a << ' ' << b;
      }
    }
  }
}

TEST(Links, LevelsAreAnUltrametric) {
  Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const LinkGraph graph = random_graph(dice);
    const LinkHierarchy hierarchy = hierarchy_of(graph);
    const auto level = levels_of_pairs(hierarchy);
    const std::size_t n = graph.devices.size();
    for (std::size_t a = 0; a < n; ++a) {
      for (std::size_t b = 0; b < n; ++b) {
        ASSERT_EQ(level[a][b], level[b][a]);
        for (std::size_t c = 0; c < n; ++c) {
          ASSERT_LE(level[a][c], std::max(level[a][b], level[b][c]));
        }
      }
    }
    for (std::size_t l = 1; l < hierarchy.levels.size(); ++l) {
      ASSERT_LE(share(hierarchy.levels[l]), share(hierarchy.levels[l - 1]) * (1 + 1e-12));
      ASSERT_LE(hierarchy.levels[l].bandwidth, hierarchy.levels[l - 1].bandwidth);
      ASSERT_GE(hierarchy.levels[l].oversubscription, 1);
    }
  }
}

TEST(Links, PlacesArePermutedDevicesHostByHost) {
  Dice dice(4);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const LinkGraph graph = random_graph(dice);
    const LinkHierarchy hierarchy = hierarchy_of(graph);
    std::vector<std::int64_t> sorted = hierarchy.order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t d = 0; d < sorted.size(); ++d)
      ASSERT_EQ(sorted[d],
                std::ssize(graph.devices) - std::ssize(sorted) + static_cast<std::int64_t>(d));
    std::set<std::string> names;
    std::size_t place = 0;
    for (const model::Host& host : hierarchy.hosts) {
      ASSERT_TRUE(names.insert(host.name).second) << "a host in two pieces";
      for (std::int64_t p = 0; p < host.places; ++p, ++place) {
        const std::size_t device = at(hierarchy.order[place]);
        ASSERT_EQ(graph.hosts[at(graph.host_of_device[device])], host.name);
      }
    }
    ASSERT_EQ(place, graph.hosts.empty() ? 0 : graph.devices.size());
  }
}

/// Removes links while all can still be reached, and compares every pair.
TEST(Links, RemovingALinkMakesNoPairFaster) {
  Dice dice(5);
  int compared = 0;
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    LinkGraph graph = leaf_spine(dice.between(2, 5), dice.between(1, 6), dice.between(1, 4),
                                 static_cast<double>(dice.between(10, 100)) * 1e9);
    for (int round = 0; round < 4; ++round) {
      const LinkHierarchy before = hierarchy_of(graph);
      const auto level_before = levels_of_pairs(before);
      graph.links.erase(graph.links.begin() + dice.between(0, std::ssize(graph.links) - 1));
      LinkHierarchy after;
      try {
        after = hierarchy_of(graph);
      } catch (const InvalidInput&) {
        break;
      }
      const auto level_after = levels_of_pairs(after);
      for (std::size_t a = 0; a < graph.devices.size(); ++a) {
        for (std::size_t b = 0; b < a; ++b) {
          const model::NetworkLevel& was = before.levels[level_before[a][b] - 1];
          const model::NetworkLevel& is = after.levels[level_after[a][b] - 1];
          // what was within 5 % of others may part from them
          ASSERT_LE(share(is), share(was) / 0.95) << i << ' ' << round << ": " << a << ' ' << b;
          ASSERT_LE(is.bandwidth, was.bandwidth / 0.95) << i << ' ' << round;
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Links, ThousandsOfDevicesAreQuick) {
  const LinkHierarchy hierarchy = hierarchy_of(railed(512));
  EXPECT_EQ(hierarchy.order.size(), 4096U);
  EXPECT_EQ(hierarchy.levels.size(), 2U);
  EXPECT_EQ(hierarchy.levels[1].fanout, 512);
}

PairMatrix matrix_of(const Tree& tree, Dice& dice, double noise) {
  PairMatrix matrix;
  const std::size_t n = tree.graph.devices.size();
  matrix.devices = tree.graph.devices;
  LinkHierarchy hierarchy;
  for (std::size_t l = 0; l < tree.fanouts.size(); ++l) {
    model::NetworkLevel level;
    level.fanouts = tree.fanouts[l];
    level.fanout = *std::max_element(level.fanouts.begin(), level.fanouts.end());
    hierarchy.levels.push_back(level);
  }
  hierarchy.order.resize(n);
  std::iota(hierarchy.order.begin(), hierarchy.order.end(), std::int64_t{0});
  const auto level = levels_of_pairs(hierarchy);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      const double exact = a == b ? 0 : tree.share[level[a][b] - 1];
      matrix.bandwidth.push_back(exact *
                                 (1 + noise * static_cast<double>(dice.between(-100, 100)) / 100));
      matrix.latency_s.push_back(a == b ? 0 : 1e-6 * static_cast<double>(level[a][b]));
    }
  }
  return matrix;
}

TEST(Matrix, OfAHierarchyGivesBackItsLevels) {
  Dice dice(6);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    Tree tree = random_tree(dice, dice.chance(40));
    for (std::size_t l = 1; l < tree.share.size(); ++l) {
      tree.share[l] = std::min(tree.share[l], tree.share[l - 1] * 0.8);
    }
    const double noise = dice.chance(50) ? 0 : 0.02;
    const LinkHierarchy hierarchy = hierarchy_of(matrix_of(tree, dice, noise));
    ASSERT_EQ(fanouts_of(hierarchy), tree.fanouts) << i;
    for (std::size_t l = 0; l < tree.share.size(); ++l) {
      ASSERT_NEAR(hierarchy.levels[l].bandwidth, tree.share[l], 1.01 * noise * tree.share[l]) << i;
      ASSERT_EQ(hierarchy.levels[l].oversubscription, 1);
      ASSERT_DOUBLE_EQ(hierarchy.levels[l].latency_s, 1e-6 * static_cast<double>(l + 1));
    }
  }
}

TEST(Matrix, TheSlowerDirectionCounts) {
  const PairMatrix matrix{{"a", "b"}, {}, {}, {0, 10e9, 7e9, 0}, {1e-6}};
  EXPECT_EQ(hierarchy_of(matrix).levels[0].bandwidth, 7e9);
}

TEST(Matrix, ScatteredGroupsAreBroughtTogether) {
  PairMatrix matrix;
  for (int d = 0; d < 6; ++d) matrix.devices.push_back("gpu" + std::to_string(d));
  for (int a = 0; a < 6; ++a) {
    for (int b = 0; b < 6; ++b) matrix.bandwidth.push_back(a % 2 == b % 2 ? 100e9 : 10e9);
  }
  matrix.latency_s = {1e-6};
  const LinkHierarchy hierarchy = hierarchy_of(matrix);
  EXPECT_EQ(hierarchy.order, (std::vector<std::int64_t>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(fanouts_of(hierarchy), (Fanouts{{3, 3}, {2}}));
}

TEST(Matrix, ZeroIsNoConnection) {
  const PairMatrix matrix{{"a", "b", "c"}, {}, {}, {0, 5, 0, 5, 0, 0, 0, 0, 0}, {0}};
  expect_contains(message_of([&] { hierarchy_of(matrix); }), R"(between "a" and "c")");
}

}  // namespace
}  // namespace nestplan::network
