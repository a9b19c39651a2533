#include "distributed/archive.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "nestplan/util/errors.hpp"
#include "support/random_problem.hpp"

namespace nestplan::distributed {
namespace {

/// Every field differs from its default, on both kinds of networks.
void make_unusual(model::Cluster& cluster, std::uint64_t seed) {
  cluster.device.speed = 0.5;
  cluster.other_devices = {{"other", 40e9, 1e9, {{"bf16", 3e14}}, 1e12, 2}};
  cluster.types = {{{1, 2}, 1}};
  cluster.unavailable = {{0, 1}};
  cluster.limit = 3;
  cluster.host_memory_bytes = 1e12;
  cluster.places_per_host = 2;
  cluster.hosts = {{"a", 4, {3, 2, 1, 0}}};
  if (seed % 2 == 0) {
    cluster.network = model::HierarchySpec{
        "another", {{"level", 4, 1e9, 1e-6, 2, {4, 3}, 2, model::Rails::kIsolated, true, 0.25}}};
  } else {
    cluster.network =
        model::TorusSpec{"another", {{"x", 4, false, 1e9, 1e-6, 0.25, true}}, {2}, {4}};
  }
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
      {{model::Phase::kBackward, model::CollectiveOp::kAllToAll, model::GroupKind::kExpert, 19}},
      5,
      0.25,
      3,
      2,
      {{0.2, 0.3, 0.4}}};
  problem.graph.layers.front().counted = false;
  problem.graph.strategies.front().context = model::ContextForm::kAllToAll;
  problem.graph.ties = {{{0, 1}, {3, 4}}};
  problem.graph.dimensions = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  problem.graph.layers.back().costs.back().reset();
  problem.graph.tokens_per_sample = 4096;
  problem.graph.model_flops_per_sample = 1e15;
  problem.cluster.device = {"device", 80e9, 4e9, {{"bf16", 1e15}, {"fp8", 2e15}}, 3e12};
  make_unusual(problem.cluster, seed);
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
  options.shard = {model::ShardSpan::kPod};
  options.vpp = {2, 4};
  options.reserve = {1e9, 2e8, 0.1};
  options.stages = {{{0, -1}},  {{0, 1}},
                    {{0}, {1}}, 1,
                    2,          3,
                    4,          model::StageConstraints::Layout::kEven,
                    {{-1, 5}},  {{model::StageConstraints::Scope::kExpert, "rack"}}};
  options.target = "megatron";
  options.precision = "fp8";
  options.overlap_p2p = false;
  options.overlap = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6};
  return problem;
}

TEST(Archive, ProblemsComeThroughIdentical) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    for (const model::Problem& problem : {testing::random_problem(seed), unusual(seed)}) {
      const std::string archive = to_archive(problem);
      const model::Problem copy = from_archive(archive);
      EXPECT_TRUE(copy == problem);
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
  problem = testing::random_problem(1);
  problem.options.overlap.sync = 0.5;
  EXPECT_NE(to_archive(problem), archive);
}

TEST(Archive, WhatIsCutShortIsRefused) {
  const std::string archive = to_archive(testing::random_problem(1));
  EXPECT_THROW(from_archive(archive.substr(0, archive.size() / 2)), InternalError);
  EXPECT_THROW(from_archive(""), InternalError);
}

}  // namespace
}  // namespace nestplan::distributed
