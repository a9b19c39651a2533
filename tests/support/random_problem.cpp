#include "support/random_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nestplan/network/network.hpp"
#include "support/dice.hpp"
#include "support/random_network.hpp"

namespace nestplan::testing {
namespace {

/// Throws dice for one problem.
class Generator : private Dice {
 public:
  explicit Generator(std::uint64_t seed)
      : Dice(seed),
        network_dice_(~seed),
        overlap_dice_(seed + 77'000'000),
        update_dice_(seed + 78'000'000),
        ties_(seed % 3 == 0),
        extras_(seed % 2 == 1) {}

  model::Problem run() {
    make_cluster();
    make_strategies();
    make_layers();
    make_edges();
    make_options();
    make_memory();
    if (extras_) make_extras();
    if (extras_) make_other_network();
    if (extras_ && chance(25)) problem_.cluster.limit = between(1, problem_.cluster.places());
    if (extras_ && chance(25)) make_holes();
    if (extras_ && chance(25)) make_types();
    if (extras_ && chance(25)) make_constraints();
    if (extras_) make_overlap();
    if (extras_) make_updates();
    return problem_;
  }

 private:
  /// What frameworks add to the plain model: each in a part of the problems, none in half of them.
  void make_extras() {
    model::Graph& graph = problem_.graph;
    model::PlanOptions& options = problem_.options;
    if (chance(40)) make_selective();
    if (chance(40)) {
      for (model::Layer& layer : graph.layers) {
        for (auto& cost : layer.costs) {
          if (cost && chance(50)) cost->working_bytes = number(0, 40) * 1e6;
        }
      }
    }
    if (chance(35)) make_tie();
    if (chance(35)) {
      options.shard = chance(70) ? std::vector{model::ShardSpan::kAll, model::ShardSpan::kPod}
                                 : std::vector{model::ShardSpan::kPod};
    }
    if (chance(30)) {
      options.reserve = {number(0, 20) * 1e6, number(0, 5) * 1e6, pick<double>({0, 0.05, 0.2})};
    }
    if (chance(40)) make_rules();
    if (chance(25)) {
      options.target = pick<std::string>({"megatron", "deepspeed", "torchtitan"});
      if (chance(50)) graph.dimensions.hidden = 64;
      if (chance(30)) graph.dimensions.heads = pick<std::int64_t>({4, 6, 8});
    }
  }

  void make_selective() {
    for (model::Layer& layer : problem_.graph.layers) {
      for (auto& cost : layer.costs) {
        if (!cost || !chance(70)) continue;
        cost->selective_bytes = std::floor(cost->activation_bytes * number(2, 10) / 10);
        cost->selective_s = cost->forward_s * number(0, 8) / 10;
      }
    }
    if (chance(80)) {
      problem_.options.recompute = {model::Recompute::kNone, model::Recompute::kSelective,
                                    model::Recompute::kFull};
    } else {
      problem_.options.recompute = {model::Recompute::kSelective};
    }
  }

  void make_tie() {
    model::Graph& graph = problem_.graph;
    const auto last = static_cast<int>(graph.layers.size()) - 1;
    model::Tie tie;
    for (int layer = 0; layer <= last; ++layer) {
      if (layer == 0 || layer == last || chance(20)) tie.layers.push_back(layer);
    }
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      const double parameters = std::ceil(number(1, 20) * 1e6);
      tie.parameters.push_back(parameters);
      for (const int layer : tie.layers) {
        auto& cost = graph.layers[static_cast<std::size_t>(layer)].costs[s];
        if (cost) cost->parameters = std::max(cost->parameters, parameters);
      }
    }
    graph.ties.push_back(std::move(tie));
  }

  void make_rules() {
    model::Graph& graph = problem_.graph;
    model::StageConstraints& rules = problem_.options.stages;
    const auto layers = static_cast<std::int64_t>(graph.layers.size());
    const auto layer = [&] { return static_cast<int>(between(0, layers - 1)); };
    if (chance(50)) {
      for (model::Layer& each : graph.layers) each.counted = chance(75);
    }
    if (chance(25)) rules.pins.push_back({layer(), chance(50) ? 0 : -1});
    if (chance(15)) {
      problem_.options.pp = {between(2, 3)};
      rules.pins.push_back({layer(), chance(50) ? 1 : -2});
    }
    if (chance(25)) {
      std::vector<int> group{layer(), layer()};
      std::sort(group.begin(), group.end());
      group.erase(std::unique(group.begin(), group.end()), group.end());
      rules.together.push_back(std::move(group));
    }
    if (chance(20)) {
      const int border = static_cast<int>(between(1, layers - 1));
      rules.cuts.resize(2);
      for (int v = 0; v < static_cast<int>(layers); ++v)
        rules.cuts[v < border ? 0 : 1].push_back(v);
    }
    if (chance(15)) rules.first = between(0, 2);
    if (chance(15)) rules.last = between(0, 2);
    if (chance(15)) rules.least = between(0, 1);
    if (chance(15)) rules.most = between(1, 3);
    if (chance(30)) {
      rules.layout = chance(50) ? model::StageConstraints::Layout::kEven
                                : model::StageConstraints::Layout::kFirstLast;
    }
  }

  double number(std::int64_t low, std::int64_t high) {
    return static_cast<double>(between(low, high));
  }

  void make_cluster() {
    const std::int64_t most = chance(25) ? 16 : 12;
    const std::int64_t levels = between(1, 3);
    std::int64_t devices = 1;
    for (std::int64_t l = 0; l < levels; ++l) {
      std::vector<std::int64_t> fanouts;
      for (const std::int64_t f : {2, 3, 4, 6, 8}) {
        if (devices * f <= most) fanouts.push_back(f);
      }
      if (fanouts.empty()) break;
      model::NetworkLevel level;
      level.name = fmt::format("l{}", l);
      level.fanout = pick(fanouts);
      level.bandwidth = pick<double>({100e9, 50e9, 25e9, 12.5e9, 5e9});
      level.latency_s = pick<double>({0, 1e-6, 4e-6, 20e-6});
      level.oversubscription = pick<double>({1, 1, 1.5, 2, 4});
      devices *= level.fanout;
      problem_.cluster.hierarchy().levels.push_back(level);
    }
    problem_.cluster.name = "random";
  }

  void make_strategies() {
    const std::int64_t count = between(1, 4);
    const bool two_micro_batches = chance(25);
    for (std::int64_t s = 0; s < count; ++s) {
      model::Strategy strategy;
      strategy.id = fmt::format("s{}", s);
      strategy.tp = pick<std::int64_t>({1, 1, 1, 2, 2, 3, 4});
      if (chance(25)) strategy.cp = pick<std::int64_t>({2, 2, 3});
      if (chance(30)) strategy.ep = pick<std::int64_t>({2, 2, 3, 4});
      if (two_micro_batches) strategy.micro_batch = between(1, 2);
      problem_.graph.strategies.push_back(strategy);
    }
  }

  model::Collective collective(const model::Strategy& strategy) {
    model::Collective c;
    c.phase = chance(50) ? model::Phase::kForward : model::Phase::kBackward;
    std::vector<model::GroupKind> groups{model::GroupKind::kTensor};
    if (strategy.cp > 1) groups.push_back(model::GroupKind::kContext);
    if (strategy.ep > 1) groups.assign(2, model::GroupKind::kExpert);
    if (chance(5)) groups.assign(1, model::GroupKind::kData);
    c.group = pick(groups);
    c.op = pick<model::CollectiveOp>(
        {model::CollectiveOp::kAllReduce, model::CollectiveOp::kAllGather,
         model::CollectiveOp::kReduceScatter, model::CollectiveOp::kAllToAll});
    if (c.group == model::GroupKind::kExpert && chance(70)) c.op = model::CollectiveOp::kAllToAll;
    c.bytes = number(0, 20) * 1e5;
    return c;
  }

  model::LayerCost layer_cost(const model::Strategy& strategy, bool experts) {
    const auto split = static_cast<double>(strategy.tp * strategy.cp);
    const auto mbs = static_cast<double>(strategy.micro_batch);
    model::LayerCost cost;
    cost.forward_s = number(1, 9) * 1e-4 / split * mbs;
    cost.backward_s = 2 * cost.forward_s;
    cost.parameters = std::ceil(number(0, 30) * 1e6 / static_cast<double>(strategy.tp));
    if (experts) cost.expert_parameters = number(1, 30) * 1e6 / static_cast<double>(strategy.ep);
    cost.activation_bytes = number(1, 60) * 1e6 / split * mbs;
    cost.checkpoint_bytes = chance(80) ? cost.activation_bytes / 10 : cost.activation_bytes / 3;
    for (std::int64_t c = between(0, 2); c > 0; --c) {
      cost.collectives.push_back(collective(strategy));
    }
    return cost;
  }

  void make_layers() {
    const std::int64_t most = problem_.graph.strategies.size() > 2 ? 4 : 5;
    const std::int64_t count = between(2, most);
    const bool experts = chance(30);
    for (std::int64_t i = 0; i < count; ++i) {
      model::Layer layer;
      layer.id = fmt::format("n{}", i);
      const bool holds_experts = experts && chance(60);
      for (const model::Strategy& strategy : problem_.graph.strategies) {
        layer.costs.emplace_back(layer_cost(strategy, holds_experts));
      }
      if (ties_ && i > 0 && chance(70)) layer.costs = problem_.graph.layers.front().costs;
      for (auto& column : layer.costs) {
        if (chance(4)) column.reset();
      }
      problem_.graph.layers.push_back(layer);
    }
    if (ties_ && problem_.graph.strategies.size() > 1 && chance(30)) make_twin_strategies();
  }

  /// Two strategies of different names that are the same.
  void make_twin_strategies() {
    const std::string id = problem_.graph.strategies[1].id;
    problem_.graph.strategies[1] = problem_.graph.strategies[0];
    problem_.graph.strategies[1].id = id;
    for (model::Layer& layer : problem_.graph.layers) layer.costs[1] = layer.costs[0];
  }

  void add_edge(int from, int to) {
    model::Edge edge;
    edge.from = from;
    edge.to = to;
    const double bytes = ties_ ? 1e6 : number(0, 40) * 1e5;
    const bool per_strategy = !ties_ && chance(30);
    for (std::size_t s = 0; s < problem_.graph.strategies.size(); ++s) {
      edge.bytes.push_back(per_strategy ? number(0, 40) * 1e5 : bytes);
    }
    problem_.graph.edges.push_back(edge);
  }

  void make_edges() {
    const auto layers = static_cast<int>(problem_.graph.layers.size());
    const int shape = static_cast<int>(between(0, 2));
    const int skip_percent = shape == 0 ? 0 : 35;
    const int chain_percent = shape == 2 ? 60 : 100;
    // Indices need not be a topological order.
    const bool reversed = chance(20);
    const auto name = [&](int i) { return reversed ? layers - 1 - i : i; };
    for (int from = 0; from < layers; ++from) {
      for (int to = from + 1; to < layers; ++to) {
        if (chance(to == from + 1 ? chain_percent : skip_percent)) add_edge(name(from), name(to));
      }
    }
  }

  /// Other than plain levels in half of the problems, between as many places.
  void make_other_network() {
    model::Cluster& cluster = problem_.cluster;
    if (network_dice_.chance(50)) return;
    if (network_dice_.chance(60)) {
      cluster.network = random_tree(network_dice_, cluster.places());
    } else {
      cluster.network = random_grid(network_dice_, cluster.places());
    }
    if (network_dice_.chance(30)) name_hosts();
  }

  void name_hosts() {
    model::Cluster& cluster = problem_.cluster;
    for (const std::int64_t size : cluster.host_sizes()) {
      cluster.hosts.push_back({fmt::format("h{}", cluster.hosts.size()), size});
    }
  }

  /// Places that are not available, one at least being left.
  void make_holes() {
    model::Cluster& cluster = problem_.cluster;
    const std::int64_t places = cluster.places();
    const std::int64_t keep = between(0, places - 1);
    for (std::int64_t place = 0; place < places; ++place) {
      if (place == keep || !chance(20)) continue;
      cluster.unavailable.push_back({place, 1});
    }
    if (cluster.limit) cluster.limit = std::min(*cluster.limit, cluster.devices());
  }

  /// One or two further types of devices, here and there.
  void make_types() {
    model::Cluster& cluster = problem_.cluster;
    for (std::int64_t types = between(1, 2); types > 0; --types) {
      model::Device device = cluster.device;
      device.memory_bytes = std::ceil(device.memory_bytes * pick<double>({0.5, 0.8, 1, 1.5}));
      cluster.other_devices.push_back(device);
    }
    const std::int64_t places = cluster.places();
    const auto types = static_cast<std::int64_t>(cluster.other_devices.size());
    for (std::int64_t first = 0; first < places;) {
      const std::int64_t count = between(1, std::min<std::int64_t>(4, places - first));
      const auto type = static_cast<int>(between(0, types));
      if (type > 0) cluster.types.push_back({{first, count}, type});
      first += count;
    }
    for (model::Layer& layer : problem_.graph.layers) {
      for (auto& cost : layer.costs) {
        if (!cost) continue;
        for (std::int64_t type = 0; type < types; ++type) {
          const double forward = pick<double>({0.5, 1, 1, 2});
          const double backward = pick<double>({0.5, 1, 1, 2});
          cost->others.push_back({cost->forward_s * forward, cost->backward_s * backward,
                                  cost->selective_s * forward});
        }
      }
    }
  }

  /// Groups that stay inside a domain, and stages at places of their own.
  void make_constraints() {
    using Scope = model::StageConstraints::Scope;
    model::StageConstraints& stages = problem_.options.stages;
    const std::vector<std::string> domains = network::make_network(problem_.cluster)->domains();
    if (chance(70)) {
      const auto scope =
          pick<Scope>({Scope::kTensor, Scope::kContext, Scope::kExpert, Scope::kData, Scope::kPod});
      stages.confined.push_back({scope, pick(domains)});
    }
    if (chance(40)) stages.places.push_back({-1, between(0, problem_.cluster.devices() - 1)});
    const bool deep = problem_.options.pp.size() == 1 && problem_.options.pp.front() > 2;
    if (deep && problem_.cluster.devices() > 1 && chance(50)) {
      stages.places.push_back({1, between(1, problem_.cluster.devices() - 1)});
    }
  }

  /// Communication beside computation: in half of the problems, of half of its kinds.
  void make_overlap() {
    if (overlap_dice_.chance(50)) return;
    for (const model::OverlapTerm& term : model::kOverlapTerms) {
      if (overlap_dice_.chance(50)) continue;
      problem_.options.overlap.*term.share = overlap_dice_.pick<double>({0.25, 0.3, 0.5, 0.9, 1});
    }
  }

  /// The optimizer's step: in half of the problems, at a rate for every type of devices.
  void make_updates() {
    if (update_dice_.chance(50)) return;
    for (int type = 0; type < problem_.cluster.type_count(); ++type) {
      problem_.graph.updates.push_back({update_dice_.pick<double>({0, 1e-5, 2e-4}),
                                        update_dice_.pick<double>({1e-14, 5e-13, 3e-12})});
    }
  }

  void make_options() {
    model::PlanOptions& options = problem_.options;
    options.allow_uneven_batch = chance(25);
    options.global_batch =
        options.allow_uneven_batch ? between(1, 14) : pick<std::int64_t>({2, 4, 6, 8, 12, 16});
    if (chance(25)) options.schedule = model::Schedule::kGPipe;
    if (chance(25))
      options.state_bytes = pick<model::StateBytes>({{4, 4, 8}, {2, 2, 0}, {2, 4, 0}});
    if (chance(20))
      options.recompute = {chance(50) ? model::Recompute::kNone : model::Recompute::kFull};
    if (chance(25)) options.zero = pick<std::vector<int>>({{0}, {1}, {3}, {0, 1}, {1, 2}, {0, 3}});
    if (chance(6)) options.pp = pick<std::vector<std::int64_t>>({{1}, {2}, {2, 3}});
    if (chance(6)) options.dp = pick<std::vector<std::int64_t>>({{1}, {2}, {1, 4}});
    if (chance(6)) options.dp_inner = pick<std::vector<std::int64_t>>({{1}, {2}, {1, 2}});
    if (chance(4)) options.tp = pick<std::vector<std::int64_t>>({{1}, {2}, {1, 2}});
    if (chance(4)) options.cp = {1};
    if (chance(4)) options.ep = {1};
    if (chance(4)) options.micro_batches = {1};
  }

  /// Between a device that holds the whole model several times and one that holds a slice of it.
  void make_memory() {
    double whole = 0;
    for (const model::Layer& layer : problem_.graph.layers) {
      double largest = 0;
      for (const auto& cost : layer.costs) {
        if (!cost) continue;
        largest = std::max(
            largest, 18 * (cost->parameters + cost->expert_parameters) + cost->activation_bytes);
      }
      whole += largest;
    }
    const double share = chance(25) ? 4 : number(20, 110) / 100;
    problem_.cluster.device.name = std::string("device");
    problem_.cluster.device.memory_bytes = std::floor(whole * share);
    if (chance(20)) problem_.cluster.device.reserved_bytes = std::floor(whole / 20);
  }

  Dice network_dice_;  ///< of its own: what the network is does not change the model
  Dice overlap_dice_;
  Dice update_dice_;
  bool ties_;
  bool extras_;
  model::Problem problem_;
};

}  // namespace

model::Problem random_problem(std::uint64_t seed) {
  model::Problem problem = Generator(seed).run();
  model::quantise_counts(problem.graph);
  return problem;
}

std::string describe(const cost::PlacedPlan& plan) {
  std::string text = fmt::format("dp {} inner {}", plan.dp, plan.dp_inner);
  for (const cost::PlacedStage& stage : plan.stages) {
    text += fmt::format(" | layers {} strategy {} at {} recompute {} zero {} {}",
                        fmt::join(stage.layers, " "), stage.strategy, stage.position,
                        to_string(stage.recompute), stage.zero, to_string(stage.shard));
  }
  return text;
}

}  // namespace nestplan::testing
