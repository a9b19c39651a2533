#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "nestplan/placement/placement.hpp"
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

using Groups = std::set<Group>;

using util::idx;

Groups set_of(std::vector<Group> list) {
  for (Group& group : list) std::sort(group.begin(), group.end());
  return {list.begin(), list.end()};
}

/// A grid of ranks as Megatron-LM documents it: sizes by name, the first name of the order running
/// fastest. A group of some names is a set of ranks that agree in all others.
class Grid {
 public:
  Grid(std::string order, std::map<std::string, std::int64_t> sizes)
      : order_(std::move(order)), sizes_(std::move(sizes)) {}

  Groups groups(const std::set<std::string>& names) const {
    std::map<std::vector<std::int64_t>, Group> by_rest;
    for (std::int64_t rank = 0; rank < ranks(); ++rank) {
      std::vector<std::int64_t> rest;
      std::int64_t quotient = rank;
      for (std::size_t at = 0; at < order_.size(); at += 3) {
        const std::string name = order_.substr(at, 2);
        const std::int64_t size = sizes_.contains(name) ? sizes_.at(name) : 1;
        if (!names.contains(name)) rest.push_back(quotient % size);
        quotient /= size;
      }
      by_rest[rest].push_back(rank);
    }
    Groups result;
    for (auto& [rest, group] : by_rest) {
      if (group.size() > 1) result.insert(std::move(group));
    }
    return result;
  }

 private:
  std::int64_t ranks() const {
    std::int64_t product = 1;
    for (const auto& [name, size] : sizes_) product *= size;
    return product;
  }

  std::string order_;
  std::map<std::string, std::int64_t> sizes_;
};

TEST(Groups, AreThoseOfMegatron) {
  for (std::uint64_t seed = 1; seed <= seeds(400); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const model::PlanOutline plan = random_outline(dice, cluster, false);
    const model::StageOutline& stage = plan.stages.front();
    const std::int64_t pp = std::ssize(plan.stages);
    const std::int64_t experts = stage.ep * stage.tp / stage.etp;
    for (const RankOrder order : {RankOrder::kPipelineLast, RankOrder::kDataLast}) {
      if (!obstacle(plan, cluster, order).empty()) continue;
      const Placement placement = place(plan, cluster, order);
      const auto of = [&](GroupKind kind) { return set_of(groups(placement, kind)); };
      const Grid dense(to_string(order),
                       {{"tp", stage.tp}, {"cp", stage.cp}, {"dp", plan.dp()}, {"pp", pp}});
      EXPECT_EQ(of(GroupKind::kTensor), dense.groups({"tp"}));
      EXPECT_EQ(of(GroupKind::kContext), dense.groups({"cp"}));
      EXPECT_EQ(of(GroupKind::kData), dense.groups({"dp", "cp"}));
      EXPECT_EQ(of(GroupKind::kPipeline), dense.groups({"pp"}));
      if (experts == 1) continue;
      const std::int64_t copies = plan.dp() * stage.cp / stage.ep;
      const Grid sparse(to_string(order),
                        {{"tp", stage.etp}, {"ep", experts}, {"dp", copies}, {"pp", pp}});
      EXPECT_EQ(of(GroupKind::kExpert), sparse.groups({"ep"}));
      EXPECT_EQ(of(GroupKind::kExpertData), sparse.groups({"dp"}));
      EXPECT_EQ(of(GroupKind::kPipeline), sparse.groups({"pp"}));
    }
  }
}

/// The groups that the planner costs, from the devices alone; experts are split as the layers are.
class PlannerGroups {
 public:
  PlannerGroups(const model::PlanOutline& plan, std::int64_t devices)
      : plan_(plan), pod_(devices / plan.dp_outer) {}

  Groups of(GroupKind kind) const {
    Groups result;
    for (const model::StageOutline& stage : plan_.stages) {
      if (kind == GroupKind::kExpertData && stage.ep == 1) continue;  // not dealt out
      const std::int64_t members = stage.cp * plan_.dp();
      // group number of a member of the data-parallel group of one tensor rank
      std::map<std::vector<std::int64_t>, Group> by_name;
      for (std::int64_t m = 0; m < members; ++m) {
        for (std::int64_t t = 0; t < stage.tp; ++t) {
          by_name[name(kind, stage, m, t)].push_back(device(stage, m, t));
        }
      }
      for (auto& [key, group] : by_name) {
        std::sort(group.begin(), group.end());
        if (group.size() > 1) result.insert(std::move(group));
      }
    }
    return result;
  }

 private:
  static std::vector<std::int64_t> name(GroupKind kind, const model::StageOutline& stage,
                                        std::int64_t m, std::int64_t t) {
    switch (kind) {
      case GroupKind::kTensor:
        return {m};
      case GroupKind::kContext:
        return {m / stage.cp, t};
      case GroupKind::kExpert:
        return {m / stage.ep, t};
      case GroupKind::kExpertData:
        return {m % stage.ep, t};
      default:
        return {t};
    }
  }

  std::int64_t device(const model::StageOutline& stage, std::int64_t m, std::int64_t t) const {
    const std::int64_t per_pod = stage.cp * plan_.dp_inner;
    return m / per_pod * pod_ + stage.position + m % per_pod * stage.tp + t;
  }

  const model::PlanOutline& plan_;
  std::int64_t pod_;
};

TEST(Groups, AreWhatThePlannerAssumed) {
  for (std::uint64_t seed = 1; seed <= seeds(400); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    model::PlanOutline plan = random_outline(dice, cluster, true);
    for (model::StageOutline& stage : plan.stages) stage.etp = stage.tp;
    const Placement placement = place(plan, cluster);
    const PlannerGroups planner(plan, cluster.devices());
    for (const GroupKind kind : {GroupKind::kTensor, GroupKind::kContext, GroupKind::kExpert,
                                 GroupKind::kData, GroupKind::kExpertData}) {
      Groups devices;
      for (const Group& group : groups(placement, kind)) {
        Group members;
        for (const std::int64_t rank : group) {
          members.push_back(placement.seats[idx(rank)].device);
        }
        std::sort(members.begin(), members.end());
        devices.insert(members);
      }
      EXPECT_EQ(devices, planner.of(kind)) << to_string(kind);
    }
  }
}

TEST(Groups, NumberTheirMembersAsTheSeatsDo) {
  for (std::uint64_t seed = 1; seed <= seeds(200); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const Placement placement = place(random_outline(dice, cluster, true), cluster);
    const auto expect_index = [&](GroupKind kind, std::int64_t Seat::*index) {
      for (const Group& group : groups(placement, kind)) {
        for (std::size_t i = 0; i < group.size(); ++i) {
          EXPECT_EQ(placement.seats[idx(group[i])].*index, static_cast<std::int64_t>(i));
        }
      }
    };
    expect_index(GroupKind::kTensor, &Seat::tp);
    expect_index(GroupKind::kContext, &Seat::cp);
    expect_index(GroupKind::kExpert, &Seat::ep);
    for (const Seat& seat : placement.seats) {
      const model::StageOutline& stage = placement.plan.stages[idx(seat.stage)];
      EXPECT_EQ(seat.etp, seat.tp % stage.etp);
    }
  }
}

/// Racks of 18 nodes with 4 devices, of which `nodes` are available.
model::Cluster racks(std::int64_t nodes) {
  model::Cluster cluster = cluster_of({4, 18, 4});
  if (nodes == 18) return cluster;
  for (std::int64_t rack = 0; rack < 4; ++rack) {
    cluster.unavailable.push_back({rack * 72 + nodes * 4, 72 - nodes * 4});
  }
  return cluster;
}

model::PlanOutline experts_over(std::int64_t ep, std::int64_t copies) {
  return {.dp_inner = copies, .dp_outer = 1, .stages = {{0, 1, 1, ep, 1}}};
}

std::vector<std::int64_t> expert_groups_by_domain(const model::Cluster& cluster, std::int64_t ep) {
  const Placement placement = place(experts_over(ep, 256), cluster);
  for (const Spread& spread : spreads(placement, *network::make_network(cluster))) {
    if (spread.kind == GroupKind::kExpert) return spread.in_domain;
  }
  return {};
}

/// 4 racks of 72 devices, 256 of which hold expert groups of 64: filled one after the other they
/// lie as 64 | 8+56 | 16+48 | 24+40.
TEST(Spreads, CountGroupsThatStraddleRacks) {
  EXPECT_EQ(expert_groups_by_domain(racks(18), 64), (std::vector<std::int64_t>{0, 1, 3}));
  EXPECT_EQ(expert_groups_by_domain(racks(16), 64), (std::vector<std::int64_t>{0, 4, 0}));
  EXPECT_EQ(place(experts_over(64, 256), racks(18)).idle.size(), 32U);
}

TEST(Spreads, NameTheWorstAndTheBestDomain) {
  const model::Cluster cluster = racks(18);
  const auto all = spreads(place(experts_over(64, 256), cluster), *network::make_network(cluster));
  ASSERT_EQ(all.size(), 3U);  // ep, dp, edp
  EXPECT_EQ(all[0].kind, GroupKind::kExpert);
  EXPECT_EQ(all[0].best, 1);
  EXPECT_EQ(all[0].worst, 2);
  EXPECT_EQ(all[0].members, 64);
  EXPECT_EQ(all[1].kind, GroupKind::kData);
  EXPECT_EQ(all[1].worst, 2);
}

/// Two nodes of two devices, rail i for local index i: {0,2} and {1,3} stay on their rails, {0,3}
/// and {1,2} do not.
TEST(Spreads, CountGroupsThatMixRails) {
  model::Cluster cluster = cluster_of({2, 2});
  const model::PlanOutline plan{.dp_inner = 1, .dp_outer = 2, .stages = {{0, 2, 1, 1, 2}}};
  const auto mixed = [&] {
    const auto all = spreads(place(plan, cluster), *network::make_network(cluster_of({2, 2})));
    return all.back().mixed_rails;  // of dp
  };
  EXPECT_EQ(mixed(), 0);
  cluster.hosts = {{"a", 2, {}}, {"b", 2, {1, 0}}};
  EXPECT_EQ(mixed(), 0);  // no rails
  cluster.hierarchy().levels[1].rails = model::Rails::kIsolated;
  EXPECT_EQ(mixed(), 2);
  cluster.hosts.clear();
  EXPECT_EQ(mixed(), 0);
}

TEST(Segments, AreTheNodesOfAnExpertGroup) {
  for (const std::int64_t ep : {32, 64}) {
    const Segment segment = placement::segment(place(experts_over(ep, 256), racks(16)));
    EXPECT_EQ(segment.span, ep / 4);
    EXPECT_EQ(segment.nodes, ep / 4);
  }
}

TEST(Segments, CountTensorRanksOfExperts) {
  const model::PlanOutline plan{
      .dp_inner = 16, .dp_outer = 2, .stages = {{0, 4, 1, 8, 4}, {64, 4, 1, 8, 4}}};
  const Segment segment = placement::segment(place(plan, racks(18)));
  EXPECT_EQ(segment.span, 8);  // 8 experts over 4 ranks each, on nodes of 4
  EXPECT_EQ(segment.nodes, 8);
}

TEST(Segments, AreNotNeededInsideOfNodes) {
  EXPECT_EQ(placement::segment(place(experts_over(4, 64), racks(18))).nodes, 0);
  EXPECT_EQ(placement::segment(place(experts_over(1, 64), racks(18))).span, 0);
}

/// Groups of 3 on nodes of 2 share nodes, so that only the whole job is a segment.
TEST(Segments, MayBeTheWholeJob) {
  const Segment segment = placement::segment(
      place({.dp_inner = 9, .dp_outer = 1, .stages = {{0, 1, 1, 3, 1}}}, cluster_of({2, 5})));
  EXPECT_EQ(segment.span, 2);
  EXPECT_EQ(segment.nodes, 5);  // the whole job
}

TEST(Segments, PartNoExpertGroup) {
  for (std::uint64_t seed = 1; seed <= seeds(300); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const model::Cluster cluster = random_cluster(dice);
    const Placement placement = place(random_outline(dice, cluster, true), cluster);
    const Segment segment = placement::segment(placement);
    const std::vector<std::int64_t> used = placement.used_hosts();
    std::int64_t span = 0;
    for (const Group& group : groups(placement, GroupKind::kExpert)) {
      std::set<std::int64_t> nodes;
      for (const std::int64_t rank : group) {
        const std::int64_t host = placement.seats[idx(rank)].host;
        nodes.insert(std::lower_bound(used.begin(), used.end(), host) - used.begin());
      }
      span = std::max(span, *nodes.rbegin() - *nodes.begin() + 1);
      if (segment.nodes > 0) {
        EXPECT_EQ(*nodes.begin() / segment.nodes, *nodes.rbegin() / segment.nodes);
      }
    }
    if (span > 1) {
      EXPECT_GE(segment.span, span);  // etp widens a group to its block
      EXPECT_GT(segment.nodes, 0);    // the whole job is one segment at least
    }
    if (segment.nodes > 0) {
      EXPECT_EQ(std::ssize(used) % segment.nodes, 0);
      EXPECT_GE(segment.nodes, segment.span);
    }
  }
}

}  // namespace
}  // namespace nestplan::placement
