#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nestplan/network/torus.hpp"
#include "nestplan/util/errors.hpp"
#include "network/torus_samples.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::network {
namespace {

using testing::Dice;
using testing::random_torus;
using testing::torus_of;

using Places = std::vector<std::int64_t>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Whether the places are all those of a box, and its extents.
bool is_box(const TorusGrid& grid, const Places& places, Places& extents) {
  std::int64_t volume = 1;
  extents.clear();
  for (std::size_t d = 0; d < grid.dimensions(); ++d) {
    std::int64_t least = grid.coordinate(places.front(), d), most = least;
    for (const std::int64_t place : places) {
      least = std::min(least, grid.coordinate(place, d));
      most = std::max(most, grid.coordinate(place, d));
    }
    extents.push_back(most - least + 1);
    volume *= extents.back();
  }
  return volume == std::ssize(places);  // they are distinct
}

TEST(TorusOrder, IsABijection) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const model::TorusSpec spec = random_torus(dice, 500);
    const TorusGrid grid(spec);
    std::set<Places> seen;
    for (std::int64_t place = 0; place < grid.places(); ++place) {
      const Places coordinates = grid.coordinates(place);
      for (std::size_t d = 0; d < coordinates.size(); ++d) {
        ASSERT_GE(coordinates[d], 0);
        ASSERT_LT(coordinates[d], spec.dimensions[d].size);
        ASSERT_EQ(grid.coordinate(place, d), coordinates[d]);
      }
      ASSERT_EQ(grid.place(coordinates), place);
      ASSERT_TRUE(seen.insert(coordinates).second);
    }
  }
}

TEST(TorusOrder, AlignedBlocksAreBoxesAlike) {
  Dice dice(2);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const TorusGrid grid(random_torus(dice, 500));
    const auto sizes = grid.block_sizes();
    ASSERT_EQ(sizes.front(), 1);
    ASSERT_EQ(sizes.back(), grid.places());
    for (std::size_t s = 0; s < sizes.size(); ++s) {
      for (std::int64_t first = 0; first < grid.places(); first += sizes[s]) {
        Places block(at(sizes[s])), extents;
        std::iota(block.begin(), block.end(), first);
        ASSERT_TRUE(is_box(grid, block, extents)) << "instance " << i << " block of " << sizes[s];
        const auto expected = grid.extents(s);
        ASSERT_TRUE(std::equal(extents.begin(), extents.end(), expected.begin(), expected.end()));
      }
    }
  }
}

TEST(TorusOrder, DevicesABlockApartAreSubLattices) {
  // Those at one index of their tensor groups, wherever the stage is.
  Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const TorusGrid grid(random_torus(dice, 500));
    const auto sizes = grid.block_sizes();
    const std::int64_t stage = sizes[at(dice.between(0, std::ssize(sizes) - 1))];
    const std::int64_t start = dice.between(0, grid.places() / stage - 1) * stage;
    for (const std::int64_t tensor : sizes) {
      if (tensor > stage) break;
      for (std::int64_t t = 0; t < tensor; ++t) {
        Places group;
        for (std::int64_t x = start + t; x < start + stage; x += tensor) group.push_back(x);
        ASSERT_TRUE(grid.box(group)) << "instance " << i << ": " << t << " of " << tensor;
      }
    }
  }
}

TEST(TorusOrder, GoesFromHostsOverCubesToTheWhole) {
  const TorusGrid grid(torus_of({16, 16, 16}, true, {2, 2, 1}, {4, 4, 4}));
  const auto sizes = grid.block_sizes();
  const Places expected{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  EXPECT_TRUE(std::equal(sizes.begin(), sizes.end(), expected.begin(), expected.end()));
  const auto box = [&grid](std::size_t index) {
    const auto extents = grid.extents(index);
    return Places(extents.begin(), extents.end());
  };
  EXPECT_EQ(box(2), Places({2, 2, 1}));
  EXPECT_EQ(box(3), Places({2, 2, 2}));
  EXPECT_EQ(box(6), Places({4, 4, 4}));
  EXPECT_EQ(box(9), Places({8, 8, 8}));

  // Odd factors come last, so that powers of two are blocks as far as they can be.
  const TorusGrid uneven(torus_of({16, 20, 28}, true, {2, 2, 1}, {4, 4, 4}));
  for (const std::int64_t size : {64, 128, 256, 256 * 5, 256 * 5 * 7}) {
    const auto blocks = uneven.block_sizes();
    EXPECT_TRUE(std::binary_search(blocks.begin(), blocks.end(), size)) << size;
  }
}

/// Product of random progressions along all dimensions.
Places random_lattice(Dice& dice, const TorusGrid& grid, const model::TorusSpec& spec,
                      std::int64_t most) {
  std::vector<Places> rows{{}};
  for (const model::TorusDimension& dimension : spec.dimensions) {
    const std::int64_t largest = std::min<std::int64_t>(dimension.size, most / std::ssize(rows));
    const std::int64_t members = dice.between(1, std::max<std::int64_t>(1, largest));
    const std::int64_t stride =
        members == 1 ? 1 : dice.between(1, (dimension.size - 1) / (members - 1));
    const std::int64_t first = dice.between(0, dimension.size - 1 - (members - 1) * stride);
    std::vector<Places> next;
    for (const Places& row : rows) {
      for (std::int64_t j = 0; j < members; ++j) {
        next.push_back(row);
        next.back().push_back(first + j * stride);
      }
    }
    rows = std::move(next);
  }
  Places places;
  for (const Places& coordinates : rows) places.push_back(grid.place(coordinates));
  std::sort(places.begin(), places.end());
  return places;
}

/// Steps between two members that count as one hop: a stride along one row, or from end to end of
/// a closed one.
bool neighbours(const TorusGrid& grid, const TorusBox& box, std::int64_t a, std::int64_t b) {
  std::int64_t steps = 0;
  for (std::size_t d = 0; d < box.size(); ++d) {
    const std::int64_t offset =
        std::abs(grid.coordinate(a, d) - grid.coordinate(b, d)) / box[d].stride;
    steps += box[d].closed ? std::min(offset, box[d].members - offset) : offset;
  }
  return steps == 1;
}

/// Searches for a ring with neighbours only that goes on from the last of `walk`.
bool can_close(const TorusGrid& grid, const TorusBox& box, const Places& members, Places& walk,
               std::set<std::int64_t>& left) {
  if (left.empty()) return neighbours(grid, box, walk.back(), walk.front());
  for (const std::int64_t next : members) {
    if (!left.contains(next) || !neighbours(grid, box, walk.back(), next)) continue;
    walk.push_back(next);
    left.erase(next);
    const bool found = can_close(grid, box, members, walk, left);
    left.insert(next);
    walk.pop_back();
    if (found) return true;
  }
  return false;
}

TEST(TorusRing, HasNeighboursOnlyWhereThereIsACycle) {
  Dice dice(4);
  int with = 0, without = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const model::TorusSpec spec = random_torus(dice, 200);
    const TorusGrid grid(spec);
    const bool searched = dice.chance(70);
    const Places members = random_lattice(dice, grid, spec, searched ? 16 : 100);
    if (members.size() < 2) continue;
    const auto box = grid.box(members);
    ASSERT_TRUE(box) << "instance " << i;
    const Places ring = grid.ring(members);
    Places sorted = ring;
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(sorted, members) << "instance " << i;
    int longer = 0;
    for (std::size_t r = 0; r < ring.size(); ++r) {
      longer += neighbours(grid, *box, ring[r], ring[(r + 1) % ring.size()]) ? 0 : 1;
    }
    std::vector<std::int64_t> counts;
    std::array<bool, kMostTorusDimensions> closed{};
    for (const TorusRow& row : *box) {
      closed[counts.size()] = row.closed;
      counts.push_back(row.members);
    }
    const bool cycle = has_cycle(counts, std::span(closed).first(counts.size()));
    ASSERT_EQ(longer, cycle ? 0 : 1) << "instance " << i << " of " << members.size();
    ++(cycle ? with : without);
    if (!searched || cycle) continue;
    Places walk{members.front()};
    std::set<std::int64_t> left(members.begin() + 1, members.end());
    ASSERT_FALSE(can_close(grid, *box, members, walk, left)) << "instance " << i;
  }
  EXPECT_GT(with, 0);
  EXPECT_GT(without, 0);
}

TEST(TorusRing, OfOddRowsHasOneStepOfTwoHops) {
  const TorusGrid grid(torus_of({3, 5, 3}, false));
  Places all(at(grid.places()));
  std::iota(all.begin(), all.end(), 0);
  const Places ring = grid.ring(all);
  std::multiset<std::int64_t> hops;
  for (std::size_t r = 0; r < ring.size(); ++r) {
    std::int64_t step = 0;
    for (std::size_t d = 0; d < 3; ++d) {
      step += grid.hops(d, grid.coordinate(ring[r], d),
                        grid.coordinate(ring[(r + 1) % ring.size()], d));
    }
    hops.insert(step);
  }
  EXPECT_EQ(hops.count(1), 44U);
  EXPECT_EQ(hops.count(2), 1U);
}

TEST(TorusRing, GroupsThatAreNoProductKeepTheOrderOfTheirPlaces) {
  const TorusGrid grid(torus_of({4, 4}, true));
  EXPECT_FALSE(grid.box(Places{0, 3, 5}));
  EXPECT_EQ(grid.ring(Places{5, 0, 3}), Places({0, 3, 5}));
  EXPECT_EQ(grid.ring(Places{7}), Places({7}));
}

TEST(TorusBoxes, OfWholeCubesCloseTheirRows) {
  const TorusGrid grid(torus_of({8, 8, 8}, false, {2, 2, 1}, {4, 4, 4}));
  const auto closed = [&grid](std::int64_t first, std::int64_t members, std::int64_t step) {
    Places places;
    for (std::int64_t i = 0; i < members; ++i) places.push_back(first + i * step);
    const auto box = grid.box(places);
    EXPECT_TRUE(box);
    return std::all_of(box->begin(), box->end(), [](const TorusRow& row) { return row.closed; });
  };
  EXPECT_TRUE(closed(64, 64, 1)) << "a cube";
  EXPECT_TRUE(closed(0, 128, 1)) << "two";
  EXPECT_TRUE(closed(3, 128, 4)) << "one device of every host of all";
  EXPECT_FALSE(closed(0, 32, 1)) << "half a cube";
  EXPECT_FALSE(closed(0, 16, 1)) << "a quarter";
  const TorusGrid half(torus_of({4, 4, 8}, false, {}, {4, 4, 4}));
  Places off;  // a cube's size across the border between two
  for (std::int64_t place = 0; place < half.places(); ++place) {
    if (half.coordinate(place, 2) >= 2 && half.coordinate(place, 2) < 6) off.push_back(place);
  }
  ASSERT_TRUE(half.box(off));
  EXPECT_FALSE(half.box(off)->front().closed);
}

// Eight chips as 4x2 on hosts of 2x2 without wraparound.
TEST(TorusSlices, MustNotCutHosts) {
  const model::TorusSpec spec = torus_of({4, 2}, false, {2, 2});
  const auto cut = slice_problem(spec, Places{4, 1});
  ASSERT_TRUE(cut);
  EXPECT_EQ(*cut, "4x1 cuts hosts of 2x2 in b (the next larger that does not: 4x2)");
  EXPECT_FALSE(slice_problem(spec, Places{2, 2}));
  EXPECT_FALSE(slice_problem(spec, Places{4, 2}));
  EXPECT_EQ(slice_problem(spec, Places{4, 4}), "4x4 does not lie in 4x2: b must be 1 to 2");
  EXPECT_EQ(slice_problem(spec, Places{8}), "8 has 1 dimensions, but the torus of 4x2 has 2");
  EXPECT_FALSE(slice_problem(torus_of({4, 2}, false), Places{4, 1})) << "no hosts to cut";
}

TEST(TorusSlices, RingOfEightGoesAlongOneRowAndBackAlongTheOther) {
  const TorusGrid grid(torus_of({4, 2}, false, {2, 2}));
  const Places ring = grid.ring(Places{0, 1, 2, 3, 4, 5, 6, 7});
  for (std::size_t r = 0; r < ring.size(); ++r) {
    const std::int64_t next = ring[(r + 1) % ring.size()];
    EXPECT_EQ(grid.hops(0, grid.coordinate(ring[r], 0), grid.coordinate(next, 0)) +
                  grid.hops(1, grid.coordinate(ring[r], 1), grid.coordinate(next, 1)),
              1);
  }
}

TEST(TorusSlices, DegreesFitEachNetworkByItself) {
  const auto problem = [](std::int64_t slow, std::int64_t fast) {
    return slice_degrees_problem(2, 8, Places{slow}, Places{fast});
  };
  EXPECT_FALSE(problem(2, 8));
  EXPECT_EQ(problem(1, 16),
            "degrees over the network between slices make 1, but there are 2 slices");
  EXPECT_TRUE(problem(4, 4));
  EXPECT_EQ(problem(2, 4), "degrees inside slices make 4, but a slice has 8 chips");
  EXPECT_FALSE(slice_degrees_problem(2, 8, Places{1, 2}, Places{4, 2}));
}

TEST(TorusGrids, ThatCannotBeAreRefused) {
  const auto message = [](const model::TorusSpec& spec) {
    try {
      const TorusGrid grid(spec);
    } catch (const InvalidInput& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message(torus_of({}, true)), "network.dimensions: there must be 1 to 6, not 0");
  EXPECT_EQ(message(torus_of({2, 2, 2, 2, 2, 2, 2}, true)),
            "network.dimensions: there must be 1 to 6, not 7");
  EXPECT_NE(message(torus_of({4, 0}, true)), "");
  EXPECT_NE(message(torus_of({4096, 4096}, true)), "");
  EXPECT_EQ(message(torus_of({4, 4}, true, {3, 1})),
            "network.host: 3x1 does not divide the whole of 4x4");
  EXPECT_EQ(message(torus_of({8, 8}, true, {4, 4}, {4, 2})),
            "network.host: 4x4 does not divide the cube of 4x2");
  EXPECT_NE(message(torus_of({8, 8}, true, {}, {4})), "");
}

}  // namespace
}  // namespace nestplan::network
