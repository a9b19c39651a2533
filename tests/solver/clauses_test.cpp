#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "support/brute_force.hpp"
#include "support/small_case.hpp"

/// Every clause of the cost model, computed by hand. Bandwidths are in bytes/s of a few units and
/// bytes in hundreds, so that each expected number is arithmetic one can follow.

namespace nestplan {
namespace {

using model::CollectiveOp;
using model::GroupKind;
using model::LayerCost;
using model::Phase;
using testing::SmallCase;

constexpr double kExact = 1e-12;

#define EXPECT_SECONDS(actual, expected) \
  EXPECT_NEAR(actual, expected, kExact*(1 + std::abs(expected)))

model::NetworkLevel level(std::int64_t fanout, double bandwidth, double latency_s = 0,
                          double oversubscription = 1) {
  return SmallCase::level(fanout, bandwidth, latency_s, oversubscription);
}

LayerCost with_collective(CollectiveOp op, GroupKind group, double bytes,
                          Phase phase = Phase::kForward) {
  LayerCost cost;
  cost.collectives.push_back({phase, op, group, bytes});
  return cost;
}

/// Two layers, one edge of 100 bytes, one stage each: the receive time of the second.
struct Link {
  SmallCase c;

  Link(std::initializer_list<model::NetworkLevel> levels, std::int64_t producer_tp,
       std::int64_t producer_at, std::int64_t consumer_tp, std::int64_t consumer_at)
      : c(levels, 2) {
    const int producer = c.strategy(producer_tp);
    const int consumer = c.strategy(consumer_tp);
    const int a = c.layer();
    const int b = c.layer();
    c.edge(a, b, 100);
    c.stage({a}, producer, producer_at);
    c.stage({b}, consumer, consumer_at);
  }

  double seconds() const { return c.evaluate().stages[1].time.receive_s; }
};

TEST(PointToPoint, UplinkIsSharedByTheSenders) {
  // Block of 4 with port 10, oversubscription 4: uplink 4·10/4 = 10, shared by 4 senders.
  EXPECT_SECONDS(Link({level(4, 100), level(2, 10, 3, 4)}, 4, 0, 4, 4).seconds(), 3 + 100 / 2.5);
}

TEST(PointToPoint, PortLimitsFewSenders) {
  // The same uplink of 10 for a single sender, whose port is 10.
  EXPECT_SECONDS(Link({level(4, 100), level(2, 10, 3, 4)}, 1, 3, 1, 4).seconds(), 3 + 100 / 10.0);
  // Uplink 4·10/1 = 40 for one sender: the port of 10 binds.
  EXPECT_SECONDS(Link({level(4, 100), level(2, 10, 3, 1)}, 1, 3, 1, 4).seconds(), 3 + 100 / 10.0);
}

TEST(PointToPoint, NoMoreSendersThanTheBlockHas) {
  // 4 senders over blocks of 2 with uplink 2·10/2 = 10: 2 of them share it.
  EXPECT_SECONDS(Link({level(2, 100), level(4, 10, 0, 2)}, 4, 0, 4, 4).seconds(), 100 / 5.0);
}

TEST(PointToPoint, LevelZeroIsNotOnThePathOfTheOthers) {
  EXPECT_SECONDS(Link({level(2, 1), level(2, 10)}, 2, 0, 2, 2).seconds(), 100 / 10.0);
}

TEST(PointToPoint, InsideLevelZeroOneDeviceSharesItsOwnPort) {
  // A block of level -1 is one device: B_0(1) = min(20, 1·20/2), however many send.
  EXPECT_SECONDS(Link({level(4, 20, 1, 2)}, 2, 0, 2, 2).seconds(), 1 + 100 / 10.0);
}

TEST(PointToPoint, CrossesEveryLevelFromOne) {
  // Lca 2; level 1 is slower than level 2; the latency is that of the lca alone.
  EXPECT_SECONDS(Link({level(2, 100, 1), level(2, 5, 2), level(2, 20, 4)}, 4, 0, 4, 4).seconds(),
                 4 + 100 / 5.0);
  // Uplinks: level 1 gives 2·8/(1·2) = 8, level 2 gives 4·8/(4·4) = 2.
  EXPECT_SECONDS(Link({level(2, 100), level(2, 8), level(2, 8, 0, 4)}, 4, 0, 4, 4).seconds(),
                 100 / 2.0);
}

TEST(PointToPoint, NothingToSendTakesNoTime) {
  Link link({level(4, 20, 1)}, 2, 0, 2, 2);
  link.c.problem.graph.edges[0].bytes = {0, 0};
  EXPECT_EQ(link.seconds(), 0);
}

TEST(PointToPoint, LevelIsTheWorstOverRanks) {
  // Blocks of 3: 0→2 stays inside, 1→3 does not.
  EXPECT_SECONDS(Link({level(3, 100), level(2, 10)}, 2, 0, 2, 2).seconds(), 100 / 10.0);
}

TEST(PointToPoint, LevelIsTheWorstOverPods) {
  // Pods of 3 on blocks of 2. Pod 0: 0→1 inside a block; pod 1: 3→4 across.
  Link link({level(2, 100), level(3, 10)}, 1, 0, 1, 1);
  link.c.data_parallel(2, 1);
  EXPECT_SECONDS(link.seconds(), 100 / 10.0);
}

TEST(PointToPoint, PodsStartAtMultiplesOfTheFloor) {
  // 8 devices, 3 pods of 2 (two devices idle): every pod is one block of 2.
  Link link({level(2, 100), level(4, 10)}, 1, 0, 1, 1);
  link.c.data_parallel(3, 1);
  link.c.problem.options.global_batch = 3;
  const model::Plan plan = link.c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  EXPECT_SECONDS(plan.stages[1].time.receive_s, 100 / 100.0);
}

TEST(PointToPoint, DevicesBeyondTheClusterAreLeftOut) {
  // Ranks 1 and 2 of the producer have no partner: 3+1 and 3+2 are outside of 4 devices.
  const Link link({level(4, 20, 1)}, 3, 0, 1, 3);
  EXPECT_EQ(link.c.evaluate().status, model::Status::kOptimal);
  EXPECT_SECONDS(link.seconds(), 1 + 100 / 20.0);
}

TEST(PointToPoint, DevicesOfTheNextPodCount) {
  // Pods of 3 on blocks of 3: rank 1 of the producer meets device 3, which is in the next pod.
  Link link({level(3, 100), level(2, 10)}, 2, 0, 1, 2);
  link.c.data_parallel(2, 1);
  EXPECT_SECONDS(link.seconds(), 100 / 10.0);
}

TEST(Boundary, ReceiverPaysAtItsOwnBytesOverTheProducersLink) {
  // Uplink 4·8/4 = 8 of the block: 4 per device for the two senders of the forward producer. The
  // gradient comes from a stage with one device and still uses the producer's two.
  SmallCase c({level(4, 100), level(2, 8, 1, 4)}, 2);
  const int wide = c.strategy(2);
  const int narrow = c.strategy(1);
  const int a = c.layer();
  const int b = c.layer();
  c.edge(a, b, {100, 300});
  c.stage({a}, wide, 2);
  c.stage({b}, narrow, 4);
  const model::Plan plan = c.evaluate();
  EXPECT_SECONDS(plan.stages[0].time.gradient_receive_s, 1 + 100 / 4.0);
  EXPECT_SECONDS(plan.stages[1].time.receive_s, 1 + 300 / 4.0);
  EXPECT_EQ(plan.stages[0].time.receive_s, 0);
  EXPECT_EQ(plan.stages[1].time.gradient_receive_s, 0);
}

struct ThreeStages {
  SmallCase c{{level(4, 1)}, 3};
  int a, b, d;

  ThreeStages() {
    const int s = c.strategy(1);
    a = c.layer();
    b = c.layer();
    d = c.layer();
    c.stage({a}, s, 0);
    c.stage({b}, s, 1);
    c.stage({d}, s, 2);
  }
};

TEST(Cut, LargestEdgePerProducerAndRelays) {
  ThreeStages t;
  t.c.edge(t.a, t.b, 10);
  t.c.edge(t.a, t.d, 30);
  t.c.edge(t.b, t.d, 5);
  const model::Plan plan = t.c.evaluate();
  EXPECT_SECONDS(plan.stages[1].time.receive_s, 30.0);           // max(10, 30) of layer a
  EXPECT_SECONDS(plan.stages[2].time.receive_s, 30 + 5.0);       // relayed from a, and b's own
  EXPECT_SECONDS(plan.stages[0].time.gradient_receive_s, 30.0);  // as the activations
  EXPECT_SECONDS(plan.stages[1].time.gradient_receive_s, 35.0);
}

TEST(Cut, RelayThroughAStageThatDoesNotUseTheTensor) {
  ThreeStages t;
  t.c.edge(t.a, t.d, 30);
  const model::Plan plan = t.c.evaluate();
  EXPECT_SECONDS(plan.stages[1].time.receive_s, 30.0);
  EXPECT_SECONDS(plan.stages[1].time.gradient_receive_s, 30.0);
  EXPECT_SECONDS(plan.stages[2].time.receive_s, 30.0);
}

TEST(Cut, EdgesThatEndBeforeTheBoundaryDoNotCount) {
  ThreeStages t;
  t.c.edge(t.a, t.b, 40);
  t.c.edge(t.a, t.d, 3);
  EXPECT_SECONDS(t.c.evaluate().stages[2].time.receive_s, 3.0);
}

/// One layer with one collective, on one stage.
double collective_s(SmallCase c, const LayerCost& cost, std::int64_t tp, std::int64_t cp = 1,
                    std::int64_t ep = 1, std::int64_t dp = 1, std::int64_t dp_inner = 1) {
  const int s = c.strategy(tp, cp, ep);
  c.layer(cost);
  c.data_parallel(dp, dp_inner);
  c.problem.options.global_batch = dp;
  c.stage({0}, s, 0);
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  return plan.stages[0].time.forward_s;
}

TEST(CollectiveTime, AllReduceIsAHierarchicalRing) {
  // m = (2, 2): 2·(1/2)·80/10 + 2·1, then half the volume: 2·(1/2)·40/5 + 2·3.
  const SmallCase c({level(2, 10, 1), level(2, 5, 3)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 4), (8 + 2.0) + (8 + 6.0));
}

TEST(CollectiveTime, GatherAndScatterAreHalfOfIt) {
  const SmallCase c({level(2, 10, 1), level(2, 5, 3)});
  for (const CollectiveOp op : {CollectiveOp::kAllGather, CollectiveOp::kReduceScatter}) {
    EXPECT_SECONDS(collective_s(c, with_collective(op, GroupKind::kTensor, 80), 4), 24 / 2.0);
  }
}

TEST(CollectiveTime, AllToAll) {
  // P = (2, 4): max(80·(2-1)/(4·10), 80·(4-2)/(4·5)) + 1·1 + 1·3.
  const SmallCase c({level(2, 10, 1), level(2, 5, 3)});
  const LayerCost cost = with_collective(CollectiveOp::kAllToAll, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 4), 8 + 4.0);
  // With a slow level 0 the other term is the largest: 80·1/(4·1).
  const SmallCase slow({level(2, 1, 1), level(2, 5, 3)});
  EXPECT_SECONDS(collective_s(slow, cost, 4), 20 + 4.0);
}

TEST(CollectiveTime, UnevenGroupsTakeTheMostOfEachLevel) {
  // {0,1,2} on blocks of 2: m = (2, 2), as if it were four.
  const SmallCase c({level(2, 10, 1), level(2, 5, 3)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 3), 10 + 14.0);
}

TEST(CollectiveTime, BandwidthIsOversubscribedAndTheLeastFromLevelOne) {
  // Members 0 and 4 of 8: m = (1, 1, 2). β_2 = min(12/3, 20/2) = 4; β_0 = 1 does not matter.
  const SmallCase c({level(2, 1), level(2, 12, 0, 3), level(2, 20, 7, 2)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kData, 80);
  EXPECT_SECONDS(collective_s(c, cost, 1, 1, 1, 2, 1), 2 * 0.5 * 80 / 4 + 2 * 7.0);
  // β_0 = b_0/o_0 = 10/2 for a group inside one block.
  const SmallCase inner({level(2, 10, 0, 2)});
  EXPECT_SECONDS(collective_s(inner, cost, 1, 1, 1, 2, 2), 2 * 0.5 * 80 / 5);
}

TEST(CollectiveTime, NothingToSendAndNobodyToSendToCostNothing) {
  const SmallCase c({level(4, 10, 1)});
  EXPECT_EQ(collective_s(c, with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 0), 2),
            0);
  for (const GroupKind group :
       {GroupKind::kTensor, GroupKind::kContext, GroupKind::kExpert, GroupKind::kData}) {
    EXPECT_EQ(collective_s(c, with_collective(CollectiveOp::kAllReduce, group, 80), 1), 0);
  }
}

TEST(Groups, SlowestGroupCounts) {
  // tp pairs {0,1}, {2,3}, {4,5} on blocks of 3: {2,3} is the one that crosses.
  const SmallCase c({level(3, 100), level(2, 5)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 1, 1, 3, 3), 80 / 5.0);
}

TEST(Groups, SlowestPodCounts) {
  // Pods of 3 on blocks of 2: {0,1} in pod 0, {3,4} in pod 1.
  const SmallCase c({level(2, 100), level(3, 5)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 1, 1, 2, 1), 80 / 5.0);
}

TEST(Groups, TensorRanksAreNeighbours) {
  const SmallCase c({level(2, 100), level(2, 5)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 2), 80 / 100.0);
}

TEST(Groups, ContextRanksAreAtStrideTp) {
  // tp 2, cp 2, two inner copies: {0,2} and {4,6} meet at level 1, never at level 2.
  const SmallCase c({level(2, 100), level(2, 5), level(2, 1)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kContext, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 2, 1, 2, 2), 80 / 5.0);
}

TEST(Groups, DataParallelPeersSpanContextAndPods) {
  // tp 2, cp 2, 2 pods of 4: the group of rank 0 is {0,2,4,6}: m = (1, 2, 2).
  const SmallCase c({level(2, 100), level(2, 5), level(2, 1)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kData, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 2, 1, 2, 1), 80 / 5.0 + 40 / 1.0);
}

TEST(Groups, ExpertsAreConsecutiveDataParallelMembers) {
  // ep 2 of {0,1,2,3}: {0,1} and {2,3}, each inside its block.
  const SmallCase c({level(2, 100), level(2, 5)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kExpert, 80);
  EXPECT_SECONDS(collective_s(c, cost, 1, 1, 2, 4, 4), 80 / 100.0);
}

TEST(Groups, ExpertsMaySpanConsecutivePods) {
  // One member per pod of 2 on blocks of 4: ep 2 joins pods {0,1} and {2,3}, inside the blocks.
  const SmallCase c({level(4, 100), level(2, 5)});
  const LayerCost cost = with_collective(CollectiveOp::kAllReduce, GroupKind::kExpert, 80);
  EXPECT_SECONDS(collective_s(c, cost, 2, 1, 2, 4, 1), 80 / 100.0);
}

model::Plan with_expert_degree(std::int64_t ep, std::int64_t cp, std::int64_t dp,
                               std::int64_t dp_inner) {
  SmallCase c({level(12, 1)}, dp);
  const int s = c.strategy(1, cp, ep);
  c.layer();
  c.data_parallel(dp, dp_inner);
  c.stage({0}, s, 0);
  return c.evaluate();
}

TEST(Groups, OtherExpertDegreesAreInfeasible) {
  const auto feasible = [](std::int64_t ep, std::int64_t cp, std::int64_t dp, std::int64_t inner) {
    return with_expert_degree(ep, cp, dp, inner).status == model::Status::kOptimal;
  };
  EXPECT_TRUE(feasible(2, 1, 4, 4));    // divides cp·dp_inner = 4
  EXPECT_TRUE(feasible(4, 2, 2, 2));    // equals it
  EXPECT_FALSE(feasible(3, 1, 4, 4));   // neither divides 4 nor is a multiple
  EXPECT_TRUE(feasible(4, 1, 8, 2));    // k = 2 divides dp_outer = 4
  EXPECT_FALSE(feasible(4, 1, 6, 2));   // k = 2 does not divide dp_outer = 3
  EXPECT_FALSE(feasible(8, 1, 4, 4));   // k = 2 does not divide dp_outer = 1
  EXPECT_FALSE(feasible(3, 2, 12, 2));  // between: 3 is no multiple of 4 and does not divide it
  EXPECT_NE(with_expert_degree(3, 1, 4, 4).reason.find("ep = 3"), std::string::npos);
}

TEST(StageTime, RecomputeRunsTheForwardWithItsCollectives) {
  SmallCase c({level(2, 10)});
  const int s = c.strategy(2);
  LayerCost cost;
  cost.forward_s = 3;
  cost.backward_s = 7;
  cost.collectives.push_back({Phase::kForward, CollectiveOp::kAllReduce, GroupKind::kTensor, 20});
  cost.collectives.push_back({Phase::kForward, CollectiveOp::kAllGather, GroupKind::kTensor, 20});
  cost.collectives.push_back({Phase::kBackward, CollectiveOp::kAllReduce, GroupKind::kTensor, 50});
  c.layer(cost);
  c.layer(cost);
  c.stage({0, 1}, s, 0).recompute = model::Recompute::kFull;
  const model::StageTime time = c.evaluate().stages[0].time;
  const double forward = 2 * (3 + 20 / 10.0 + 10 / 10.0);  // both layers, both collectives
  EXPECT_SECONDS(time.forward_s, forward);
  EXPECT_SECONDS(time.backward_s, 2 * (7 + 50 / 10.0));
  EXPECT_SECONDS(time.recompute_s, forward);
  EXPECT_SECONDS(time.collective_s, 2 * (3.0 + 5.0 + 3.0));
  EXPECT_SECONDS(time.total_s, 2 * forward + 24);

  c.plan.stages[0].recompute = model::Recompute::kNone;
  EXPECT_EQ(c.evaluate().stages[0].time.recompute_s, 0);
}

/// One stage of 10 dense parameters on two replicas over a link of 1 byte/s; w, g, o = 2, 4, 12.
/// all_reduce(V) = V, the others V/2.
model::StageTime zero_time(int zero) {
  SmallCase c({level(2, 1)}, 2);
  const int s = c.strategy(1);
  LayerCost cost;
  cost.parameters = 10;
  c.layer(cost);
  c.data_parallel(2, 2);
  c.stage({0}, s, 0).zero = zero;
  return c.evaluate().stages[0].time;
}

TEST(Zero, TrafficPerMicroBatchAndPerIteration) {
  EXPECT_EQ(zero_time(0).zero_s, 0);
  EXPECT_EQ(zero_time(1).zero_s, 0);
  EXPECT_SECONDS(zero_time(2).zero_s, 40 / 2.0);                   // reduce_scatter(4·10)
  EXPECT_SECONDS(zero_time(3).zero_s, 2 * (20 / 2.0) + 40 / 2.0);  // and 2·all_gather(2·10)
  EXPECT_SECONDS(zero_time(0).sync_s, 40.0);                       // all_reduce(4·10)
  EXPECT_SECONDS(zero_time(1).sync_s, 40 / 2.0 + 20 / 2.0);        // reduce_scatter and all_gather
  EXPECT_SECONDS(zero_time(2).sync_s, 20 / 2.0);                   // all_gather
  EXPECT_EQ(zero_time(3).sync_s, 0);
  EXPECT_SECONDS(zero_time(3).total_s, 40.0);  // Z is part of t, sync is not
  EXPECT_EQ(zero_time(0).total_s, 0);
}

/// 10 dense and 6 expert parameters, ep 2 on `dp_inner` of `dp` replicas over blocks of 2 (port 1)
/// joined by a port of 1/2 byte/s.
model::StageTime expert_time(int zero, std::int64_t dp, std::int64_t dp_inner, double dense) {
  SmallCase c({level(2, 1, 3), level(2, 0.5, 5)}, dp);
  const int s = c.strategy(1, 1, 2);
  LayerCost cost;
  cost.parameters = dense;
  cost.expert_parameters = 6;
  c.layer(cost);
  c.data_parallel(dp, dp_inner);
  c.stage({0}, s, 0).zero = zero;
  return c.evaluate().stages[0].time;
}

TEST(Zero, ExpertsSynchroniseAmongTheirPeers) {
  // ep groups {0,1}, {2,3}; peers {0,2}, {1,3}: across blocks, m = (1, 2).
  EXPECT_SECONDS(expert_time(0, 4, 4, 0).sync_s, 24 / 0.5 + 2 * 5);  // all_reduce(4·6)
  EXPECT_SECONDS(expert_time(2, 4, 4, 0).zero_s, (24 / 0.5 + 2 * 5) / 2);
  EXPECT_SECONDS(expert_time(3, 4, 4, 0).zero_s,
                 2 * (12 / 0.5 + 2 * 5) / 2 + (24 / 0.5 + 2 * 5) / 2);
}

TEST(Zero, ExpertTermsAreCollectivesOfTheirOwn) {
  // Dense over {0,1,2,3}, m = (2, 2): 40/1 + 2·3 + 20/0.5 + 2·5; both latencies are paid again.
  EXPECT_SECONDS(expert_time(0, 4, 4, 10).sync_s,
                 (40 / 1.0 + 2 * 3 + 20 / 0.5 + 2 * 5) + (24 / 0.5 + 2 * 5));
}

TEST(Zero, ExpertsSpreadOverPodsHaveFewerPeers) {
  // Two pods of two devices, ep 2 over both: nobody shares a shard.
  EXPECT_EQ(expert_time(0, 2, 1, 0).sync_s, 0);
  // Four pods: ep groups {0,1}, {2,3} of pods, peers at distance two.
  EXPECT_SECONDS(expert_time(0, 4, 1, 0).sync_s, 24 / 0.5 + 2 * 5);
}

/// Two stages of 4 s and 10 s (forward + backward) on one link of no bytes.
SmallCase two_stages(std::int64_t batch, double first_s = 4, double second_s = 10) {
  SmallCase c({level(4, 1)}, batch);
  const int s = c.strategy(1);
  LayerCost cost;
  cost.parameters = 10;
  cost.forward_s = first_s / 4;
  cost.backward_s = first_s - cost.forward_s;
  c.layer(cost);
  cost.parameters = 100;
  cost.forward_s = second_s / 4;
  cost.backward_s = second_s - cost.forward_s;
  c.layer(cost);
  c.edge(0, 1, 0);
  c.stage({0}, s, 0);
  c.stage({1}, s, 1);
  return c;
}

TEST(Objective, OneForwardOneBackward) {
  const SmallCase c = two_stages(6);
  EXPECT_SECONDS(c.evaluate().iteration_time_s, 4 + 10 + (6 - 1) * 10.0);
}

TEST(Objective, Paper) {
  SmallCase c = two_stages(6);
  c.problem.options.objective = model::Objective::kPaper;
  EXPECT_SECONDS(c.evaluate().iteration_time_s, (6 + 2 - 1) * 10.0);
}

TEST(Objective, OnlyTheFirstStagesSyncCounts) {
  SmallCase c = two_stages(6);
  c.data_parallel(2, 1);  // pods {0,1} and {2,3}
  const model::Plan plan = c.evaluate();
  EXPECT_SECONDS(plan.stages[0].time.sync_s, 40.0);   // all_reduce(4·10)
  EXPECT_SECONDS(plan.stages[1].time.sync_s, 400.0);  // hidden behind the first stage's tail
  EXPECT_SECONDS(plan.iteration_time_s, 4 + 10 + (3 - 1) * 10.0 + 40);
  c.problem.options.objective = model::Objective::kPaper;
  EXPECT_SECONDS(c.evaluate().iteration_time_s, (3 + 2 - 1) * 10.0 + 40);
}

TEST(Batch, MicroBatchesDivideOrAreRoundedUp) {
  SmallCase c = two_stages(7);
  c.problem.graph.strategies[0].micro_batch = 2;
  EXPECT_EQ(c.evaluate().status, model::Status::kInfeasible);
  c.problem.options.allow_uneven_batch = true;
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  EXPECT_EQ(plan.strategy.microbatches, 4);  // ⌈7/2⌉
  EXPECT_SECONDS(plan.iteration_time_s, 14 + (4 - 1) * 10.0);
}

TEST(Batch, ReplicasNeedAMicroBatchEach) {
  SmallCase c = two_stages(3);
  c.problem.options.allow_uneven_batch = true;
  c.problem.graph.strategies[0].micro_batch = 2;
  c.data_parallel(2, 1);  // 2·2 > 3
  EXPECT_EQ(c.evaluate().status, model::Status::kInfeasible);
  c.problem.options.global_batch = 4;
  EXPECT_EQ(c.evaluate().status, model::Status::kOptimal);
}

TEST(Memory, ShardGroupIsDataTimesContext) {
  // ZeRO 3, tp 1, cp 2, dp 2: G = 4; experts over G/ep = 2.
  SmallCase c({level(4, 1)}, 2);
  const int s = c.strategy(1, 2, 2);
  LayerCost cost;
  cost.parameters = 100;
  cost.expert_parameters = 60;
  c.layer(cost);
  cost.parameters = 300;
  cost.expert_parameters = 0;
  c.layer(cost);
  c.data_parallel(2, 1);
  c.stage({0, 1}, s, 0).zero = 3;
  // The largest layer is the second, 300 against 100 + 60.
  EXPECT_EQ(c.evaluate().stages[0].memory.state_bytes, 400 * 18 / 4.0 + 60 * 18 / 2.0 + 2 * 300.0);
}

TEST(Memory, LargestLayerIncludesExperts) {
  SmallCase c({level(4, 1)}, 2);
  const int s = c.strategy(1, 1, 2);
  LayerCost cost;
  cost.parameters = 100;
  cost.expert_parameters = 250;
  c.layer(cost);
  cost.parameters = 300;
  cost.expert_parameters = 0;
  c.layer(cost);
  c.data_parallel(2, 2);
  c.stage({0, 1}, s, 0).zero = 3;
  EXPECT_EQ(c.evaluate().stages[0].memory.state_bytes, 400 * 18 / 2.0 + 250 * 18.0 + 2 * 350.0);
}

SmallCase activations(std::int64_t batch, model::Recompute recompute) {
  SmallCase c({level(4, 1)}, batch);
  const int s = c.strategy(1);
  LayerCost cost;
  cost.activation_bytes = 100;
  cost.checkpoint_bytes = 10;
  c.layer(cost);
  cost.activation_bytes = 70;
  cost.checkpoint_bytes = 20;
  c.layer(cost);
  c.layer(cost);
  c.stage({0, 1}, s, 0).recompute = recompute;
  c.stage({2}, s, 1).recompute = recompute;
  return c;
}

TEST(Memory, InFlightIsThePlaceFromTheEndUpToTheMicroBatches) {
  const model::Plan many = activations(5, model::Recompute::kNone).evaluate();
  EXPECT_EQ(many.stages[0].memory.activation_bytes, 2 * (100 + 70));
  EXPECT_EQ(many.stages[1].memory.activation_bytes, 1 * 70);
  const model::Plan one = activations(1, model::Recompute::kNone).evaluate();
  EXPECT_EQ(one.stages[0].memory.activation_bytes, 1 * (100 + 70));
}

TEST(Memory, RecomputationKeepsCheckpointsAndOneLayer) {
  const model::Plan plan = activations(5, model::Recompute::kFull).evaluate();
  EXPECT_EQ(plan.stages[0].memory.activation_bytes, 2 * (10 + 20) + 100);
  EXPECT_EQ(plan.stages[1].memory.activation_bytes, 1 * 20 + 70);
}

TEST(Memory, GPipeKeepsAllMicroBatchesAndChangesNothingElse) {
  SmallCase c = activations(5, model::Recompute::kNone);
  const double seconds = c.evaluate().iteration_time_s;
  c.problem.options.schedule = model::Schedule::kGPipe;
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.stages[0].memory.activation_bytes, 5 * (100 + 70));
  EXPECT_EQ(plan.stages[1].memory.activation_bytes, 5 * 70);
  EXPECT_EQ(plan.iteration_time_s, seconds);
}

TEST(Memory, LimitIsTheDeviceLessItsReserve) {
  SmallCase c = activations(5, model::Recompute::kNone);
  c.problem.cluster.device.memory_bytes = 350;
  c.problem.cluster.device.reserved_bytes = 10;
  EXPECT_EQ(c.evaluate().status, model::Status::kOptimal);  // exactly 340
  c.problem.cluster.device.reserved_bytes = 11;
  EXPECT_EQ(c.evaluate().status, model::Status::kInfeasible);
}

TEST(Placement, StagesEndWithinThePod) {
  SmallCase c = two_stages(4);
  c.data_parallel(2, 1);  // pods of 2
  EXPECT_EQ(c.evaluate().status, model::Status::kOptimal);
  c.plan.stages[1].position = 2;
  EXPECT_EQ(c.evaluate().status, model::Status::kInfeasible);
}

TEST(Placement, UnitsHoldTensorContextAndInnerCopies) {
  SmallCase c({level(16, 1)}, 2);
  const int s = c.strategy(2, 2);
  c.layer();
  c.layer();
  c.data_parallel(2, 2);
  c.stage({0}, s, 0);
  c.stage({1}, s, 8);  // 2·2·2 devices in
  const model::Plan plan = c.evaluate();
  EXPECT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  EXPECT_EQ(plan.stages[1].devices, 8);
  c.plan.stages[1].position = 7;
  EXPECT_EQ(c.evaluate().status, model::Status::kInfeasible);
}

TEST(Placement, SearchLeavesAGapWhereItPays) {
  // Stages of 2 and 2 devices on blocks of 3: at position 2 the second would straddle two blocks.
  SmallCase c({level(3, 100), level(2, 1)}, 8);
  c.strategy(2);
  const LayerCost cost = [] {
    LayerCost out = with_collective(CollectiveOp::kAllReduce, GroupKind::kTensor, 100);
    out.forward_s = 10;
    out.backward_s = 10;
    return out;
  }();
  c.layer(cost);
  c.layer(cost);
  c.edge(0, 1, 1);
  c.problem.options.dp = {1};
  const auto network = network::make_network(c.problem.cluster);
  const testing::Optimum best = testing::brute_force(c.problem, *network).uniform_1f1b;
  ASSERT_EQ(best.plan.stages.size(), 2U);
  EXPECT_EQ(best.plan.stages[1].position, 3);
  // Per stage 20 s of compute, 1 s of collectives, 1 s of receiving; eight micro-batches.
  EXPECT_SECONDS(best.value_s, 22 + 22 + 7 * 22.0);
}

TEST(Ties, CanonicalOrder) {
  using cost::PlacedPlan;
  using testing::canonical_less;
  const auto plan = [](std::int64_t dp, std::int64_t inner, std::vector<cost::PlacedStage> stages) {
    return PlacedPlan{dp, inner, std::move(stages)};
  };
  constexpr auto kNone = model::Recompute::kNone;
  constexpr auto kFull = model::Recompute::kFull;
  // Ascending: each differs from the one before in the next less important choice or a later one.
  const std::vector<PlacedPlan> ascending{
      plan(1, 1, {{{0, 1, 2}, 5, 0, kFull, 3}}),
      plan(2, 1, {{{0, 1, 2}, 5, 0, kFull, 3}}),
      plan(2, 2, {{{0, 1, 2}, 0, 0, kNone, 0}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 0}, {{1, 2}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 0}, {{1, 2}, 0, 1, kNone, 1}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 0}, {{1, 2}, 0, 1, kFull, 0}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 0}, {{1, 2}, 0, 2, kNone, 0}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 0}, {{1, 2}, 1, 1, kNone, 0}}),
      plan(2, 2, {{{0}, 0, 0, kNone, 1}, {{1, 2}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{0}, 0, 0, kFull, 0}, {{1, 2}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{0}, 1, 0, kNone, 0}, {{1, 2}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{0, 1}, 0, 0, kNone, 0}, {{2}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{0, 2}, 0, 0, kNone, 0}, {{1}, 0, 1, kNone, 0}}),
      plan(2, 2, {{{1}, 0, 0, kNone, 0}, {{0, 2}, 0, 1, kNone, 0}}),
  };
  for (std::size_t i = 0; i < ascending.size(); ++i) {
    for (std::size_t j = 0; j < ascending.size(); ++j) {
      EXPECT_EQ(canonical_less(1, ascending[i], 1, ascending[j]), i < j) << i << ' ' << j;
      EXPECT_TRUE(canonical_less(1, ascending[i], 2, ascending[j])) << i << ' ' << j;
    }
  }
}

TEST(Ties, GoToTheCanonicalPlan) {
  // Free layers on a free network: every plan takes no time but for one second of the batch.
  SmallCase c({level(4, 1)}, 4);
  c.strategy(2);
  c.strategy(1);
  LayerCost cost;
  cost.forward_s = 1;
  c.layer(cost);
  cost.forward_s = 0;
  c.layer(cost);
  c.edge(0, 1, 0);
  c.problem.options.dp = {1, 2};
  const auto network = network::make_network(c.problem.cluster);
  const testing::Optima optima = testing::brute_force(c.problem, *network);
  // dp 2 halves the micro-batches; then the least dp_inner, one stage, the first strategy, no ZeRO.
  const testing::Optimum& best = optima.per_stage_1f1b;
  EXPECT_SECONDS(best.value_s, 2.0);
  EXPECT_EQ(best.plan.dp, 2);
  EXPECT_EQ(best.plan.dp_inner, 1);
  ASSERT_EQ(best.plan.stages.size(), 1U);
  EXPECT_EQ(best.plan.stages[0].strategy, 0);
  EXPECT_EQ(best.plan.stages[0].recompute, model::Recompute::kNone);
  EXPECT_EQ(best.plan.stages[0].zero, 0);
}

}  // namespace
}  // namespace nestplan
