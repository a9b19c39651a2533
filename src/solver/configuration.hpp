#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "solver/instance.hpp"

namespace nestplan::targets {
struct Rule;
}

namespace nestplan::solver {

/// What is fixed before a table is filled: micro-batch, data parallelism and how it is split into
/// pods, and the strategies its stages may use (one, or several with per-stage strategies).
struct Configuration {
  std::int64_t micro_batch = 1;
  std::int64_t dp = 1;
  std::int64_t dp_inner = 1;
  std::int64_t microbatches = 1;  ///< m
  network::PodLayout pods;
  std::vector<int> strategies;
  std::int64_t vpp = 1;      ///< chunks of a stage
  std::int64_t middle = -1;  ///< counted layers of the stages in the middle; -1: any
  // Where all stages have to do alike: how they recompute, and which of kShardChoices they use.
  std::optional<model::Recompute> recompute;
  std::optional<int> shard;
  std::int64_t max_depth = 1;  ///< no more stages fit into a pod or have a layer
  Total bound = 0;             ///< no plan of this configuration costs less
  std::int32_t floor = 0;      ///< which floor of its space it was bounded with

  std::int64_t unit(const model::Strategy& s) const { return s.tp * s.cp * dp_inner; }
};

/// Time that no plan can do without, from the layers alone: compute, and collectives at the best
/// place that the network has for a group of that size, as far as they do not run beside
/// computation. A stage takes no less than the sum over its layers, since it hides no more than all
/// that may be hidden.
struct Floor {
  std::vector<Ticks> of_layer;
  Ticks total = 0;
  Ticks largest_layer = 0;
  Ticks smallest_layer = 0;
  std::vector<double> work_of_layer;  ///< least ticks × devices of one inner replica (tp·cp)
  double work = 0;
  double least_cut = 0;  ///< bytes that cross any stage boundary

  /// Fills in what follows from `of_layer`.
  void summarise();
};

/// What data parallelism adds to the first stage, for one ZeRO stage: at least.
struct FirstStageCost {
  Ticks base = 0;  ///< forward and backward
  Ticks zero = 0;  ///< traffic per micro-batch
  Ticks sync = 0;  ///< once per iteration
};

/// Least objective of a configuration with a given number of stages.
struct DepthBound {
  Ticks sum = 0;         ///< Σ t + sync_1
  Ticks bottleneck = 0;  ///< max t
  Total total = 0;
};

/// Bounds a configuration depth by depth in O(levels) each. With interleaving the sum is divided by
/// the number of chunks, as in Interleaved.
///
/// With `p` stages, Σt ≥ W + transfers, max t ≥ Σt/p and no less than the largest layer. Stages
/// without a boundary of level ≥ l between them lie in one block of `n_(l-1)` devices, which holds
/// `n_(l-1)/u` of them, so at least `⌈p/(n_(l-1)/u)⌉ - 1` boundaries are that far apart. Every
/// boundary is paid twice, by the receiver of activations and by the receiver of gradients. The
/// devices of a pod have no more than K·max t to give, and the layers want their work of them.
/// Where transfers run beside computation, max t is no less than what a stage receives, nor than
/// what it takes without.
class DepthBounds {
 public:
  DepthBounds(const Instance& instance, const Configuration& configuration, const Floor& floor,
              std::vector<FirstStageCost> first = {FirstStageCost{}});

  DepthBound at_depth(std::int64_t depth) const;

  /// Least of (ZeRO traffic + sync) of the first stage.
  Ticks first_extra() const { return first_extra_; }

 private:
  model::Objective objective_;
  std::int64_t microbatches_;
  std::int64_t vpp_;
  bool transfers_hidden_;
  const Floor& floor_;
  std::vector<FirstStageCost> first_;
  Ticks shared_out_ = 0;  ///< work over the devices of a pod
  Ticks first_extra_ = 0;
  std::vector<Ticks> transfer_;         ///< by level: least over it and all farther ones
  std::vector<std::int64_t> together_;  ///< by level: stages without a boundary of that level
};

/// Lists and bounds configurations.
class ConfigurationSpace {
 public:
  explicit ConfigurationSpace(const Instance& instance);

  /// All configurations that are legal by their numbers, by rising bound, then canonical order.
  std::vector<Configuration> list();

  /// The floor that `configuration` was bounded with.
  const Floor& floor(const Configuration& configuration) const {
    return floors_[at(configuration.floor)];
  }

  /// Why combinations were left out, with counts.
  const std::map<std::string, std::int64_t>& rejected() const { return rejected_; }
  /// Whether such a reason is a rule of the target.
  bool names_rule(const std::string& reason) const { return rules_broken_.contains(reason); }
  /// For these reasons, where there are any: numbers of one combination.
  const std::map<std::string, std::string>& examples() const { return examples_; }

  /// Depths of `configuration` that options and rules allow, ascending.
  std::vector<std::int64_t> depths(const Configuration& configuration) const;

 private:
  Floor make_floor(const std::vector<int>& strategies,
                   std::optional<model::Recompute> recompute) const;
  std::vector<std::optional<model::Recompute>> recomputations() const;
  Ticks cheapest_term(const model::Strategy& strategy, const model::Collective& collective) const;
  std::vector<std::int64_t> middles() const;
  bool holds_all(std::int64_t middle, std::int64_t depth) const;
  bool covers_all_layers(const std::vector<int>& strategies) const;
  const targets::Rule* broken_by_stages(const Configuration& configuration,
                                        std::int64_t depth) const;
  void bound_depth(Configuration& configuration) const;
  void add(std::vector<Configuration>& out, Configuration configuration);
  bool reject(const targets::Rule* rule);
  void reject_depths(const Configuration& configuration);
  bool runs(const Configuration& configuration, const model::Strategy& strategy);
  bool interleaves();
  void list_interleaved(const Configuration& base, std::vector<Configuration>& out);
  std::vector<int> usable_strategies(std::int64_t micro_batch);
  std::vector<std::vector<int>> strategy_sets(const std::vector<int>& usable) const;
  void list_copies(std::int64_t micro_batch, std::vector<Configuration>& out);
  void list_layouts(Configuration base, std::vector<Configuration>& out);
  void list_variants(const Configuration& base, std::vector<Configuration>& out);

  const Instance& instance_;
  const Rules& rules_;
  std::vector<Floor> floors_;
  std::map<std::string, std::int64_t> rejected_;
  std::map<std::string, std::string> examples_;
  std::set<std::string> rules_broken_;
};

/// Whether expert groups of `strategy` fit: `ep` divides cp·dp_inner, or is `k` times it with `k`
/// dividing dp_outer.
bool expert_groups_fit(const model::Strategy& strategy, std::int64_t dp_inner,
                       std::int64_t dp_outer);

bool allowed(const std::vector<std::int64_t>& list, std::int64_t value);

}  // namespace nestplan::solver
