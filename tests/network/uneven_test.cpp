#include "network/uneven.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "network/stage_shapes.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using testing::Devices;
using testing::Dice;

constexpr auto kOps = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                       CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

model::NetworkLevel random_level(Dice& dice) {
  model::NetworkLevel level;
  level.name = "level";
  level.bandwidth = static_cast<double>(dice.between(1, 500)) * 1e9;
  level.latency_s = static_cast<double>(dice.between(0, 30)) * 1e-6;
  level.oversubscription = dice.pick({1.0, 1.0, 1.5, 2.0, 4.0, 7.0});
  if (dice.chance(30)) level.background = static_cast<double>(dice.between(1, 9)) / 10;
  return level;
}

/// One to four levels of at most `most` devices or so. `percent` of the levels list their blocks,
/// `repeat` of those lists are runs that repeat.
model::HierarchySpec random_spec(Dice& dice, std::int64_t most, int percent, int repeat = 30) {
  model::HierarchySpec spec;
  const std::int64_t levels = dice.between(1, 4);
  std::int64_t blocks = 1;
  for (std::int64_t l = levels; l > 0; --l) {
    model::NetworkLevel level = random_level(dice);
    const std::int64_t largest =
        std::max<std::int64_t>(1, std::min<std::int64_t>(6, most / blocks));
    if (dice.chance(percent)) {
      std::vector<std::int64_t> run;
      const std::int64_t length =
          dice.chance(repeat) ? dice.between(1, std::min<std::int64_t>(3, blocks)) : blocks;
      for (std::int64_t i = 0; i < length; ++i) run.push_back(dice.between(1, largest));
      for (std::int64_t i = 0; i < blocks; ++i) level.fanouts.push_back(run[at(i % length)]);
      level.fanout = *std::max_element(run.begin(), run.end());
      blocks = std::accumulate(level.fanouts.begin(), level.fanouts.end(), std::int64_t{0});
    } else {
      level.fanout = dice.between(1, largest);
      blocks *= level.fanout;
    }
    if (l > 1 && dice.chance(25)) level.ports = dice.between(1, 12);
    spec.levels.insert(spec.levels.begin(), level);
  }
  return spec;
}

/// The block of every device, level by level, counted out.
std::vector<std::vector<std::int64_t>> blocks_of_devices(const model::HierarchySpec& spec) {
  std::vector<std::vector<std::int64_t>> counts(spec.levels.size());
  std::int64_t blocks = 1;
  for (std::size_t l = spec.levels.size(); l-- > 0;) {
    counts[l] = spec.levels[l].fanouts;
    if (counts[l].empty()) counts[l].assign(at(blocks), spec.levels[l].fanout);
    blocks = std::accumulate(counts[l].begin(), counts[l].end(), std::int64_t{0});
  }
  std::vector<std::vector<std::int64_t>> result;
  std::vector<std::int64_t> inner(at(blocks));
  std::iota(inner.begin(), inner.end(), 0);
  for (const std::vector<std::int64_t>& of_level : counts) {
    std::vector<std::int64_t> parent;
    for (std::size_t block = 0; block < of_level.size(); ++block) {
      parent.insert(parent.end(), at(of_level[block]), static_cast<std::int64_t>(block));
    }
    for (std::int64_t& block : inner) block = parent[at(block)];
    result.push_back(inner);
  }
  return result;
}

std::map<std::int64_t, std::int64_t> sizes(const std::vector<std::int64_t>& block_of_device) {
  std::map<std::int64_t, std::int64_t> result;
  for (const std::int64_t block : block_of_device) ++result[block];
  return result;
}

Devices random_group(Dice& dice, std::int64_t devices) {
  const int percent = static_cast<int>(dice.between(1, 100));
  Devices members;
  for (std::int64_t x = 0; x < devices; ++x) {
    if (dice.chance(percent)) members.push_back(x);
  }
  if (members.empty()) members.push_back(dice.between(0, devices - 1));
  return members;
}

TEST(Uneven, LevelIsTheLeastCommonBlock) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 200, 60);
    const UnevenHierarchy network(spec);
    const auto blocks = blocks_of_devices(spec);
    ASSERT_EQ(network.devices(), std::ssize(blocks.front()));
    for (int pair = 0; pair < 30 && network.devices() > 1; ++pair) {
      const std::int64_t a = dice.between(0, network.devices() - 1);
      const std::int64_t b = dice.between(0, network.devices() - 1);
      if (a == b) continue;
      int lca = 0;
      while (blocks[at(lca)][at(a)] != blocks[at(lca)][at(b)]) ++lca;
      ASSERT_EQ(network.level(a, b), lca) << "instance " << i << ": " << a << ' ' << b;
    }
  }
}

TEST(Uneven, LinkLevelIsTheWorstOfAllPairs) {
  Dice dice(2);
  int crossing = 0;
  for (std::uint64_t i = 0; i < testing::seeds(10'000); ++i) {
    const UnevenHierarchy network(random_spec(dice, dice.chance(30) ? 400 : 60, 60));
    const PodLayout pods = testing::random_pods(dice, network.devices());
    if (pods.pod_size < 2) continue;
    const std::int64_t from = dice.between(0, pods.pod_size - 2);
    const std::int64_t unit = dice.between(1, pods.pod_size - from - 1);
    const std::int64_t to = dice.between(from + unit, pods.pod_size - 1);
    const int level = network.link_level(pods, from, to, unit);
    ASSERT_EQ(level, network.Network::link_level(pods, from, to, unit))
        << "instance " << i << ": " << pods.pods << " pods of " << pods.pod_size << ", from "
        << from << " to " << to << ", unit " << unit;
    crossing += level > 0;
  }
  EXPECT_GT(crossing, 0);
}

TEST(Uneven, ShapeIsTheMostMembersLevelByLevel) {
  Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 200, 60);
    const UnevenHierarchy network(spec);
    const auto blocks = blocks_of_devices(spec);
    const Devices members = random_group(dice, network.devices());
    GroupShape expected;
    for (std::size_t l = 0; l < blocks.size(); ++l) {
      std::map<std::int64_t, std::set<std::int64_t>> inside;
      for (const std::int64_t x : members) {
        inside[blocks[l][at(x)]].insert(l == 0 ? x : blocks[l - 1][at(x)]);
      }
      std::int64_t most = 0;
      for (const auto& [block, parts] : inside) most = std::max(most, std::ssize(parts));
      expected.push_back(most);
    }
    ASSERT_EQ(network.shape(members), expected) << "instance " << i;
  }
}

TEST(Uneven, ShapesDoNotChangeWhenShiftedByAPeriod) {
  Dice dice(4);
  int shifted_groups = 0;
  for (std::uint64_t i = 0; i < testing::seeds(5'000); ++i) {
    const UnevenHierarchy network(random_spec(dice, 200, 60, 80));
    const std::int64_t period = network.shape_period();
    ASSERT_GE(period, 1);
    ASSERT_LE(period, network.devices());
    if (network.devices() <= period) continue;
    const std::int64_t times = dice.between(1, (network.devices() - 1) / period);
    Devices members, shifted;
    for (std::int64_t x = 0; x + times * period < network.devices(); ++x) {
      if (!dice.chance(20)) continue;
      members.push_back(x);
      shifted.push_back(x + times * period);
    }
    if (members.empty()) continue;
    ASSERT_EQ(network.shape(members), network.shape(shifted)) << "instance " << i;
    ++shifted_groups;
  }
  EXPECT_GT(shifted_groups, 0);
}

TEST(Uneven, PeriodIsThatOfTheBlocksThatRepeat) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 1e11, 0, 1}, {"rack", 3, 1e10, 0, 1}, {"spine", 5, 1e10, 0, 1}};
  spec.levels[1].fanouts = {2, 3, 2, 3, 2};
  EXPECT_EQ(UnevenHierarchy(spec).shape_period(), 40);
  spec.levels[1].fanouts = {2, 3, 2, 3, 3};
  EXPECT_EQ(UnevenHierarchy(spec).shape_period(), 104);
}

TEST(Uneven, ShapesRepeatWhereItSaysSo) {
  Dice dice(5);
  int inside = 0, across = 0;
  for (std::uint64_t i = 0; i < testing::seeds(6'000); ++i) {
    const UnevenHierarchy network(random_spec(dice, 80, 50, 80));
    const PodLayout pods = testing::random_pods(dice, network.devices());
    const std::int64_t unit = dice.between(1, pods.pod_size);
    for (const bool across_pods : {false, true}) {
      if (!network.shapes_repeat(pods, unit, across_pods)) continue;
      ++(across_pods ? across : inside);
      testing::expect_shapes_repeat(network, pods, unit, across_pods);
      ASSERT_FALSE(HasFailure()) << "instance " << i << ": " << pods.pods << " pods of "
                                 << pods.pod_size << ", unit " << unit;
    }
  }
  EXPECT_GT(inside, 0);
  EXPECT_GT(across, 0);
}

TEST(Uneven, ShapesRepeatOnNodesOfOneSizeInUnevenRacks) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 1e11, 0, 1}, {"rack", 20, 1e10, 0, 1}, {"spine", 4, 1e10, 0, 1}};
  spec.levels[1].fanouts = {20, 18, 20, 16};
  const UnevenHierarchy network(spec);
  const std::int64_t n = network.devices();
  EXPECT_TRUE(network.shapes_repeat({n, n / 16, 16}, 8, true));
  EXPECT_TRUE(network.shapes_repeat({n, n / 16, 16}, 2, true));
  EXPECT_FALSE(network.shapes_repeat({n, n / 32, 32}, 32, true));
}

TEST(Uneven, StartsAreAtTheFirstBoundaryOfEachLevel) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 1e11, 0, 1}, {"spine", 3, 1e10, 0, 1}};
  spec.levels[0].fanouts = {8, 4, 6};
  const UnevenHierarchy network(spec);
  const auto starts = [&](std::int64_t end) {
    std::vector<std::int64_t> result;
    network.append_starts({18, 1, 18}, end, result);
    return result;
  };
  EXPECT_EQ(starts(3), (std::vector<std::int64_t>{8, 18}));
  EXPECT_EQ(starts(8), (std::vector<std::int64_t>{8, 18}));
  EXPECT_EQ(starts(9), (std::vector<std::int64_t>{12, 18}));
  EXPECT_EQ(starts(18), (std::vector<std::int64_t>{18, 18}));
}

TEST(Uneven, RowsBelowALevelLieWithinItsReach) {
  Dice dice(6);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const UnevenHierarchy network(random_spec(dice, 60, 60));
    for (int level = 1; level < network.levels(); ++level) {
      std::int64_t longest = 0;
      for (std::int64_t a = 0; a < network.devices(); ++a) {
        for (std::int64_t b = a + 1; b < network.devices(); ++b) {
          if (network.level(a, b) < level) longest = std::max(longest, b - a + 1);
        }
      }
      ASSERT_LE(longest, network.reach(level)) << "instance " << i << " level " << level;
    }
  }
}

/// What a device gets from a level while `unit` devices send, the least over all its blocks.
double least_share(const model::HierarchySpec& spec,
                   const std::vector<std::vector<std::int64_t>>& blocks, std::size_t l,
                   std::int64_t unit) {
  const model::NetworkLevel& level = spec.levels[l];
  const double port = level.bandwidth * (1 - level.background);
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [block, size] : sizes(blocks[l - 1])) {
    const auto devices = static_cast<double>(size);
    const double ports = level.ports > 0 ? static_cast<double>(level.ports) : devices;
    const double uplink = ports * port / level.oversubscription;
    const auto senders = static_cast<double>(std::min(unit, size));
    least = std::min({least, port * std::max(1.0, ports / devices), uplink / senders});
  }
  return least;
}

TEST(Uneven, TheBlockThatServesItsDevicesWorstCounts) {
  Dice dice(7);
  for (std::uint64_t i = 0; i < testing::seeds(1'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 100, 60);
    const UnevenHierarchy network(spec);
    const auto blocks = blocks_of_devices(spec);
    double least_of_all = std::numeric_limits<double>::infinity();
    for (int level = 1; level < network.levels(); ++level) {
      for (std::int64_t unit = 1; unit <= network.devices(); ++unit) {
        double bandwidth = std::numeric_limits<double>::infinity();
        for (int l = 1; l <= level; ++l) {
          bandwidth = std::min(bandwidth, least_share(spec, blocks, at(l), unit));
        }
        const double expected = spec.levels[at(level)].latency_s + 1e9 / bandwidth;
        ASSERT_NEAR(network.transfer_s(1e9, level, unit), expected, 1e-12 * expected)
            << "instance " << i << " level " << level << " unit " << unit;
      }
      // β: all devices send
      GroupShape pair(blocks.size(), 1);
      pair[at(level)] = 2;
      least_of_all =
          std::min(least_of_all, least_share(spec, blocks, at(level), network.devices()));
      const double expected = 0.5e9 / least_of_all + spec.levels[at(level)].latency_s;
      ASSERT_NEAR(network.collective_s(CollectiveOp::kAllGather, 1e9, pair), expected,
                  1e-12 * expected)
          << "instance " << i << " level " << level;
    }
  }
}

TEST(Uneven, ListsOfEqualBlocksAreTheRegularTree) {
  Dice dice(8);
  for (std::uint64_t i = 0; i < testing::seeds(1'000); ++i) {
    const model::HierarchySpec regular = random_spec(dice, 200, 0);
    model::HierarchySpec listed = regular;
    std::int64_t blocks = 1;
    for (auto level = listed.levels.rbegin(); level != listed.levels.rend(); ++level) {
      level->fanouts.assign(at(blocks), level->fanout);
      blocks *= level->fanout;
    }
    const HierarchicalNetwork a(regular);
    const UnevenHierarchy b(listed);
    ASSERT_EQ(a.devices(), b.devices());
    ASSERT_EQ(a.levels(), b.levels());
    ASSERT_EQ(a.shape_period(), b.shape_period());
    ASSERT_EQ(a.domains(), b.domains());
    const PodLayout pods = testing::random_pods(dice, a.devices());
    const std::int64_t unit = dice.between(1, pods.pod_size);
    for (const bool across : {false, true}) {
      ASSERT_EQ(a.shapes_repeat(pods, unit, across), b.shapes_repeat(pods, unit, across));
    }
    for (int level = 0; level < a.levels(); ++level) {
      if (level > 0) {
        ASSERT_EQ(a.reach(level), b.reach(level));
      }
      ASSERT_EQ(a.transfer_s(12345, level, unit), b.transfer_s(12345, level, unit));
    }
    std::vector<std::int64_t> left, right;
    const std::int64_t end = dice.between(1, a.devices());
    a.append_starts(pods, end, left);
    b.append_starts(pods, end, right);
    ASSERT_EQ(left, right);
    const Devices members = random_group(dice, a.devices());
    ASSERT_EQ(a.shape(members), b.shape(members));
    ASSERT_EQ(a.domain(a.shape(members)), b.domain(b.shape(members)));
    for (const CollectiveOp op : kOps) {
      ASSERT_EQ(a.collective_s(op, 1e6, a.shape(members)),
                b.collective_s(op, 1e6, a.shape(members)));
    }
    if (a.devices() < 3 || pods.pod_size < 2) continue;
    ASSERT_EQ(a.link_level(pods, 0, pods.pod_size - 1, 1),
              b.link_level(pods, 0, pods.pod_size - 1, 1));
  }
}

TEST(Uneven, MakeNetworkTakesListsOfEqualBlocksForARegularTree) {
  model::Cluster cluster;
  model::HierarchySpec spec;
  spec.levels = {{"node", 4, 1e11, 0, 1}, {"leaf", 2, 1e10, 0, 1}};
  spec.levels[0].fanouts = {4, 4};
  cluster.network = spec;
  EXPECT_NE(dynamic_cast<const HierarchicalNetwork*>(make_network(cluster).get()), nullptr);
  cluster.hierarchy().levels[0].fanouts = {4, 2};
  const auto uneven = make_network(cluster);
  EXPECT_NE(dynamic_cast<const UnevenHierarchy*>(uneven.get()), nullptr);
  EXPECT_EQ(uneven->devices(), 6);
  cluster.limit = 5;
  EXPECT_EQ(make_network(cluster)->devices(), 5);
}

TEST(Uneven, CountsMustAddUp) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 4, 1e11, 0, 1}, {"leaf", 2, 1e10, 0, 1}};
  spec.levels[0].fanouts = {4, 2, 4};
  test::expect_contains(test::message_of([&] { UnevenHierarchy network(spec); }),
                        "network.levels[0].fanout: lists 3 blocks, but the levels above make 2");
}

TEST(Ports, FewerThanDevicesAreSharedAndMoreBelongToThem) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 400, 1, 1}, {"leaf", 2, 50, 5, 1}};
  spec.levels[1].ports = 4;
  const HierarchicalNetwork four(spec);
  EXPECT_DOUBLE_EQ(four.transfer_s(1000, 1, 1), 5 + 1000 / 50.0);
  EXPECT_DOUBLE_EQ(four.transfer_s(1000, 1, 4), 5 + 1000 / 50.0);
  EXPECT_DOUBLE_EQ(four.transfer_s(1000, 1, 8), 5 + 1000 / 25.0);
  EXPECT_DOUBLE_EQ(four.collective_s(CollectiveOp::kAllGather, 1000, {1, 2}), 5 + 500 / 25.0);
  spec.levels[1].ports = 16;
  const HierarchicalNetwork sixteen(spec);
  EXPECT_DOUBLE_EQ(sixteen.transfer_s(1000, 1, 1), 5 + 1000 / 100.0);
  EXPECT_DOUBLE_EQ(sixteen.transfer_s(1000, 1, 8), 5 + 1000 / 100.0);
  spec.levels[1].oversubscription = 4;
  EXPECT_DOUBLE_EQ(HierarchicalNetwork(spec).transfer_s(1000, 1, 8), 5 + 1000 / 25.0);
}

TEST(Ports, OnePerDeviceIsTheSameAsNone) {
  Dice dice(9);
  for (std::uint64_t i = 0; i < testing::seeds(200); ++i) {
    model::HierarchySpec spec = random_spec(dice, 200, 0);
    for (model::NetworkLevel& level : spec.levels) level.ports = 0;
    const HierarchicalNetwork none(spec);
    for (std::size_t l = 1; l < spec.levels.size(); ++l) {
      spec.levels[l].ports = none.block_sizes()[l - 1];
    }
    const HierarchicalNetwork one_each(spec);
    const GroupShape shape = none.shape(random_group(dice, none.devices()));
    for (const CollectiveOp op : kOps) {
      ASSERT_EQ(none.collective_s(op, 1e6, shape), one_each.collective_s(op, 1e6, shape));
    }
    const std::int64_t unit = dice.between(1, none.devices());
    for (int level = 0; level < none.levels(); ++level) {
      ASSERT_EQ(none.transfer_s(1e6, level, unit), one_each.transfer_s(1e6, level, unit));
    }
  }
}

TEST(Background, LeavesItsShareOfTheBandwidth) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 400, 1, 1}, {"leaf", 2, 50, 5, 1}};
  spec.levels[1].background = 0.2;
  const HierarchicalNetwork network(spec);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, 1, 1), 5 + 1000 / 40.0);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, 0, 1), 1 + 1000 / 400.0);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllGather, 1000, {1, 2}), 5 + 500 / 40.0);
}

}  // namespace
}  // namespace nestplan::network
