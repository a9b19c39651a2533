// What must hold on every kind of network, for whole plans where it can be said of them.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "network/stage_shapes.hpp"
#include "support/brute_force.hpp"
#include "support/random_network.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan {
namespace {

using model::Status;
using testing::Dice;

/// Two sums of the same terms may differ by so much.
constexpr double kRounding = 1e-12;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A problem on a network of any kind. Holes, types and confinements come only with what the tests
/// add themselves.
model::Problem bare_problem(std::uint64_t seed, Dice& dice) {
  model::Problem problem = testing::random_problem(seed);
  model::Cluster& cluster = problem.cluster;
  cluster.limit.reset();
  cluster.unavailable.clear();
  cluster.other_devices.clear();
  cluster.types.clear();
  cluster.hosts.clear();
  for (model::Layer& layer : problem.graph.layers) {
    for (auto& cost : layer.costs) {
      if (cost) cost->others.clear();
    }
  }
  problem.graph.updates.clear();
  problem.options.stages.confined.clear();
  problem.options.stages.places.clear();
  problem.options.per_stage_strategies = dice.chance(50);
  if (dice.chance(30)) problem.options.objective = model::Objective::kPaper;
  if (dice.chance(50)) return problem;
  if (dice.chance(50)) {
    cluster.network = testing::random_tree(dice, cluster.places());
  } else {
    cluster.network = testing::random_grid(dice, cluster.places());
  }
  return problem;
}

model::Plan solve(const model::Problem& problem) {
  return solver::solve(problem, *network::make_network(problem.cluster));
}

model::Plan evaluate(const model::Problem& problem, const cost::PlacedPlan& plan) {
  return cost::evaluate(problem, *network::make_network(problem.cluster), plan);
}

void expect_same_plan(const model::Plan& a, const model::Plan& b) {
  ASSERT_EQ(a.status, b.status);
  EXPECT_EQ(a.iteration_time_s, b.iteration_time_s);
  EXPECT_EQ(testing::describe(testing::placed(a)), testing::describe(testing::placed(b)));
}

void expect_no_faster(const model::Plan& slow, const model::Plan& fast) {
  ASSERT_EQ(slow.status, fast.status);
  EXPECT_GE(slow.iteration_time_s * (1 + kRounding), fast.iteration_time_s);
}

/// Calls `change` with the bandwidth of every level or dimension.
void each_bandwidth(model::NetworkSpec& network, const std::function<void(double&)>& change) {
  if (auto* tree = std::get_if<model::HierarchySpec>(&network)) {
    for (model::NetworkLevel& level : tree->levels) change(level.bandwidth);
  } else {
    for (auto& dimension : std::get<model::TorusSpec>(network).dimensions) {
      change(dimension.bandwidth);
    }
  }
}

void remove_latency(model::NetworkSpec& network) {
  if (auto* tree = std::get_if<model::HierarchySpec>(&network)) {
    for (model::NetworkLevel& level : tree->levels) level.latency_s = 0;
  } else {
    for (auto& dimension : std::get<model::TorusSpec>(network).dimensions) {
      dimension.latency_s = 0;
    }
  }
}

double communication_s(const model::Plan& plan) {
  double seconds = plan.stages.front().time.sync_s;
  for (const model::StagePlan& stage : plan.stages) {
    const model::StageTime& time = stage.time;
    seconds +=
        time.receive_s + time.gradient_receive_s + time.zero_s + time.collective_s + time.tie_s;
  }
  return seconds;
}

/// Solves random problems and calls `check` with each that has a plan, and its plan.
void each_plan(std::uint64_t first, std::uint64_t usual,
               const std::function<void(model::Problem, const model::Plan&, Dice&)>& check) {
  std::uint64_t feasible = 0;
  const std::uint64_t count = testing::seeds(usual);
  for (std::uint64_t seed = first; seed < first + count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const model::Problem problem = bare_problem(seed, dice);
    const model::Plan plan = solve(problem);
    if (plan.status != Status::kOptimal) continue;
    ++feasible;
    check(problem, plan, dice);
  }
  EXPECT_GT(2 * feasible, count / 2);
}

TEST(EveryNetwork, MoreBandwidthIsNeverSlower) {
  each_plan(1'000, 300, [](model::Problem problem, const model::Plan&, Dice& dice) {
    // Without latency, that classes of pairs are ordered by bandwidth does not matter.
    remove_latency(problem.cluster.network);
    const model::Plan plan = solve(problem);
    each_bandwidth(problem.cluster.network, [&](double& bandwidth) {
      if (dice.chance(50)) bandwidth *= dice.pick({1.5, 2.0, 10.0});
    });
    expect_no_faster(plan, solve(problem));
  });
}

TEST(EveryNetwork, AllLinksTwiceAsFastAreNeverSlower) {
  each_plan(2'000, 300, [](model::Problem problem, const model::Plan& plan, Dice&) {
    each_bandwidth(problem.cluster.network, [](double& bandwidth) { bandwidth *= 2; });
    expect_no_faster(plan, solve(problem));
  });
}

TEST(EveryNetwork, PlansThatCommunicateFeelHalfTheBandwidth) {
  int communicating = 0;
  each_plan(3'000, 300, [&](model::Problem problem, const model::Plan& found, Dice&) {
    // The other objective waits for the slowest stage alone, and what is hidden costs nothing.
    problem.options.objective = model::Objective::k1F1B;
    problem.options.overlap = {};
    const model::Plan plan = evaluate(problem, testing::placed(found));
    each_bandwidth(problem.cluster.network, [](double& bandwidth) { bandwidth /= 2; });
    const model::Plan slower = evaluate(problem, testing::placed(plan));
    if (communication_s(plan) > 0) {
      ++communicating;
      EXPECT_GT(communication_s(slower), communication_s(plan));
      EXPECT_GT(slower.iteration_time_s, plan.iteration_time_s);
    } else {
      EXPECT_EQ(slower.iteration_time_s, plan.iteration_time_s);
    }
  });
  EXPECT_GT(communicating, 0);
}

TEST(EveryNetwork, BackgroundOfHalfIsHalfTheBandwidth) {
  each_plan(4'000, 300, [](model::Problem problem, const model::Plan&, Dice&) {
    model::Problem halved = problem;
    const auto set_background = [](model::NetworkSpec& network, double share) {
      if (auto* tree = std::get_if<model::HierarchySpec>(&network)) {
        for (model::NetworkLevel& level : tree->levels) level.background = share;
      } else {
        for (auto& dimension : std::get<model::TorusSpec>(network).dimensions) {
          dimension.background = share;
        }
      }
    };
    set_background(problem.cluster.network, 0.5);
    set_background(halved.cluster.network, 0);
    each_bandwidth(halved.cluster.network, [](double& bandwidth) { bandwidth /= 2; });
    expect_same_plan(solve(problem), solve(halved));
  });
}

TEST(EveryNetwork, HolesAtTheEndAreASmallerCluster) {
  each_plan(5'000, 300, [](model::Problem problem, const model::Plan&, Dice& dice) {
    const std::int64_t places = problem.cluster.places();
    const std::int64_t left = dice.between(1, places);
    model::Problem holes = problem;
    if (left < places) holes.cluster.unavailable = {{left, places - left}};
    problem.cluster.limit = left;
    expect_same_plan(solve(holes), solve(problem));
  });
}

TEST(EveryNetwork, NamesOfHostsAndLevelsChangeNothing) {
  each_plan(6'000, 200, [](model::Problem problem, const model::Plan& plan, Dice&) {
    model::Cluster& cluster = problem.cluster;
    for (const std::int64_t size : cluster.host_sizes()) {
      model::Host host{fmt::format("z{}", 99 - cluster.hosts.size()), size};
      host.local.resize(at(size));
      std::iota(host.local.rbegin(), host.local.rend(), 0);
      cluster.hosts.push_back(host);
    }
    if (auto* tree = std::get_if<model::HierarchySpec>(&cluster.network)) {
      for (std::size_t l = 0; l < tree->levels.size(); ++l) {
        tree->levels[l].name = fmt::format("renamed{}", tree->levels.size() - l);
      }
    } else {
      auto& dimensions = std::get<model::TorusSpec>(cluster.network).dimensions;
      for (std::size_t d = 0; d < dimensions.size(); ++d) {
        dimensions[d].name = fmt::format("renamed{}", dimensions.size() - d);
      }
    }
    expect_same_plan(solve(problem), plan);
  });
}

/// Devices of a second type here and there, `factor()` times as slow as the first for every layer.
void add_type(model::Problem& problem, Dice& dice, const std::function<double()>& factor) {
  model::Cluster& cluster = problem.cluster;
  cluster.other_devices = {cluster.device};
  cluster.types.clear();
  for (std::int64_t place = 0; place < cluster.places(); ++place) {
    if (dice.chance(40)) cluster.types.push_back({{place, 1}, 1});
  }
  for (model::Layer& layer : problem.graph.layers) {
    for (auto& cost : layer.costs) {
      if (!cost) continue;
      const double slower = factor();
      cost->others = {
          {slower * cost->forward_s, slower * cost->backward_s, slower * cost->selective_s}};
    }
  }
}

TEST(EveryNetwork, ATypeLikeTheFirstChangesNothing) {
  each_plan(7'000, 300, [](model::Problem problem, const model::Plan& plan, Dice& dice) {
    add_type(problem, dice, [] { return 1.0; });
    expect_same_plan(solve(problem), plan);
  });
}

TEST(EveryNetwork, AFasterSecondTypeNeverHurts) {
  int faster = 0;
  each_plan(8'000, 300, [&](model::Problem problem, const model::Plan&, Dice& dice) {
    add_type(problem, dice, [&] { return dice.pick({0.5, 1.0, 2.0}); });
    const model::Plan before = solve(problem);
    for (model::Layer& layer : problem.graph.layers) {
      for (auto& cost : layer.costs) {
        if (!cost || dice.chance(30)) continue;
        cost->others[0].forward_s /= 2;
        cost->others[0].backward_s /= 2;
        cost->others[0].selective_s /= 2;
      }
    }
    const model::Plan after = solve(problem);
    expect_no_faster(before, after);
    faster += after.iteration_time_s < before.iteration_time_s;
  });
  EXPECT_GT(faster, 0);
}

/// The outermost domain that a group of the scope needs in the plan.
int widest_domain(const model::Problem& problem, const network::Network& network,
                  const model::Plan& plan, model::StageConstraints::Scope scope) {
  using Scope = model::StageConstraints::Scope;
  const std::int64_t outer = plan.strategy.dp_outer;
  const network::PodLayout pods{network.devices(), outer, network.devices() / outer};
  std::set<network::GroupShape> shapes;
  if (scope == Scope::kPod) {
    for (std::int64_t pod = 0; pod < outer; ++pod) {
      testing::Devices devices;
      for (const model::StagePlan& stage : plan.stages) {
        for (std::int64_t r = 0; r < stage.devices; ++r) {
          devices.push_back(pod * pods.pod_size + stage.position + r);
        }
      }
      shapes.insert(network.shape(devices));
    }
  }
  for (const model::StagePlan& stage : plan.stages) {
    const model::Strategy& s = problem.graph.strategies[at(stage.strategy)];
    const testing::StageShapes groups(network, pods, s.tp, s.cp, plan.strategy.dp_inner);
    if (scope == Scope::kData) shapes.merge(groups.data(stage.position));
    if (scope == Scope::kExpert) shapes.merge(groups.expert(stage.position, s.ep));
    for (std::int64_t pod = 0; pod < outer; ++pod) {
      if (scope == Scope::kTensor) shapes.merge(groups.tensor(pod, stage.position));
      if (scope == Scope::kContext) shapes.merge(groups.context(pod, stage.position));
    }
  }
  int widest = 0;
  for (const network::GroupShape& shape : shapes) {
    widest = std::max(widest, network.domain(shape));
  }
  return widest;
}

TEST(EveryNetwork, ConfinementIsRespectedAndNeverFaster) {
  using Scope = model::StageConstraints::Scope;
  int moved = 0;
  each_plan(9'000, 400, [&](model::Problem problem, const model::Plan& plan, Dice& dice) {
    const auto network = network::make_network(problem.cluster);
    const std::vector<std::string> domains = network->domains();
    const auto scope =
        dice.pick({Scope::kTensor, Scope::kContext, Scope::kExpert, Scope::kData, Scope::kPod});
    const auto domain = dice.between(0, std::ssize(domains) - 1);
    problem.options.stages.confined = {{scope, domains[at(domain)]}};
    const model::Plan confined = solve(problem);
    const bool was_inside = widest_domain(problem, *network, plan, scope) <= domain;
    if (was_inside) return expect_same_plan(confined, plan);
    if (confined.status == Status::kInfeasible) return;
    ++moved;
    EXPECT_LE(widest_domain(problem, *network, confined, scope), domain);
    EXPECT_GE(confined.iteration_time_s * (1 + kRounding), plan.iteration_time_s);
  });
  EXPECT_GT(moved, 0);
}

/// A tree without anything special and without latency.
void make_plain(model::HierarchySpec& tree, Dice& dice) {
  for (model::NetworkLevel& level : tree.levels) {
    level.latency_s = 0;
    level.oversubscription = 1;
    level.ports = 0;
    level.rails = model::Rails::kNone;
    level.in_network_reduction = false;
    level.background = 0;
  }
  tree.collectives = dice.pick({"hierarchical-ring", "ring", "tree", "hierarchical-tree"});
}

bool is_power_of_two(std::int64_t n) { return (n & (n - 1)) == 0; }

/// Whether every group has as many members in each block that it has any in.
bool nests_in_powers_of_two(const model::Problem& problem, const model::Plan& plan) {
  bool nests = is_power_of_two(plan.strategy.dp) && is_power_of_two(plan.strategy.dp_inner);
  for (const model::StagePlan& stage : plan.stages) {
    const model::Strategy& s = problem.graph.strategies[at(stage.strategy)];
    nests = nests && is_power_of_two(s.tp) && is_power_of_two(s.cp) && is_power_of_two(s.ep) &&
            stage.position % stage.devices == 0;
  }
  return nests;
}

TEST(Trees, AFinerOneOfEqualLinksChangesNoPlan) {
  int compared = 0;
  each_plan(10'000, 800, [&](model::Problem problem, const model::Plan&, Dice& dice) {
    model::HierarchySpec tree;
    double bandwidth = 400e9;
    for (std::int64_t left = 16; left > 1; left /= tree.levels.back().fanout) {
      const std::int64_t fanout = std::min(left, dice.pick<std::int64_t>({2, 4, 8, 16}));
      tree.levels.push_back({fmt::format("l{}", tree.levels.size()), fanout, bandwidth, 0, 1});
      bandwidth /= dice.pick({1.0, 2.0, 8.0});
    }
    make_plain(tree, dice);
    for (model::Layer& layer : problem.graph.layers) {
      for (auto& cost : layer.costs) {
        if (!cost) continue;
        std::erase_if(cost->collectives, [](const model::Collective& collective) {
          return collective.op == model::CollectiveOp::kAllToAll;
        });
      }
    }
    problem.cluster.network = tree;
    const model::Plan plan = solve(problem);
    if (plan.status != Status::kOptimal || !nests_in_powers_of_two(problem, plan)) return;
    if (communication_s(plan) > 0) ++compared;
    for (std::size_t l = 0; l < tree.levels.size(); ++l) {
      if (tree.levels[l].fanout == 2) continue;
      model::HierarchySpec finer = tree;
      finer.levels[l].fanout = 2;
      model::NetworkLevel outer = tree.levels[l];
      outer.fanout /= 2;
      outer.name += "outer";
      finer.levels.insert(finer.levels.begin() + static_cast<std::ptrdiff_t>(l) + 1, outer);
      problem.cluster.network = finer;
      EXPECT_NEAR(evaluate(problem, testing::placed(plan)).iteration_time_s, plan.iteration_time_s,
                  kRounding * plan.iteration_time_s)
          << tree.collectives << " level " << l;
    }
  });
  EXPECT_GT(compared, 20);
}

TEST(Trees, StraddlingIsNeverCheaperWhereOuterLevelsAreSlower) {
  int compared = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(300) && !HasFailure(); ++seed) {
    Dice dice(seed);
    model::HierarchySpec tree = testing::random_tree(dice, dice.between(2, 40));
    make_plain(tree, dice);
    double bandwidth = 450e9;
    for (model::NetworkLevel& level : tree.levels) {
      level.bandwidth = bandwidth;
      bandwidth /= dice.pick({4.0, 9.0, 36.0});
    }
    model::Cluster cluster;
    cluster.network = tree;
    const auto network = network::make_network(cluster);
    for (std::int64_t members = 2; members < network->devices(); ++members) {
      // The dearest run of so many neighbours that needs a domain, and the cheapest.
      const std::size_t domains = network->domains().size();
      for (const auto op : {model::CollectiveOp::kAllReduce, model::CollectiveOp::kAllGather,
                            model::CollectiveOp::kReduceScatter, model::CollectiveOp::kAllToAll}) {
        std::vector<double> least(domains, -1);
        std::vector<double> most(domains, -1);
        for (std::int64_t first = 0; first + members <= network->devices(); ++first) {
          testing::Devices run(at(members));
          std::iota(run.begin(), run.end(), first);
          const network::GroupShape shape = network->shape(run);
          const std::size_t domain = at(network->domain(shape));
          const double seconds = network->collective_s(op, 1e9, shape);
          least[domain] = least[domain] < 0 ? seconds : std::min(least[domain], seconds);
          most[domain] = std::max(most[domain], seconds);
        }
        double inside = 0;
        for (std::size_t domain = 0; domain < domains; ++domain) {
          if (least[domain] < 0) continue;
          compared += inside > 0;
          EXPECT_GE(least[domain] * (1 + kRounding), inside)
              << "seed " << seed << " " << tree.collectives << " " << members << " members, op "
              << static_cast<int>(op) << " domain " << domain;
          inside = std::max(inside, most[domain]);
        }
      }
    }
  }
  EXPECT_GT(compared, 0);
}

TEST(Tori, OfOneDimensionAreRings) {
  for (std::uint64_t seed = 0; seed < testing::seeds(300) && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    model::Problem problem = bare_problem(seed, dice);
    const std::int64_t devices = dice.between(3, 16);
    const bool closed = dice.chance(50);
    problem.cluster.device.memory_bytes = 1e15;
    problem.options.global_batch = devices;
    problem.options.stages = {};
    model::Graph& graph = problem.graph;
    // All devices in one group: along one row, all members of it.
    model::Strategy& strategy = graph.strategies.front();
    const bool tensor = dice.chance(50);
    strategy = {strategy.id, tensor ? devices : 1};
    cost::PlacedPlan plan;
    plan.dp = tensor ? 1 : devices;
    plan.dp_inner = tensor || dice.chance(50) ? 1 : devices;
    plan.stages.resize(1);
    plan.stages[0].zero = static_cast<int>(dice.between(0, 3));
    for (std::size_t v = 0; v < graph.layers.size(); ++v) {
      plan.stages[0].layers.push_back(static_cast<int>(v));
      auto& cost = graph.layers[v].costs[0];
      if (!cost) cost.emplace();
      cost->expert_parameters = 0;
      cost->parameters = 1e8;
      cost->collectives = {
          {model::Phase::kForward, model::CollectiveOp::kAllGather, model::GroupKind::kTensor, 1e7},
          {model::Phase::kBackward, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor,
           1e7}};
    }
    model::TorusSpec torus;
    torus.dimensions = {{"x", devices, closed, 45e9, 0, 0}};
    problem.cluster.network = torus;
    const model::Plan along = evaluate(problem, plan);
    // Both ways round where the ring is closed.
    problem.cluster.network =
        model::HierarchySpec{"ring", {{"x", devices, closed ? 90e9 : 45e9, 0, 1}}};
    const model::Plan ring = evaluate(problem, plan);
    ASSERT_GT(communication_s(ring), 0);
    EXPECT_NEAR(communication_s(along), communication_s(ring), kRounding * communication_s(ring));
    EXPECT_NEAR(along.iteration_time_s, ring.iteration_time_s, kRounding * ring.iteration_time_s);
  }
}

}  // namespace
}  // namespace nestplan
