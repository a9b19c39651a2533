#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "solver/configuration.hpp"
#include "solver/instance.hpp"
#include "solver/traffic.hpp"

namespace nestplan::solver {

/// Collective times of one strategy at one class of positions, summed over the members of downsets:
/// of every kind of them (StrategySums::mixes).
struct ClassSums {
  std::vector<Ticks> forward, backward;
  std::vector<Ticks> beside_forward, beside_backward;  ///< see Traffic; empty if nothing is
  /// With compute, forward and backward, without what is beside it; kNever where unusable.
  std::vector<Ticks> of_layer;
  std::vector<double> drowned;  ///< by kind: collectives left out, see kDrowning; empty if none

  /// Of a stage between downsets of these kinds. Not for collectives that were left out.
  Traffic forward_of(std::size_t outer, std::size_t inner) const {
    return {forward[outer] - forward[inner], difference(beside_forward, outer, inner)};
  }
  Traffic backward_of(std::size_t outer, std::size_t inner) const {
    return {backward[outer] - backward[inner], difference(beside_backward, outer, inner)};
  }
  bool drowns(std::size_t outer, std::size_t inner) const {
    return !drowned.empty() && drowned[outer] != drowned[inner];
  }

 private:
  static Ticks difference(const std::vector<Ticks>& sums, std::size_t outer, std::size_t inner) {
    return sums.empty() ? 0 : sums[outer] - sums[inner];
  }
};

/// Shapes of the groups that share a stage's parameters.
struct ShardShapes {
  std::vector<network::GroupShape> dense, expert;
  // With shards inside pods: who shares in a pod, and the copies of a shard in other pods.
  std::vector<network::GroupShape> dense_in_pod, dense_across, expert_in_pod, expert_across;
  auto operator<=>(const ShardShapes&) const = default;
};

/// What collectives over the groups of `shapes` take, the slowest group counting: as the ways of a
/// few groups, none of which is always as fast as another one.
class SlowestGroup {
 public:
  SlowestGroup() = default;
  SlowestGroup(const network::Network& network, model::CollectiveOp op,
               const std::vector<network::GroupShape>& shapes);

  /// For `parameters` of `bytes_each`. Rounded so that it is proportional to `bytes_each` but for
  /// the latencies: what costs the same by the formula then costs the same in ticks.
  Ticks ticks(const TickScale& scale, double parameters, double bytes_each) const;

 private:
  using Ways = std::vector<network::AffineTime>;

  bool twice_ = false;  ///< an all-reduce: ways hold half of it
  std::vector<Ways> groups_;
};

/// Collectives on the parameters of a stage.
struct ShardTimes {
  ShardTimes() = default;
  ShardTimes(const network::Network& network, const std::vector<network::GroupShape>& shapes);

  SlowestGroup all_reduce, all_gather, reduce_scatter;
};

/// Synchronisation of gradients and of weights.
struct SyncTicks {
  Ticks reduce = 0;
  Ticks gather = 0;

  /// What is left of it where a share of it runs beside a backward and a forward step.
  Ticks exposed(double share, Ticks backward, Ticks forward) const {
    return solver::exposed(reduce, share, backward) + solver::exposed(gather, share, forward);
  }
};

/// Collectives on dense and on expert parameters.
struct DataParallelTimes {
  DataParallelTimes() = default;
  DataParallelTimes(const network::Network& network, const ShardShapes& shapes,
                    const cost::ShardGroups& in_pod);

  /// ZeRO traffic `Z` per micro-batch of a stage with so many parameters per device.
  Ticks zero_traffic(const Instance& instance, const ShardChoice& choice, double parameters,
                     double expert_parameters) const;
  /// Synchronisation once per iteration.
  SyncTicks sync(const Instance& instance, const ShardChoice& choice, double parameters,
                 double expert_parameters) const;

 private:
  struct Sharers {
    ShardTimes shard;   ///< who share
    ShardTimes across;  ///< copies of one shard; there are none with shards over all devices
    double parts = 1;   ///< shards
  };
  static SyncTicks sync_of(const Instance& instance, int zero, double parameters,
                           const Sharers& sharers);

  Sharers dense_, expert_, dense_in_pod_, expert_in_pod_;
};

/// Positions with equal times and limits for one strategy.
struct PositionClass {
  const ClassSums* sums = nullptr;
  ShardShapes shards;
  TypeSet types = 1;    ///< of the devices there, over all pods
  bool allowed = true;  ///< no group leaves the domain that it has to stay in
  DataParallelTimes data_parallel;

  /// An order; neither comes before the other where stages take and hold the same at both.
  struct Before {
    bool operator()(const std::shared_ptr<const PositionClass>& a,
                    const std::shared_ptr<const PositionClass>& b) const {
      return std::tie(a->sums, a->types, a->allowed, a->shards) <
             std::tie(b->sums, b->types, b->allowed, b->shards);
    }
  };
};

using SharedClass = std::shared_ptr<const PositionClass>;

/// Caches over configurations what depends only on the shapes of a strategy's groups.
class ClassCache {
 public:
  explicit ClassCache(const Instance& instance) : instance_(instance) {}

  /// `shapes[g]`: the distinct shapes of the groups of kind `g`.
  const ClassSums* sums(int k, const std::vector<std::vector<network::GroupShape>>& shapes);

  /// Forgets positions where there are many. Classes that were given out stay as they are.
  void trim() {
    constexpr std::size_t kMost = 1 << 16;
    if (positions_.size() <= kMost) return;
    positions_.clear();
    classes_.clear();
    origins_.clear();
  }

  /// The class of a stage of strategy `k` that starts at `x`, if another configuration with the
  /// same copies had one there; else `make` is asked for it. Until `trim`, classes of the same
  /// strategy and copies are one object where stages take and hold the same.
  template <typename Make>
  SharedClass at_position(int k, const Configuration& configuration, std::int64_t x, Make make) {
    SharedClass& entry = positions_[{k, configuration.dp, configuration.dp_inner, x}];
    if (!entry) {
      auto& alike = classes_[{k, configuration.dp, configuration.dp_inner}];
      entry = *alike.insert(std::make_shared<const PositionClass>(make())).first;
    }
    return entry;
  }

  /// No stage of strategy `k` at the start of a pod takes less: the times of one of its groups. The
  /// reference holds until `trim`.
  const DataParallelTimes& at_origin(int k, const Configuration& configuration);

 private:
  const Instance& instance_;
  using Copies = std::tuple<int, std::int64_t, std::int64_t>;  ///< strategy, dp, dp_inner

  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, SharedClass> positions_;
  std::map<Copies, std::set<SharedClass, PositionClass::Before>> classes_;
  std::map<Copies, DataParallelTimes> origins_;
  std::map<std::pair<int, std::vector<std::vector<network::GroupShape>>>,
           std::unique_ptr<ClassSums>>
      cache_;
};

class StageGroups;

/// Where the stages of a configuration can start inside a pod, how far apart they are, and what
/// their groups cost there.
///
/// A *position* is reachable by stages placed one after another from the origin, with gaps to the
/// next block boundary. A *port* is a position together with the link class over which its stage
/// receives: the level and the producer's unit. Ports are the `(l, x)` of the table
/// `T[l][D][x][s]`; only those that some placement reaches exist.
class Placement {
 public:
  struct Hop {
    int position = 0;  ///< index of the next stage's position
    int level = 0;
    bool free = true;  ///< no neighbour and no boundary, but where a rule puts a stage, if false
  };

  Placement(const Instance& instance, const Configuration& configuration, ClassCache& cache);

  const Configuration& configuration() const { return configuration_; }
  int positions() const { return static_cast<int>(position_.size()); }
  std::int64_t position(int index) const { return position_[at(index)]; }
  int origin() const { return 0; }

  /// Distinct stage sizes, ascending, and which of them a strategy (by its place in the
  /// configuration's list) has.
  const std::vector<std::int64_t>& units() const { return units_; }
  int unit_of(int choice) const { return unit_of_[at(choice)]; }

  /// Where the next stage can start after one of size `unit` (index) at `position` (index).
  const std::vector<Hop>& hops(int unit, int position) const {
    return hops_[at(unit)][at(position)];
  }
  bool fits(int unit, int position) const {
    return position_[at(position)] + units_[at(unit)] <= configuration_.pods.pod_size;
  }

  /// The level between the first stage and one of size `unit` (index) at `position` (index), which
  /// is behind it.
  int origin_level(int unit, int position) const;

  /// Class of a position for a strategy (by its place in the configuration's list).
  int class_of(int choice, int position) const { return class_of_[at(choice)][at(position)]; }
  const std::vector<SharedClass>& classes(int choice) const { return classes_[at(choice)]; }
  /// Equal for positions that have the same class for every strategy.
  int joint_class(int position) const { return joint_class_[at(position)]; }

  /// The floor of this configuration, tighter than the one it was bounded with: collectives at the
  /// best class that really occurs.
  const Floor& floor() const { return floor_; }
  /// Floor summed over the members of every downset.
  const std::vector<Ticks>& floor_sums() const { return floor_sums_; }
  /// Least ticks × devices summed over the members of every downset.
  const std::vector<double>& work_sums() const { return work_sums_; }
  /// Least ticks to receive over any stage boundary, one way.
  Ticks least_receive() const { return least_receive_; }

 private:
  using KnownClasses = std::unordered_map<const PositionClass*, int>;

  void find_positions();
  int link_level(std::int64_t from, std::int64_t to, std::int64_t unit) const;
  void find_classes();
  void join_classes();
  PositionClass make_class(int choice, std::int64_t x) const;
  bool stays_inside(const StageGroups& groups, int k, std::int64_t x,
                    const std::vector<std::vector<network::GroupShape>>& shapes) const;
  void find_class(int choice, int position, KnownClasses& known);
  void find_floor();
  void find_origin_levels();

  const Instance& instance_;
  const Configuration& configuration_;
  ClassCache& cache_;
  std::vector<std::int64_t> position_;
  std::vector<std::int64_t> units_;
  std::vector<int> unit_of_;
  std::vector<std::vector<std::vector<Hop>>> hops_;  ///< by unit, position
  std::vector<std::vector<int>> class_of_;           ///< by choice, position
  std::vector<std::vector<SharedClass>> classes_;    ///< by choice
  std::vector<int> joint_class_;                     ///< by position
  std::vector<std::vector<int>> origin_level_;       ///< by unit, position; with ties only
  Floor floor_;
  std::vector<Ticks> floor_sums_;
  std::vector<double> work_sums_;
  Ticks least_receive_ = 0;
};

/// A run of `length` ports that go on to as many neighbouring ports of the next layer.
struct Run {
  std::int32_t port = 0;
  std::int32_t next = 0;
  std::int32_t length = 0;
};

/// Neighbouring ports, by rising position.
struct Segment {
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

/// Ports that share a link class and a position class, so that one stage cost serves them all.
struct PortClass {
  std::int32_t link = 0;            ///< unit index · levels + level
  std::int32_t position_class = 0;  ///< of the strategy the flow is for
  std::vector<Segment> segments;
};

/// Everything a stage with one strategy can do at one depth when its output leaves over one level.
struct Flow {
  int choice = 0;  ///< the strategy's place in the configuration's list
  int level = -1;  ///< -1: the last stage, which sends nothing
  std::vector<Run> runs;
  std::vector<PortClass> classes;
};

/// The ports of the stages that are `s`-th from the end, in the order of their table rows.
struct PortLayer {
  std::vector<std::int32_t> position;
  std::vector<std::int32_t> link;
  std::vector<std::int64_t>
      start;  ///< the position's first device; rises within ports of equal classes
  std::vector<Flow> flows;
  std::int64_t size() const { return static_cast<std::int64_t>(position.size()); }
};

/// The ports of every place from the end, for plans of the given depths. Entry `s` holds the ports
/// of the `s`-th stage from the end for `1 ≤ s < max depth`; entry 0 is empty. First stages are not
/// in it: they have one position and receive nothing.
class PortLayers {
 public:
  PortLayers(const Instance& instance, const Placement& placement,
             const std::vector<std::int64_t>& depths);

  const PortLayer& layer(std::int64_t s) const { return layers_[at(s)]; }
  std::int64_t size() const { return static_cast<std::int64_t>(layers_.size()); }

  /// Index of a port in layer `s`; -1 if it is not there.
  std::int32_t find(std::int64_t s, std::int32_t position, std::int32_t link) const;

 private:
  void build_flows(std::int64_t s);
  bool joins(int choice, const PortLayer& layer, std::int32_t end, std::int32_t q) const;

  const Instance& instance_;
  const Placement& placement_;
  int levels_ = 0;
  std::vector<PortLayer> layers_;
  std::vector<std::unordered_map<std::int64_t, std::int32_t>> index_;
};

}  // namespace nestplan::solver
