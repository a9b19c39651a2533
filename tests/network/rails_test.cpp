#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "network/stage_shapes.hpp"
#include "network/uneven.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"
#include "util/expect_error.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using model::Rails;
using testing::Devices;
using testing::Dice;

/// Nodes on a leaf with rails, below a spine.
model::HierarchySpec three_levels(Rails rails) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 4, 400, 1, 1}, {"leaf", 2, 50, 5, 1}, {"spine", 2, 20, 10, 1}};
  spec.levels[1].rails = rails;
  return spec;
}

/// Two to four levels, uneven half of the time, with rails on the second one.
model::HierarchySpec random_spec(Dice& dice) {
  model::HierarchySpec spec;
  const std::int64_t levels = dice.between(2, 4);
  std::int64_t blocks = 1;
  for (std::int64_t l = levels; l > 0; --l) {
    model::NetworkLevel level{
        "level", dice.between(1, 4), static_cast<double>(dice.between(1, 500)) * 1e9,
        static_cast<double>(dice.between(0, 30)) * 1e-6, dice.pick({1.0, 2.0})};
    if (dice.chance(30)) {
      for (std::int64_t i = 0; i < blocks; ++i) level.fanouts.push_back(dice.between(1, 4));
      level.fanout = *std::max_element(level.fanouts.begin(), level.fanouts.end());
      std::int64_t sum = 0;
      for (const std::int64_t fanout : level.fanouts) sum += fanout;
      blocks = sum;
    } else {
      blocks *= level.fanout;
    }
    spec.levels.insert(spec.levels.begin(), level);
  }
  const bool joined = levels > 2 && dice.chance(50);
  spec.levels[1].rails = joined ? Rails::kJoined : Rails::kIsolated;
  return spec;
}

/// Where each device sits in its nearest block.
std::vector<std::int64_t> local_indices(const model::HierarchySpec& spec, std::int64_t devices) {
  std::vector<std::int64_t> result;
  for (std::size_t node = 0; std::ssize(result) < devices; ++node) {
    const model::NetworkLevel& nodes = spec.levels.front();
    const std::int64_t size = nodes.fanouts.empty() ? nodes.fanout : nodes.fanouts[node];
    for (std::int64_t i = 0; i < size; ++i) result.push_back(i);
  }
  return result;
}

TEST(Rails, TwoNodesOfTwoOnIsolatedRails) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 2, 400, 1, 1}, {"rail", 2, 50, 5, 1}};
  spec.levels[1].rails = Rails::kIsolated;
  const UnevenHierarchy network(spec);
  EXPECT_EQ(network.levels(), 3);
  EXPECT_EQ(network.level_name(network.level(0, 2)), "rail");
  EXPECT_EQ(network.level_name(network.level(1, 3)), "rail");
  EXPECT_EQ(network.level_name(network.level(0, 3)), "rail (other rail)");
  EXPECT_EQ(network.level(1, 2), network.level(0, 3));
  EXPECT_EQ(network.level(0, 1), 0);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, network.level(0, 2), 1), 5 + 1000 / 50.0);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, network.level(0, 3), 1), 1 + 5 + 1000 / 50.0);
  const auto all_gather = [&](const Devices& members) {
    return network.collective_s(CollectiveOp::kAllGather, 1000, network.shape(members));
  };
  EXPECT_DOUBLE_EQ(all_gather({0, 2}), 5 + 500 / 50.0);
  EXPECT_DOUBLE_EQ(all_gather({1, 3}), 5 + 500 / 50.0);
  EXPECT_DOUBLE_EQ(all_gather({0, 3}), 6 + 500 / 50.0);
  EXPECT_DOUBLE_EQ(all_gather({0, 1, 2, 3}), 1 + 500 / 400.0 + 5 + 250 / 50.0);
  EXPECT_EQ(network.domain(network.shape(Devices{0, 1})), 0);
  EXPECT_EQ(network.domain(network.shape(Devices{0, 3})), 1);
}

TEST(Rails, ForwardingIsHeldBackByTheNode) {
  model::HierarchySpec spec;
  spec.levels = {{"node", 2, 20, 1, 1}, {"rail", 2, 50, 5, 1}};
  spec.levels[1].rails = Rails::kIsolated;
  const UnevenHierarchy network(spec);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, network.level(0, 2), 1), 5 + 1000 / 50.0);
  EXPECT_DOUBLE_EQ(network.transfer_s(1000, network.level(0, 3), 1), 6 + 1000 / 20.0);
  EXPECT_DOUBLE_EQ(
      network.collective_s(CollectiveOp::kAllGather, 1000, network.shape(Devices{0, 3})),
      6 + 500 / 20.0);
}

TEST(Rails, JoinedOnesMeetOnTheNextLevel) {
  const UnevenHierarchy network(three_levels(Rails::kJoined));
  EXPECT_EQ(network.levels(), 3);
  EXPECT_EQ(network.level(0, 4), 1);
  EXPECT_EQ(network.level(0, 5), 2);
  EXPECT_EQ(network.level(0, 8), 2);
  EXPECT_EQ(network.level(0, 9), 2);
  const auto all_gather = [&](const Devices& members) {
    return network.collective_s(CollectiveOp::kAllGather, 1000, network.shape(members));
  };
  EXPECT_DOUBLE_EQ(all_gather({0, 4}), 5 + 500 / 50.0);
  EXPECT_DOUBLE_EQ(all_gather({0, 5}), 10 + 500 / 20.0);
  EXPECT_DOUBLE_EQ(all_gather({0, 1, 4, 5}), 1 + 500 / 400.0 + 5 + 250 / 50.0);
  EXPECT_DOUBLE_EQ(all_gather({0, 1, 4, 6}), 1 + 500 / 400.0 + 10 + 250 / 20.0);
}

TEST(Rails, OnlyAboveTheNodesAndJoinedOnlyBelowALevel) {
  model::HierarchySpec spec = three_levels(Rails::kNone);
  spec.levels[2].rails = Rails::kIsolated;
  test::expect_contains(test::message_of([&] { UnevenHierarchy network(spec); }),
                        "network.levels[2].rails: only the second level");
  spec = three_levels(Rails::kJoined);
  spec.levels.pop_back();
  test::expect_contains(test::message_of([&] { UnevenHierarchy network(spec); }),
                        "network.levels[1].rails: joined rails meet on the level above");
}

TEST(Rails, PairsAreOfTheClassOfTheirIndices) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const model::HierarchySpec spec = random_spec(dice);
    model::HierarchySpec plain = spec;
    plain.levels[1].rails = Rails::kNone;
    const UnevenHierarchy network(spec);
    const UnevenHierarchy tree(plain);
    const std::vector<std::int64_t> local = local_indices(spec, network.devices());
    for (std::int64_t a = 0; a < network.devices(); ++a) {
      for (std::int64_t b = 0; b < network.devices(); ++b) {
        if (a == b) continue;
        const int lca = tree.level(a, b);
        const bool same =
            lca == 0 || local[static_cast<std::size_t>(a)] == local[static_cast<std::size_t>(b)];
        std::string name = spec.levels[static_cast<std::size_t>(lca)].name;
        if (spec.levels[1].rails == Rails::kJoined) {
          ASSERT_EQ(network.level(a, b), same ? lca : std::max(2, lca));
        } else {
          ASSERT_EQ(network.level_name(network.level(a, b)), same ? name : name + " (other rail)");
          double seconds = tree.transfer_s(1e9, lca, 1);
          if (!same) {
            const double inside = tree.transfer_s(1e9, 0, 1) - spec.levels[0].latency_s;
            const double outside = seconds - spec.levels[static_cast<std::size_t>(lca)].latency_s;
            seconds = seconds - outside + spec.levels[0].latency_s + std::max(inside, outside);
          }
          ASSERT_NEAR(network.transfer_s(1e9, network.level(a, b), 1), seconds, 1e-9 * seconds);
        }
      }
    }
  }
}

TEST(Rails, LinkLevelIsTheWorstOfAllPairs) {
  Dice dice(2);
  for (std::uint64_t i = 0; i < testing::seeds(10'000); ++i) {
    const UnevenHierarchy network(random_spec(dice));
    const PodLayout pods = testing::random_pods(dice, network.devices());
    if (pods.pod_size < 2) continue;
    const std::int64_t from = dice.between(0, pods.pod_size - 2);
    const std::int64_t unit = dice.between(1, pods.pod_size - from - 1);
    const std::int64_t to = dice.between(from + unit, pods.pod_size - 1);
    ASSERT_EQ(network.link_level(pods, from, to, unit),
              network.Network::link_level(pods, from, to, unit))
        << "instance " << i;
  }
}

TEST(Rails, GroupsAreMixedUnlessEveryNodeHasTheSameIndices) {
  Dice dice(3);
  int mixed = 0, aligned = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const model::HierarchySpec spec = random_spec(dice);
    model::HierarchySpec plain = spec;
    plain.levels[1].rails = Rails::kNone;
    const UnevenHierarchy network(spec);
    const UnevenHierarchy tree(plain);
    const std::vector<std::int64_t> local = local_indices(spec, network.devices());
    Devices members;
    if (dice.chance(50)) {  // every so many devices
      const std::int64_t stride = dice.between(1, 4);
      for (std::int64_t x = dice.between(0, 3); x < network.devices(); x += stride) {
        members.push_back(x);
      }
    } else {
      for (std::int64_t x = 0; x < network.devices(); ++x) {
        if (dice.chance(30)) members.push_back(x);
      }
    }
    if (members.empty()) continue;
    std::set<std::set<std::int64_t>> indices;
    std::set<std::int64_t> node;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m > 0 && tree.level(members[m - 1], members[m]) > 0) {
        indices.insert(node);
        node.clear();
      }
      node.insert(local[static_cast<std::size_t>(members[m])]);
    }
    indices.insert(node);
    GroupShape expected = tree.shape(members);
    expected.push_back(indices.size() > 1 ? 1 : 0);
    ASSERT_EQ(network.shape(members), expected) << "instance " << i;
    ++(indices.size() > 1 ? mixed : aligned);
    // Changing rails never comes cheaper.
    GroupShape straight = expected;
    straight.back() = 0;
    for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllToAll}) {
      ASSERT_GE(network.collective_s(op, 1e6, expected), network.collective_s(op, 1e6, straight));
      ASSERT_EQ(network.collective_s(op, 1e6, straight),
                tree.collective_s(op, 1e6, tree.shape(members)));
    }
  }
  EXPECT_GT(mixed, 0);
  EXPECT_GT(aligned, 0);
}

TEST(Rails, ShapesRepeatWhereItSaysSo) {
  Dice dice(4);
  int repeated = 0;
  for (std::uint64_t i = 0; i < testing::seeds(4'000); ++i) {
    const UnevenHierarchy network(random_spec(dice));
    const PodLayout pods = testing::random_pods(dice, network.devices());
    const std::int64_t unit = dice.between(1, pods.pod_size);
    for (const bool across_pods : {false, true}) {
      if (!network.shapes_repeat(pods, unit, across_pods)) continue;
      ++repeated;
      testing::expect_shapes_repeat(network, pods, unit, across_pods);
      ASSERT_FALSE(HasFailure()) << "instance " << i << ": " << pods.pods << " pods of "
                                 << pods.pod_size << ", unit " << unit;
    }
    const std::int64_t period = network.shape_period();
    Devices members, shifted;
    for (std::int64_t x = 0; x + period < network.devices(); ++x) {
      if (!dice.chance(30)) continue;
      members.push_back(x);
      shifted.push_back(x + period);
    }
    if (members.empty()) continue;
    ASSERT_EQ(network.shape(members), network.shape(shifted)) << "instance " << i;
  }
  EXPECT_GT(repeated, 0);
}

TEST(Rails, RowsBelowAClassLieWithinItsReach) {
  Dice dice(5);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const UnevenHierarchy network(random_spec(dice));
    for (int level = 1; level < network.levels(); ++level) {
      // The farthest that a row of neighbours can get from each device.
      std::vector<std::int64_t> end(static_cast<std::size_t>(network.devices()));
      std::int64_t longest = 0;
      for (std::int64_t a = network.devices() - 1; a >= 0; --a) {
        std::int64_t& farthest = end[static_cast<std::size_t>(a)];
        farthest = a;
        for (std::int64_t b = a + 1; b < network.devices(); ++b) {
          if (network.level(a, b) >= level) continue;
          farthest = std::max(farthest, end[static_cast<std::size_t>(b)]);
        }
        longest = std::max(longest, farthest - a + 1);
      }
      ASSERT_LE(longest, network.reach(level)) << "instance " << i << " class " << level;
    }
  }
}

}  // namespace
}  // namespace nestplan::network
