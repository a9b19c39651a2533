#include "support/random_problem.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

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

void count_features(const model::HierarchySpec& tree, std::map<std::string, int>& seen) {
  ++seen["tree " + tree.collectives];
  for (const model::NetworkLevel& level : tree.levels) {
    seen["uneven blocks"] += !level.fanouts.empty();
    seen["ports"] += level.ports > 0;
    seen["background"] += level.background > 0;
    seen["reduction"] += level.in_network_reduction;
    seen["joined rails"] += level.rails == model::Rails::kJoined;
    seen["isolated rails"] += level.rails == model::Rails::kIsolated;
  }
}

void count_features(const model::TorusSpec& torus, std::map<std::string, int>& seen) {
  ++seen["torus " + torus.collectives];
  ++seen[std::to_string(torus.dimensions.size()) + " dimensions"];
  seen["hosts"] += !torus.host.empty();
  seen["cubes"] += !torus.cube.empty();
  for (const model::TorusDimension& dimension : torus.dimensions) {
    ++seen[dimension.wrap ? "closed" : "open"];
    seen["slices"] += dimension.switched;
    seen["background"] += dimension.background > 0;
  }
}

/// A quarter of the instances are on networks other than plain levels, on those of every kind.
TEST(RandomProblem, CoversNetworks) {
  std::map<std::string, int> seen{{"uneven blocks", 0},
                                  {"ports", 0},
                                  {"background", 0},
                                  {"reduction", 0},
                                  {"joined rails", 0},
                                  {"isolated rails", 0},
                                  {"hosts", 0},
                                  {"cubes", 0},
                                  {"slices", 0},
                                  {"closed", 0},
                                  {"open", 0},
                                  {"1 dimensions", 0},
                                  {"2 dimensions", 0},
                                  {"3 dimensions", 0},
                                  {"torus auto", 0},
                                  {"torus ring", 0},
                                  {"tree auto", 0},
                                  {"tree ring", 0},
                                  {"tree tree", 0},
                                  {"tree in-network", 0},
                                  {"tree hierarchical-tree", 0},
                                  {"torus dimension-wise", 0},
                                  {"torus all-dimensions", 0}};
  int holes = 0, types = 0, tori = 0;
  const int seeds = 2000;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const model::Cluster cluster = testing::random_problem(seed).cluster;
    std::visit([&](const auto& network) { count_features(network, seen); }, cluster.network);
    tori += std::holds_alternative<model::TorusSpec>(cluster.network);
    holes += !cluster.unavailable.empty();
    types += cluster.type_count() > 1;
    EXPECT_EQ(network::make_network(cluster)->devices(), cluster.devices());
  }
  for (const auto& [feature, times] : seen) EXPECT_GE(times, seeds / 200) << feature;
  EXPECT_GE(tori, seeds / 20);
  EXPECT_GE(holes, seeds / 20);
  EXPECT_GE(types, seeds / 20);
}

}  // namespace
}  // namespace nestplan
