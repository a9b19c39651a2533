#include "network/torus.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "network/torus_samples.hpp"
#include "support/dice.hpp"
#include "support/seeds.hpp"

namespace nestplan::network {
namespace {

using model::CollectiveOp;
using testing::Dice;
using testing::random_torus;
using testing::torus_of;

using Places = std::vector<std::int64_t>;

constexpr CollectiveOp kOps[] = {CollectiveOp::kAllReduce, CollectiveOp::kAllGather,
                                 CollectiveOp::kReduceScatter, CollectiveOp::kAllToAll};
const std::vector<std::string> kAlgorithms{"auto", "dimension-wise", "all-dimensions", "ring"};

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

PodLayout random_pods(Dice& dice, std::int64_t devices) {
  const std::int64_t pods = dice.chance(50) ? dice.between(1, devices)
                                            : dice.between(1, std::min<std::int64_t>(devices, 8));
  return {devices, pods, devices / pods};
}

/// `members` devices `step` apart from `first` on.
Places row_of(std::int64_t first, std::int64_t members, std::int64_t step) {
  Places places;
  for (std::int64_t i = 0; i < members; ++i) places.push_back(first + i * step);
  return places;
}

Places random_group(Dice& dice, std::int64_t devices) {
  if (dice.chance(70)) {  // as stages have them
    const std::int64_t members = dice.between(1, devices);
    const std::int64_t step = members == 1 ? 1 : dice.between(1, (devices - 1) / (members - 1));
    return row_of(dice.between(0, devices - 1 - (members - 1) * step), members, step);
  }
  const int percent = static_cast<int>(dice.between(1, 100));
  Places places;
  for (std::int64_t x = 0; x < devices; ++x) {
    if (dice.chance(percent)) places.push_back(x);
  }
  if (places.empty()) places.push_back(dice.between(0, devices - 1));
  return places;
}

TEST(TorusLevel, IsSymmetricAndFartherIsSlower) {
  Dice dice(1);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const TorusNetwork network(random_torus(dice, 400));
    if (network.devices() < 2) continue;
    std::set<int> met;
    for (std::int64_t b = 1; b < network.devices(); ++b) {
      const std::int64_t a = dice.between(0, b - 1);
      const int level = network.level(a, b);
      ASSERT_EQ(level, network.level(b, a));
      ASSERT_GE(level, 0);
      ASSERT_LT(level, network.levels());
      met.insert(level);
      ASSERT_FALSE(network.level_name(level).empty());
    }
    // Slices are the last level whatever their bandwidth.
    const int levels =
        network.levels() - (network.level_name(network.levels() - 1) == "between slices" ? 1 : 0);
    for (int level = 1; level < levels; ++level) {
      const double less = network.transfer_s(1e15, level - 1, network.devices());
      ASSERT_GE(network.transfer_s(1e15, level, network.devices()), less * (1 - 1e-9));
    }
  }
}

TEST(TorusLevel, HoldsItsPairs) {
  // A level's time is the pair's own by the formula, or more where hops are rounded.
  Dice dice(2);
  int exact = 0;
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    const model::TorusSpec spec = random_torus(dice, 400);
    const TorusNetwork network(spec);
    const TorusGrid& grid = network.grid();
    if (network.devices() < 2) continue;
    const double bytes = 1e6;
    for (int pair = 0; pair < 20; ++pair) {
      const std::int64_t a = dice.between(0, network.devices() - 1);
      const std::int64_t b = dice.between(0, network.devices() - 1);
      if (a == b) continue;
      double fixed = 0, load = 0;
      const std::size_t last = grid.dimensions() - 1;
      if (grid.is_switched(last) && grid.coordinate(a, last) != grid.coordinate(b, last)) {
        ASSERT_EQ(network.level(a, b), network.levels() - 1);
        ASSERT_DOUBLE_EQ(network.transfer_s(bytes, network.level(a, b), 1), 10e-6 + bytes / 6.25e9);
        continue;
      }
      for (std::size_t d = 0; d < grid.dimensions(); ++d) {
        const auto hops =
            static_cast<double>(grid.hops(d, grid.coordinate(a, d), grid.coordinate(b, d)));
        const model::TorusDimension& dimension = spec.dimensions[d];
        fixed += hops * dimension.latency_s;
        load = std::max(load, hops / (dimension.bandwidth * (1 - dimension.background)));
      }
      const double own = fixed + bytes * load;
      const double time = network.transfer_s(bytes, network.level(a, b), network.devices());
      ASSERT_GE(time, own * (1 - 1e-9)) << "instance " << i;
      exact += std::abs(time - own) < 1e-9 * own;
    }
  }
  EXPECT_GT(exact, 0);
}

TEST(TorusTransfer, IsSharedByAsManyAsAreInARow) {
  const TorusNetwork network(torus_of({8, 8}, true));
  const TorusGrid& grid = network.grid();
  const auto time = [&](std::int64_t x, std::int64_t y, std::int64_t unit) {
    return network.transfer_s(45e9, network.level(0, grid.place(Places{x, y})), unit);
  };
  EXPECT_DOUBLE_EQ(time(1, 0, 64), 1e-6 + 1);
  EXPECT_DOUBLE_EQ(time(4, 0, 16), 4e-6 + 4);  // boxes of 4x4
  EXPECT_DOUBLE_EQ(time(4, 0, 4), 4e-6 + 2);   // of 2x2
  EXPECT_DOUBLE_EQ(time(4, 0, 1), 4e-6 + 1);
  EXPECT_DOUBLE_EQ(time(4, 4, 16), 8e-6 + 4);
  EXPECT_DOUBLE_EQ(time(7, 7, 64), 2e-6 + 1);  // the other way round
  EXPECT_EQ(network.transfer_s(0, 0, 1), 0);
}

TEST(TorusTransfer, NeverFallsWhenMoreDevicesSend) {
  Dice dice(3);
  for (std::uint64_t i = 0; i < testing::seeds(300); ++i) {
    const TorusNetwork network(random_torus(dice, 200));
    for (int level = 0; level < network.levels(); ++level) {
      double before = 0;
      for (std::int64_t unit = 1; unit <= network.devices(); ++unit) {
        const double now = network.transfer_s(1e7, level, unit);
        ASSERT_GE(now, before) << "instance " << i << " level " << level << " unit " << unit;
        before = now;
      }
    }
  }
}

TEST(TorusLinkLevel, IsTheWorstOfAllPairs) {
  Dice dice(4);
  int regular = 0;
  for (std::uint64_t i = 0; i < testing::seeds(10'000); ++i) {
    const TorusNetwork network(random_torus(dice, dice.chance(20) ? 400 : 60));
    PodLayout pods = random_pods(dice, network.devices());
    const auto blocks = network.grid().block_sizes();
    const bool aligned = dice.chance(50);
    if (aligned) pods.pod_size = dice.pick(Places(blocks.begin(), blocks.end()));
    pods.pods = std::min(pods.pods, pods.devices / pods.pod_size);
    if (pods.pod_size < 2) continue;
    const std::int64_t from = dice.between(0, pods.pod_size - 2);
    const std::int64_t unit = dice.between(1, pods.pod_size - from - 1);
    const std::int64_t to = dice.between(from + unit, pods.pod_size - 1);
    ASSERT_EQ(network.link_level(pods, from, to, unit),
              network.Network::link_level(pods, from, to, unit))
        << "instance " << i << ": " << pods.pods << " pods of " << pods.pod_size << ", from "
        << from << " to " << to << ", unit " << unit;
    regular += aligned && pods.pods > 1;
  }
  EXPECT_GT(regular, 0);
}

TEST(TorusShape, DoesNotChangeWhenShiftedByAPeriod) {
  Dice dice(5);
  int shifted_groups = 0;
  for (std::uint64_t i = 0; i < testing::seeds(10'000); ++i) {
    const TorusNetwork network(random_torus(dice, 200));
    const std::int64_t period = network.shape_period();
    if (network.devices() <= period) continue;
    const std::int64_t shift = dice.between(1, (network.devices() - 1) / period) * period;
    const Places members = random_group(dice, network.devices() - shift);
    Places shifted = members;
    for (std::int64_t& member : shifted) member += shift;
    ASSERT_EQ(network.shape(members), network.shape(shifted)) << "instance " << i;
    ++shifted_groups;
  }
  EXPECT_GT(shifted_groups, 0);
}

TEST(TorusShape, PeriodOfARingIsOne) {
  EXPECT_EQ(TorusNetwork(torus_of({12}, true)).shape_period(), 1);
  EXPECT_EQ(TorusNetwork(torus_of({12}, true, {2}, {4})).shape_period(), 4);
  EXPECT_EQ(TorusNetwork(torus_of({16, 16, 16}, true)).shape_period(), 2048);
}

/// Shapes of the groups of a stage of `tp·cp·inner` devices, from their definitions.
struct Stage {
  std::int64_t tp, cp, inner;

  using Shapes = std::set<GroupShape>;

  std::int64_t copies() const { return cp * inner; }

  Shapes inside(const Network& network, std::int64_t start) const {
    Shapes shapes;
    for (std::int64_t g = 0; g < copies(); ++g) {
      shapes.insert(network.shape(row_of(start + g * tp, tp, 1)));
    }
    for (std::int64_t replica = 0; replica < inner; ++replica) {
      for (std::int64_t t = 0; t < tp; ++t) {
        shapes.insert(network.shape(row_of(start + replica * cp * tp + t, cp, tp)));
      }
    }
    return shapes;
  }

  /// Over all pods: the shard groups, and `ep` consecutive members of them.
  Shapes across(const Network& network, const PodLayout& pods, std::int64_t position,
                std::int64_t ep) const {
    Shapes shapes;
    for (std::int64_t t = 0; t < tp; ++t) {
      Places group;
      for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
        const Places part = row_of(pod * pods.pod_size + position + t, copies(), tp);
        group.insert(group.end(), part.begin(), part.end());
      }
      shapes.insert(network.shape(group));
      for (std::int64_t first = 0; first + ep <= std::ssize(group); first += ep) {
        shapes.insert(network.shape(std::span(group).subspan(at(first), at(ep))));
      }
      for (std::int64_t index = 0; index < ep; ++index) {
        Places peers;
        for (std::int64_t i = index; i < std::ssize(group); i += ep) peers.push_back(group[at(i)]);
        if (!peers.empty()) shapes.insert(network.shape(peers));
      }
    }
    return shapes;
  }
};

TEST(TorusShape, RepeatsWhereItSaysSo) {
  Dice dice(6);
  int inside = 0, across = 0;
  for (std::uint64_t i = 0; i < testing::seeds(3'000); ++i) {
    const TorusNetwork network(random_torus(dice, 100));
    PodLayout pods = random_pods(dice, network.devices());
    const auto blocks = network.grid().block_sizes();
    if (dice.chance(50)) pods.pod_size = dice.pick(Places(blocks.begin(), blocks.end()));
    pods.pods = std::min(pods.pods, pods.devices / pods.pod_size);
    const std::int64_t unit = dice.chance(50) ? dice.between(1, pods.pod_size)
                                              : testing::random_divisor(dice, pods.pod_size);
    const std::int64_t tp = testing::random_divisor(dice, unit);
    const std::int64_t cp = testing::random_divisor(dice, unit / tp);
    const Stage stage{tp, cp, unit / tp / cp};
    const std::int64_t ep = dice.pick({1, 2, 3, 4, 8});
    for (const bool across_pods : {false, true}) {
      if (!network.shapes_repeat(pods, unit, across_pods)) continue;
      ++(across_pods ? across : inside);
      for (std::int64_t x = 0; x + unit <= pods.pod_size; x += unit) {
        for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
          ASSERT_EQ(stage.inside(network, pod * pods.pod_size + x), stage.inside(network, 0))
              << "instance " << i << " unit " << unit << " at " << x << " of pod " << pod;
        }
        if (!across_pods) continue;
        ASSERT_EQ(stage.across(network, pods, x, ep), stage.across(network, pods, 0, ep))
            << "instance " << i << " unit " << unit << " at " << x;
      }
    }
  }
  EXPECT_GT(inside, 0);
  EXPECT_GT(across, 0);
}

TEST(TorusShape, RepeatsOnAlignedPowersOfTwo) {
  // Saying "no" is always safe, but would make every search slow.
  const TorusNetwork network(torus_of({16, 16, 16}, true, {2, 2, 1}, {4, 4, 4}));
  for (std::int64_t pod = 1; pod <= 4096; pod *= 2) {
    for (std::int64_t unit = 1; unit <= pod; unit *= 2) {
      EXPECT_TRUE(network.shapes_repeat({4096, 4096 / pod, pod}, unit, true)) << unit << ' ' << pod;
    }
  }
  EXPECT_FALSE(network.shapes_repeat({4096, 1, 4096}, 3, false));
  const TorusNetwork ring(torus_of({12}, true));
  EXPECT_TRUE(ring.shapes_repeat({12, 2, 6}, 3, true));
}

TEST(TorusDomain, IsTheInnermostThatHoldsTheGroup) {
  const TorusNetwork network(torus_of({8, 8, 8}, true, {2, 2, 1}, {4, 4, 4}));
  EXPECT_EQ(network.domains(), std::vector<std::string>({"host", "cube", "torus"}));
  const auto domain = [&](std::int64_t first, std::int64_t members, std::int64_t step) {
    return network.domain(network.shape(row_of(first, members, step)));
  };
  EXPECT_EQ(domain(4, 4, 1), 0);
  EXPECT_EQ(domain(3, 2, 1), 1);
  EXPECT_EQ(domain(64, 16, 4), 1);
  EXPECT_EQ(domain(63, 2, 1), 2);
  EXPECT_EQ(domain(0, 3, 100), 2);
  EXPECT_EQ(TorusNetwork(torus_of({4, 4}, false)).domains(), std::vector<std::string>({"torus"}));
}

TEST(TorusDomain, ByBruteForce) {
  Dice dice(7);
  for (std::uint64_t i = 0; i < testing::seeds(1'000); ++i) {
    const model::TorusSpec spec = random_torus(dice, 200);
    const TorusNetwork network(spec);
    const TorusGrid& grid = network.grid();
    const Places members = random_group(dice, network.devices());
    const auto within = [&](const std::vector<std::int64_t>& box) {
      for (const std::int64_t member : members) {
        for (std::size_t d = 0; d < box.size(); ++d) {
          if (grid.coordinate(member, d) / box[d] != grid.coordinate(members.front(), d) / box[d]) {
            return false;
          }
        }
      }
      return true;
    };
    const bool slices = spec.dimensions.back().switched;
    std::string expected = slices ? "slices" : "torus";
    std::vector<std::int64_t> slice(spec.dimensions.size(), 1'000'000);
    slice.back() = 1;
    if (slices && within(slice)) expected = "slice";
    if (!spec.cube.empty() && within(spec.cube)) expected = "cube";
    if (!spec.host.empty() && within(spec.host)) expected = "host";
    ASSERT_EQ(network.domains()[at(network.domain(network.shape(members)))], expected)
        << "instance " << i;
  }
}

TEST(TorusStarts, AreBoundariesOfBoxes) {
  const TorusNetwork network(torus_of({4, 4}, true, {2, 2}));
  std::vector<std::int64_t> starts;
  network.append_starts({16, 1, 16}, 5, starts);
  std::sort(starts.begin(), starts.end());
  EXPECT_EQ(starts, Places({5, 6, 8, 8, 16}));
}

/// Seconds of all collectives over a group.
double seconds(const Network& network, CollectiveOp op, const Places& members, double bytes) {
  return network.collective_s(op, bytes, network.shape(members));
}

TEST(TorusCollectives, OfOneDimensionAreARings) {
  for (const std::string& algorithm : kAlgorithms) {
    for (const std::int64_t n : {3, 4, 7, 8}) {
      model::TorusSpec spec = torus_of({n}, true);
      spec.collectives = algorithm;
      const TorusNetwork ring(spec);
      spec.dimensions[0].wrap = false;
      const TorusNetwork line(spec);
      const Places all = row_of(0, n, 1);
      const auto m = static_cast<double>(n);
      const double v = 1e9, w = 45e9, a = 1e-6;
      const auto half = static_cast<double>(n / 2);
      const double gather = (m - 1) / m * v / (2 * w) + half * a;
      EXPECT_DOUBLE_EQ(seconds(ring, CollectiveOp::kAllGather, all, v), gather);
      EXPECT_DOUBLE_EQ(seconds(ring, CollectiveOp::kReduceScatter, all, v), gather);
      EXPECT_DOUBLE_EQ(seconds(ring, CollectiveOp::kAllReduce, all, v), 2 * gather);
      EXPECT_DOUBLE_EQ(seconds(line, CollectiveOp::kAllGather, all, v),
                       (m - 1) / m * v / w + (m - 1) * a);
      // Mean distance n/4 (or (n²-1)/4n) over two links a device; without wrap the middle link.
      const double squares = n % 2 == 0 ? m * m : m * m - 1;
      EXPECT_DOUBLE_EQ(seconds(ring, CollectiveOp::kAllToAll, all, v),
                       squares / 4 / m * v / (2 * w) + half * a);
      EXPECT_DOUBLE_EQ(seconds(line, CollectiveOp::kAllToAll, all, v),
                       squares / 4 / m * v / w + (m - 1) * a);
    }
  }
}

// All-gather of a v5e row of 4 without wraparound: 560 us by the book; over two wrapped axes it is
// the bytes over the bandwidth of all of them.
TEST(TorusCollectives, AgreeWithHowToScaleYourModel) {
  const TorusNetwork slice(torus_of({8, 4}, false));
  const TorusGrid& grid = slice.grid();
  Places column;
  for (std::int64_t y = 0; y < 4; ++y) column.push_back(grid.place(Places{0, y}));
  std::sort(column.begin(), column.end());
  EXPECT_NEAR(seconds(slice, CollectiveOp::kAllGather, column, 4 * 8.4e6), 560e-6 + 3e-6, 1e-6);

  const TorusNetwork pod(torus_of({16, 16}, true));
  const double bytes = 1e9;
  EXPECT_NEAR(seconds(pod, CollectiveOp::kAllGather, row_of(0, 256, 1), bytes),
              255.0 / 256 * bytes / (2 * 90e9) + 16e-6, 1e-12);
  // A quarter of the all-gather of the 16 devices' bytes, along one axis.
  Places axis;
  for (std::int64_t y = 0; y < 16; ++y) axis.push_back(pod.grid().place(Places{0, y}));
  std::sort(axis.begin(), axis.end());
  EXPECT_NEAR(seconds(pod, CollectiveOp::kAllToAll, axis, bytes), 16 * bytes / (4 * 90e9) + 8e-6,
              1e-12);
}

TEST(TorusCollectives, InterleavedRingsShareTheirLinks) {
  const TorusNetwork network(torus_of({8}, true));
  EXPECT_DOUBLE_EQ(seconds(network, CollectiveOp::kAllGather, row_of(1, 4, 2), 1e9),
                   0.75 * 1e9 / 45e9 + 4e-6);
  EXPECT_DOUBLE_EQ(seconds(network, CollectiveOp::kAllGather, row_of(1, 3, 2), 1e9),
                   2.0 / 3 * 1e9 / 22.5e9 + 4e-6)
      << "it does not go round";
}

TEST(TorusCollectives, OfSeveralDimensions) {
  const Places all = row_of(0, 12, 1);
  const auto gather = [&all](const char* algorithm, double bandwidth_a, double bandwidth_b) {
    model::TorusSpec spec = torus_of({4, 3}, true);
    for (model::TorusDimension& dimension : spec.dimensions) dimension.latency_s = 0;
    spec.dimensions[0].bandwidth = bandwidth_a;
    spec.dimensions[1].bandwidth = bandwidth_b;
    spec.collectives = algorithm;
    return seconds(TorusNetwork(spec), CollectiveOp::kAllGather, all, 1);
  };
  EXPECT_DOUBLE_EQ(gather("dimension-wise", 1, 1), 11.0 / 12 / 2);
  EXPECT_DOUBLE_EQ(gather("all-dimensions", 1, 1), 11.0 / 12 / 4);
  EXPECT_DOUBLE_EQ(gather("ring", 1, 1), 11.0 / 12 / 2);
  // Most bytes over the fast dimension: 3/4 of all, then 2/3 of a quarter over the other.
  EXPECT_DOUBLE_EQ(gather("dimension-wise", 10, 1), 0.75 / 20 + 2.0 / 3 / 4 / 2);
  EXPECT_DOUBLE_EQ(gather("dimension-wise", 1, 10), 2.0 / 3 / 20 + 0.75 / 3 / 2);
  // The slow one has to carry at least its own pieces, (3-1)/12.
  EXPECT_DOUBLE_EQ(gather("all-dimensions", 100, 1), 2.0 / 12 / 2);
  EXPECT_DOUBLE_EQ(gather("ring", 10, 1), 11.0 / 12 / 2);
}

/// Least greatest load over bandwidth by mixing orders of two dimensions, searched in small steps.
TEST(TorusCollectives, AllDimensionsMixOrdersAtTheirBest) {
  Dice dice(8);
  for (std::uint64_t i = 0; i < testing::seeds(200); ++i) {
    model::TorusSpec spec = torus_of({dice.between(2, 6), dice.between(2, 6)}, true);
    spec.collectives = "all-dimensions";
    for (model::TorusDimension& dimension : spec.dimensions) {
      dimension.bandwidth = static_cast<double>(dice.between(1, 20));
      dimension.latency_s = 0;
    }
    const TorusNetwork network(spec);
    const auto n = static_cast<double>(spec.dimensions[0].size);
    const auto m = static_cast<double>(spec.dimensions[1].size);
    double best = 1e300;
    constexpr int kSteps = 2000;
    for (int step = 0; step <= kSteps; ++step) {
      const double p = static_cast<double>(step) / kSteps;  // of the bytes, first over dimension 0
      const double first = p * (n - 1) / (n * m) + (1 - p) * (n - 1) / n;
      const double second = p * (m - 1) / m + (1 - p) * (m - 1) / (n * m);
      best = std::min(best, std::max(first / (2 * spec.dimensions[0].bandwidth),
                                     second / (2 * spec.dimensions[1].bandwidth)));
    }
    const double time =
        seconds(network, CollectiveOp::kAllGather, row_of(0, network.devices(), 1), 1);
    ASSERT_LE(time, best * (1 + 1e-9)) << "instance " << i;
    ASSERT_GE(time, best * (1 - 2e-2)) << "instance " << i;
  }
}

TEST(TorusCollectives, AutoIsTheLeastAndFreeOnlyForNothing) {
  Dice dice(9);
  for (std::uint64_t i = 0; i < testing::seeds(1'000); ++i) {
    model::TorusSpec spec = random_torus(dice, 200);
    const Places members = random_group(dice, TorusNetwork(spec).devices());
    const double bytes = std::pow(10, static_cast<double>(dice.between(0, 10)));
    for (const CollectiveOp op : kOps) {
      std::vector<double> times;
      for (const std::string& algorithm : kAlgorithms) {
        spec.collectives = algorithm;
        const TorusNetwork network(spec);
        times.push_back(seconds(network, op, members, bytes));
        ASSERT_EQ(seconds(network, op, members, 0), 0);
        ASSERT_EQ(times.back() > 0, members.size() > 1);
      }
      ASSERT_EQ(times.front(), *std::min_element(times.begin() + 1, times.end()))
          << "instance " << i;
    }
  }
}

/// Times of everything: transfers between all pairs of a few devices, collectives of a few groups.
std::vector<double> times_of(const model::TorusSpec& spec, std::uint64_t seed) {
  Dice dice(seed);
  const TorusNetwork network(spec);
  std::vector<double> times;
  for (int pair = 0; pair < 20 && network.devices() > 1; ++pair) {
    const std::int64_t a = dice.between(0, network.devices() - 2);
    const std::int64_t b = dice.between(a + 1, network.devices() - 1);
    times.push_back(network.transfer_s(1e6, network.level(a, b), dice.between(1, 32)));
  }
  for (int group = 0; group < 10; ++group) {
    const Places members = random_group(dice, network.devices());
    for (const CollectiveOp op : kOps) {
      for (const double bytes : {1e3, 1e7}) times.push_back(seconds(network, op, members, bytes));
    }
  }
  return times;
}

void expect_no_slower(const model::TorusSpec& spec, const model::TorusSpec& better,
                      std::uint64_t seed) {
  const std::vector<double> before = times_of(spec, seed), after = times_of(better, seed);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    ASSERT_LE(after[i], before[i] * (1 + 1e-9)) << "instance " << seed << " time " << i;
  }
}

TEST(TorusTimes, MoreBandwidthNeverHurts) {
  Dice dice(10);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    model::TorusSpec spec = random_torus(dice, 150);
    spec.collectives = dice.pick(kAlgorithms);
    model::TorusSpec better = spec;
    better.dimensions[at(dice.between(0, std::ssize(spec.dimensions) - 1))].bandwidth *=
        dice.pick({1.01, 1.5, 2.0, 10.0});
    expect_no_slower(spec, better, i);
  }
}

TEST(TorusTimes, WrapNeverHurts) {
  Dice dice(11);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    model::TorusSpec spec = random_torus(dice, 150);
    spec.collectives = dice.pick(kAlgorithms);
    model::TorusSpec better = spec;
    better.dimensions[at(dice.between(0, std::ssize(spec.dimensions) - 1))].wrap = true;
    expect_no_slower(spec, better, i);
  }
}

TEST(TorusTimes, HalvingTheSlowestLinkOfAGroupHurts) {
  Dice dice(12);
  int used = 0;
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    model::TorusSpec spec = random_torus(dice, 150);
    spec.collectives = dice.pick({"auto", "dimension-wise", "all-dimensions"});
    const TorusNetwork network(spec);
    const Places members = random_group(dice, network.devices());
    const auto box = network.grid().box(members);
    if (!box || members.size() < 2) continue;
    // All links of the group bound it together with the slowest; others may be no bottleneck.
    std::size_t slowest = 0;
    double least = 0;
    for (std::size_t d = 0; d < box->size(); ++d) {
      const TorusRow& row = (*box)[d];
      const model::TorusDimension& dimension = spec.dimensions[d];
      const double links = dimension.switched ? static_cast<double>(row.stride)
                           : row.closed       ? 2
                                              : 1;
      const double bandwidth = links * dimension.bandwidth * (1 - dimension.background) /
                               static_cast<double>(row.stride);
      if (row.members < 2 || (least > 0 && bandwidth >= least)) continue;
      slowest = d;
      least = bandwidth;
    }
    spec.dimensions[slowest].bandwidth /= 2;
    const TorusNetwork slower(spec);
    for (const CollectiveOp op : {CollectiveOp::kAllReduce, CollectiveOp::kAllGather}) {
      ASSERT_GT(seconds(slower, op, members, 1e12), seconds(network, op, members, 1e12) * 1.0001)
          << "instance " << i << " " << spec.collectives;
    }
    ++used;
  }
  EXPECT_GT(used, 0);
}

TEST(TorusTimes, HalvingAllLinksDoublesWhatBytesTake) {
  Dice dice(13);
  for (std::uint64_t i = 0; i < testing::seeds(500); ++i) {
    model::TorusSpec spec = random_torus(dice, 150);
    spec.collectives = dice.pick(kAlgorithms);
    for (model::TorusDimension& dimension : spec.dimensions) dimension.latency_s = 0;
    const std::vector<double> before = times_of(spec, i);
    for (model::TorusDimension& dimension : spec.dimensions) dimension.bandwidth /= 2;
    const std::vector<double> after = times_of(spec, i);
    for (std::size_t t = 0; t < before.size(); ++t) ASSERT_DOUBLE_EQ(after[t], 2 * before[t]);
  }
}

TEST(TorusSlices, AreTheOutermostRow) {
  model::TorusSpec spec = torus_of({4, 2}, false, {2, 2});
  testing::add_slices(spec, 3);
  const TorusNetwork network(spec);
  EXPECT_EQ(network.devices(), 24);
  EXPECT_EQ(network.domains(), std::vector<std::string>({"host", "slice", "slices"}));
  EXPECT_EQ(network.level_name(network.levels() - 1), "between slices");
  EXPECT_EQ(network.level(7, 8), network.levels() - 1);
  EXPECT_LT(network.level(0, 7), network.levels() - 1);
  EXPECT_EQ(network.shape_period(), 8);
  EXPECT_EQ(network.grid().coordinates(17), std::vector<std::int64_t>({1, 0, 2}));
  const Places same_chip{5, 13, 21};
  EXPECT_DOUBLE_EQ(seconds(network, CollectiveOp::kAllGather, same_chip, 3e9),
                   2e9 / 6.25e9 + 2 * 10e-6);
  EXPECT_DOUBLE_EQ(seconds(network, CollectiveOp::kAllToAll, same_chip, 3e9),
                   2e9 / 6.25e9 + 2 * 10e-6);
  // All 24: between slices at least the pieces of one chip, meanwhile the rest inside them.
  spec.collectives = "all-dimensions";
  EXPECT_DOUBLE_EQ(TorusNetwork(spec).collective_s(CollectiveOp::kAllGather, 24e9,
                                                   TorusNetwork(spec).shape(row_of(0, 24, 1))),
                   2e9 / 6.25e9 + 3e-6 + 1e-6 + 2 * 10e-6);
}

TEST(TorusNetworks, OfTheFirstPlacesOnly) {
  const auto network = make_torus(torus_of({4, 4}, true), 6);
  EXPECT_EQ(network->devices(), 6);
}

TEST(TorusNetworks, OfOneDevice) {
  const TorusNetwork network(torus_of({1, 1}, true));
  EXPECT_EQ(network.devices(), 1);
  EXPECT_EQ(network.levels(), 1);
  EXPECT_EQ(network.shape_period(), 1);
  EXPECT_EQ(seconds(network, CollectiveOp::kAllReduce, {0}, 1e9), 0);
}

TEST(TorusNetworks, UnknownAlgorithmsAreRefused) {
  model::TorusSpec spec = torus_of({4, 4}, true);
  spec.collectives = "all-dimension";
  try {
    const TorusNetwork network(spec);
    FAIL() << "no error";
  } catch (const InvalidInput& error) {
    EXPECT_STREQ(error.what(),
                 "network.collectives: unknown algorithm \"all-dimension\" (did you mean "
                 "\"all-dimensions\"?) (known: \"auto\", \"dimension-wise\", \"all-dimensions\", "
                 "\"ring\")");
  }
  spec.collectives = "auto";
  spec.dimensions[1].bandwidth = 0;
  EXPECT_THROW(make_torus(spec), InvalidInput);
}

}  // namespace
}  // namespace nestplan::network
