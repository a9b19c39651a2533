#include "nestplan/network/node_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "nestplan/network/slurm_topology.hpp"
#include "nestplan/util/host_list.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using test::expect_contains;
using test::message_of;
using testing::Dice;
using Hosts = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Hosts count_up(std::int64_t count) {
  Hosts hosts(at(count));
  std::iota(hosts.begin(), hosts.end(), std::int64_t{0});
  return hosts;
}

model::NetworkLevel level(const std::string& name, double bandwidth) {
  model::NetworkLevel result;
  result.name = name;
  result.bandwidth = bandwidth;
  return result;
}

/// A cluster whose leaves have these many hosts of `devices` devices each, named n0, n1, ….
model::Cluster leaves(const std::vector<std::int64_t>& sizes, std::int64_t devices) {
  model::Cluster cluster;
  cluster.name = "room";
  model::HierarchySpec spec;
  spec.levels = {level("node", 900e9), level("rack", 900e9), level("spine", 50e9)};
  spec.levels[0].fanout = devices;
  spec.levels[1].fanouts = sizes;
  spec.levels[1].fanout = *std::max_element(sizes.begin(), sizes.end());
  spec.levels[2].fanout = std::ssize(sizes);
  cluster.network = spec;
  const std::int64_t hosts = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (std::int64_t h = 0; h < hosts; ++h) {
    cluster.hosts.push_back({"n" + std::to_string(h), devices, {}});
  }
  return cluster;
}

NodeChoice choose(const model::Cluster& cluster, std::int64_t nodes, std::int64_t segment = 1) {
  return choose_nodes(cluster, {available_hosts(cluster), nodes, segment});
}

TEST(NodeChoice, OneBlockIfOneHoldsThem) {
  const model::Cluster cluster = leaves({4, 6, 5}, 8);
  const NodeChoice choice = choose(cluster, 5);
  EXPECT_EQ(choice.hosts, (Hosts{10, 11, 12, 13, 14}));  // the leaf of five, not five of six
  EXPECT_EQ(choice.level, 1);
  EXPECT_EQ(choose(cluster, 6).hosts, (Hosts{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(choose(cluster, 1).level, -1);
}

TEST(NodeChoice, AsFewBlocksAsPossible) {
  const model::Cluster cluster = leaves({4, 6, 5, 3}, 8);
  const NodeChoice choice = choose(cluster, 9);  // the six, and the three that fit
  EXPECT_EQ(choice.hosts, (Hosts{4, 5, 6, 7, 8, 9, 15, 16, 17}));
  EXPECT_EQ(choice.level, 2);
  EXPECT_EQ(choice.blocks[0].idle.size(), 4U);
  EXPECT_EQ(choice.blocks[3].chosen.size(), 3U);
}

TEST(NodeChoice, UnavailableHostsAreNotThere) {
  model::Cluster cluster = leaves({4, 4}, 8);
  without_hosts(cluster, Names{"n1", "n2"});
  EXPECT_EQ(available_hosts(cluster), (Hosts{0, 3, 4, 5, 6, 7}));
  EXPECT_EQ(choose(cluster, 2).hosts, (Hosts{0, 3}));
  EXPECT_EQ(choose(cluster, 4).hosts, (Hosts{4, 5, 6, 7}));
  cluster.unavailable = {{7, 2}};  // a device of n0 and one of n1
  EXPECT_EQ(available_hosts(cluster), (Hosts{2, 3, 4, 5, 6, 7}));
}

/// Expert groups of 32 and 64 on nodes of 4, in racks of 18.
TEST(NodeChoice, SegmentsStayInRacks) {
  const model::Cluster cluster = leaves({18, 18, 18, 18}, 4);
  for (const auto& [ep, per_rack] : std::map<std::int64_t, std::int64_t>{{32, 2}, {64, 1}}) {
    const std::int64_t segment = ep / 4;
    const NodeChoice choice = choose(cluster, 4 * per_rack * segment, segment);
    EXPECT_EQ(choice.straddling, 0);
    ASSERT_EQ(choice.blocks.size(), 4U);
    for (const BlockUse& rack : choice.blocks) {
      EXPECT_EQ(rack.chosen.size(), 16U);
      EXPECT_EQ(rack.idle.size(), 2U);
    }
  }
}

TEST(NodeChoice, SegmentsWithoutRoomStraddle) {
  const model::Cluster cluster = leaves({18, 18, 18, 18}, 4);
  const NodeChoice choice = choose(cluster, 72, 8);
  EXPECT_EQ(choice.straddling, 1);  // eight are whole, two hosts of each rack make the ninth
  EXPECT_EQ(Hosts(choice.hosts.end() - 8, choice.hosts.end()),
            (Hosts{16, 17, 34, 35, 52, 53, 70, 71}));
  expect_contains(message_of<InvalidConfig>([&] { choose(cluster, 73); }), "72 are available");
  expect_contains(message_of<InvalidConfig>([&] { choose(cluster, 12, 8); }), "segments of 8");
}

/// Four racks of 72 devices and groups of 64.
TEST(NodeChoice, GroupsThatFillRacksStraddle) {
  const model::Cluster cluster = leaves({18, 18, 18, 18}, 4);
  const auto filled = pieces_of_groups(cluster, 1, count_up(256), 64);
  EXPECT_EQ(filled, (std::vector<Hosts>{{64}, {8, 56}, {16, 48}, {24, 40}}));
  const NodeChoice choice = choose(cluster, 64, 16);
  const Hosts places = places_of_hosts(cluster, choice.hosts);
  EXPECT_EQ(pieces_of_groups(cluster, 1, places, 64), (std::vector<Hosts>(4, Hosts{64})));
  EXPECT_EQ(cluster.places() - std::ssize(places), 32);
}

/// Domains 0, 0, 0 and 1, and a node that the topology does not mention.
TEST(NodeChoice, UnknownPlacesComeLast) {
  const SlurmTopology topology = parse_slurm_topology(
      "SwitchName=0 Nodes=a,b,c\nSwitchName=1 Nodes=d\nSwitchName=root Switches=0,1\n", "t");
  model::Cluster cluster;
  const auto placed = [&](const Names& hosts) {
    set_slurm_topology(cluster, with_hosts(topology, hosts), 8, level("node", 450e9),
                       {level("leaf", 50e9), level("root", 50e9)});
  };
  placed({"x", "a", "b", "c", "d"});
  NodeChoice choice = choose(cluster, 3);
  EXPECT_EQ(choice.hosts, (Hosts{0, 1, 2}));
  EXPECT_EQ(choice.level, 1);
  EXPECT_EQ(cluster.hosts[at(choice.fallback.at(0))].name, "x");
  EXPECT_TRUE(choice.chosen_unknown.empty());
  EXPECT_EQ(choose(cluster, 4).hosts, (Hosts{0, 1, 2, 3}));
  choice = choose(cluster, 5);
  EXPECT_EQ(choice.hosts.back(), 4);
  EXPECT_EQ(choice.chosen_unknown, Hosts{4});
  EXPECT_EQ(choice.level, 3);
  // domain 0 is as good as any
  placed({"a", "d"});
  choice = choose(cluster, 2);
  EXPECT_EQ(choice.hosts, (Hosts{0, 1}));
  EXPECT_EQ(cluster.hosts[0].name, "a");
  EXPECT_EQ(choice.level, 2);
}

/// Five of eight nodes are healthy, and all their devices count.
TEST(HostSelection, LostNodes) {
  model::Cluster cluster = leaves({4, 4}, 8);
  without_hosts(cluster, Names{"n0", "n5", "n7"});
  EXPECT_EQ(cluster.devices(), 40);
  EXPECT_EQ(cluster.unavailable, (std::vector<model::PlaceRun>{{0, 8}, {40, 8}, {56, 8}}));
  restrict_to_hosts(cluster, util::expand_hosts("n[0-3]"));
  EXPECT_EQ(cluster.devices(), 24);
  EXPECT_EQ(cluster.unavailable, (std::vector<model::PlaceRun>{{0, 8}, {32, 32}}));
}

TEST(HostSelection, UnknownNamesAreRefused) {
  model::Cluster cluster = leaves({4, 4}, 8);
  EXPECT_EQ(message_of<InvalidConfig>([&] {
              without_hosts(cluster, Names{"n0", "nn7"});
            }),
            "cluster room has no host \"nn7\" (did you mean \"n7\"?)");
  expect_contains(message_of<InvalidConfig>([&] { restrict_to_hosts(cluster, Names{}); }),
                  "no devices of cluster room are left");
  EXPECT_TRUE(cluster.unavailable.empty());
  cluster.hosts.clear();
  expect_contains(message_of<InvalidConfig>([&] { without_hosts(cluster, Names{"n0"}); }),
                  "does not name its hosts");
}

/// The fewest leaves that hold so many segments, by trying all sets of leaves.
std::size_t fewest_leaves(const std::vector<std::int64_t>& room, std::int64_t segments) {
  std::size_t best = room.size() + 1;
  for (std::size_t set = 1; set < std::size_t{1} << room.size(); ++set) {
    std::int64_t sum = 0;
    std::size_t count = 0;
    for (std::size_t leaf = 0; leaf < room.size(); ++leaf) {
      if ((set >> leaf & 1) == 0) continue;
      sum += room[leaf];
      ++count;
    }
    if (sum >= segments) best = std::min(best, count);
  }
  return best;
}

TEST(NodeChoice, OfRandomRooms) {
  Dice dice(21);
  int straddled = 0, tight = 0;
  for (std::uint64_t i = 0; i < testing::seeds(1000); ++i) {
    std::vector<std::int64_t> sizes(at(dice.between(1, 6)));
    for (std::int64_t& size : sizes) size = dice.between(1, 7);
    sizes.front() = std::max<std::int64_t>(sizes.front(), 2);
    model::Cluster cluster = leaves(sizes, dice.between(1, 4));
    Names lost;
    for (const model::Host& host : cluster.hosts) {
      if (dice.chance(20)) lost.push_back(host.name);
    }
    if (lost.size() == cluster.hosts.size()) lost.pop_back();
    without_hosts(cluster, lost);
    const Hosts available = available_hosts(cluster);
    ASSERT_EQ(available.size(), cluster.hosts.size() - lost.size());
    const std::int64_t segment = dice.between(1, std::min<std::int64_t>(3, std::ssize(available)));
    const std::int64_t segments = dice.between(1, std::ssize(available) / segment);
    const NodeChoice choice = choose_nodes(cluster, {available, segments * segment, segment});

    ASSERT_EQ(std::ssize(choice.hosts), segments * segment);
    Hosts sorted = choice.hosts;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_TRUE(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
    ASSERT_TRUE(std::includes(available.begin(), available.end(), sorted.begin(), sorted.end()));

    std::vector<std::int64_t> leaf_of;
    for (std::size_t leaf = 0; leaf < sizes.size(); ++leaf) {
      leaf_of.insert(leaf_of.end(), at(sizes[leaf]), static_cast<std::int64_t>(leaf));
    }
    std::vector<std::int64_t> room(sizes.size(), 0);
    for (const std::int64_t host : available) ++room[at(leaf_of[at(host)])];
    for (std::int64_t& r : room) r /= segment;
    std::int64_t straddling = 0;
    for (std::size_t s = 0; s < choice.hosts.size(); s += at(segment)) {
      for (std::size_t h = s + 1; h < s + at(segment); ++h) {
        if (leaf_of[at(choice.hosts[h])] == leaf_of[at(choice.hosts[s])]) continue;
        ++straddling;
        break;
      }
    }
    ASSERT_EQ(choice.straddling, straddling);
    const std::int64_t fits = std::accumulate(room.begin(), room.end(), std::int64_t{0});
    ASSERT_EQ(straddling, std::max<std::int64_t>(0, segments - fits));
    std::size_t used = 0, idle = 0;
    for (const BlockUse& leaf : choice.blocks) {
      used += leaf.chosen.empty() ? 0U : 1U;
      idle += leaf.idle.size();
    }
    ASSERT_EQ(idle, available.size() - choice.hosts.size());
    if (straddling == 0) {
      ASSERT_EQ(used, fewest_leaves(room, segments));
    }
    straddled += straddling > 0;
    tight += used == 1;
  }
  if (testing::seeds(100) >= 100) {
    EXPECT_GT(straddled, 20);
    EXPECT_GT(tight, 20);
  }
}

TEST(NodeChoice, TorusIsOneBlock) {
  model::Cluster cluster;
  cluster.network =
      model::TorusSpec{"auto", {{"x", 4, true, 1e9, 0, 0}, {"y", 2, true, 1e9, 0, 0}}, {2, 2}, {}};
  const NodeChoice choice = choose_nodes(cluster, {{0, 1}, 2, 1});
  EXPECT_EQ(choice.hosts, (Hosts{0, 1}));
  EXPECT_EQ(choice.level, 0);
}

}  // namespace
}  // namespace nestplan::network
