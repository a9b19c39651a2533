// A plan on every kind of network, on instances too large for brute force.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/links.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/network/slurm_topology.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"
#include "support/random_problem.hpp"

namespace nestplan {
namespace {

constexpr double kRelative = 1e-9;

struct NetworkCase {
  std::string name;
  std::function<void(model::Cluster&)> build;
  double iteration_time_s = 0;
};

void PrintTo(const NetworkCase& network, std::ostream* out) { *out << network.name; }

/// Nodes of eight in two racks of four.
model::HierarchySpec racks() {
  return {
      "hierarchical-ring",
      {{"node", 8, 100e9, 1e-6, 1}, {"rack", 4, 12.5e9, 4e-6, 1}, {"hall", 2, 12.5e9, 8e-6, 2}}};
}

void plain(model::Cluster& cluster) { cluster.network = racks(); }

/// Racks of two, three and three nodes, nodes of eight and one of four, with few ports and other
/// traffic.
void uneven(model::Cluster& cluster) {
  model::HierarchySpec tree = racks();
  tree.levels[0].fanouts = {8, 8, 8, 4, 8, 8, 8, 8};
  tree.levels[1].fanouts = {2, 3, 3};
  tree.levels[1].fanout = 3;
  tree.levels[1].ports = 4;
  tree.levels[2].fanout = 3;
  tree.levels[2].background = 0.25;
  cluster.network = tree;
}

void rails(model::Cluster& cluster, model::Rails kind) {
  model::HierarchySpec tree = racks();
  tree.levels[1].rails = kind;
  tree.collectives = "auto";
  cluster.network = tree;
}

void reducing(model::Cluster& cluster) {
  model::HierarchySpec tree = racks();
  tree.levels[0].in_network_reduction = true;
  tree.levels[1].in_network_reduction = true;
  tree.collectives = "in-network";
  cluster.network = tree;
}

model::TorusSpec grid(const std::vector<std::int64_t>& sizes, bool wrap,
                      const std::vector<std::int64_t>& host) {
  model::TorusSpec spec;
  for (const std::int64_t size : sizes) {
    const std::string name(1, static_cast<char>('x' + spec.dimensions.size()));
    spec.dimensions.push_back({name, size, wrap, 45e9, 1e-6, 0});
  }
  spec.host = host;
  return spec;
}

void torus(model::Cluster& cluster) { cluster.network = grid({4, 4, 4}, true, {2, 2, 1}); }

void mesh(model::Cluster& cluster) { cluster.network = grid({8, 8}, false, {2, 2}); }

void slices(model::Cluster& cluster) {
  model::TorusSpec spec = grid({4, 4}, true, {2, 2});
  spec.dimensions.push_back({"slice", 4, false, 6.25e9, 10e-6, 0, true});
  spec.host.push_back(1);
  cluster.network = spec;
}

/// Hosts of eight devices in pairs on a switch, one more for every four, and a spine.
void links(model::Cluster& cluster) {
  network::LinkGraph graph;
  for (std::int64_t d = 0; d < 64; ++d) {
    graph.devices.push_back(fmt::format("g{}", d));
    graph.host_of_device.push_back(static_cast<std::int32_t>(d / 8));
  }
  const auto add_switch = [&](const std::string& name) {
    graph.switches.push_back(name);
    return 63 + std::ssize(graph.switches);
  };
  const auto join = [&](std::int64_t a, std::int64_t b, double bandwidth, double latency_s) {
    graph.links.push_back({a, b, bandwidth, bandwidth, latency_s});
  };
  const std::int64_t spine = add_switch("spine");
  std::vector<std::int64_t> leaves;
  for (int leaf = 0; leaf < 2; ++leaf) {
    leaves.push_back(add_switch(fmt::format("leaf{}", leaf)));
    join(leaves.back(), spine, 200e9, 2e-6);
  }
  for (std::int64_t host = 0; host < 8; ++host) {
    graph.hosts.push_back(fmt::format("h{}", host));
    const std::int64_t inner = add_switch(fmt::format("nv{}", host));
    for (std::int64_t d = 8 * host; d < 8 * host + 8; ++d) {
      join(d, inner, 100e9, 0.3e-6);
      join(d, leaves[static_cast<std::size_t>(host / 4)], 12.5e9, 1e-6);
    }
  }
  network::LinkHierarchy hierarchy = network::hierarchy_of(graph);
  cluster.network = model::HierarchySpec{"ring", std::move(hierarchy.levels)};
  cluster.hosts = std::move(hierarchy.hosts);
}

/// Leaves of five and three nodes.
void slurm(model::Cluster& cluster) {
  const network::SlurmTopology topology = network::parse_slurm_topology(
      "SwitchName=a Nodes=n[1-5]\nSwitchName=b Nodes=n[6-8]\nSwitchName=top Switches=a,b\n",
      "topology.conf");
  network::set_slurm_topology(cluster, topology, 8, {"node", 8, 100e9, 1e-6, 1},
                              {{"leaf", 1, 12.5e9, 4e-6, 1}, {"top", 1, 12.5e9, 8e-6, 2}});
}

/// Five devices lost, one of them with a whole neighbourhood of slower ones.
void broken(model::Cluster& cluster) {
  cluster.network = racks();
  cluster.unavailable = {{3, 1}, {17, 3}, {63, 1}};
  model::Device slower = cluster.device;
  slower.memory_bytes /= 2;
  cluster.other_devices = {slower};
  cluster.types = {{{16, 16}, 1}};
}

/// Nine layers in a row with heavy ends, and experts in some that trade tokens.
model::Problem problem_on(const std::function<void(model::Cluster&)>& build) {
  model::Problem problem;
  problem.cluster.name = "machine";
  problem.cluster.device.name = "device";
  problem.cluster.device.memory_bytes = 12e9;
  build(problem.cluster);
  model::Graph& graph = problem.graph;
  graph.strategies = {{"tp1", 1}, {"tp2", 2}, {"tp4", 4}, {"tp2-ep4", 2, 1, 1, 4}};
  for (int v = 0; v < 9; ++v) {
    model::Layer layer;
    layer.id = fmt::format("n{}", v);
    const bool heavy = v == 0 || v == 8;
    const bool experts = v % 3 == 1;
    for (const model::Strategy& strategy : graph.strategies) {
      const auto tp = static_cast<double>(strategy.tp);
      model::LayerCost cost;
      cost.forward_s = (heavy ? 3e-3 : 2e-3) / tp;
      cost.backward_s = 2 * cost.forward_s;
      cost.parameters = (heavy ? 2e8 : 1e8) / tp;
      cost.expert_parameters = experts ? 4e8 / static_cast<double>(strategy.ep) : 0;
      cost.activation_bytes = 4e8 / tp;
      cost.checkpoint_bytes = 2e7;
      for (const model::Phase phase : {model::Phase::kForward, model::Phase::kBackward}) {
        if (strategy.tp > 1) {
          cost.collectives.push_back(
              {phase, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor, 2e7});
        }
        if (experts && strategy.ep > 1) {
          cost.collectives.push_back(
              {phase, model::CollectiveOp::kAllToAll, model::GroupKind::kExpert, 8e6});
        }
      }
      if (problem.cluster.type_count() > 1) {
        cost.others = {{1.5 * cost.forward_s, 1.5 * cost.backward_s, 0}};
      }
      layer.costs.emplace_back(cost);
    }
    graph.layers.push_back(layer);
    if (v > 0) graph.edges.push_back({v - 1, v, std::vector<double>(4, 2e7)});
  }
  problem.options.global_batch = 64;
  problem.options.allow_uneven_batch = true;
  return problem;
}

class NetworkPlans : public ::testing::TestWithParam<NetworkCase> {};

TEST_P(NetworkPlans, AreTheSameWithoutBoundsAndCollapses) {
  model::Problem problem = problem_on(GetParam().build);
  const auto network = network::make_network(problem.cluster);
  const model::Plan plan = solver::solve(problem, *network);
  ASSERT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  EXPECT_NEAR(plan.iteration_time_s, GetParam().iteration_time_s,
              kRelative * GetParam().iteration_time_s)
      << fmt::format("{:.17g} ", plan.iteration_time_s) << testing::describe(testing::placed(plan));
  const model::Plan judged = cost::evaluate(problem, *network, testing::placed(plan));
  EXPECT_EQ(judged.status, model::Status::kOptimal) << judged.reason;
  EXPECT_EQ(judged.iteration_time_s, plan.iteration_time_s);
  for (const bool prune : {false, true}) {
    for (const bool collapse : {false, true}) {
      solver::SearchSettings settings;
      settings.prune = prune;
      settings.collapse = collapse;
      const model::Plan other = solver::solve(problem, *network, settings);
      EXPECT_EQ(other.iteration_time_s, plan.iteration_time_s) << prune << collapse;
      EXPECT_EQ(testing::describe(testing::placed(other)), testing::describe(testing::placed(plan)))
          << prune << collapse;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, NetworkPlans,
    ::testing::Values(
        NetworkCase{"Hierarchy", plain, 0.14589400000000002},
        NetworkCase{"Uneven", uneven, 0.19367000000000001},
        NetworkCase{"JoinedRails", [](auto& c) { rails(c, model::Rails::kJoined); }, 0.1471423},
        NetworkCase{"IsolatedRails", [](auto& c) { rails(c, model::Rails::kIsolated); },
                    0.14712730000000002},
        NetworkCase{"InNetworkReduction", reducing, 0.14589000000000002},
        NetworkCase{"Torus", torus, 0.10306166666666668},
        NetworkCase{"Mesh", mesh, 0.14437433333333333},
        NetworkCase{"Slices", slices, 0.13077324832214765}, NetworkCase{"Links", links, 0.15112},
        NetworkCase{"Slurm", slurm, 0.145922}, NetworkCase{"Broken", broken, 0.19736200000000004}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace nestplan
