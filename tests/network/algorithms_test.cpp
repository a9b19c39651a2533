#include "network/algorithms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "network/hierarchy.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using testing::Dice;

using Devices = std::vector<std::int64_t>;

const std::vector<std::string> kAlgorithms{"hierarchical-ring", "ring",       "tree",
                                           "hierarchical-tree", "in-network", "auto"};
constexpr auto kOps = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                       CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// b = 100/2, 50, 80/4, so that β = (50, 50, 20); latencies 1, 2, 3.
model::HierarchySpec three_levels(const std::string& collectives) {
  model::HierarchySpec spec;
  spec.collectives = collectives;
  spec.levels = {{"node", 4, 100, 1, 2}, {"leaf", 4, 50, 2, 1}, {"spine", 4, 80, 3, 4}};
  return spec;
}

double seconds(const model::HierarchySpec& spec, CollectiveOp op, double bytes,
               const GroupShape& shape) {
  return HierarchicalNetwork(spec).collective_s(op, bytes, shape);
}

double seconds(const std::string& collectives, CollectiveOp op, const GroupShape& shape) {
  return seconds(three_levels(collectives), op, 1200, shape);
}

TEST(Algorithms, UnknownOnesNameTheKnown) {
  const std::string message = test::message_of([] { parse_algorithm("hierarchical-rign"); });
  test::expect_contains(message,
                        "network.collectives: unknown algorithm \"hierarchical-rign\" "
                        "(did you mean \"hierarchical-ring\"?)");
  for (const std::string& name : kAlgorithms) test::expect_contains(message, "\"" + name + "\"");
  for (const std::string& name : kAlgorithms) EXPECT_NO_THROW(parse_algorithm(name));
}

TEST(Algorithms, ReductionInTheNetworkNeedsSwitchesThatReduce) {
  model::HierarchySpec spec = three_levels("in-network");
  test::expect_contains(test::message_of([&] { HierarchicalNetwork network(spec); }),
                        "network.collectives: \"in-network\" needs a level");
  spec.levels[1].in_network_reduction = true;
  EXPECT_NO_THROW(HierarchicalNetwork{spec});
}

TEST(Algorithms, Ring) {
  // 24 members in 3 leaves of 2 nodes of 4: per pass 18 hops in nodes, 3 in leaves, 2 above. What
  // leaves a leaf of 8 members gets 80·min(1, 8/4).
  const GroupShape shape{4, 2, 3};
  const double bytes = 23.0 / 24 * 1200 / 50;
  const double hops = 18 * 1 + 3 * 2 + 2 * 3;
  EXPECT_DOUBLE_EQ(seconds("ring", CollectiveOp::kAllReduce, shape), 2 * (bytes + hops));
  EXPECT_DOUBLE_EQ(seconds("ring", CollectiveOp::kAllGather, shape), bytes + hops);
  EXPECT_DOUBLE_EQ(seconds("ring", CollectiveOp::kAllToAll, shape),
                   1200 * 16.0 / (24 * 20) + 3 * 1 + 4 * 2 + 16 * 3);
  // A single member of each leaf: all 16 devices of a leaf are in such rings, and share its uplink.
  EXPECT_DOUBLE_EQ(seconds("ring", CollectiveOp::kAllGather, {1, 1, 4}), 0.75 * 1200 / 20 + 3 * 3);
}

TEST(Algorithms, RingLeavesASwitchOnce) {
  // Two leaves of four nodes, uplinks oversubscribed 4:1, a ring over one device of each node: 8
  // flows of 50 against an uplink of 8·4·50/4 = 400 lose nothing.
  model::HierarchySpec spec;
  spec.collectives = "ring";
  spec.levels = {{"node", 8, 450, 0, 1}, {"leaf", 4, 50, 0, 1}, {"spine", 2, 50, 0, 4}};
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllGather, 800, {1, 4, 1}), 0.75 * 800 / 50);
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllGather, 800, {1, 4, 2}), 0.875 * 800 / 50);
  // One member per leaf crosses with all its neighbours: 32 flows against 400.
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllGather, 800, {1, 1, 2}), 0.5 * 800 / 12.5);
}

TEST(Algorithms, Tree) {
  const GroupShape shape{4, 2, 3};
  const double steps = 2 * 1 + 1 * 2 + 2 * 3;
  EXPECT_DOUBLE_EQ(seconds("tree", CollectiveOp::kAllReduce, shape), 2 * 1200 / 50.0 + 2 * steps);
  EXPECT_DOUBLE_EQ(seconds("tree", CollectiveOp::kReduceScatter, shape),
                   23.0 / 24 * 1200 / 20 + steps);
  EXPECT_DOUBLE_EQ(seconds("tree", CollectiveOp::kAllToAll, shape), 5 * (600 / 20.0 + 3));
}

TEST(Algorithms, HierarchicalTree) {
  const GroupShape shape{4, 2, 3};
  const double rings = 0.75 * 1200 / 50 + 0.5 * 300 / 50 + 2.0 / 3 * 150 / 20;
  const double steps = 2 * 1 + 1 * 2 + 2 * 3;
  EXPECT_DOUBLE_EQ(seconds("hierarchical-tree", CollectiveOp::kAllReduce, shape),
                   2 * (rings + steps));
  EXPECT_DOUBLE_EQ(seconds("hierarchical-tree", CollectiveOp::kAllGather, shape), rings + steps);
  EXPECT_DOUBLE_EQ(seconds("hierarchical-tree", CollectiveOp::kAllToAll, shape),
                   2 * (600 / 50.0 + 1) + 1 * (600 / 50.0 + 2) + 2 * (600 / 20.0 + 3));
}

TEST(Algorithms, InNetwork) {
  model::HierarchySpec spec = three_levels("in-network");
  spec.levels[0].in_network_reduction = true;
  const GroupShape shape{4, 2, 3};
  const double above = 0.5 * 300 / 50 + 2.0 / 3 * 150 / 20;
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllReduce, 1200, shape),
                   1200 / 50.0 + 2 * 1 + 2 * above + 2 * (2 + 6));
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllGather, 1200, shape),
                   0.75 * 1200 / 50 + 1 + above + 2 + 6);
  spec.levels[2].in_network_reduction = true;
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllReduce, 1200, shape),
                   1200 / 50.0 + 2 * 1 + 2 * (0.5 * 300 / 50 + 2) + 150 / 20.0 + 2 * 3);
  // Two members lose nothing by the switch, and gain nothing.
  EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllReduce, 1200, {2, 1, 1}), 1200 / 50.0 + 2);
}

TEST(Algorithms, APairOnTwoNodesPaysTheNetwork) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 8, 450e9, 0, 1}, {"network", 2, 50e9, 0, 1}};
  for (const char* name : {"hierarchical-ring", "ring", "hierarchical-tree"}) {
    spec.collectives = name;
    EXPECT_DOUBLE_EQ(seconds(spec, CollectiveOp::kAllReduce, 1e9, {1, 2}), 0.02) << name;
  }
}

/// Two to four levels, each slower than the one below by a factor and by all its steps of latency.
model::HierarchySpec random_fabric(Dice& dice, const std::string& collectives, double latency_s) {
  model::HierarchySpec spec;
  spec.collectives = collectives;
  double bandwidth = 9e11;
  std::int64_t block = 1;
  for (std::int64_t levels = dice.between(2, 4); levels > 0; --levels) {
    model::NetworkLevel level;
    level.name = "level";
    level.fanout = dice.between(1, 8);
    level.bandwidth = bandwidth;
    level.latency_s = latency_s;
    level.oversubscription = dice.pick({1.0, 1.0, 2.0, 3.5});
    level.in_network_reduction = dice.chance(40);
    block *= level.fanout;
    latency_s *= static_cast<double>(2 * block);
    bandwidth /= 4 * level.oversubscription;
    spec.levels.push_back(level);
  }
  if (collectives == "in-network") spec.levels.back().in_network_reduction = true;
  return spec;
}

Devices random_members(Dice& dice, std::int64_t devices, std::int64_t count) {
  Devices all(at(devices));
  std::iota(all.begin(), all.end(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::swap(all[at(i)], all[at(dice.between(i, devices - 1))]);
  }
  all.resize(at(count));
  std::sort(all.begin(), all.end());
  return all;
}

double random_bytes(Dice& dice) {
  return static_cast<double>(std::int64_t{1} << dice.between(4, 36));
}

TEST(Algorithms, AGroupInABlockIsNeverDearerThanOneAcross) {
  for (const std::string& name : kAlgorithms) {
    Dice dice(1);
    int straddling = 0;
    for (std::uint64_t i = 0; i < testing::seeds(4'000); ++i) {
      const double latency_s = static_cast<double>(dice.between(0, 20)) * 1e-7;
      const model::HierarchySpec spec = random_fabric(dice, name, latency_s);
      const HierarchicalNetwork network(spec);
      const std::int64_t node = spec.levels.front().fanout;
      if (node < 2) continue;
      const std::int64_t count = dice.between(2, node);
      const GroupShape inside = network.shape(random_members(dice, node, count));
      const GroupShape across = network.shape(random_members(dice, network.devices(), count));
      straddling += network.domain(across) > 0;
      const double bytes = random_bytes(dice);
      for (const CollectiveOp op : kOps) {
        ASSERT_LE(network.collective_s(op, bytes, inside),
                  network.collective_s(op, bytes, across) * (1 + 1e-12))
            << name << " instance " << i << ": " << count << " members, " << bytes << " bytes, "
            << model::to_string(op);
      }
    }
    EXPECT_GT(straddling, 0) << name;
  }
}

TEST(Algorithms, NeighboursThatFillABlockAreNeverDearerThanOthers) {
  for (const std::string& name : kAlgorithms) {
    Dice dice(2);
    for (std::uint64_t i = 0; i < testing::seeds(2'000); ++i) {
      const double latency_s = static_cast<double>(dice.between(0, 20)) * 1e-7;
      const HierarchicalNetwork network(random_fabric(dice, name, latency_s));
      const std::int64_t block =
          dice.pick(Devices(network.block_sizes().begin(), network.block_sizes().end()));
      if (block < 2 || block == network.devices()) continue;
      Devices aligned(at(block));
      std::iota(aligned.begin(), aligned.end(), 0);
      Devices shifted = aligned;
      const std::int64_t shift = dice.between(1, network.devices() - block);
      for (std::int64_t& x : shifted) x += shift;
      const double bytes = random_bytes(dice);
      for (const CollectiveOp op : kOps) {
        ASSERT_LE(network.collective_s(op, bytes, network.shape(aligned)),
                  network.collective_s(op, bytes, network.shape(shifted)) * (1 + 1e-12))
            << name << " instance " << i << ": block " << block << " shift " << shift << ", "
            << bytes << " bytes, " << model::to_string(op);
      }
    }
  }
}

TEST(Algorithms, MoreBandwidthNeverHurtsAndLessOfAllDoes) {
  for (const std::string& name : kAlgorithms) {
    Dice dice(3);
    for (std::uint64_t i = 0; i < testing::seeds(2'000); ++i) {
      const model::HierarchySpec spec = random_fabric(dice, name, 1e-6);
      const HierarchicalNetwork network(spec);
      if (network.devices() < 2) continue;
      const GroupShape shape = network.shape(
          random_members(dice, network.devices(), dice.between(2, network.devices())));
      model::HierarchySpec wider = spec;
      const std::int64_t raised = dice.between(0, network.levels() - 1);
      wider.levels[at(raised)].bandwidth *= 2;
      model::HierarchySpec narrower = spec;
      for (model::NetworkLevel& level : narrower.levels) level.bandwidth /= 2;
      const double bytes = random_bytes(dice);
      for (const CollectiveOp op : kOps) {
        const double before = network.collective_s(op, bytes, shape);
        ASSERT_LE(seconds(wider, op, bytes, shape), before * (1 + 1e-12))
            << name << " instance " << i << ' ' << model::to_string(op);
        ASSERT_GT(seconds(narrower, op, bytes, shape), before)
            << name << " instance " << i << ' ' << model::to_string(op);
      }
    }
  }
}

TEST(Algorithms, HalvingAUsedLinkHurtsWhereEveryLevelAdds) {
  for (const std::string name : {"hierarchical-ring", "hierarchical-tree", "in-network"}) {
    Dice dice(4);
    for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
      const model::HierarchySpec spec = random_fabric(dice, name, 0);
      const HierarchicalNetwork network(spec);
      if (network.devices() < 2) continue;
      const GroupShape shape = network.shape(
          random_members(dice, network.devices(), dice.between(2, network.devices())));
      for (std::int64_t l = 0; l < network.levels(); ++l) {
        model::HierarchySpec halved = spec;
        halved.levels[at(l)].bandwidth /= 2;
        const double before = network.collective_s(CollectiveOp::kAllReduce, 1e9, shape);
        const double after = seconds(halved, CollectiveOp::kAllReduce, 1e9, shape);
        if (shape[at(l)] > 1) {
          ASSERT_GT(after, before) << name << " instance " << i << " level " << l;
        }
      }
    }
  }
}

TEST(Algorithms, AFinerHierarchyOfEqualLevelsChangesNothing) {
  for (const std::string name : {"hierarchical-ring", "ring", "tree", "hierarchical-tree"}) {
    Dice dice(5);
    for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
      model::HierarchySpec coarse;
      coarse.collectives = name;
      model::HierarchySpec fine = coarse;
      std::int64_t devices = 1;
      for (std::int64_t levels = dice.between(1, 3); levels > 0; --levels) {
        const std::int64_t fanout = dice.between(2, 4);
        fine.levels.push_back({"level", fanout, 1e11, 0, 1});
        devices *= fanout;
      }
      coarse.levels = {{"all", devices, 1e11, 0, 1}};
      Devices all(at(devices));
      std::iota(all.begin(), all.end(), 0);
      const HierarchicalNetwork a(coarse);
      const HierarchicalNetwork b(fine);
      for (const CollectiveOp op :
           {CollectiveOp::kAllReduce, CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
        const double expected = a.collective_s(op, 1e9, a.shape(all));
        ASSERT_NEAR(b.collective_s(op, 1e9, b.shape(all)), expected, 1e-12 * expected) << name;
      }
    }
  }
}

TEST(Algorithms, OneMemberOrNoBytesAreFree) {
  for (const std::string& name : kAlgorithms) {
    model::HierarchySpec spec = three_levels(name);
    spec.levels[0].in_network_reduction = true;
    for (const CollectiveOp op : kOps) {
      EXPECT_EQ(seconds(spec, op, 1000, {1, 1, 1}), 0) << name;
      EXPECT_EQ(seconds(spec, op, 0, {4, 4, 4}), 0) << name;
      EXPECT_GT(seconds(spec, op, 1, {1, 1, 2}), 0) << name;
    }
  }
}

TEST(Algorithms, AutoTakesOtherWaysForSmallThanForLargeBuffers) {
  model::HierarchySpec spec;
  spec.collectives = "auto";
  spec.levels = {{"node", 8, 450e9, 6e-7, 1}, {"network", 128, 50e9, 2.7e-6, 1}};
  const HierarchicalNetwork network(spec);
  for (const CollectiveOp op : kOps) {
    const CollectiveTime time = network.collective(op, {8, 128});
    ASSERT_GE(time.ways().size(), 2U) << model::to_string(op);
    for (const AffineTime& way : time.ways()) {
      // None is useless: each is the fastest for some bytes or ties with one that is.
      for (const AffineTime& other : time.ways()) {
        if (way == other) continue;
        EXPECT_FALSE(way.fixed_s >= other.fixed_s && way.per_byte_s >= other.per_byte_s);
      }
    }
  }
  // A large buffer goes at the rate of the rings, eight of which leave a node: 8·50·0.96.
  EXPECT_NEAR(network.collective_s(CollectiveOp::kAllReduce, 1e12, {8, 128}), 2e12 / 360e9,
              0.02 * 2e12 / 360e9);
  spec.levels[0].in_network_reduction = true;
  EXPECT_LT(seconds(spec, CollectiveOp::kAllReduce, 1e9, {8, 1}),
            0.9 * network.collective_s(CollectiveOp::kAllReduce, 1e9, {8, 1}));
  EXPECT_EQ(seconds(spec, CollectiveOp::kAllGather, 1e9, {8, 1}),
            network.collective_s(CollectiveOp::kAllGather, 1e9, {8, 1}));
}

}  // namespace
}  // namespace nestplan::network
