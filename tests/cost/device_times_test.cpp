#include "nestplan/cost/device_times.hpp"

#include <gtest/gtest.h>

#include "cost/samples.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::cost {
namespace {

using test::a100;
using test::h100;

/// Four places, of which devices of `other` have the last two.
model::Cluster mixed(const model::Device& first, const model::Device& other) {
  model::Cluster cluster;
  cluster.name = "mixed";
  cluster.device = first;
  cluster.network = model::HierarchySpec{"hierarchical-ring", {{"node", 4, 3e11, 1e-6, 1}}};
  cluster.other_devices = {other};
  cluster.types = {{{2, 2}, 1}};
  return cluster;
}

ProfileOptions options() {
  ProfileOptions options;
  options.sequence = 2048;
  options.tp = {1};
  options.micro_batches = {1};
  return options;
}

const model::Model& some_model() {
  static const model::Model model = test::llama(4, 2048, 16, 16, 5504, 32000);
  return model;
}

/// The sheets are alike, so that only the parameters make a difference.
TEST(DeviceTimes, AreOfTheParametersOfEachType) {
  model::Device named = h100();
  named.name = "A100-SXM";
  model::Device with_own = h100();
  with_own.model = known_generation("a100")->model;
  for (const model::Device& other : {named, with_own}) {
    const model::Graph both = build_graph(some_model(), mixed(h100(), other), options());
    const model::Graph of_first = build_graph(some_model(), h100(), options());
    const model::Graph of_other = build_graph(some_model(), other, options());
    for (std::size_t layer = 0; layer < both.layers.size(); ++layer) {
      const model::LayerCost& cost = *both.layers[layer].costs.front();
      EXPECT_EQ(cost.times(0), of_first.layers[layer].costs.front()->times(0));
      EXPECT_EQ(cost.times(1), of_other.layers[layer].costs.front()->times(0));
      EXPECT_NE(cost.times(0), cost.times(1));
    }
  }
}

/// Whichever of the types comes first.
TEST(DeviceTimes, OfAStageAreThoseOfItsSlowestType) {
  const auto compute = [](const model::Cluster& cluster, std::int64_t position, std::int64_t dp) {
    model::Problem problem;
    problem.cluster = cluster;
    problem.graph = build_graph(some_model(), cluster, options());
    problem.options.global_batch = 8;
    PlacedPlan plan;
    plan.dp = plan.dp_inner = dp;
    PlacedStage stage;
    stage.position = position;
    for (int layer = 0; layer < static_cast<int>(problem.graph.layers.size()); ++layer) {
      stage.layers.push_back(layer);
    }
    plan.stages = {stage};
    const auto network = network::make_network(cluster);
    return evaluate(problem, *network, plan).stages.front().time.forward_s;
  };
  const model::Cluster fast_first = mixed(h100(), a100());
  const model::Cluster slow_first = mixed(a100(), h100());
  const double fast = compute(fast_first, 0, 2);
  const double slow = compute(fast_first, 2, 2);
  EXPECT_GT(slow, 1.5 * fast);
  EXPECT_EQ(compute(slow_first, 0, 2), slow);
  EXPECT_EQ(compute(slow_first, 2, 2), fast);
  EXPECT_EQ(compute(fast_first, 0, 4), slow);
  EXPECT_EQ(compute(slow_first, 0, 4), slow);
}

}  // namespace
}  // namespace nestplan::cost
