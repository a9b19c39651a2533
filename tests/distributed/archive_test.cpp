#include "distributed/archive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "support/random_problem.hpp"

namespace nestplan::distributed {
namespace {

bool same(const std::optional<model::LayerCost>& a, const std::optional<model::LayerCost>& b);
bool same(const model::Strategy& a, const model::Strategy& b);
bool same(const model::Layer& a, const model::Layer& b);
bool same(const model::Edge& a, const model::Edge& b);
bool same(const model::NetworkLevel& a, const model::NetworkLevel& b);

// Taken apart by structured bindings: a new field does not compile until it is compared too.
bool same(const model::Collective& a, const model::Collective& b) {
  const auto fields = [](const model::Collective& c) {
    const auto& [phase, op, group, bytes] = c;
    return std::make_tuple(phase, op, group, bytes);
  };
  return fields(a) == fields(b);
}

template <typename Item>
bool same(const std::vector<Item>& a, const std::vector<Item>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Item& x, const Item& y) { return same(x, y); });
}

bool same(const std::optional<model::LayerCost>& a, const std::optional<model::LayerCost>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  const auto numbers = [](const model::LayerCost& cost) {
    const auto& [forward, backward, parameters, experts, activation, checkpoint, collectives] =
        cost;
    return std::make_tuple(forward, backward, parameters, experts, activation, checkpoint,
                           collectives.size());
  };
  return numbers(*a) == numbers(*b) && same(a->collectives, b->collectives);
}

bool same(const model::Strategy& a, const model::Strategy& b) {
  const auto fields = [](const model::Strategy& strategy) {
    const auto& [id, tp, sp, cp, ep, etp, micro_batch] = strategy;
    return std::make_tuple(id, tp, sp, cp, ep, etp, micro_batch);
  };
  return fields(a) == fields(b);
}

bool same(const model::Layer& a, const model::Layer& b) {
  return a.id == b.id && same(a.costs, b.costs);
}

bool same(const model::Edge& a, const model::Edge& b) {
  const auto fields = [](const model::Edge& edge) {
    const auto& [from, to, bytes] = edge;
    return std::make_tuple(from, to, bytes);
  };
  return fields(a) == fields(b);
}

bool same(const model::NetworkLevel& a, const model::NetworkLevel& b) {
  const auto fields = [](const model::NetworkLevel& level) {
    const auto& [name, fanout, bandwidth, latency, oversubscription] = level;
    return std::make_tuple(name, fanout, bandwidth, latency, oversubscription);
  };
  return fields(a) == fields(b);
}

void expect_same(const model::Graph& a, const model::Graph& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_TRUE(same(a.strategies, b.strategies));
  EXPECT_TRUE(same(a.layers, b.layers));
  EXPECT_TRUE(same(a.edges, b.edges));
  EXPECT_EQ(a.tokens_per_sample, b.tokens_per_sample);
  EXPECT_EQ(a.model_flops_per_sample, b.model_flops_per_sample);
}

void expect_same(const model::Cluster& a, const model::Cluster& b) {
  const auto device = [](const model::Cluster& cluster) {
    const auto& [name, memory, reserved, peak, bandwidth] = cluster.device;
    return std::make_tuple(name, memory, reserved, peak, bandwidth);
  };
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(device(a), device(b));
  EXPECT_EQ(a.network.collectives, b.network.collectives);
  EXPECT_TRUE(same(a.network.levels, b.network.levels));
}

void expect_same(const model::PlanOptions& a, const model::PlanOptions& b) {
  const auto fields = [](const model::PlanOptions& options) {
    const auto& [batch, micro_batches, tp, cp, ep, pp, dp, dp_inner, recompute, zero, objective,
                 schedule, per_stage, uneven, state] = options;
    return std::make_tuple(batch, micro_batches, tp, cp, ep, pp, dp, dp_inner, recompute, zero,
                           objective, schedule, per_stage, uneven, state.weight, state.gradient,
                           state.optimizer);
  };
  EXPECT_EQ(fields(a), fields(b));
}

void expect_same(const model::Problem& a, const model::Problem& b) {
  expect_same(a.graph, b.graph);
  expect_same(a.cluster, b.cluster);
  expect_same(a.options, b.options);
}

/// A problem whose every field differs from its default, where the random ones keep it.
model::Problem unusual(std::uint64_t seed) {
  model::Problem problem = testing::random_problem(seed);
  for (model::Strategy& strategy : problem.graph.strategies) {
    strategy.sp = 3;
    strategy.etp = 5;
  }
  problem.graph.layers.front().costs.front() = model::LayerCost{
      0.1,
      1.0 / 3,
      7,
      11,
      13,
      17,
      {{model::Phase::kBackward, model::CollectiveOp::kAllToAll, model::GroupKind::kExpert, 19}}};
  problem.graph.layers.back().costs.back().reset();
  problem.graph.tokens_per_sample = 4096;
  problem.graph.model_flops_per_sample = 1e15;
  problem.cluster.device = {"device", 80e9, 4e9, {{"bf16", 1e15}, {"fp8", 2e15}}, 3e12};
  problem.cluster.network.collectives = "another";
  model::PlanOptions& options = problem.options;
  options.micro_batches = {1};
  options.tp = {2, 3};
  options.cp = {4};
  options.ep = {5};
  options.pp = {6};
  options.dp = {7};
  options.dp_inner = {8};
  options.recompute = {model::Recompute::kFull};
  options.zero = {3};
  options.objective = model::Objective::kPaper;
  options.schedule = model::Schedule::kGPipe;
  options.per_stage_strategies = !options.per_stage_strategies;
  options.allow_uneven_batch = !options.allow_uneven_batch;
  options.state_bytes = {1, 2, 3};
  return problem;
}

TEST(Archive, ProblemsComeThroughIdentical) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    for (const model::Problem& problem : {testing::random_problem(seed), unusual(seed)}) {
      const std::string archive = to_archive(problem);
      const model::Problem copy = from_archive(archive);
      expect_same(problem, copy);
      EXPECT_EQ(to_archive(copy), archive);
    }
  }
}

TEST(Archive, OtherProblemsAreOtherBytes) {
  const std::string archive = to_archive(testing::random_problem(1));
  EXPECT_NE(to_archive(testing::random_problem(2)), archive);
  model::Problem problem = testing::random_problem(1);
  problem.options.state_bytes.optimizer += 1;
  EXPECT_NE(to_archive(problem), archive);
}

TEST(Archive, WhatIsCutShortIsRefused) {
  const std::string archive = to_archive(testing::random_problem(1));
  EXPECT_THROW(from_archive(archive.substr(0, archive.size() / 2)), InternalError);
  EXPECT_THROW(from_archive(""), InternalError);
}

}  // namespace
}  // namespace nestplan::distributed
