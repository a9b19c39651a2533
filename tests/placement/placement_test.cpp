#include "nestplan/placement/placement.hpp"

#include <gtest/gtest.h>

#include <set>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "placement/random_placement.hpp"
#include "support/seeds.hpp"

namespace nestplan::placement {
namespace {

using ::nestplan::testing::cluster_of;
using ::nestplan::testing::Dice;
using ::nestplan::testing::random_cluster;
using ::nestplan::testing::random_outline;
using ::nestplan::testing::seeds;

constexpr RankOrder kOrders[] = {RankOrder::kPipelineLast, RankOrder::kDataLast};

using util::idx;

TEST(Placement, RanksAreABijection) {
  for (std::uint64_t seed = 1; seed <= seeds(400); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const model::PlanOutline plan = random_outline(dice, cluster, dice.chance(50));
    for (const RankOrder order : kOrders) {
      if (!obstacle(plan, cluster, order).empty()) continue;
      const Placement placement = place(plan, cluster, order);
      std::set<std::int64_t> devices;
      std::set<std::vector<std::int64_t>> parts;
      for (std::size_t r = 0; r < placement.seats.size(); ++r) {
        const Seat& seat = placement.seats[r];
        EXPECT_EQ(seat.rank, static_cast<std::int64_t>(r));
        devices.insert(seat.device);
        parts.insert({seat.stage, seat.dp, seat.cp, seat.tp});
      }
      EXPECT_EQ(devices.size(), placement.seats.size());
      EXPECT_EQ(parts.size(), placement.seats.size());
      for (const Seat& seat : placement.idle) devices.insert(seat.device);
      EXPECT_EQ(std::ssize(devices), cluster.devices());
      EXPECT_EQ(placement.seats.size() + placement.idle.size(), devices.size());
    }
  }
}

/// The contract: pod j starts at j·floor(N/dp_outer), tp runs fastest, then cp, then dp_inner.
TEST(Placement, SeatsLieWhereThePlannerPutsThem) {
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const model::PlanOutline plan = random_outline(dice, cluster, true);
    const std::int64_t pod = cluster.devices() / plan.dp_outer;
    for (const Seat& seat : place(plan, cluster).seats) {
      const model::StageOutline& stage = plan.stages[idx(seat.stage)];
      const std::int64_t inner = seat.dp % plan.dp_inner;
      EXPECT_EQ(seat.dp / plan.dp_inner, seat.pod);
      EXPECT_EQ(seat.device, seat.pod * pod + stage.position + seat.tp +
                                 stage.tp * (seat.cp + stage.cp * inner));
    }
  }
}

TEST(Placement, DevicesAreOnTheirHosts) {
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const Placement placement = place(random_outline(dice, cluster, false), cluster);
    const std::vector<std::int64_t> places = cluster.places_of_devices();
    const std::int64_t size = cluster.hierarchy().levels.front().fanout;
    std::set<std::pair<std::int64_t, std::int64_t>> slots;
    std::int64_t used = 0;
    for (const Seat& seat : placement.seats) {
      EXPECT_EQ(seat.place, places[idx(seat.device)]);
      EXPECT_EQ(seat.host, seat.place / size);
      EXPECT_TRUE(slots.emplace(seat.host, seat.local).second);
      if (cluster.hosts.empty() || cluster.hosts[idx(seat.host)].local.empty()) {
        EXPECT_EQ(seat.local, seat.place % size);
      } else {
        EXPECT_EQ(seat.local, cluster.hosts[idx(seat.host)].local[idx(seat.place % size)]);
      }
    }
    for (const HostSeats& host : placement.hosts) used += host.used;
    EXPECT_EQ(used, std::ssize(placement.seats));
    EXPECT_EQ(placement.named_hosts, !cluster.hosts.empty());
  }
}

TEST(Placement, PipelinesAreNeighboursWithDataLast) {
  const model::PlanOutline plan{
      .dp_inner = 1, .dp_outer = 4, .stages = {{0, 2, 1, 1, 2}, {2, 2, 1, 1, 2}}};
  const Placement placement = place(plan, cluster_of({4, 4}), RankOrder::kDataLast);
  for (const Seat& seat : placement.seats) EXPECT_EQ(seat.rank, seat.device);
}

/// Five healthy nodes of eight that were asked for.
TEST(Placement, FiveNodesAreUsedWhole) {
  model::Cluster cluster = cluster_of({8, 8});
  cluster.unavailable = {{8, 8}, {32, 16}};
  const model::PlanOutline plan{.dp_inner = 1, .dp_outer = 5, .stages = {{0, 8, 1, 1, 8}}};
  const Placement placement = place(plan, cluster);
  EXPECT_EQ(placement.seats.size(), 40U);
  EXPECT_TRUE(placement.idle.empty());
  EXPECT_EQ(placement.used_hosts(), (std::vector<std::int64_t>{0, 2, 3, 6, 7}));
}

TEST(Placement, RefusesWhatDoesNotFit) {
  const model::Cluster cluster = cluster_of({4, 2});
  const auto refused = [&](const model::PlanOutline& plan) {
    EXPECT_THROW(place(plan, cluster), InvalidInput);
    return obstacle(plan, cluster);
  };
  EXPECT_EQ(refused({.dp_outer = 2, .stages = {{0, 2, 1, 1, 2}, {3, 2, 1, 1, 2}}}),
            "stages[1]: ends at 5, but a pod has 4 devices (8 in all, dp_outer 2)");
  EXPECT_EQ(refused({.stages = {{0, 4, 1, 1, 4}, {2, 2, 1, 1, 2}}}),
            "stages[1].position: is 2, but the stage before ends at 4");
  EXPECT_EQ(refused({.dp_outer = 9, .stages = {{0, 1, 1, 1, 1}}}),
            "stages[0]: takes 1 devices, but a pod has 0 (8 in all, dp_outer 9)");
  EXPECT_EQ(refused({.dp_inner = 4, .stages = {{0, 1, 1, 3, 1}}}),
            "stages[0].ep: 3 neither divides the 4 copies of a pod nor joins pods");
  const model::PlanOutline fits{.dp_outer = 2, .stages = {{0, 4, 1, 1, 4}}};
  EXPECT_EQ(obstacle(fits, cluster), "");
  EXPECT_THROW(place(fits, cluster, RankOrder::kPipelineLast, {"a"}), InvalidInput);
  EXPECT_THROW(place(fits, cluster, RankOrder::kPipelineLast, {"a", "a"}), InvalidInput);
  EXPECT_EQ(place(fits, cluster, RankOrder::kPipelineLast, {"b", "a"}).hosts[0].name, "b");
}

TEST(RankOrders, HaveNames) {
  for (const RankOrder order : kOrders) EXPECT_EQ(parse_rank_order(to_string(order)), order);
  EXPECT_THROW(parse_rank_order("tp-cp-dp-pp"), InvalidInput);
}

}  // namespace
}  // namespace nestplan::placement
