// What networks do to plans, and what mixed and broken clusters need.

#include "nestplan/network/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "cases/chains.hpp"
#include "cost/samples.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/profile.hpp"

namespace nestplan::cases {
namespace {

using model::CollectiveOp;
using model::Status;
using Devices = std::vector<std::int64_t>;

constexpr double kNear = 1e-9;

/// Nodes of eight devices on links of 450 GB/s, with 50 GB/s of every device between nodes.
model::Cluster nodes_of_eight(std::int64_t nodes) {
  model::Cluster cluster = node(8);
  cluster.device = test::h100();
  cluster.hierarchy().levels = {{"node", 8, 450e9, 0, 1}, {"leaf", nodes, 50e9, 0, 1}};
  return cluster;
}

// N01 — llm-analysis, autoparallel: groups over several nodes priced at the speed inside of one

TEST(CaseN01, APairOverTwoNodesPaysForTheLinkBetweenThem) {
  const auto network = network::make_network(nodes_of_eight(2));
  for (std::int64_t i = 0; i < 8; ++i) {
    const network::GroupShape pair = network->shape(Devices{i, i + 8});
    EXPECT_NEAR(network->collective_s(CollectiveOp::kAllReduce, 1e9, pair), 0.020, kNear);
  }
}

TEST(CaseN01, ARingOverBothNodesIsNeverAsFastAsInsideOne) {
  const auto network = network::make_network(nodes_of_eight(2));
  Devices all(16);
  for (std::int64_t i = 0; i < 16; ++i) all[static_cast<std::size_t>(i)] = i;
  const double ring = network->collective_s(CollectiveOp::kAllReduce, 1e9, network->shape(all));
  const auto one_node = network::make_network(node(16));
  const double inside =
      one_node->collective({CollectiveOp::kAllReduce}, one_node->shape(all)).ways()[0].per_byte_s *
      1e9;
  EXPECT_NEAR(ring / inside, 1.53, 0.01);
  EXPECT_LE(ring / inside, 9);
}

// N02 — llm-analysis, Megatron-LM: tensor parallelism beyond the node, and pipelines inside of it

model::Plan plan_of_sixteen(std::int64_t microbatches, const std::vector<std::int64_t>& tp) {
  model::Problem problem;
  problem.cluster = nodes_of_eight(2);
  cost::ProfileOptions profile;
  profile.tp = {4, 8, 16};
  profile.sequence = 2048;
  problem.graph = cost::build_graph(gpt(32, 4096, 32, 51200), problem.cluster.device, profile);
  problem.options.global_batch = microbatches;
  problem.options.dp = {1};
  problem.options.tp = tp;
  problem.options.recompute = {model::Recompute::kNone};
  return solve(problem);
}

TEST(CaseN02, TensorParallelismOverNodesIsNeverFirst) {
  std::int64_t depth = 0;
  for (const std::int64_t microbatches : {4, 8, 16, 32, 64, 128}) {
    const model::Plan best = plan_of_sixteen(microbatches, {});
    ASSERT_EQ(best.status, Status::kOptimal);
    const model::Plan across = plan_of_sixteen(microbatches, {16});
    EXPECT_LT(best.iteration_time_s, across.iteration_time_s);
    EXPECT_GE(best.strategy.pp, 2) << microbatches;
    EXPECT_GE(best.strategy.pp, depth) << "with " << microbatches << " micro-batches";
    depth = best.strategy.pp;
  }
}

// N04 — picotron, Megatron-LM: which axis crosses nodes

/// Two layers of 3.5e9 parameters each under tp 4, on two nodes of eight.
model::Problem two_stages(std::int64_t microbatches) {
  model::Problem problem;
  problem.cluster = nodes_of_eight(2);
  problem.cluster.device.memory_bytes = 1e15;
  problem.graph.name = "two";
  problem.graph.strategies = {{"tp4", 4}};
  const double boundary = 4096.0 * 4096 * 2;
  for (const char* id : {"a", "b"}) {
    model::LayerCost cost;
    cost.forward_s = 0.01;
    cost.backward_s = 0.02;
    cost.parameters = 7e9 / 2 / 4;
    problem.graph.layers.push_back({id, {cost}});
  }
  problem.graph.edges = {{0, 1, {boundary}}};
  problem.options.global_batch = 2 * microbatches;
  problem.options.dp = {2};
  problem.options.pp = {2};
  problem.options.zero = {0};
  problem.options.state_bytes = {2, 2, 12};
  problem.options.recompute = {model::Recompute::kNone};
  return problem;
}

TEST(CaseN04, TheAxisWithFewerBytesCrossesNodes) {
  const model::Plan few = solve(two_stages(16));
  EXPECT_EQ(few.strategy.dp_inner, 2) << "the pipeline crosses, copies share a node";
  const model::Plan many = solve(two_stages(64));
  EXPECT_EQ(many.strategy.dp_inner, 1) << "copies cross, a pipeline shares a node";
  EXPECT_EQ(many.strategy.dp_outer, 2);
  // The gradients of a rank are 1.75 GB and go over 50 GB/s.
  EXPECT_NEAR(many.stages[0].time.sync_s, 1.75e9 / 50e9, 1e-4);
}

// N05 — Megatron-Bridge, DeepEP: racks of 72 and groups of 64

/// One layer of experts that trade 10 MB, ep 64, on racks of 72.
model::Problem racks_of_72() {
  model::Problem problem;
  problem.cluster = node(72);
  problem.cluster.hierarchy().levels = {{"rack", 72, 900e9, 1e-6, 1}, {"leaf", 4, 50e9, 5e-6, 1}};
  problem.graph.name = "experts";
  problem.graph.strategies = {{"ep64", 1, 1, 1, 64}};
  model::LayerCost cost;
  cost.forward_s = 0.001;
  cost.backward_s = 0.002;
  cost.expert_parameters = 1e6;
  for (const model::Phase phase : {model::Phase::kForward, model::Phase::kBackward}) {
    cost.collectives.push_back({phase, CollectiveOp::kAllToAll, model::GroupKind::kExpert, 1e7});
  }
  problem.graph.layers = {{"moe", {cost}}};
  problem.options.global_batch = 256;
  problem.options.dp = {256};
  return problem;
}

TEST(CaseN05, GroupsStayInRacksAndSpareDevicesIdle) {
  model::Problem problem = racks_of_72();
  const model::Plan best = solve(problem);
  ASSERT_EQ(best.status, Status::kOptimal);
  EXPECT_EQ(model::devices_used(best), 256);  // 32 of 288 idle
  problem.options.dp_inner = {256};  // filled one behind the other, three of four groups straddle
  const model::Plan filled = solve(problem);
  EXPECT_GT(filled.iteration_time_s, best.iteration_time_s);

  problem.options.stages.confined = {{model::StageConstraints::Scope::kExpert, "rack"}};
  EXPECT_EQ(solve(problem).status, Status::kInfeasible);
  problem.options.dp_inner.clear();
  EXPECT_EQ(solve(problem).iteration_time_s, best.iteration_time_s);
}

// N09 — nccl: the same ring under one switch and over two

TEST(CaseN09, WhatCrossesACutSharesItsUplink) {
  model::Cluster cluster = node(8);
  cluster.hierarchy().levels = {
      {"node", 8, 450e9, 0, 1}, {"leaf", 4, 50e9, 0, 1}, {"spine", 2, 50e9, 0, 4}};
  const auto network = network::make_network(cluster);
  const auto rate = [&](int level, std::int64_t flows) {
    return 1e9 / network->transfer_s(1e9, level, flows);
  };
  EXPECT_NEAR(rate(1, 8), 50e9, 1);     // inside a leaf
  EXPECT_NEAR(rate(2, 8), 50e9, 1);     // one crossing of every rail: 8 flows on 400 GB/s
  EXPECT_NEAR(rate(2, 32), 12.5e9, 1);  // four crossings of every rail
}

// N14 — Megatron-LM, Galvatron: node counts that are no power of two

TEST(CaseN14, FiveNodesAreAllUsed) {
  model::Problem problem;
  problem.cluster = nodes_of_eight(5);
  problem.cluster.device.memory_bytes = 24e9;
  cost::ProfileOptions profile;
  profile.tp = {1, 2, 4, 8};
  profile.sequence = 2048;
  problem.graph = cost::build_graph(gpt(40, 4096, 32, 51200), problem.cluster.device, profile);
  problem.options.global_batch = 400;
  const model::Plan best = solve(problem);
  ASSERT_EQ(best.status, Status::kOptimal);
  problem.cluster.limit = 32;
  const model::Plan fewer = solve(problem);
  ASSERT_EQ(fewer.status, Status::kOptimal);
  EXPECT_EQ(model::devices_used(best), 40);
  EXPECT_LT(best.iteration_time_s, fewer.iteration_time_s);
}

TEST(CaseN14, ABrokenDeviceLeavesTheOthersInUse) {
  model::Problem problem;
  problem.cluster = nodes_of_eight(8);
  cost::ProfileOptions profile;
  profile.tp = {1, 2, 4, 8};
  profile.sequence = 2048;
  problem.graph = cost::build_graph(gpt(20, 2048, 16, 51200), problem.cluster.device, profile);
  problem.options.global_batch = 504;
  problem.cluster.unavailable = {{24, 24}};  // three nodes of eight lost
  EXPECT_EQ(problem.cluster.devices(), 40);
  const model::Plan plan = solve(problem);
  ASSERT_EQ(plan.status, Status::kOptimal);
  EXPECT_GT(model::devices_used(plan), 32);
}

// N15 — Megatron-LM, exo, FlagScale: fast and slow devices in one pipeline

model::Problem fast_and_slow(double slow_memory_bytes) {
  model::Problem problem = chain(pieces(48, {.seconds = 1, .parameters = kGiB}), 2);
  problem.cluster.device.memory_bytes = 80 * kGiB;
  model::Device slow = problem.cluster.device;
  slow.name = "slow";
  slow.memory_bytes = slow_memory_bytes;
  problem.cluster.other_devices = {slow};
  problem.cluster.types = {{{1, 1}, 1}};
  for (model::Layer& layer : problem.graph.layers) {
    model::LayerCost& cost = *layer.costs[0];
    cost.others = {{2 * cost.forward_s, 2 * cost.backward_s, 0}};
  }
  return problem;
}

TEST(CaseN15, TheFastDeviceGetsMoreLayers) {
  const model::Plan plan = solve(fast_and_slow(40 * kGiB));
  ASSERT_EQ(plan.status, Status::kOptimal);
  EXPECT_EQ(sizes(plan), (std::vector<std::int64_t>{32, 16}));
  EXPECT_NEAR(bottleneck(plan), 32, kNear);
}

TEST(CaseN15, NoMoreThanItsMemoryHolds) {
  const model::Plan plan = solve(fast_and_slow(10 * kGiB));
  ASSERT_EQ(plan.status, Status::kOptimal);
  EXPECT_EQ(sizes(plan), (std::vector<std::int64_t>{38, 10}));
  EXPECT_EQ(plan.stages[1].memory.limit_bytes, 10 * kGiB);
}

// A stage is as slow as the slowest of its devices, and holds what the smallest does.
TEST(CaseN15, AStageOverBothIsAsSlowAsTheSlowOne) {
  model::Problem problem = fast_and_slow(40 * kGiB);
  problem.graph.strategies[0].tp = 2;
  problem.options.pp = {1};
  cost::PlacedPlan plan;
  plan.stages.resize(1);
  for (int layer = 0; layer < 48; ++layer) plan.stages[0].layers.push_back(layer);
  const auto network = network::make_network(problem.cluster);
  const model::Plan costed = cost::evaluate(problem, *network, plan);
  EXPECT_EQ(costed.status, Status::kInfeasible) << "48 GiB on a device of 40";
  EXPECT_NEAR(costed.stages[0].time.total_s, 96, kNear);
  EXPECT_EQ(costed.stages[0].memory.limit_bytes, 40 * kGiB);
}

// More oversubscription at the top: copies of the model come nearer to each other.
TEST(Oversubscription, PullsDataParallelismInside) {
  std::int64_t before = 0;
  for (const double oversubscription : {1, 2, 4, 8}) {
    model::Problem problem = two_stages(40);
    problem.cluster.hierarchy().levels[1].oversubscription = 1;
    problem.cluster.hierarchy().levels[1].bandwidth = 50e9 / oversubscription;
    // Gradients of many bytes against activations of few.
    problem.graph.edges[0].bytes = {1e7};
    const model::Plan plan = solve(problem);
    EXPECT_GE(plan.strategy.dp_inner, before);
    before = plan.strategy.dp_inner;
  }
  EXPECT_EQ(before, 2);
}

}  // namespace
}  // namespace nestplan::cases
