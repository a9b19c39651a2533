#include "network/hierarchy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/util/errors.hpp"
#include "network/stage_shapes.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using testing::Devices;
using testing::Dice;
using testing::expect_shapes_repeat;
using testing::random_pods;

model::HierarchySpec spec_of(const std::vector<std::int64_t>& fanouts) {
  model::HierarchySpec spec;
  for (const std::int64_t fanout : fanouts) spec.levels.push_back({"level", fanout, 1e9, 1e-6, 1});
  return spec;
}

/// One to four levels with fan-outs from 1 to 9, at most `most` devices, all rates random.
model::HierarchySpec random_spec(Dice& dice, std::int64_t most) {
  model::HierarchySpec spec;
  std::int64_t devices = 1;
  for (std::int64_t levels = dice.between(1, 4); levels > 0; --levels) {
    model::NetworkLevel level;
    level.name = "level";
    level.fanout = dice.between(1, std::min<std::int64_t>(9, most / devices));
    level.bandwidth = static_cast<double>(dice.between(1, 500)) * 1e9;
    level.latency_s = static_cast<double>(dice.between(0, 30)) * 1e-6;
    level.oversubscription = dice.pick({1.0, 1.0, 1.5, 2.0, 4.0, 7.0});
    devices *= level.fanout;
    spec.levels.push_back(level);
  }
  return spec;
}

/// The least level whose blocks hold both, from the definition.
int lca(const model::HierarchySpec& spec, std::int64_t a, std::int64_t b) {
  std::int64_t block = 1;
  for (std::size_t l = 0; l < spec.levels.size(); ++l) {
    block *= spec.levels[l].fanout;
    if (a / block == b / block) return static_cast<int>(l);
  }
  ADD_FAILURE() << "no block holds " << a << " and " << b;
  return -1;
}

int worst_level(const model::HierarchySpec& spec, const PodLayout& pods, std::int64_t from,
                std::int64_t to, std::int64_t unit) {
  int worst = 0;
  for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
    for (std::int64_t r = 0; r < unit; ++r) {
      const std::int64_t sender = pod * pods.pod_size + from + r;
      const std::int64_t receiver = pod * pods.pod_size + to + r;
      if (receiver < pods.devices) worst = std::max(worst, lca(spec, sender, receiver));
    }
  }
  return worst;
}

TEST(Level, IsTheLeastCommonBlock) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 400);
    const HierarchicalNetwork network(spec);
    for (int pair = 0; pair < 30 && network.devices() > 1; ++pair) {
      const std::int64_t a = dice.between(0, network.devices() - 1);
      const std::int64_t b = dice.between(0, network.devices() - 1);
      if (a != b) {
        ASSERT_EQ(network.level(a, b), lca(spec, a, b)) << a << ' ' << b;
      }
    }
  }
}

TEST(LinkLevel, ClosedFormIsTheWorstOfAllPairs) {
  Dice dice(2);
  int beyond = 0, crossing = 0;
  for (std::uint64_t i = 0; i < testing::seeds(20'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice, dice.chance(30) ? 400 : 60);
    const HierarchicalNetwork network(spec);
    const PodLayout pods = random_pods(dice, network.devices());
    if (pods.pod_size < 2) continue;
    const std::int64_t from = dice.between(0, pods.pod_size - 2);
    const std::int64_t unit = dice.between(1, pods.pod_size - from - 1);
    const std::int64_t to = dice.between(from + unit, pods.pod_size - 1);
    const int level = network.link_level(pods, from, to, unit);
    ASSERT_EQ(level, worst_level(spec, pods, from, to, unit))
        << "instance " << i << ": " << pods.pods << " pods of " << pods.pod_size << ", from "
        << from << " to " << to << ", unit " << unit;
    ASSERT_EQ(level, network.Network::link_level(pods, from, to, unit));
    beyond += (pods.pods - 1) * pods.pod_size + to + unit > pods.devices;
    crossing += level > 0;
  }
  if (testing::seeds(100) >= 100) {
    EXPECT_GT(beyond, 100);
    EXPECT_GT(crossing, 1000);
  }
}

/// m_0: most members in a level-0 block; m_i: most level-(i-1) blocks with members in one of level
/// i.
GroupShape naive_shape(const model::HierarchySpec& spec, const Devices& members) {
  GroupShape shape;
  Devices inside = members;  // devices, then the blocks with members, level by level
  for (const model::NetworkLevel& level : spec.levels) {
    std::map<std::int64_t, std::int64_t> count;
    std::set<std::int64_t> blocks;
    for (const std::int64_t x : inside) {
      ++count[x / level.fanout];
      blocks.insert(x / level.fanout);
    }
    std::int64_t most = 0;
    for (const auto& [block, n] : count) most = std::max(most, n);
    shape.push_back(most);
    inside.assign(blocks.begin(), blocks.end());
  }
  return shape;
}

TEST(Shape, IsTheMostMembersLevelByLevel) {
  Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 300);
    const HierarchicalNetwork network(spec);
    const int percent = static_cast<int>(dice.between(1, 100));
    Devices members;
    for (std::int64_t x = 0; x < network.devices(); ++x) {
      if (dice.chance(percent)) members.push_back(x);
    }
    if (members.empty()) members.push_back(dice.between(0, network.devices() - 1));
    ASSERT_EQ(network.shape(members), naive_shape(spec, members)) << "instance " << i;
  }
}

TEST(Shape, DoesNotChangeWhenShiftedByAPeriod) {
  Dice dice(4);
  int shifted_groups = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const HierarchicalNetwork network(random_spec(dice, 300));
    const std::int64_t period = network.shape_period();
    ASSERT_GE(period, 1);
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

TEST(Shape, RepeatsWhereItSaysSo) {
  Dice dice(5);
  int inside = 0, across = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice, 100);
    const HierarchicalNetwork network(spec);
    const PodLayout pods = random_pods(dice, network.devices());
    const std::int64_t unit = dice.between(1, pods.pod_size);
    for (const bool across_pods : {false, true}) {
      if (!network.shapes_repeat(pods, unit, across_pods)) continue;
      ++(across_pods ? across : inside);
      expect_shapes_repeat(network, pods, unit, across_pods);
      ASSERT_FALSE(HasFailure()) << "instance " << i << ": " << pods.pods << " pods of "
                                 << pods.pod_size << ", unit " << unit;
    }
  }
  EXPECT_GT(inside, 0);
  EXPECT_GT(across, 0);
}

TEST(Shape, RepeatsOnAlignedPowersOfTwo) {
  // Saying "no" is always safe, but would make every search on a regular cluster slow.
  const HierarchicalNetwork network(spec_of({8, 4, 32}));
  for (std::int64_t unit = 1; unit <= 64; unit *= 2) {
    EXPECT_TRUE(network.shapes_repeat({1024, 16, 64}, unit, true)) << unit;
  }
  EXPECT_FALSE(network.shapes_repeat({1024, 16, 64}, 3, false));
}

TEST(Transfer, NeverFallsWhenMoreDevicesSend) {
  Dice dice(6);
  for (std::uint64_t i = 0; i < testing::seeds(1'000); ++i) {
    const HierarchicalNetwork network(random_spec(dice, 400));
    const double bytes = static_cast<double>(dice.between(1, 1'000'000'000));
    for (int level = 0; level < network.levels(); ++level) {
      EXPECT_EQ(network.transfer_s(0, level, 1), 0);
      double before = 0;
      for (std::int64_t unit = 1; unit <= network.devices(); ++unit) {
        const double now = network.transfer_s(bytes, level, unit);
        ASSERT_GE(now, before) << "instance " << i << " level " << level << " unit " << unit;
        before = now;
      }
    }
  }
}

TEST(Transfer, TakesTheNarrowestLevelOfItsPath) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 4, 400, 1, 1}, {"leaf", 2, 50, 5, 1}, {"spine", 2, 100, 10, 8}};
  const HierarchicalNetwork network(spec);
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 0, 4), 1 + 800 / 400.0);
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 1, 4), 5 + 800 / 50.0);
  // A leaf of 8 has an uplink of 8·100/8 = 100: one sender is held back by the leaf's port of 50.
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 2, 1), 10 + 800 / 50.0);
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 2, 4), 10 + 800 / 25.0);
  // No more than the leaf's 8 devices share its uplink.
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 2, 8), 10 + 800 / 12.5);
  EXPECT_DOUBLE_EQ(network.transfer_s(800, 2, 16), 10 + 800 / 12.5);
}

/// β = (50, 50, 20), latencies 1, 2, 3.
HierarchicalNetwork three_levels() {
  model::HierarchySpec spec;
  spec.levels = {{"node", 4, 100, 1, 2}, {"leaf", 4, 50, 2, 1}, {"spine", 4, 80, 3, 4}};
  return HierarchicalNetwork(spec);
}

TEST(Collectives, OneLevel) {
  const HierarchicalNetwork network = three_levels();
  const GroupShape four{4, 1, 1};
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllReduce, 1000, four),
                   2 * 0.75 * 1000 / 50 + 2 * 3 * 1);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllGather, 1000, four),
                   0.75 * 1000 / 50 + 3 * 1);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllToAll, 1000, four),
                   0.75 * 1000 / 50 + 3 * 1);
}

TEST(Collectives, ThreeLevels) {
  const HierarchicalNetwork network = three_levels();
  const GroupShape shape{4, 2, 3};
  // V_1 = 1200/4 = 300, V_2 = 300/2 = 150.
  const double rings = 0.75 * 1200 / 50 + 0.5 * 300 / 50 + 2.0 / 3 * 150 / 20;
  const double steps = 3 * 1 + 1 * 2 + 2 * 3;
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllReduce, 1200, shape),
                   2 * rings + 2 * steps);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllGather, 1200, shape), rings + steps);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kReduceScatter, 1200, shape), rings + steps);
  // P = 4, 8, 24: of what a device sends 3, 4 and 16 in 24 parts leave over each level.
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllToAll, 1200, shape),
                   1200 * 16.0 / (24 * 20) + steps);
}

TEST(Collectives, LevelZeroDoesNotBindTheOthers) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 2, 1, 0, 1}, {"leaf", 2, 100, 0, 1}};
  const HierarchicalNetwork network(spec);
  EXPECT_DOUBLE_EQ(network.collective_s(CollectiveOp::kAllGather, 100, {1, 2}), 0.5 * 100 / 100);
}

TEST(Collectives, OfOneMemberOrNoBytesAreFree) {
  const HierarchicalNetwork network = three_levels();
  for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll}) {
    EXPECT_EQ(network.collective_s(op, 1000, {1, 1, 1}), 0);
    EXPECT_EQ(network.collective_s(op, 0, {4, 4, 4}), 0);
    EXPECT_GT(network.collective_s(op, 1, {4, 4, 4}), 0);
  }
}

TEST(MakeNetwork, RefusesAnUnknownAlgorithm) {
  model::Cluster cluster;
  cluster.network = spec_of({8});
  EXPECT_EQ(make_network(cluster)->devices(), 8);
  cluster.hierarchy().collectives = "carrier-pigeon";
  try {
    make_network(cluster);
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("carrier-pigeon"), std::string::npos) << message;
    EXPECT_NE(message.find("hierarchical-ring"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace nestplan::network
