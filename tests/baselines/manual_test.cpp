#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"

namespace nestplan::baselines {
namespace {

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

/// Layers of `parameters` each on devices of 1 GB in hosts of four.
struct Recipe {
  model::Problem problem;

  Recipe(int layers, double parameters, std::int64_t hosts) {
    problem.cluster.network = model::HierarchySpec{
        "hierarchical-ring", {{"node", 4, 1e11, 0, 1}, {"leaf", hosts, 1e10, 0, 1}}};
    problem.cluster.device.memory_bytes = 1e9;
    problem.options.global_batch = 64;
    for (const std::int64_t tp : {1, 2, 4, 8}) {
      problem.graph.strategies.push_back({"tp" + std::to_string(tp), tp});
    }
    for (int i = 0; i < layers; ++i) {
      model::Layer& layer = problem.graph.layers.emplace_back();
      layer.id = std::to_string(i);
      for (const model::Strategy& s : problem.graph.strategies) {
        model::LayerCost cost;
        cost.forward_s = 1e-3 / static_cast<double>(s.tp);
        cost.backward_s = 2e-3 / static_cast<double>(s.tp);
        cost.parameters = parameters / static_cast<double>(s.tp);
        layer.costs.emplace_back(cost);
      }
      if (i > 0) problem.graph.edges.push_back({i - 1, i, std::vector<double>(4, 1e3)});
    }
  }

  model::Plan plan() const {
    return find_plan(Method::kManual, problem, *network::make_network(problem.cluster));
  }
  std::int64_t tp_of(const model::Plan& plan) const {
    return problem.graph.strategies[static_cast<std::size_t>(plan.stages[0].strategy)].tp;
  }
};

// 18 bytes a parameter: 8 layers of 5 M take 720 MB.
TEST(Manual, ASmallModelIsOnlyCopied) {
  const Recipe recipe(8, 5e6, 4);
  const model::Plan plan = recipe.plan();
  EXPECT_EQ(recipe.tp_of(plan), 1);
  EXPECT_EQ(plan.strategy.pp, 1);
  EXPECT_EQ(plan.strategy.dp, 16);
}

// Takeaway 1: 2.88 GB are split over the four devices of a host before anything else.
TEST(Manual, TensorParallelismUpToTheHost) {
  const Recipe recipe(8, 20e6, 4);
  const model::Plan plan = recipe.plan();
  EXPECT_EQ(recipe.tp_of(plan), 4);
  EXPECT_EQ(plan.strategy.pp, 1);
  EXPECT_EQ(plan.strategy.dp, 4);
}

// And no further: 11.5 GB take pipeline stages beside, the fewest that do; with three, one has
// three layers of 360 MB a device.
TEST(Manual, PipelineParallelismBeyondTheHost) {
  const Recipe recipe(8, 80e6, 8);
  const model::Plan plan = recipe.plan();
  EXPECT_EQ(recipe.tp_of(plan), 4);
  EXPECT_EQ(plan.strategy.pp, 4);
  EXPECT_EQ(plan.strategy.dp, 2);
  EXPECT_EQ(plan.strategy.dp_inner, 2);
}

TEST(Manual, WhatDoesNotFitSaysWhy) {
  const model::Plan plan = Recipe(8, 500e6, 2).plan();
  EXPECT_EQ(plan.status, model::Status::kInfeasible);
  EXPECT_NE(plan.reason.find("bytes of memory"), std::string::npos) << plan.reason;
}

// Table 1 of arXiv 2104.04473: the model of 174.6 B parameters has tensor parallelism 8.
TEST(Manual, Gpt3IsSplitAsItsAuthorsDo) {
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / "selene-4480.json");
  problem.cluster.limit = 1024;
  cost::ProfileOptions profile;
  profile.sequence = 2048;
  problem.graph = cost::build_graph(io::read_architecture(kInputs / "models" / "gpt-3-175b"),
                                    problem.cluster.device, profile);
  problem.options.global_batch = 1536;
  const auto network = network::make_network(problem.cluster);
  const model::Plan plan = find_plan(Method::kManual, problem, *network);
  ASSERT_NE(plan.status, model::Status::kInfeasible) << plan.reason;
  EXPECT_EQ(problem.graph.strategies[static_cast<std::size_t>(plan.stages[0].strategy)].tp, 8);
  EXPECT_GT(plan.strategy.pp, 1);
  EXPECT_EQ(96 % plan.strategy.pp, 0);
  EXPECT_EQ(plan.strategy.dp_inner, plan.strategy.dp);
}

}  // namespace
}  // namespace nestplan::baselines
