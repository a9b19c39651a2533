#include "support/random_problem.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "nestplan/network/network.hpp"
#include "support/brute_force.hpp"

namespace nestplan {
namespace {

/// The random instances are worth solving: they cover what the design distinguishes.
TEST(RandomProblem, CoversTheModel) {
  int feasible = 0, infeasible = 0, pipelines = 0, gaps = 0, mixed = 0, pods = 0, inner = 0;
  int recomputes = 0, sharded = 0;
  const int seeds = 300;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const testing::Optimum best =
        testing::brute_force(problem, *network).at(model::Objective::k1F1B, true);
    ++(best.feasible() ? feasible : infeasible);
    const auto& stages = best.plan.stages;
    bool gap = false, mix = false, recompute = false, shard = false;
    std::int64_t end = 0;
    for (const cost::PlacedStage& stage : stages) {
      const auto& s = problem.graph.strategies[static_cast<std::size_t>(stage.strategy)];
      gap = gap || stage.position > end;
      mix = mix || stage.strategy != stages.front().strategy;
      recompute = recompute || stage.recompute == model::Recompute::kFull;
      shard = shard || stage.zero >= 2;
      end = stage.position + s.tp * s.cp * best.plan.dp_inner;
    }
    pipelines += stages.size() > 1;
    gaps += gap;
    mixed += mix;
    pods += best.plan.dp > best.plan.dp_inner;
    inner += best.plan.dp_inner > 1;
    recomputes += recompute;
    sharded += shard;
  }
  EXPECT_GE(feasible, seeds / 2);
  EXPECT_GE(infeasible, seeds / 50);
  EXPECT_GE(pipelines, seeds / 5);
  EXPECT_GE(gaps, seeds / 50);
  EXPECT_GE(mixed, seeds / 20);
  EXPECT_GE(pods, seeds / 20);
  EXPECT_GE(inner, seeds / 20);
  EXPECT_GE(recomputes, seeds / 20);
  EXPECT_GE(sharded, seeds / 50);
}

}  // namespace
}  // namespace nestplan
