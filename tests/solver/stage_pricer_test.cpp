#include "solver/stage_pricer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "support/dice.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::solver {
namespace {

using model::Recompute;

TEST(StageMaximum, IsTheLargestValueOfTheStage) {
  testing::Dice dice(1);
  for (const int layers : {1, 2, 63, 64, 65, 150}) {
    model::Graph graph;
    std::vector<double> value;
    for (int i = 0; i < layers; ++i) {
      graph.layers.push_back({fmt::format("n{}", i), {}});
      if (i > 0) graph.edges.push_back({i - 1, i, {}});
      value.push_back(static_cast<double>(dice.between(0, 20)));  // with equal ones
    }
    const Lattice lattice = Lattice::enumerate(graph);
    util::LocalStorage storage;
    StageMaximum::BitSets known;
    const StageMaximum maximum(lattice, value, storage, known);
    for (int draw = 0; draw < 200; ++draw) {
      const auto outer = static_cast<DownsetId>(dice.between(0, lattice.whole()));
      const auto inner = static_cast<DownsetId>(dice.between(0, outer));
      double expected = 0;
      for (const int layer : lattice.difference(outer, inner)) {
        expected = std::max(expected, value[at(layer)]);
      }
      ASSERT_EQ(maximum.over(outer, inner), expected) << outer << ' ' << inner;
    }
  }
}

/// A random problem with one of its configurations, and a stage of it.
class Scene {
 public:
  explicit Scene(std::uint64_t seed) : dice_(seed), problem_(testing::random_problem(seed)) {
    problem_.options.target = "any";  // asked about memory and time alone
    problem_.options.per_stage_strategies = dice_.chance(50);
    if (dice_.chance(25)) keep_few_activations();
    network_ = network::make_network(problem_.cluster);
    build();
    const std::vector<Configuration> all = ConfigurationSpace(*instance_).list();
    if (all.empty()) return;
    configuration_ = dice_.pick(all);
    choice_ = static_cast<int>(
        dice_.between(0, static_cast<std::int64_t>(configuration_.strategies.size()) - 1));
    place();
  }

  /// False if nothing is left to price: no configuration, or a stage that cannot use the strategy.
  bool draw_stage() {
    if (!placement_ || placement_->classes(choice_).empty()) return false;
    outer_ = static_cast<DownsetId>(dice_.between(1, instance_->lattice().whole()));
    inner_ = static_cast<DownsetId>(dice_.between(0, outer_ - 1));
    if (!instance_->lattice().subset(inner_, outer_)) return false;
    position_class_ = static_cast<int>(
        dice_.between(0, static_cast<std::int64_t>(placement_->classes(choice_).size()) - 1));
    if (!placement_->classes(choice_)[at(position_class_)]->allowed) return false;
    StagePricer pricer = make_pricer();
    const bool usable = pricer.load(outer_, inner_);
    EXPECT_EQ(usable, !missing_column());
    return usable;
  }

  void set_memory(double bytes) {
    problem_.options.reserve.margin = 0;
    problem_.cluster.device.memory_bytes = bytes + problem_.cluster.device.reserved_bytes;
    for (model::Device& other : problem_.cluster.other_devices) {
      other.memory_bytes = bytes + other.reserved_bytes;
    }
    build();
    place();
  }

  StagePricer make_pricer() const { return {*instance_, *placement_, choice_}; }
  StagePricer loaded() const {
    StagePricer pricer = make_pricer();
    pricer.load(outer_, inner_);
    return pricer;
  }

  /// Bytes per device, from the layers of the stage.
  double bytes(Recompute recompute, const ShardChoice& shard, std::int64_t in_flight) const {
    cost::StageFootprint stage;
    const std::vector<int> layers = instance_->lattice().difference(outer_, inner_);
    for (const int layer : layers) {
      const model::LayerCost& cost = *problem_.graph.layers[at(layer)].costs[at(strategy())];
      stage.parameters += cost.parameters;
      stage.expert_parameters += cost.expert_parameters;
      stage.largest_layer = std::max(stage.largest_layer, cost.parameters + cost.expert_parameters);
      stage.activation_bytes += cost.activation_bytes;
      stage.checkpoint_bytes += cost.checkpoint_bytes;
      const double selective = cost.selective_bytes.value_or(cost.activation_bytes);
      stage.selective_bytes += selective;
      stage.largest_working = std::max(stage.largest_working, cost.working_bytes);
      stage.largest_selective =
          std::max(stage.largest_selective, cost.activation_bytes - selective + cost.working_bytes);
      stage.largest_activation =
          std::max(stage.largest_activation, cost.activation_bytes + cost.working_bytes);
    }
    for (const model::Tie& tie : problem_.graph.ties) {
      double copies = -1;
      for (const int layer : tie.layers) {
        copies += std::find(layers.begin(), layers.end(), layer) != layers.end() ? 1 : 0;
      }
      stage.parameters -= std::max(0.0, copies) * tie.parameters[at(strategy())];
    }
    const model::Strategy& s = problem_.graph.strategies[at(strategy())];
    const bool in_pod = shard.span == model::ShardSpan::kPod;
    const std::int64_t group = (in_pod ? configuration_.dp_inner : configuration_.dp) * s.cp;
    const bool alone = outer_ == instance_->lattice().whole() && inner_ == 0;
    const double groups = (s.tp > 1) + (s.cp > 1) + (s.ep > 1) + (configuration_.dp > 1) + !alone;
    const model::MemoryReserve& reserve = problem_.options.reserve;
    return cost::state_bytes(stage, shard.zero, problem_.options.state_bytes,
                             {group, std::max<std::int64_t>(1, group / s.ep)}) +
           cost::activation_bytes(stage, recompute, in_flight) + reserve.context_bytes +
           groups * reserve.communicator_bytes;
  }

  bool fits(Recompute recompute, const ShardChoice& shard, std::int64_t in_flight) const {
    const TypeSet types = placement_->classes(choice_)[at(position_class_)]->types;
    for (int type = 0; type < problem_.cluster.type_count(); ++type) {
      const double usable = problem_.cluster.type(type).usable_bytes();
      if ((types >> type & 1U) != 0 &&
          bytes(recompute, shard, in_flight) >
              std::floor(usable * (1 - problem_.options.reserve.margin))) {
        return false;
      }
    }
    return true;
  }

  /// What the options allow, in canonical order; in one pod shards inside it are all the same.
  std::vector<ShardChoice> shards() const {
    const auto& spans = problem_.options.shard;
    const bool one_pod = configuration_.pods.pods == 1 && spans.size() > 1;
    std::vector<ShardChoice> result;
    for (const int zero : problem_.options.zero) {
      if (zero == 0 || one_pod) {
        result.push_back({zero, model::ShardSpan::kAll});
        continue;
      }
      for (const model::ShardSpan span : spans) result.push_back({zero, span});
    }
    return result;
  }

  const model::PlanOptions& options() const { return problem_.options; }
  bool has_selective() const { return instance_->strategies()[at(strategy())].has_selective; }
  int position_class() const { return position_class_; }
  testing::Dice& dice() { return dice_; }

 private:
  int strategy() const { return configuration_.strategies[at(choice_)]; }

  /// From none to a few bytes: as little as the rounding to whole bytes.
  void keep_few_activations() {
    for (model::Layer& layer : problem_.graph.layers) {
      for (auto& cost : layer.costs) {
        if (!cost) continue;
        cost->activation_bytes = static_cast<double>(dice_.between(0, 3)) / 2;
        cost->checkpoint_bytes = static_cast<double>(dice_.between(0, 3)) / 2;
        if (cost->selective_bytes) cost->selective_bytes = cost->activation_bytes / 2;
      }
    }
  }

  bool missing_column() const {
    const std::vector<int> layers = instance_->lattice().difference(outer_, inner_);
    return std::any_of(layers.begin(), layers.end(), [&](int layer) {
      return !problem_.graph.layers[at(layer)].costs[at(strategy())].has_value();
    });
  }

  void build() {
    placement_.reset();
    classes_.reset();
    instance_ = std::make_unique<Instance>(problem_, *network_, Lattice::enumerate(problem_.graph));
  }
  void place() {
    classes_ = std::make_unique<ClassCache>(*instance_);
    placement_ = std::make_unique<Placement>(*instance_, configuration_, *classes_);
  }

  testing::Dice dice_;
  model::Problem problem_;
  std::unique_ptr<network::Network> network_;
  std::unique_ptr<Instance> instance_;
  Configuration configuration_;
  std::unique_ptr<ClassCache> classes_;
  std::unique_ptr<Placement> placement_;
  int choice_ = 0;
  DownsetId outer_ = 0;
  DownsetId inner_ = 0;
  int position_class_ = 0;
};

/// What `options` and `decide` must say, option by option.
void expect_priced(const Scene& scene, std::int64_t in_flight) {
  StagePricer pricer = scene.loaded();
  const std::vector<StageOption> options = pricer.options(scene.position_class(), in_flight);
  std::size_t next = 0;
  double least_bytes = std::numeric_limits<double>::infinity();
  Ticks least_time = kNever;
  for (const Recompute recompute : scene.options().recompute) {
    const bool twin = recompute == Recompute::kSelective && !scene.has_selective() &&
                      scene.options().recompute.front() != recompute;
    if (twin) continue;
    for (const ShardChoice& shard : scene.shards()) {
      least_bytes = std::min(least_bytes, scene.bytes(recompute, shard, in_flight));
      if (!scene.fits(recompute, shard, in_flight)) continue;
      ASSERT_LT(next, options.size());
      EXPECT_EQ(options[next].recompute, recompute);
      EXPECT_EQ(options[next].shard, shard);
      least_time = std::min(least_time, options[next].time);
      ++next;
    }
  }
  EXPECT_EQ(next, options.size());
  EXPECT_EQ(pricer.least_bytes(in_flight), least_bytes);
  // Elsewhere, on other devices, something may fit though nothing does here.
  if (pricer.decide(in_flight) == StagePricer::Decision::kNone) {
    ASSERT_TRUE(options.empty());
  } else {
    EXPECT_EQ(pricer.least_time(scene.position_class()), least_time);
  }
}

TEST(StagePricer, OffersWhatFitsAndTakesTheFastest) {
  std::uint64_t priced = 0;
  const std::uint64_t seeds = testing::seeds(1500);
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    Scene scene(seed);
    for (int draw = 0; draw < 6; ++draw) {
      if (!scene.draw_stage()) continue;
      ++priced;
      for (std::int64_t in_flight = 1; in_flight <= 5; ++in_flight) {
        expect_priced(scene, in_flight);
        ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(priced, seeds);
}

TEST(StagePricer, ADecisionHoldsAsLongAsItSays) {
  for (std::uint64_t seed = 0; seed < testing::seeds(1000); ++seed) {
    Scene scene(seed);
    if (!scene.draw_stage()) continue;
    StagePricer pricer = scene.loaded();
    bool none = false;
    for (std::int64_t in_flight = 1; in_flight <= 12; in_flight += scene.dice().between(0, 2)) {
      const auto decision = pricer.decide(in_flight);
      StagePricer fresh = scene.loaded();
      const bool fits = fresh.decide(in_flight) != StagePricer::Decision::kNone;
      ASSERT_EQ(decision != StagePricer::Decision::kNone, fits) << "seed " << seed;
      ASSERT_FALSE(none && fits) << "seed " << seed << ": more in flight fit than fewer";
      none = !fits;
      if (!fits) continue;
      ASSERT_EQ(pricer.least_time(scene.position_class()), fresh.least_time(scene.position_class()))
          << "seed " << seed << ", in flight " << in_flight;
    }
  }
}

TEST(StagePricer, OneByteDecides) {
  int thresholds = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(300); ++seed) {
    Scene scene(seed);
    if (!scene.draw_stage()) continue;
    const Recompute recompute = scene.dice().pick(scene.options().recompute);
    if (recompute == Recompute::kSelective && !scene.has_selective()) continue;
    const ShardChoice shard = scene.dice().pick(scene.shards());
    const std::int64_t in_flight = scene.dice().between(1, 9);
    const double needed = scene.bytes(recompute, shard, in_flight);
    for (const double spare : {-1.0, 0.0, 1.0}) {
      scene.set_memory(needed + spare);
      StagePricer pricer = scene.loaded();
      const auto options = pricer.options(scene.position_class(), in_flight);
      const bool offered =
          std::any_of(options.begin(), options.end(), [&](const StageOption& option) {
            return option.recompute == recompute && option.shard == shard;
          });
      ASSERT_EQ(offered, spare >= 0) << "seed " << seed << ", spare " << spare;
      expect_priced(scene, in_flight);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed << ", spare " << spare;
      ++thresholds;
    }
  }
  EXPECT_GT(thresholds, 0);
}

}  // namespace
}  // namespace nestplan::solver
