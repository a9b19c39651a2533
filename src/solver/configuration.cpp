#include "solver/configuration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "nestplan/util/format.hpp"
#include "solver/rules.hpp"
#include "solver/traffic.hpp"

namespace nestplan::solver {
namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

/// Groups of `members` devices `stride` apart: the shapes they can have anywhere in the network.
std::set<network::GroupShape> possible_shapes(const network::Network& network, std::int64_t members,
                                              std::int64_t stride) {
  std::set<network::GroupShape> shapes;
  std::vector<std::int64_t> group(at(members));
  const std::int64_t extent = (members - 1) * stride;
  const std::int64_t starts = std::min(network.shape_period(), network.devices() - extent);
  for (std::int64_t start = 0; start < starts; ++start) {
    for (std::int64_t i = 0; i < members; ++i) group[at(i)] = start + i * stride;
    shapes.insert(network.shape(group));
  }
  return shapes;
}

/// By how much a batch is not one of whole micro-batches on every copy, and the nearest that are.
std::string batch_example(const model::PlanOptions& options, std::int64_t dp,
                          std::int64_t micro_batch) {
  const std::int64_t step = dp * micro_batch;
  const std::int64_t left = options.global_batch % step;
  return fmt::format("dp {} x micro-batch {} = {} leaves {} of {}; nearest: {} or {}", dp,
                     micro_batch, step, left, options.global_batch, options.global_batch - left,
                     options.global_batch - left + step);
}

}  // namespace

bool allowed(const std::vector<std::int64_t>& list, std::int64_t value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

bool expert_groups_fit(const model::Strategy& strategy, std::int64_t dp_inner,
                       std::int64_t dp_outer) {
  const std::int64_t inside = strategy.cp * dp_inner;
  if (inside % strategy.ep == 0) return true;
  return strategy.ep % inside == 0 && dp_outer % (strategy.ep / inside) == 0;
}

void Floor::summarise() {
  total = 0;
  largest_layer = 0;
  smallest_layer = kNever;
  for (const Ticks ticks : of_layer) {
    total += ticks;
    largest_layer = std::max(largest_layer, ticks);
    smallest_layer = std::min(smallest_layer, ticks);
  }
  work = 0;
  for (const double of_layer_work : work_of_layer) work += of_layer_work;
}

DepthBounds::DepthBounds(const Instance& instance, const Configuration& configuration,
                         const Floor& floor, std::vector<FirstStageCost> first)
    : objective_(instance.options().objective),
      microbatches_(configuration.microbatches),
      vpp_(configuration.vpp),
      transfers_hidden_(instance.options().transfer_overlap(vpp_) > 0),
      floor_(floor),
      first_(std::move(first)) {
  std::int64_t smallest = configuration.pods.devices;
  std::int64_t largest = 0;
  for (const int k : configuration.strategies) {
    const std::int64_t unit = configuration.unit(instance.strategies()[at(k)].strategy);
    smallest = std::min(smallest, unit);
    largest = std::max(largest, unit);
  }
  const network::Network& network = instance.network();
  transfer_.assign(at(network.levels()), kNever);
  together_.assign(at(network.levels()), std::numeric_limits<std::int64_t>::max());
  for (int level = network.levels() - 1; level >= 0; --level) {
    Ticks& least = transfer_[at(level)];
    least = instance.scale().ticks(network.transfer_s(floor.least_cut, level, smallest));
    if (level + 1 < network.levels()) least = std::min(least, transfer_[at(level + 1)]);
    if (level == 0) continue;
    const std::int64_t block = network.reach(level);
    // Stages of different sizes: only their first devices are sure to share the block.
    const std::int64_t stages = smallest == largest ? block / smallest : (block - 1) / smallest + 1;
    together_[at(level)] = std::max<std::int64_t>(1, stages);
  }
  // A little less, since products of ticks and devices round.
  shared_out_ = std::floor(floor.work * static_cast<double>(configuration.dp_inner) /
                           static_cast<double>(configuration.pods.pod_size) * (1 - 1e-12));
  first_extra_ = kNever;
  for (const FirstStageCost& cost : first_) {
    first_extra_ = std::min(first_extra_, cost.zero + cost.sync);
  }
}

DepthBound DepthBounds::at_depth(std::int64_t depth) const {
  const auto p = static_cast<double>(depth);
  Ticks transfers = 0;
  Ticks most_received = 0;
  std::int64_t farther = 0;
  for (std::size_t level = transfer_.size(); depth > 1 && level-- > 0;) {
    const std::int64_t boundaries =
        level == 0 ? depth - 1 : (depth + together_[level] - 1) / together_[level] - 1;
    if (boundaries <= farther) continue;
    transfers += 2 * transfer_[level] * static_cast<double>(boundaries - farther);
    farther = boundaries;
    const bool both_sides = boundaries == depth - 1 && depth > 2;
    most_received = std::max(most_received, (both_sides ? 2 : 1) * transfer_[level]);
  }
  const Ticks near = depth > 1 ? transfer_.front() : 0;
  // What is received may count for the sum, and not for the slowest stage.
  const Ticks paced = transfers_hidden_ ? 0 : 1;
  DepthBound bound{kNever, kNever, kNoTotal};
  for (const FirstStageCost& first : first_) {
    if (first.base + first.zero + first.sync == kNever) continue;
    const Ticks sum = floor_.total + transfers + first.zero;
    const Ticks bottleneck = std::max(
        {std::ceil((floor_.total + paced * transfers + first.zero) / p), shared_out_,
         floor_.largest_layer + paced * near, most_received,
         floor_.smallest_layer + paced * most_received, first.base + first.zero + paced * near});
    const bool paper = objective_ == model::Objective::kPaper;
    const Total rounds = microbatches_ * vpp_ + (paper ? depth : 0) - 1;
    const Total scaled = (paper ? 0 : to_total(sum)) + rounds * to_total(bottleneck);
    const Total total = (scaled + vpp_ - 1) / vpp_ + to_total(first.sync);
    bound.sum = std::min(bound.sum, sum + first.sync);
    bound.bottleneck = std::min(bound.bottleneck, bottleneck);
    bound.total = std::min(bound.total, total);
  }
  return bound;
}

ConfigurationSpace::ConfigurationSpace(const Instance& instance)
    : instance_(instance), rules_(instance.rules()) {}

Ticks ConfigurationSpace::cheapest_term(const model::Strategy& strategy,
                                        const model::Collective& collective) const {
  std::int64_t members = 0;
  std::int64_t stride = 1;
  if (collective.group == model::GroupKind::kTensor) {
    members = strategy.tp;
  } else if (collective.group == model::GroupKind::kContext) {
    members = strategy.cp;
    stride = strategy.tp;
  } else {
    return 0;
  }
  if ((members - 1) * stride >= instance_.network().devices()) return 0;
  Ticks least = kNever;
  for (const network::GroupShape& shape : possible_shapes(instance_.network(), members, stride)) {
    const double seconds = instance_.network().collective_s(collective.op, collective.bytes, shape);
    least = std::min(least, instance_.scale().ticks(collective.op, seconds));
  }
  return exposed(least, instance_.options().overlap.of(collective), kNever);
}

Floor ConfigurationSpace::make_floor(const std::vector<int>& strategies,
                                     std::optional<model::Recompute> recompute) const {
  const model::Graph& graph = instance_.problem().graph;
  Floor floor;
  floor.of_layer.assign(graph.layers.size(), kNever);
  floor.work_of_layer.assign(graph.layers.size(), kNever);
  floor.least_cut = instance_.least_cut(strategies);
  for (const int k : strategies) {
    const StrategySums& sums = instance_.strategies()[at(k)];
    const auto devices = static_cast<double>(sums.strategy.tp * sums.strategy.cp);
    std::vector<Ticks> term_ticks;
    for (const CollectiveTerm& term : sums.terms) {
      term_ticks.push_back(cheapest_term(sums.strategy, term.collective));
    }
    for (std::size_t v = 0; v < graph.layers.size(); ++v) {
      if (sums.floor_of_layer[v] == kNever) continue;
      Ticks ticks = sums.floor_of_layer[v] + sums.recomputed(recompute, v);
      for (std::size_t t = 0; t < sums.terms.size(); ++t) {
        ticks += term_ticks[t] * sums.terms[t].count_of_layer[v];
      }
      floor.of_layer[v] = std::min(floor.of_layer[v], ticks);
      floor.work_of_layer[v] = std::min(floor.work_of_layer[v], ticks * devices);
    }
  }
  floor.summarise();
  return floor;
}

std::vector<std::int64_t> ConfigurationSpace::depths(const Configuration& configuration) const {
  std::vector<std::int64_t> result;
  if (instance_.stages_fixed()) {
    const std::int64_t stages = instance_.lattice().size() - 1;
    if (stages <= configuration.max_depth) result.push_back(stages);
    return result;
  }
  const bool ruled = rules_.has(targets::Scope::kPipeline);
  const model::Strategy& strategy =
      instance_.strategies()[at(configuration.strategies.front())].strategy;
  const bool one_is_left = broken_by_stages(configuration, 1) == nullptr;
  const bool several_are_left = broken_by_stages(configuration, 2) == nullptr;
  for (std::int64_t p = 1; p <= configuration.max_depth; ++p) {
    if (!allowed(instance_.options().pp, p)) continue;
    if (configuration.vpp > 1 && (p == 1 || configuration.microbatches % p != 0)) continue;
    if (!holds_all(configuration.middle, p)) continue;
    if (!(p == 1 ? one_is_left : several_are_left)) continue;
    if (!ruled || rules_.broken_by_depth(configuration, strategy, p) == nullptr) {
      result.push_back(p);
    }
  }
  return result;
}

bool ConfigurationSpace::covers_all_layers(const std::vector<int>& strategies) const {
  const std::size_t layers = instance_.problem().graph.layers.size();
  for (std::size_t v = 0; v < layers; ++v) {
    const auto usable = [&](int k) {
      return instance_.strategies()[at(k)].floor_of_layer[v] < kNever;
    };
    if (std::none_of(strategies.begin(), strategies.end(), usable)) return false;
  }
  return true;
}

/// The rule that so many stages break however they recompute and share their state; null if some
/// way is left.
const targets::Rule* ConfigurationSpace::broken_by_stages(const Configuration& configuration,
                                                          std::int64_t depth) const {
  if (!rules_.has(targets::Scope::kStage)) return nullptr;
  const StageRule& rule = instance_.rule(instance_.lattice().whole());
  std::vector<model::Recompute> recomputations = rule.recompute;
  if (configuration.recompute) recomputations = {*configuration.recompute};
  std::vector<int> shards = configuration.pods.pods == 1 ? rule.shards_in_one_pod : rule.shards;
  if (configuration.shard) shards = {*configuration.shard};
  const model::Strategy& strategy =
      instance_.strategies()[at(configuration.strategies.front())].strategy;
  const targets::Rule* broken = nullptr;
  for (const model::Recompute recompute : recomputations) {
    for (const int shard : shards) {
      broken = rules_.broken_by_stage(configuration, strategy, depth, recompute,
                                      kShardChoices[at(shard)]);
      if (broken == nullptr) return nullptr;
    }
  }
  return broken;
}

/// Why no depth is left: a rule, the size of a pod, or what interleaving or the layers need.
void ConfigurationSpace::reject_depths(const Configuration& configuration) {
  const model::Strategy& strategy =
      instance_.strategies()[at(configuration.strategies.front())].strategy;
  bool some_fit = false;
  for (std::int64_t p = 1; p <= configuration.max_depth; ++p) {
    if (!allowed(instance_.options().pp, p) || !holds_all(configuration.middle, p)) continue;
    some_fit = some_fit || configuration.vpp == 1 || p > 1;
    if (reject(rules_.broken_by_depth(configuration, strategy, p))) return;
    if (reject(broken_by_stages(configuration, p))) return;
  }
  ++rejected_[!some_fit ? "no allowed pipeline depth fits into a pod"
              : configuration.vpp > 1
                  ? "interleaving needs a multiple of the stages as micro-batches"
                  : "no allowed number of stages holds the layers so"];
}

/// Whether `depth` stages can have all counted layers, if those in the middle have `middle` each. A
/// pipeline without a middle goes with one that has none.
bool ConfigurationSpace::holds_all(std::int64_t middle, std::int64_t depth) const {
  if (middle < 0) return true;
  const std::int64_t counted = instance_.counted(instance_.lattice().whole());
  if (rules_.layout() == model::StageConstraints::Layout::kEven) {
    return depth * middle == counted;
  }
  return depth <= 2 ? middle == 0 : (depth - 2) * middle <= counted;
}

/// Counted layers that stages in the middle can all have.
std::vector<std::int64_t> ConfigurationSpace::middles() const {
  if (rules_.layout() == model::StageConstraints::Layout::kAny) return {-1};
  std::vector<std::int64_t> result;
  const std::int64_t counted = instance_.counted(instance_.lattice().whole());
  const bool even = rules_.layout() == model::StageConstraints::Layout::kEven;
  for (std::int64_t middle = 0; middle <= counted; ++middle) {
    if (even && (middle == 0 ? counted > 0 : counted % middle != 0)) continue;
    result.push_back(middle);
  }
  return result;
}

void ConfigurationSpace::bound_depth(Configuration& configuration) const {
  std::int64_t smallest = configuration.pods.pod_size + 1;
  for (const int k : configuration.strategies) {
    smallest = std::min(smallest, configuration.unit(instance_.strategies()[at(k)].strategy));
  }
  configuration.max_depth =
      std::min<std::int64_t>(instance_.lattice().size() - 1, instance_.lattice().layers());
  configuration.max_depth =
      std::min(configuration.max_depth, configuration.pods.pod_size / smallest);
}

void ConfigurationSpace::add(std::vector<Configuration>& out, Configuration configuration) {
  Total bound = kNoTotal;
  const DepthBounds bounds(instance_, configuration, floor(configuration));
  for (const std::int64_t p : depths(configuration)) {
    bound = std::min(bound, bounds.at_depth(p).total);
  }
  if (bound == kNoTotal) {
    reject_depths(configuration);
    return;
  }
  configuration.bound = bound;
  out.push_back(std::move(configuration));
}

/// Counts what a rule forbids, and remembers one combination. Whether there is a rule.
bool ConfigurationSpace::reject(const targets::Rule* rule) {
  if (rule == nullptr) return false;
  const std::string reason = rules_.describe(*rule);
  ++rejected_[reason];
  if (rules_broken_.insert(reason).second) examples_[reason] = rules_.explain(*rule);
  return true;
}

std::vector<int> ConfigurationSpace::usable_strategies(std::int64_t micro_batch) {
  const model::PlanOptions& options = instance_.options();
  std::vector<int> usable;
  for (std::size_t k = 0; k < instance_.strategies().size(); ++k) {
    const model::Strategy& s = instance_.strategies()[k].strategy;
    if (s.micro_batch != micro_batch || !allowed(options.tp, s.tp) || !allowed(options.cp, s.cp) ||
        !allowed(options.ep, s.ep)) {
      continue;
    }
    if (!reject(rules_.broken_by(s))) usable.push_back(static_cast<int>(k));
  }
  return usable;
}

/// What the stages of one plan may choose from.
std::vector<std::vector<int>> ConfigurationSpace::strategy_sets(
    const std::vector<int>& usable) const {
  if (usable.empty()) return {};
  if (instance_.options().per_stage_strategies && !rules_.same_strategy()) return {usable};
  std::vector<std::vector<int>> sets;
  for (const int k : usable) sets.push_back({k});
  return sets;
}

/// Whether the numbers of `configuration` let `strategy` run.
bool ConfigurationSpace::runs(const Configuration& c, const model::Strategy& s) {
  if (c.unit(s) > c.pods.pod_size) {
    ++rejected_["a stage needs more devices than a pod has"];
  } else if (!expert_groups_fit(s, c.dp_inner, c.pods.pods)) {
    ++rejected_["expert groups do not fit the data-parallel groups"];
  } else if (floors_[at(c.floor)].total == kNever) {
    ++rejected_["a layer has no costs under the strategy"];
  } else {
    return !reject(rules_.broken_by(c, s));
  }
  return false;
}

/// What all stages may have to do alike; nothing where they are free.
std::vector<std::optional<model::Recompute>> ConfigurationSpace::recomputations() const {
  if (!rules_.same_recompute()) return {std::nullopt};
  const StageRule& rule = instance_.rule(instance_.lattice().whole());
  return {rule.recompute.begin(), rule.recompute.end()};
}

/// Adds `base` with all that its stages may have to do alike, and with each number of chunks.
void ConfigurationSpace::list_variants(const Configuration& base, std::vector<Configuration>& out) {
  const StageRule& rule = instance_.rule(instance_.lattice().whole());
  std::vector<std::optional<int>> shards{std::nullopt};
  if (rules_.same_shard()) shards.assign(rule.shards.begin(), rule.shards.end());
  const auto recomputing = recomputations();
  for (std::size_t r = 0; r < recomputing.size(); ++r) {
    for (const auto& shard : shards) {
      Configuration c = base;
      c.floor += static_cast<std::int32_t>(r);
      c.recompute = recomputing[r];
      c.shard = shard;
      for (const std::int64_t vpp : instance_.options().vpp) {
        c.vpp = vpp;
        if (vpp > 1) {
          list_interleaved(c, out);
          continue;
        }
        list_layouts(c, out);
      }
    }
  }
}

/// Adds `base` with each number of layers in the middle that goes with some depth.
void ConfigurationSpace::list_layouts(Configuration base, std::vector<Configuration>& out) {
  bound_depth(base);
  bool some_hold = false;
  for (const std::int64_t middle : middles()) {
    bool holds = false;
    for (std::int64_t p = 1; p <= base.max_depth && !holds; ++p) {
      holds = allowed(instance_.options().pp, p) && holds_all(middle, p);
    }
    if (!holds) continue;
    some_hold = true;
    Configuration c = base;
    c.middle = middle;
    add(out, std::move(c));
  }
  if (!some_hold) reject_depths(base);
}

/// Adds `base`, which has several chunks, with each of its strategies for all stages.
void ConfigurationSpace::list_interleaved(const Configuration& base,
                                          std::vector<Configuration>& out) {
  if (!interleaves()) return;
  for (const int k : base.strategies) {
    Configuration c = base;
    c.strategies = {k};
    bound_depth(c);
    if (covers_all_layers(c.strategies)) add(out, std::move(c));
  }
}

/// Whether interleaving is known to the search for what else is asked for.
bool ConfigurationSpace::interleaves() {
  const model::PlanOptions& options = instance_.options();
  if (!instance_.lattice().totally_ordered()) {
    ++rejected_["interleaving is for layers in a row"];
  } else if (options.schedule != model::Schedule::k1F1B) {
    ++rejected_["interleaving is for the schedule 1f1b"];
  } else if (instance_.constrained() && !options.stages.none_but_layout()) {
    ++rejected_["interleaving is searched without rules on single stages"];
  } else {
    return true;
  }
  return false;
}

void ConfigurationSpace::list_copies(std::int64_t micro_batch, std::vector<Configuration>& out) {
  const model::PlanOptions& options = instance_.options();
  const std::int64_t devices = instance_.network().devices();
  const std::vector<std::vector<int>> sets = strategy_sets(usable_strategies(micro_batch));
  const std::size_t first_floor = floors_.size();
  const auto recomputing = recomputations();
  for (const auto& set : sets) {
    for (const auto& recompute : recomputing) floors_.push_back(make_floor(set, recompute));
  }
  const std::int64_t most = std::min(devices, options.global_batch / micro_batch);
  for (const std::int64_t dp : options.dp) {
    if (dp > most) {
      ++rejected_[fmt::format("dp {} is more than {} and {} allow", dp,
                              util::counted(devices, "device"),
                              util::counted(options.global_batch, "sequence"))];
    }
  }
  for (std::int64_t dp = 1; dp <= most; ++dp) {
    if (!allowed(options.dp, dp)) continue;
    const std::int64_t step = dp * micro_batch;
    if (!options.allow_uneven_batch && options.global_batch % step != 0) {
      constexpr const char* kReason = "dp x micro-batch does not divide the global batch";
      if (++rejected_[kReason] == 1) examples_[kReason] = batch_example(options, dp, micro_batch);
      continue;
    }
    for (const std::int64_t inner : options.dp_inner) {
      if (dp % inner != 0) ++rejected_[fmt::format("dp-inner {} does not divide dp", inner)];
    }
    for (const std::int64_t inner : divisors(dp)) {
      if (!allowed(options.dp_inner, inner)) continue;
      Configuration c;
      c.micro_batch = micro_batch;
      c.dp = dp;
      c.dp_inner = inner;
      c.microbatches = (options.global_batch + step - 1) / step;
      c.pods = {devices, dp / inner, devices / (dp / inner)};
      for (std::size_t i = 0; i < sets.size(); ++i) {
        c.strategies.clear();
        c.floor = static_cast<std::int32_t>(first_floor + i * recomputing.size());
        for (const int k : sets[i]) {
          if (runs(c, instance_.strategies()[at(k)].strategy)) c.strategies.push_back(k);
        }
        if (c.strategies.empty()) continue;
        if (!covers_all_layers(c.strategies)) {
          ++rejected_["a layer has no costs under the strategies that fit"];
          continue;
        }
        list_variants(c, out);
      }
    }
  }
}

std::vector<Configuration> ConfigurationSpace::list() {
  std::set<std::int64_t> micro_batches;
  for (const StrategySums& sums : instance_.strategies()) {
    const std::int64_t micro_batch = sums.strategy.micro_batch;
    if (allowed(instance_.options().micro_batches, micro_batch)) micro_batches.insert(micro_batch);
  }
  std::vector<Configuration> result;
  for (const std::int64_t micro_batch : micro_batches) list_copies(micro_batch, result);
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    const auto key = [](const Configuration& c) {
      return std::tuple(c.bound, c.micro_batch, c.dp, c.dp_inner, c.vpp);
    };
    return key(a) < key(b);
  });
  return result;
}

}  // namespace nestplan::solver
