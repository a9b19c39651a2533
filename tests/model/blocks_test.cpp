#include "nestplan/model/blocks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "nestplan/util/errors.hpp"

namespace nestplan::model {
namespace {

using Lists = std::vector<std::vector<std::int64_t>>;

/// Two racks, of three nodes and of one, with 2, 1, 4 and 2 places.
HierarchySpec uneven() {
  HierarchySpec network{"hierarchical-ring", {{"node", 4}, {"rack", 3}, {"spine", 2}}};
  network.levels[0].fanouts = {2, 1, 4, 2};
  network.levels[1].fanouts = {3, 1};
  return network;
}

TEST(Blocks, EndWhereTheirCountsAddUpTo) {
  EXPECT_EQ(block_counts(uneven()), (Lists{{2, 1, 4, 2}, {3, 1}, {2}}));
  EXPECT_EQ(block_ends(uneven()), (Lists{{2, 3, 7, 9}, {7, 9}, {9}}));
  const HierarchySpec even{"hierarchical-ring", {{"node", 4}, {"spine", 3}}};
  EXPECT_EQ(block_counts(even), (Lists{{4, 4, 4}, {3}}));
  EXPECT_EQ(block_ends(even), (Lists{{4, 8, 12}, {12}}));
}

TEST(Blocks, AreRefusedWhereTheyDoNotAddUp) {
  HierarchySpec network = uneven();
  network.levels[0].fanouts.pop_back();
  EXPECT_THROW(block_counts(network), InvalidInput);
  const HierarchySpec endless{"hierarchical-ring", {{"node", 1}, {"spine", 1 << 27}}};
  EXPECT_THROW(block_ends(endless), InvalidInput);
}

TEST(Hosts, AreThoseOfTheirPlaces) {
  Cluster cluster;
  cluster.network = uneven();
  EXPECT_EQ(hosts_of_places(cluster), (std::vector<std::int64_t>{0, 0, 1, 2, 2, 2, 2, 3, 3}));
  cluster.hosts = {{"a", 3}, {"b", 6}};
  EXPECT_EQ(hosts_of_places(cluster), (std::vector<std::int64_t>{0, 0, 0, 1, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace nestplan::model
