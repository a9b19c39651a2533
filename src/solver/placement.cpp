#include "solver/placement.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <unordered_set>

#include "nestplan/util/lists.hpp"

namespace nestplan::solver {
namespace {

constexpr std::size_t kGroupKinds = 4;

std::size_t index_of(model::GroupKind kind) { return static_cast<std::size_t>(kind); }

/// Collects the distinct shapes of a family of groups.
class ShapeSet {
 public:
  explicit ShapeSet(const Instance& instance)
      : network_(instance.network()), collapse_(instance.collapse()) {}
  void add(const std::vector<std::int64_t>& members) { shapes_.insert(network_.shape(members)); }

  /// Adds a group that is like all others of the family but for where it starts.
  void add_shifted(const std::vector<std::int64_t>& members) {
    const std::int64_t start = members.front() % network_.shape_period();
    if (!collapse_ || starts_.insert(start).second) add(members);
  }
  std::vector<network::GroupShape> list() const { return {shapes_.begin(), shapes_.end()}; }

 private:
  const network::Network& network_;
  const bool collapse_;
  std::set<network::GroupShape> shapes_;
  std::unordered_set<std::int64_t> starts_;
};

}  // namespace

/// The groups of the stage of one strategy at one position, over all pods or, where all pods are
/// alike, in the first.
class StageGroups {
 public:
  StageGroups(const Instance& instance, const Configuration& configuration, int k,
              std::int64_t position, bool pods_alike)
      : instance_(instance),
        strategy_(instance.strategies()[at(k)].strategy),
        configuration_(configuration),
        position_(position),
        pods_(pods_alike ? 1 : configuration.pods.pods) {}

  std::vector<network::GroupShape> tensor() const {
    ShapeSet shapes(instance_);
    std::vector<std::int64_t> group(at(strategy_.tp));
    const std::int64_t groups = strategy_.cp * configuration_.dp_inner;
    for (std::int64_t pod = 0; pod < pods_; ++pod) {
      for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t i = 0; i < strategy_.tp; ++i) group[at(i)] = device(pod, g, i);
        shapes.add_shifted(group);
      }
    }
    return shapes.list();
  }

  std::vector<network::GroupShape> context() const {
    ShapeSet shapes(instance_);
    std::vector<std::int64_t> group(at(strategy_.cp));
    for (std::int64_t pod = 0; pod < pods_; ++pod) {
      for (std::int64_t replica = 0; replica < configuration_.dp_inner; ++replica) {
        for (std::int64_t t = 0; t < strategy_.tp; ++t) {
          for (std::int64_t c = 0; c < strategy_.cp; ++c) {
            group[at(c)] = device(pod, replica * strategy_.cp + c, t);
          }
          shapes.add_shifted(group);
        }
      }
    }
    return shapes.list();
  }

  std::vector<network::GroupShape> data() const {
    ShapeSet shapes(instance_);
    for (std::int64_t t = 0; t < strategy_.tp; ++t) shapes.add(data_group(t));
    return shapes.list();
  }
  std::vector<std::int64_t> data_group(std::int64_t t) const {
    std::vector<std::int64_t> group(at(shard_members()));
    for (std::int64_t i = 0; i < shard_members(); ++i) group[at(i)] = shard_member(i, t);
    return group;
  }

  std::vector<network::GroupShape> expert() const {
    ShapeSet shapes(instance_);
    std::vector<std::int64_t> group(at(strategy_.ep));
    for (std::int64_t t = 0; t < strategy_.tp; ++t) {
      for (std::int64_t first = 0; first < shard_members(); first += strategy_.ep) {
        for (std::int64_t i = 0; i < strategy_.ep; ++i) group[at(i)] = shard_member(first + i, t);
        shapes.add(group);
      }
    }
    return shapes.list();
  }

  std::vector<network::GroupShape> expert_peers() const {
    ShapeSet shapes(instance_);
    for (std::int64_t t = 0; t < strategy_.tp; ++t) {
      for (std::int64_t i = 0; i < strategy_.ep; ++i) shapes.add(peer_group(i, t));
    }
    return shapes.list();
  }
  std::vector<std::int64_t> peer_group(std::int64_t index, std::int64_t t) const {
    std::vector<std::int64_t> group;
    for (std::int64_t i = index; i < shard_members(); i += strategy_.ep) {
      group.push_back(shard_member(i, t));
    }
    return group;
  }

  /// Members `first`, `first + step` … of the copies of tensor rank `t` in one pod.
  std::vector<std::int64_t> pod_group(std::int64_t pod, std::int64_t first, std::int64_t step,
                                      std::int64_t t) const {
    std::vector<std::int64_t> group;
    for (std::int64_t i = first; i < copies_in_pod(); i += step) group.push_back(device(pod, i, t));
    return group;
  }
  /// Copy `i` of tensor rank `t` in every pod.
  std::vector<std::int64_t> across_group(std::int64_t i, std::int64_t t) const {
    std::vector<std::int64_t> group;
    for (std::int64_t pod = 0; pod < configuration_.pods.pods; ++pod) {
      group.push_back(device(pod, i, t));
    }
    return group;
  }
  bool experts_span_pods() const { return copies_in_pod() % strategy_.ep != 0; }

  std::vector<network::GroupShape> data_in_pod() const {
    ShapeSet shapes(instance_);
    for (std::int64_t pod = 0; pod < pods_; ++pod) {
      for (std::int64_t t = 0; t < strategy_.tp; ++t) shapes.add_shifted(pod_group(pod, 0, 1, t));
    }
    return shapes.list();
  }
  std::vector<network::GroupShape> peers_in_pod() const {
    ShapeSet shapes(instance_);
    if (experts_span_pods()) return {};
    for (std::int64_t pod = 0; pod < pods_; ++pod) {
      for (std::int64_t e = 0; e < strategy_.ep; ++e) {
        for (std::int64_t t = 0; t < strategy_.tp; ++t) {
          shapes.add_shifted(pod_group(pod, e, strategy_.ep, t));
        }
      }
    }
    return shapes.list();
  }
  std::vector<network::GroupShape> across_pods() const {
    ShapeSet shapes(instance_);
    for (std::int64_t i = 0; i < copies_in_pod(); ++i) {
      for (std::int64_t t = 0; t < strategy_.tp; ++t) shapes.add(across_group(i, t));
    }
    return shapes.list();
  }

 private:
  std::int64_t device(std::int64_t pod, std::int64_t outer, std::int64_t t) const {
    return pod * configuration_.pods.pod_size + position_ + outer * strategy_.tp + t;
  }
  std::int64_t copies_in_pod() const { return strategy_.cp * configuration_.dp_inner; }
  std::int64_t shard_members() const { return copies_in_pod() * configuration_.pods.pods; }
  std::int64_t shard_member(std::int64_t i, std::int64_t t) const {
    return device(i / copies_in_pod(), i % copies_in_pod(), t);
  }

  const Instance& instance_;
  const model::Strategy& strategy_;
  const Configuration& configuration_;
  std::int64_t position_;
  std::int64_t pods_;
};

namespace {

/// Whether the least over `a` is nowhere above the least over `b`: for every way of `b` there is
/// one of `a` that is not slower for any bytes.
bool below(const std::vector<network::AffineTime>& a, const std::vector<network::AffineTime>& b) {
  return std::all_of(b.begin(), b.end(), [&a](const network::AffineTime& other) {
    return std::any_of(a.begin(), a.end(), [&other](const network::AffineTime& way) {
      return way.fixed_s <= other.fixed_s && way.per_byte_s <= other.per_byte_s;
    });
  });
}

}  // namespace

SlowestGroup::SlowestGroup(const network::Network& network, model::CollectiveOp op,
                           const std::vector<network::GroupShape>& shapes)
    : twice_(op == model::CollectiveOp::kAllReduce) {
  for (const network::GroupShape& shape : shapes) {
    std::vector<network::AffineTime> ways = network.collective(op, shape).ways();
    if (ways.empty()) continue;
    if (twice_) {
      for (network::AffineTime& way : ways) way = {way.fixed_s / 2, way.per_byte_s / 2};
    }
    if (std::any_of(groups_.begin(), groups_.end(),
                    [&](const Ways& g) { return below(ways, g); })) {
      continue;
    }
    std::erase_if(groups_, [&](const Ways& g) { return below(g, ways); });
    groups_.push_back(std::move(ways));
  }
}

Ticks SlowestGroup::ticks(const TickScale& scale, double parameters, double bytes_each) const {
  if (parameters <= 0 || bytes_each <= 0) return 0;
  Ticks slowest = 0;
  for (const Ways& ways : groups_) {
    Ticks fastest = kNever;
    for (const network::AffineTime& way : ways) {
      fastest = std::min(fastest,
                         scale.ticks(way.fixed_s) +
                             std::nearbyint(bytes_each * scale.ticks(way.per_byte_s * parameters)));
    }
    slowest = std::max(slowest, fastest);
  }
  return twice_ ? 2 * slowest : slowest;
}

ShardTimes::ShardTimes(const network::Network& network,
                       const std::vector<network::GroupShape>& shapes)
    : all_reduce(network, model::CollectiveOp::kAllReduce, shapes),
      all_gather(network, model::CollectiveOp::kAllGather, shapes),
      reduce_scatter(network, model::CollectiveOp::kReduceScatter, shapes) {}

DataParallelTimes::DataParallelTimes(const network::Network& network, const ShardShapes& shapes,
                                     const cost::ShardGroups& in_pod)
    : dense_{{network, shapes.dense}, {}, 1},
      expert_{{network, shapes.expert}, {}, 1},
      dense_in_pod_{{network, shapes.dense_in_pod},
                    {network, shapes.dense_across},
                    static_cast<double>(in_pod.dense)},
      expert_in_pod_{{network, shapes.expert_in_pod},
                     {network, shapes.expert_across},
                     static_cast<double>(in_pod.expert)} {}

Ticks DataParallelTimes::zero_traffic(const Instance& instance, const ShardChoice& choice,
                                      double parameters, double expert_parameters) const {
  if (choice.zero < 2) return 0;
  const TickScale& scale = instance.scale();
  const model::StateBytes& bytes = instance.options().state_bytes;
  const bool in_pod = choice.span == model::ShardSpan::kPod;
  const ShardTimes& dense = (in_pod ? dense_in_pod_ : dense_).shard;
  const ShardTimes& expert = (in_pod ? expert_in_pod_ : expert_).shard;
  Ticks ticks = dense.reduce_scatter.ticks(scale, parameters, bytes.gradient) +
                expert.reduce_scatter.ticks(scale, expert_parameters, bytes.gradient);
  if (choice.zero == 3) {
    ticks += 2 * (dense.all_gather.ticks(scale, parameters, bytes.weight) +
                  expert.all_gather.ticks(scale, expert_parameters, bytes.weight));
  }
  return ticks;
}

/// Without ZeRO all sum their gradients; else the copies of a shard do, where there are any.
SyncTicks DataParallelTimes::sync_of(const Instance& instance, int zero, double parameters,
                                     const Sharers& sharers) {
  const TickScale& scale = instance.scale();
  const model::StateBytes& bytes = instance.options().state_bytes;
  const auto& [shard, across, parts] = sharers;
  if (zero == 0) return {shard.all_reduce.ticks(scale, parameters, bytes.gradient), 0};
  SyncTicks sync{across.all_reduce.ticks(scale, parameters / parts, bytes.gradient), 0};
  if (zero == 1) sync.reduce += shard.reduce_scatter.ticks(scale, parameters, bytes.gradient);
  if (zero <= 2) sync.gather = shard.all_gather.ticks(scale, parameters, bytes.weight);
  return sync;
}

SyncTicks DataParallelTimes::sync(const Instance& instance, const ShardChoice& choice,
                                  double parameters, double expert_parameters) const {
  const bool in_pod = choice.span == model::ShardSpan::kPod;
  const SyncTicks dense =
      sync_of(instance, choice.zero, parameters, in_pod ? dense_in_pod_ : dense_);
  const SyncTicks expert =
      sync_of(instance, choice.zero, expert_parameters, in_pod ? expert_in_pod_ : expert_);
  return {dense.reduce + expert.reduce, dense.gather + expert.gather};
}

namespace {

bool shards_in_pods(const Instance& instance) {
  const auto& spans = instance.options().shard;
  return std::find(spans.begin(), spans.end(), model::ShardSpan::kPod) != spans.end();
}

cost::ShardGroups groups_in_pod(const Configuration& configuration, const model::Strategy& s) {
  return cost::shard_groups(model::ShardSpan::kPod, configuration.dp, configuration.dp_inner, s.cp,
                            s.ep);
}

DataParallelTimes times_at_origin(const Instance& instance, const Configuration& configuration,
                                  int k) {
  const std::int64_t origin =
      std::max<std::int64_t>(0, instance.rule(instance.lattice().whole()).position);
  const StageGroups groups(instance, configuration, k, origin, false);
  const network::Network& network = instance.network();
  const bool experts = instance.strategies()[at(k)].expert_parameters.back() > 0;
  const model::Strategy& strategy = instance.strategies()[at(k)].strategy;
  ShardShapes shapes;
  shapes.dense = {network.shape(groups.data_group(0))};
  if (experts) shapes.expert = {network.shape(groups.peer_group(0, 0))};
  if (shards_in_pods(instance)) {
    shapes.dense_in_pod = {network.shape(groups.pod_group(0, 0, 1, 0))};
    shapes.dense_across = {network.shape(groups.across_group(0, 0))};
    if (experts && !groups.experts_span_pods()) {
      shapes.expert_in_pod = {network.shape(groups.pod_group(0, 0, strategy.ep, 0))};
      shapes.expert_across = shapes.dense_across;
    } else if (experts) {
      shapes.expert_across = shapes.expert;
    }
  }
  return {network, shapes, groups_in_pod(configuration, strategy)};
}

}  // namespace

const DataParallelTimes& ClassCache::at_origin(int k, const Configuration& configuration) {
  const auto [entry, inserted] =
      origins_.try_emplace({k, configuration.dp, configuration.dp_inner});
  if (inserted) entry->second = times_at_origin(instance_, configuration, k);
  return entry->second;
}

const ClassSums* ClassCache::sums(int k,
                                  const std::vector<std::vector<network::GroupShape>>& shapes) {
  auto& entry = cache_[{k, shapes}];
  if (entry) return entry.get();
  const StrategySums& strategy = instance_.strategies()[at(k)];
  const std::vector<Ticks> none(at(strategy.mixes.count), 0);
  entry = std::make_unique<ClassSums>();
  entry->forward = entry->backward = none;
  entry->of_layer = strategy.floor_of_layer;
  for (const CollectiveTerm& term : strategy.terms) {
    double seconds = 0;
    for (const network::GroupShape& shape : shapes[index_of(term.collective.group)]) {
      seconds = std::max(seconds, instance_.network().collective_s(term.collective.op,
                                                                   term.collective.bytes, shape));
    }
    const Ticks ticks = instance_.scale().ticks(term.collective.op, seconds);
    if (instance_.horizon_known() && ticks > kDrowning) {
      entry->drowned.resize(term.count.size(), 0);
      for (std::size_t d = 0; d < term.count.size(); ++d) entry->drowned[d] += term.count[d];
      for (std::size_t v = 0; v < entry->of_layer.size(); ++v) {
        if (term.count_of_layer[v] > 0) entry->of_layer[v] = kNever;
      }
      continue;
    }
    const bool forward = term.collective.phase == model::Phase::kForward;
    auto& sums = forward ? entry->forward : entry->backward;
    for (std::size_t d = 0; d < sums.size(); ++d) sums[d] += ticks * term.count[d];
    const Ticks beside = part_of(ticks, instance_.options().overlap.of(term.collective));
    if (beside > 0) {
      auto& hidden = forward ? entry->beside_forward : entry->beside_backward;
      hidden.resize(none.size(), 0);
      for (std::size_t d = 0; d < hidden.size(); ++d) hidden[d] += beside * term.count[d];
    }
    for (std::size_t v = 0; v < entry->of_layer.size(); ++v) {
      entry->of_layer[v] += (ticks - beside) * term.count_of_layer[v];
    }
  }
  return entry.get();
}

Placement::Placement(const Instance& instance, const Configuration& configuration,
                     ClassCache& cache)
    : instance_(instance), configuration_(configuration), cache_(cache) {
  std::set<std::int64_t> units;
  for (const int k : configuration.strategies) {
    units.insert(configuration.unit(instance.strategies()[at(k)].strategy));
  }
  units_.assign(units.begin(), units.end());
  for (const int k : configuration.strategies) {
    const std::int64_t unit = configuration.unit(instance.strategies()[at(k)].strategy);
    unit_of_.push_back(
        static_cast<int>(std::lower_bound(units_.begin(), units_.end(), unit) - units_.begin()));
  }
  find_positions();
  find_classes();
  join_classes();
  find_floor();
  if (instance.has_ties()) find_origin_levels();
}

void Placement::find_origin_levels() {
  const std::int64_t origin = position_.front();
  for (const std::int64_t unit : units_) {
    auto& levels = origin_level_.emplace_back(position_.size(), 0);
    for (std::size_t x = 1; x < position_.size(); ++x) {
      levels[x] = link_level(origin, position_[x], std::min(unit, position_[x] - origin));
    }
  }
}

int Placement::origin_level(int unit, int position) const {
  return origin_level_[at(unit)][at(position)];
}

void Placement::find_positions() {
  const std::int64_t pod_size = configuration_.pods.pod_size;
  std::vector<std::int64_t> fixed;
  std::int64_t origin = 0;
  if (instance_.stages_fixed()) {
    for (DownsetId d = 1; d < instance_.lattice().size(); ++d) {
      const std::int64_t position = instance_.rule(d).position;
      if (position >= 0) fixed.push_back(position);
    }
    origin = std::max<std::int64_t>(0, instance_.rule(instance_.lattice().whole()).position);
  }
  std::unordered_map<std::int64_t, int> index;
  const auto intern = [&](std::int64_t x) {
    const auto [entry, inserted] = index.try_emplace(x, static_cast<int>(position_.size()));
    if (inserted) {
      position_.push_back(x);
      for (auto& of_unit : hops_) of_unit.emplace_back();
    }
    return entry->second;
  };
  hops_.resize(units_.size());
  intern(origin);
  const std::vector<std::int64_t> pinned = instance_.pinned_positions();
  std::vector<std::int64_t> starts, open;
  std::size_t wave_end = 1;
  std::int64_t stages_before = 0;
  for (std::size_t y = 0; y < position_.size(); ++y) {
    if (y == wave_end) {
      wave_end = position_.size();
      ++stages_before;
    }
    if (stages_before + 1 >= configuration_.max_depth) break;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const std::int64_t end = position_[y] + units_[u];
      starts.assign(1, end);
      instance_.network().append_starts(configuration_.pods, end, starts);
      for (const std::int64_t x : fixed) {
        if (x >= end) starts.push_back(x);
      }
      util::sort_unique(starts);
      if (!pinned.empty()) {
        open = starts;
        for (const std::int64_t x : pinned) {
          if (x >= end) starts.push_back(x);
        }
        util::sort_unique(starts);
      }
      for (const std::int64_t x : starts) {
        if (x + units_.front() > pod_size) break;
        const int level = link_level(position_[y], x, units_[u]);
        const int next = intern(x);
        const bool free = pinned.empty() || std::binary_search(open.begin(), open.end(), x);
        hops_[u][y].push_back({next, level, free});
      }
    }
  }
}

int Placement::link_level(std::int64_t from, std::int64_t to, std::int64_t unit) const {
  const network::Network& network = instance_.network();
  return instance_.collapse()
             ? network.link_level(configuration_.pods, from, to, unit)
             : network.network::Network::link_level(configuration_.pods, from, to, unit);
}

void Placement::find_classes() {
  cache_.trim();
  const std::size_t choices = configuration_.strategies.size();
  class_of_.assign(choices, std::vector<int>(position_.size(), -1));
  classes_.resize(choices);
  for (std::size_t choice = 0; choice < choices; ++choice) {
    const std::int64_t unit = units_[at(unit_of_[choice])];
    // Where all devices are alike, positions differ by their groups' shapes alone.
    const bool collapses = instance_.collapse() && instance_.one_type() &&
                           !instance_.confines(model::StageConstraints::Scope::kPod);
    const bool repeats =
        collapses && instance_.network().shapes_repeat(configuration_.pods, unit, true);
    const std::int64_t period = instance_.network().shape_period();
    KnownClasses known;
    std::unordered_map<std::int64_t, int> of_residue;
    for (std::size_t x = 0; x < position_.size(); ++x) {
      if (!fits(unit_of_[choice], static_cast<int>(x))) continue;
      // -1: any multiple of the unit
      const std::int64_t residue = repeats && position_[x] % unit == 0 ? -1
                                   : collapses                         ? position_[x] % period
                                                                       : position_[x];
      const auto [entry, inserted] = of_residue.try_emplace(residue, 0);
      if (inserted) {
        find_class(static_cast<int>(choice), static_cast<int>(x), known);
        entry->second = class_of_[choice][x];
      }
      class_of_[choice][x] = entry->second;
    }
  }
}

void Placement::join_classes() {
  std::map<std::vector<int>, int> known;
  std::vector<int> key(class_of_.size());
  for (std::size_t x = 0; x < position_.size(); ++x) {
    for (std::size_t choice = 0; choice < key.size(); ++choice) key[choice] = class_of_[choice][x];
    joint_class_.push_back(known.try_emplace(key, static_cast<int>(known.size())).first->second);
  }
}

PositionClass Placement::make_class(int choice, std::int64_t x) const {
  const int k = configuration_.strategies[at(choice)];
  const StrategySums& strategy = instance_.strategies()[at(k)];
  const std::int64_t unit = units_[at(unit_of_[at(choice)])];
  const bool pods_alike = instance_.collapse() && x % unit == 0 &&
                          instance_.network().shapes_repeat(configuration_.pods, unit, false);
  const StageGroups groups(instance_, configuration_, k, x, pods_alike);
  std::vector<std::vector<network::GroupShape>> shapes(kGroupKinds);
  PositionClass entry;
  entry.shards.dense = groups.data();
  const bool experts = strategy.expert_parameters.back() > 0;
  if (experts) entry.shards.expert = groups.expert_peers();
  if (shards_in_pods(instance_)) {
    entry.shards.dense_in_pod = groups.data_in_pod();
    entry.shards.dense_across = groups.across_pods();
    if (experts) {
      entry.shards.expert_in_pod = groups.peers_in_pod();
      entry.shards.expert_across =
          groups.experts_span_pods() ? entry.shards.expert : entry.shards.dense_across;
    }
  }
  for (const CollectiveTerm& term : strategy.terms) {
    auto& of_kind = shapes[index_of(term.collective.group)];
    if (!of_kind.empty()) continue;
    switch (term.collective.group) {
      case model::GroupKind::kTensor:
        of_kind = groups.tensor();
        break;
      case model::GroupKind::kContext:
        of_kind = groups.context();
        break;
      case model::GroupKind::kExpert:
        of_kind = groups.expert();
        break;
      case model::GroupKind::kData:
        of_kind = entry.shards.dense;
        break;
    }
  }
  entry.allowed = stays_inside(groups, k, x, shapes);
  entry.types = 0;
  for (std::int64_t pod = 0; pod < configuration_.pods.pods; ++pod) {
    entry.types |= instance_.types(pod * configuration_.pods.pod_size + x, unit);
  }
  entry.sums = cache_.sums(k, shapes);
  entry.data_parallel = {instance_.network(), entry.shards,
                         groups_in_pod(configuration_, strategy.strategy)};
  return entry;
}

/// `shapes`: those that are known already, by kind of group.
bool Placement::stays_inside(const StageGroups& groups, int k, std::int64_t x,
                             const std::vector<std::vector<network::GroupShape>>& shapes) const {
  using Scope = model::StageConstraints::Scope;
  const auto stays = [&](Scope scope, model::GroupKind kind, auto list) {
    if (!instance_.confines(scope)) return true;
    const auto& known = shapes[index_of(kind)];
    return instance_.stays_inside(scope, known.empty() ? list() : known);
  };
  if (!stays(Scope::kTensor, model::GroupKind::kTensor, [&] { return groups.tensor(); }) ||
      !stays(Scope::kContext, model::GroupKind::kContext, [&] { return groups.context(); }) ||
      !stays(Scope::kExpert, model::GroupKind::kExpert, [&] { return groups.expert(); }) ||
      !stays(Scope::kData, model::GroupKind::kData, [&] { return groups.data(); })) {
    return false;
  }
  if (!instance_.confines(Scope::kPod)) return true;
  // A pod stays inside a block if every stage shares one with the pod's first device.
  const std::int64_t unit = configuration_.unit(instance_.strategies()[at(k)].strategy);
  std::vector<network::GroupShape> with_first;
  for (std::int64_t pod = 0; pod < configuration_.pods.pods; ++pod) {
    const std::int64_t first = pod * configuration_.pods.pod_size;
    std::vector<std::int64_t> members{first};
    for (std::int64_t r = x == 0 ? 1 : 0; r < unit; ++r) members.push_back(first + x + r);
    with_first.push_back(instance_.network().shape(members));
  }
  return instance_.stays_inside(Scope::kPod, with_first);
}

void Placement::find_class(int choice, int position, KnownClasses& known) {
  const std::int64_t x = position_[at(position)];
  const SharedClass entry =
      cache_.at_position(configuration_.strategies[at(choice)], configuration_, x,
                         [&] { return make_class(choice, x); });
  auto& classes = classes_[at(choice)];
  if (!instance_.collapse()) known.clear();
  const auto [found, inserted] = known.try_emplace(entry.get(), static_cast<int>(classes.size()));
  if (inserted) classes.push_back(entry);
  class_of_[at(choice)][at(position)] = found->second;
}

void Placement::find_floor() {
  const Lattice& lattice = instance_.lattice();
  const auto layers = at(lattice.layers());
  floor_.of_layer.assign(layers, kNever);
  floor_.work_of_layer.assign(layers, kNever);
  for (std::size_t choice = 0; choice < configuration_.strategies.size(); ++choice) {
    const auto devices = static_cast<double>(units_[at(unit_of_[choice])]) /
                         static_cast<double>(configuration_.dp_inner);
    for (const SharedClass& position_class : classes_[choice]) {
      const std::vector<Ticks>& of_layer = position_class->sums->of_layer;
      const StrategySums& sums = instance_.strategies()[at(configuration_.strategies[choice])];
      for (std::size_t v = 0; v < layers; ++v) {
        if (of_layer[v] == kNever) continue;
        const Ticks ticks = of_layer[v] + sums.recomputed(configuration_.recompute, v);
        floor_.of_layer[v] = std::min(floor_.of_layer[v], ticks);
        floor_.work_of_layer[v] = std::min(floor_.work_of_layer[v], ticks * devices);
      }
    }
  }
  floor_.summarise();
  floor_.least_cut = instance_.least_cut(configuration_.strategies);
  floor_sums_ = sum_members(lattice, floor_.of_layer);
  work_sums_ = sum_members(lattice, floor_.work_of_layer);
  least_receive_ = kNever;
  for (int level = 0; level < instance_.network().levels(); ++level) {
    least_receive_ =
        std::min(least_receive_, instance_.scale().ticks(instance_.network().transfer_s(
                                     floor_.least_cut, level, units_.front())));
  }
}

PortLayers::PortLayers(const Instance& instance, const Placement& placement,
                       const std::vector<std::int64_t>& depths)
    : instance_(instance), placement_(placement), levels_(instance.network().levels()) {
  const std::int64_t deepest = depths.back();
  layers_.resize(at(deepest));
  index_.resize(at(deepest));
  if (deepest < 2) return;
  const auto units = static_cast<std::int32_t>(placement.units().size());
  using Port = std::pair<std::int32_t, std::int32_t>;  // position, link
  // after[i]: ports reached by exactly i stages.
  std::vector<std::vector<Port>> after(at(deepest));
  std::vector<std::int32_t> positions{placement.origin()};
  for (std::int64_t i = 1; i < deepest; ++i) {
    auto& reached = after[at(i)];
    for (const std::int32_t y : positions) {
      for (std::int32_t u = 0; u < units; ++u) {
        for (const Placement::Hop& hop : placement.hops(u, y)) {
          reached.emplace_back(hop.position, u * levels_ + hop.level);
        }
      }
    }
    util::sort_unique(reached);
    positions.clear();
    for (const Port& port : reached) {
      if (positions.empty() || positions.back() != port.first) positions.push_back(port.first);
    }
  }
  const std::int64_t pod_size = placement.configuration().pods.pod_size;
  for (std::int64_t s = 1; s < deepest; ++s) {
    std::vector<Port> ports;
    for (const std::int64_t p : depths) {
      if (p <= s) continue;
      const auto& reached = after[at(p - s)];
      ports.insert(ports.end(), reached.begin(), reached.end());
    }
    const std::int64_t latest = pod_size - s * placement.units().front();
    const std::int64_t fixed = instance.stages_fixed()
                                   ? instance.rule(static_cast<DownsetId>(s)).position
                                   : instance.pinned_position(s);
    std::erase_if(ports, [&](const Port& port) {
      const std::int64_t x = placement.position(port.first);
      return x > latest || (fixed >= 0 && x != fixed);
    });
    // Ports that cost the same lie side by side, each run of them by rising position.
    const auto order = [&](const Port& port) {
      return std::tuple(port.second, placement.joint_class(port.first),
                        placement.position(port.first));
    };
    std::sort(ports.begin(), ports.end(),
              [&](const Port& a, const Port& b) { return order(a) < order(b); });
    ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
    PortLayer& layer = layers_[at(s)];
    for (const auto& [position, link] : ports) {
      const std::int64_t key = static_cast<std::int64_t>(link) * placement.positions() + position;
      index_[at(s)].emplace(key, static_cast<std::int32_t>(layer.position.size()));
      layer.position.push_back(position);
      layer.link.push_back(link);
      layer.start.push_back(placement.position(position));
    }
    build_flows(s);
  }
}

std::int32_t PortLayers::find(std::int64_t s, std::int32_t position, std::int32_t link) const {
  const auto found =
      index_[at(s)].find(static_cast<std::int64_t>(link) * placement_.positions() + position);
  return found == index_[at(s)].end() ? -1 : found->second;
}

/// Whether a segment that ends before port `end` may go on to `q`: all between have the same
/// classes and rise, and they are few. Those between do not belong to the flow; nothing is offered
/// to them.
bool PortLayers::joins(int choice, const PortLayer& layer, std::int32_t end, std::int32_t q) const {
  constexpr std::int32_t kMostBetween = 2;
  if (q - end > kMostBetween) return false;
  const auto class_at = [&](std::int32_t port) {
    return std::pair(layer.link[at(port)], placement_.class_of(choice, layer.position[at(port)]));
  };
  for (std::int32_t port = end; port <= q; ++port) {
    if (class_at(port) != class_at(end - 1)) return false;
    if (layer.start[at(port - 1)] >= layer.start[at(port)]) return false;
  }
  return true;
}

void PortLayers::build_flows(std::int64_t s) {
  PortLayer& layer = layers_[at(s)];
  const int choices = static_cast<int>(placement_.configuration().strategies.size());
  for (int choice = 0; choice < choices; ++choice) {
    const int unit = placement_.unit_of(choice);
    std::vector<Flow> flows;
    if (s == 1) {
      flows.push_back({choice, -1, {}, {}});
    } else {
      for (int level = 0; level < levels_; ++level) flows.push_back({choice, level, {}, {}});
    }
    const auto extend = [&](Flow& flow, std::int32_t q) {
      const std::int32_t link = layer.link[at(q)];
      const std::int32_t position_class = placement_.class_of(choice, layer.position[at(q)]);
      auto found = std::find_if(flow.classes.begin(), flow.classes.end(), [&](const PortClass& c) {
        return c.link == link && c.position_class == position_class;
      });
      if (found == flow.classes.end()) {
        found = flow.classes.insert(found, {link, position_class, {}});
      }
      if (!found->segments.empty()) {
        Segment& last = found->segments.back();
        if (last.end == q + 1) return;
        if (joins(choice, layer, last.end, q)) {
          last.end = q + 1;
          return;
        }
      }
      found->segments.push_back({q, q + 1});
    };
    for (std::int32_t q = 0; q < static_cast<std::int32_t>(layer.size()); ++q) {
      const std::int32_t position = layer.position[at(q)];
      if (!placement_.fits(unit, position)) continue;
      if (s == 1) {
        extend(flows.front(), q);
        continue;
      }
      for (const Placement::Hop& hop : placement_.hops(unit, position)) {
        if (!hop.free && instance_.pinned_position(s - 1) < 0) continue;
        const std::int32_t next = find(s - 1, hop.position, unit * levels_ + hop.level);
        if (next < 0) continue;
        Flow& flow = flows[at(hop.level)];
        extend(flow, q);
        bool joined = false;
        for (auto run = flow.runs.rbegin(); run != flow.runs.rend() && !joined; ++run) {
          if (run->port + run->length < q) break;
          if (run->port + run->length == q && run->next + run->length == next) {
            ++run->length;
            joined = true;
          }
        }
        if (!joined) flow.runs.push_back({q, next, 1});
      }
    }
    for (Flow& flow : flows) {
      if (!flow.classes.empty()) layer.flows.push_back(std::move(flow));
    }
  }
}

}  // namespace nestplan::solver
