#include "network/available.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "network/hierarchy.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::network {
namespace {

using testing::Dice;

model::Cluster random_cluster(Dice& dice) {
  model::Cluster cluster;
  model::HierarchySpec spec;
  for (std::int64_t levels = dice.between(1, 3); levels > 0; --levels) {
    spec.levels.push_back({"level", dice.between(1, 5), 1e9 * static_cast<double>(levels), 1e-6,
                           dice.pick({1.0, 2.0})});
  }
  cluster.network = spec;
  return cluster;
}

TEST(Available, DevicesAreTheAvailablePlacesInOrder) {
  model::Cluster cluster;
  cluster.network =
      model::HierarchySpec{"hierarchical-ring", {{"node", 4, 1e11, 0, 1}, {"leaf", 3, 1e10, 0, 1}}};
  cluster.unavailable = {{1, 1}, {6, 2}};
  EXPECT_EQ(cluster.devices(), 9);
  EXPECT_EQ(cluster.places_of_devices(), (std::vector<std::int64_t>{0, 2, 3, 4, 5, 8, 9, 10, 11}));
  const auto network = make_network(cluster);
  EXPECT_EQ(network->devices(), 9);
  EXPECT_EQ(network->level(0, 2), 0);  // places 0 and 3
  EXPECT_EQ(network->level(2, 3), 1);  // places 3 and 4
  EXPECT_EQ(network->level(5, 8), 0);  // places 8 and 11
  EXPECT_EQ(network->shape(std::vector<std::int64_t>{0, 1, 3, 5}), (GroupShape{2, 3}));
  std::vector<std::int64_t> starts;
  network->append_starts({9, 1, 9}, 4, starts);  // behind place 4: the node from place 8
  EXPECT_EQ(std::set<std::int64_t>(starts.begin(), starts.end()), (std::set<std::int64_t>{5, 9}));
  cluster.limit = 7;
  EXPECT_EQ(make_network(cluster)->devices(), 7);
}

TEST(Available, HolesAtTheEndAreASmallerCluster) {
  for (std::uint64_t seed = 0; seed < testing::seeds(200); ++seed) {
    Dice dice(seed);
    model::Cluster holes = random_cluster(dice);
    const std::int64_t places = holes.places();
    if (places < 2) continue;
    model::Cluster smaller = holes;
    smaller.limit = dice.between(1, places - 1);
    holes.unavailable = {{*smaller.limit, places - *smaller.limit}};
    ASSERT_EQ(holes.places_of_devices(), smaller.places_of_devices());
    const auto a = make_network(holes);
    const auto b = make_network(smaller);
    ASSERT_EQ(a->devices(), b->devices());
    const std::int64_t n = a->devices();
    const std::int64_t pods = dice.between(1, n);
    const PodLayout layout{n, pods, n / pods};
    for (int round = 0; round < 20; ++round) {
      const std::int64_t end = dice.between(0, layout.pod_size - 1);
      std::vector<std::int64_t> left, right;
      a->append_starts(layout, end, left);
      b->append_starts(layout, end, right);
      // What does not lie inside the pod does not matter.
      const auto inside = [&](const std::vector<std::int64_t>& starts) {
        std::set<std::int64_t> set(starts.begin(), starts.end());
        std::erase_if(set, [&](std::int64_t x) { return x >= layout.pod_size; });
        return set;
      };
      EXPECT_EQ(inside(left), inside(right)) << "seed " << seed;
      const std::int64_t unit = dice.between(1, layout.pod_size);
      const std::int64_t from = dice.between(0, layout.pod_size - unit);
      const std::int64_t to = dice.between(from + unit, layout.pod_size);
      EXPECT_EQ(a->link_level(layout, from, to, unit), b->link_level(layout, from, to, unit));
      std::vector<std::int64_t> members;
      for (std::int64_t d = 0; d < n; ++d) {
        if (dice.chance(50)) members.push_back(d);
      }
      if (members.empty()) continue;
      EXPECT_EQ(a->shape(members), b->shape(members));
    }
  }
}

}  // namespace
}  // namespace nestplan::network
