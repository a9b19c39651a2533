#include <gtest/gtest.h>

#include <vector>

#include "nestplan/simulate/simulation.hpp"
#include "simulate/fair_shares.hpp"
#include "simulate/line.hpp"
#include "support/small_case.hpp"

namespace nestplan::simulate {
namespace {

using testing::SmallCase;

Transfer sender(double rate, std::vector<LinkUse> uses) {
  Transfer transfer;
  transfer.rate = rate;
  transfer.uses = std::move(uses);
  return transfer;
}

std::vector<double> shares(const std::vector<Transfer>& transfers,
                           const std::vector<double>& capacities) {
  std::vector<const Transfer*> pointers;
  for (const Transfer& transfer : transfers) pointers.push_back(&transfer);
  std::vector<SharedLink> links;
  for (const double capacity : capacities) links.push_back({capacity, 1});
  std::vector<double> rates;
  fair_shares(pointers, links, std::vector<char>(links.size(), 1), rates);
  return rates;
}

TEST(FairShares, TextbookExample) {
  // Three in a row over links of 10 and 4: the second link holds two back, the first has 8 left.
  EXPECT_EQ(shares({sender(100, {{0, 1}}), sender(100, {{0, 1}, {1, 1}}), sender(100, {{1, 1}})},
                   {10, 4}),
            (std::vector<double>{8, 2, 2}));
}

TEST(FairShares, WhatATransferCannotUseIsLeftToOthers) {
  EXPECT_EQ(shares({sender(1, {{0, 2}}), sender(50, {{0, 2}})}, {10}), (std::vector<double>{1, 4}));
  EXPECT_EQ(shares({sender(3, {}), sender(5, {{0, 1}})}, {5}), (std::vector<double>{3, 5}));
}

TEST(FairShares, DevicesAreServedAlike) {
  // one device against three: a quarter of the link each
  EXPECT_EQ(shares({sender(9, {{0, 1}}), sender(9, {{0, 3}})}, {12}), (std::vector<double>{3, 3}));
}

/// Steps take 1. The third stage receives forward for 2, the first receives gradients for 2, over
/// one link. Stage 3 starts to receive F2 at 6, stage 1 to receive B1 at 7: they share until 9.
TEST(Contention, ByHand) {
  Pipeline pipeline = testing::line(3, 2, {{1, 1}, {1, 1}, {1, 1}});
  PodKind& kind = pipeline.kinds[0];
  kind.links = {{1, 1}};
  for (Transfer* transfer : {&kind.forward[2], &kind.gradient[0]}) {
    *transfer = sender(1, {{0, 1}});
    transfer->seconds = 2;
  }
  EXPECT_EQ(run(pipeline, kind, false).stages[0].finish_s, 14);
  const PodRun shared = run(pipeline, kind, true);
  EXPECT_EQ(shared.stages[0].finish_s, 15);
  EXPECT_EQ(shared.stages[0].receive_s, 5);
  EXPECT_EQ(shared.stages[2].receive_s, 5);
  kind.links[0].capacity = 2;
  EXPECT_EQ(run(pipeline, kind, true).stages[0].finish_s, 14);
}

/// Latency is not shared: with 1 of it the transfers meet only from 8 to 9.
TEST(Contention, LatencyPassesBy) {
  Pipeline pipeline = testing::line(3, 2, {{1, 1}, {1, 1}, {1, 1}});
  PodKind& kind = pipeline.kinds[0];
  kind.links = {{1, 1}};
  for (Transfer* transfer : {&kind.forward[2], &kind.gradient[0]}) {
    *transfer = sender(1, {{0, 1}});
    transfer->seconds = 2;
    transfer->latency_s = 1;
  }
  // F2 of stage 3 sends from 7 to 8, B1 of stage 1 from 8 to 9
  EXPECT_EQ(run(pipeline, kind, true).stages[0].finish_s, 14);
}

/// Three racks of two devices, one stage in each; two devices get half a link each, the rack's
/// whole uplink.
SmallCase racks(std::int64_t batch) {
  SmallCase c({SmallCase::level(2, 100), SmallCase::level(3, 10, 0, 2)}, batch);
  c.strategy(2);
  model::LayerCost cost;
  cost.backward_s = 1;
  cost.forward_s = 1;
  for (int i = 0; i < 3; ++i) c.layer(cost);
  c.edge(0, 1, 10);
  c.edge(1, 2, 10);
  for (int i = 0; i < 3; ++i) c.stage({i}, 0, 2 * i);
  return c;
}

TEST(Contention, LinksOfARack) {
  const SmallCase c = racks(2);
  const auto network = network::make_network(c.problem.cluster);
  const Pipeline pipeline = build_pipeline(c.problem, *network, c.evaluate());
  ASSERT_EQ(pipeline.kinds.size(), 1U);
  const PodKind& kind = pipeline.kinds[0];
  const Transfer& down = kind.forward[2];
  EXPECT_DOUBLE_EQ(down.rate, 5);
  EXPECT_DOUBLE_EQ(down.seconds, 2);
  ASSERT_EQ(down.uses.size(), 3U);
  EXPECT_DOUBLE_EQ(down.uses[0].weight, 1);  // the port of a device
  EXPECT_DOUBLE_EQ(kind.links[static_cast<std::size_t>(down.uses[0].link)].capacity, 10);
  EXPECT_EQ(down.uses[1].weight, 2);  // out of rack 2
  EXPECT_DOUBLE_EQ(kind.links[static_cast<std::size_t>(down.uses[1].link)].capacity, 10);
  // the gradient from rack 2 to rack 1 leaves by the same uplink
  EXPECT_EQ(kind.gradient[0].uses[1].link, down.uses[1].link);
  EXPECT_NE(kind.gradient[1].uses[1].link, down.uses[1].link);
}

/// Stages 2 and 3 share a rack, whose uplink one device fills. Stage 4 receives a micro-batch from
/// it while the gradient of the one before, gone up to stage 2, leaves it for stage 1.
TEST(Contention, SlowsAPlanDown) {
  SmallCase c({SmallCase::level(2, 100), SmallCase::level(3, 10, 0, 4)}, 6);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 1;
  for (int i = 0; i < 4; ++i) c.layer(cost);
  for (int i = 0; i < 3; ++i) c.edge(i, i + 1, 10);
  c.stage({0}, 0, 0);
  for (int i = 1; i < 4; ++i) c.stage({i}, 0, i + 1);
  const auto network = network::make_network(c.problem.cluster);
  const model::Plan plan = c.evaluate();
  const Pipeline pipeline = build_pipeline(c.problem, *network, plan);
  const Simulation simulation = simulate(pipeline, *network, plan);
  EXPECT_GT(simulation.contention_s, 0);
  EXPECT_DOUBLE_EQ(simulation.makespan_s,
                   simulation.without_contention_s + simulation.contention_s);
  ASSERT_EQ(simulation.levels.size(), 2U);
  EXPECT_GT(simulation.levels[1].fullest_uplink_share, 0);
  EXPECT_LT(simulation.levels[1].fullest_uplink_share, 1);
  // twice the uplink, and nobody waits
  c.problem.cluster.hierarchy().levels[1].bandwidth = 5;
  c.problem.cluster.hierarchy().levels[1].oversubscription = 1;
  const auto wider = network::make_network(c.problem.cluster);
  const model::Plan same = c.evaluate();
  EXPECT_EQ(same.iteration_time_s, plan.iteration_time_s);
  EXPECT_EQ(simulate(build_pipeline(c.problem, *wider, same), *wider, same).contention_s, 0);
}

/// Two pods of two devices in a rack and a half: pods differ in the level of their link.
TEST(Contention, PodsThatLieDifferently) {
  SmallCase c({SmallCase::level(3, 10), SmallCase::level(2, 1)}, 6);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 1;
  for (int i = 0; i < 2; ++i) c.layer(cost);
  c.edge(0, 1, 1);
  c.data_parallel(3, 1);
  c.stage({0}, 0, 0);
  c.stage({1}, 0, 1);
  const auto network = network::make_network(c.problem.cluster);
  const model::Plan plan = c.evaluate();
  const Pipeline pipeline = build_pipeline(c.problem, *network, plan);
  ASSERT_EQ(pipeline.kinds.size(), 2U);  // devices 2 and 3 are the ones in two racks
  EXPECT_EQ(pipeline.kinds[0].pods, 2);
  EXPECT_EQ(pipeline.kinds[0].forward[1].level, 0);
  EXPECT_DOUBLE_EQ(pipeline.kinds[0].forward[1].seconds, 0.1);
  EXPECT_EQ(pipeline.kinds[1].forward[1].level, 1);
  EXPECT_DOUBLE_EQ(pipeline.kinds[1].forward[1].seconds, 1);
  const Simulation simulation = simulate(pipeline, *network, plan);
  EXPECT_EQ(simulation.slowest_kind, 1U);
  EXPECT_DOUBLE_EQ(simulation.without_contention_s, 2 * 3 + 3);  // as the formula: the worst pod
  EXPECT_DOUBLE_EQ(simulation.predicted_s, 9);
}

/// The pods are alike, so their number does not matter.
TEST(Contention, ThousandsOfDevicesAreAsManyEventsAsOnePod) {
  SmallCase c({SmallCase::level(8, 100), SmallCase::level(4, 10), SmallCase::level(512, 10, 0, 2)},
              16 * 1024);
  c.strategy(4);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 2;
  for (int i = 0; i < 4; ++i) c.layer(cost);
  for (int i = 0; i < 3; ++i) c.edge(i, i + 1, 1);
  c.data_parallel(1024, 1);
  for (int i = 0; i < 4; ++i) c.stage({i}, 0, 4 * i);
  const auto network = network::make_network(c.problem.cluster);
  const model::Plan plan = c.evaluate();
  ASSERT_EQ(network->devices(), 16384);
  const Pipeline pipeline = build_pipeline(c.problem, *network, plan);
  ASSERT_EQ(pipeline.kinds.size(), 1U);
  EXPECT_EQ(pipeline.kinds[0].pods, 1024);
  const Simulation simulation = simulate(pipeline, *network, plan);
  EXPECT_EQ(simulation.events, 16 * (2 * 4 + 6));  // no gradients to synchronise
  EXPECT_EQ(simulation.levels[1].transfers, 1024 * 16 * 2);
}

}  // namespace
}  // namespace nestplan::simulate
