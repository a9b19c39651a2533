#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/util/array.hpp"
#include "solver/ticks.hpp"

namespace nestplan::solver {

using lattice::DownsetId;
using lattice::Lattice;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Sums `value` of the members of every downset into `sums`: of what it adds to a smaller one.
template <typename T>
void sum_members(const Lattice& lattice, const std::vector<T>& value, std::span<T> sums) {
  sums[0] = T{};
  for (DownsetId d = 1; d < lattice.size(); ++d) {
    const DownsetId below = lattice.below(d);
    const auto with = lattice.members(d);
    const auto without = lattice.members(below);
    T sum = sums[at(below)];
    for (std::size_t w = 0; w < with.size(); ++w) {
      for (std::uint64_t rest = with[w] & ~without[w]; rest != 0; rest &= rest - 1) {
        sum += value[w * 64 + at(std::countr_zero(rest))];
      }
    }
    sums[at(d)] = sum;
  }
}

template <typename T>
std::vector<T> sum_members(const Lattice& lattice, const std::vector<T>& value) {
  std::vector<T> sums(at(lattice.size()));
  sum_members(lattice, value, std::span<T>(sums));
  return sums;
}

/// The largest value over the layers of a stage, in O(words): every downset is kept as a bit set
/// over layers sorted by falling value, so the first bit of the difference is the answer.
class StageMaximum {
 public:
  /// The bit sets by the order of the layers, which many values share.
  using BitSets = std::map<std::vector<int>, util::Array<std::uint64_t>>;

  StageMaximum() = default;
  StageMaximum(const Lattice& lattice, const std::vector<double>& value_of_layer,
               util::Storage& storage, BitSets& known);
  double over(DownsetId outer, DownsetId inner) const;

 private:
  std::size_t words_ = 0;
  std::vector<double> falling_;
  util::Array<std::uint64_t> bits_;
};

/// Downsets that are alike in some respect, numbered in the order of their first.
struct Kinds {
  util::Array<std::int32_t> of;  ///< by downset
  std::int64_t count = 0;
};

/// A kind of collective that occurs in some layers: all of them cost the same at one place.
struct CollectiveTerm {
  model::Collective collective;
  std::vector<double> count_of_layer;
  util::Array<double> count;  ///< by kind of downset: how many times its layers have it
};

/// Compute of a strategy on devices of one type, summed over the members of every downset.
struct ComputeSums {
  util::Array<Ticks> forward, backward;
  util::Array<Ticks> selective;  ///< what selective recomputation computes again, if any layer has
  /// Members that only faster types are up to, see kDrowning; empty: none. Not in the other sums.
  util::Array<int> drowned;
};

/// Types of devices, as bits.
using TypeSet = std::uint64_t;

/// Compute of a stage, without collectives.
struct StageCompute {
  Ticks forward = 0;
  Ticks backward = 0;
  Ticks selective = 0;

  /// In each phase, is as slow as the slower of both.
  void wait_for(const StageCompute& other) {
    forward = std::max(forward, other.forward);
    backward = std::max(backward, other.backward);
    selective = std::max(selective, other.selective);
  }
};

/// One strategy over all downsets: sums over the members of each downset, so that a stage `D \ D'`
/// is a difference of two entries.
struct StrategySums {
  model::Strategy strategy;
  std::vector<ComputeSums> compute;  ///< by type of device
  util::Array<double> parameters, expert_parameters, activation, checkpoint;
  util::Array<double> selectively;  ///< what selective recomputation keeps
  bool has_selective = false;       ///< whether any layer has it; else there are no sums of it
  util::Array<int> unusable;        ///< members that have no costs under the strategy
  Kinds cuts;                       ///< downsets that as many bytes enter
  util::Array<double> cut;          ///< by these kinds: bytes
  double least_cut = 0;  ///< bytes that cross any stage boundary, at least; 0 without one
  Kinds mixes;           ///< downsets with the same number of every collective
  std::vector<CollectiveTerm> terms;
  StageMaximum largest_activation, largest_selective, largest_working, largest_layer;
  /// Compute on the fastest type of devices; kNever where unusable.
  std::vector<Ticks> floor_of_layer;
  /// Compute that a layer repeats there, by kind of recomputation.
  std::array<std::vector<Ticks>, 3> recomputed_of_layer;

  /// The same where all stages recompute alike; 0 if they are free.
  Ticks recomputed(std::optional<model::Recompute> recompute, std::size_t layer) const {
    return recompute ? recomputed_of_layer[static_cast<std::size_t>(*recompute)][layer] : Ticks{0};
  }
};

/// How a stage's state is shared out.
struct ShardChoice {
  int zero = 0;
  model::ShardSpan span = model::ShardSpan::kAll;
  auto operator<=>(const ShardChoice&) const = default;
};
/// All of them in canonical order. Without ZeRO there are no shards to span anything.
inline constexpr std::array<ShardChoice, 7> kShardChoices{{{0, model::ShardSpan::kAll},
                                                           {1, model::ShardSpan::kAll},
                                                           {1, model::ShardSpan::kPod},
                                                           {2, model::ShardSpan::kAll},
                                                           {2, model::ShardSpan::kPod},
                                                           {3, model::ShardSpan::kAll},
                                                           {3, model::ShardSpan::kPod}}};

/// Which recomputation and sharing a stage may use, by the downset it starts.
struct StageRule {
  StageRule() = default;
  StageRule(std::vector<model::Recompute> recompute_modes, const std::vector<int>& zero_stages,
            const std::vector<model::ShardSpan>& spans, std::int64_t only_position);

  std::vector<model::Recompute> recompute;
  std::vector<int> shards;  ///< indices into kShardChoices, ascending
  /// The same with one pod, where shards inside it are those over all devices.
  std::vector<int> shards_in_one_pod;
  std::int64_t position = -1;  ///< the only position allowed; -1: any
};

/// Layers that share parameters, over all downsets.
struct TieSums {
  util::Array<int> members;  ///< of the tie, in every downset
  int size = 0;
};

/// What the constraints on stages say of a pair of downsets.
enum class Verdict : std::uint8_t {
  kAdmitted,
  kRefused,  ///< but a larger stage may be admitted
  kHopeless  ///< nor will a larger stage above the same downset be
};

class Rules;

/// A search's fixed data: the problem with its lattice and everything that does not depend on the
/// configuration. Read-only once built, but for the cache of transfer times.
class Instance {
 public:
  /// `collapse` = false keeps every dimension of a table even where it is provably forced: every
  /// position has a class of its own, and links and groups are looked at device by device.
  /// `horizon_s`: what to choose the tick by; 0: an estimate from the graph.
  /// With `storage`, the sums over downsets lie there, and so should the lattice; *collective over
  /// the processes of `storage`*.
  Instance(const model::Problem& problem, const network::Network& network, Lattice lattice,
           bool collapse = true, double horizon_s = 0,
           std::shared_ptr<util::Storage> storage = std::make_shared<util::LocalStorage>());

  const model::Problem& problem() const { return problem_; }
  const model::PlanOptions& options() const { return problem_.options; }
  const network::Network& network() const { return network_; }
  const Lattice& lattice() const { return lattice_; }
  const TickScale& scale() const { return scale_; }
  const Rules& rules() const { return *target_rules_; }
  const std::vector<StrategySums>& strategies() const { return strategies_; }
  /// Bytes that a plan may use of a device, context and communicators included: of the largest
  /// type, and of the smallest one of some types.
  double usable_bytes() const { return usable_bytes_; }
  double usable_bytes(TypeSet types) const;

  /// Types of the devices `[first, first + count)`.
  TypeSet types(std::int64_t first, std::int64_t count) const;
  /// Whether all devices are of one type.
  bool one_type() const { return devices_of_type_.empty(); }

  /// Compute of stage `outer \ inner` under strategy `k`, in each phase on the slowest of some
  /// types.
  StageCompute compute(int k, DownsetId outer, DownsetId inner, TypeSet types) const;
  /// The optimizer's step that moves so many bytes, on the slowest of some types.
  Ticks update(double bytes, TypeSet types) const;
  bool collapse() const { return collapse_; }
  /// Whether the ticks were chosen by a plan: then kDrowning holds.
  bool horizon_known() const { return horizon_known_; }

  /// Restricts the stages to those between neighbouring downsets of a chain lattice, with these
  /// strategies and rules, first stage first.
  void fix_stages(const std::vector<int>& strategy_of_stage, std::vector<StageRule> rules);
  bool stages_fixed() const { return !rules_.empty(); }
  const StageRule& rule(DownsetId d) const {
    return rules_.empty() ? default_rule_ : rules_[at(d)];
  }

  /// Ticks to receive what enters a downset, at strategy `k`'s bytes, over `level` from (or, for
  /// gradients, to) a stage with the forward producer's `unit`: by the downset's kind among
  /// `strategies()[k].cuts`. Cached.
  const std::vector<Ticks>& transfer(int k, int level, std::int64_t unit) const;

  /// Bytes that this process keeps for the sums over downsets.
  double bytes() const { return storage_->bytes_per_process(); }

  /// Bytes that cross any stage boundary under any of these strategies (one at least).
  double least_cut(const std::vector<int>& strategies) const;

  /// Memory per device of stage `D \ D'` under strategy `k`, as sums and maxima.
  cost::StageFootprint footprint(int k, DownsetId outer, DownsetId inner) const;

  /// Whether the stage holds some, but not all, layers of a tie.
  bool tied(DownsetId outer, DownsetId inner) const {
    return !ties_.empty() && holds_part_of_tie(outer, inner);
  }
  /// Ticks once per iteration for what the stage exchanges with the first one about ties, over
  /// `level`, by stages of `unit` devices.
  Ticks tie_ticks(int k, DownsetId outer, DownsetId inner, int level, std::int64_t unit) const;
  bool has_ties() const { return !ties_.empty(); }
  /// The same for one tie, whoever holds some of it.
  Ticks tie_ticks(int k, std::size_t tie, int level, std::int64_t unit) const;
  /// Layers of a tie in a stage.
  int tie_members(std::size_t tie, DownsetId outer, DownsetId inner) const {
    return ties_[tie].members[at(outer)] - ties_[tie].members[at(inner)];
  }

  /// Whether the rules on stages admit `outer \ inner`; `middle`: what all stages but the first
  /// and the last (or those too) hold of counted layers, -1: any.
  Verdict admits(DownsetId outer, DownsetId inner, std::int64_t middle) const;
  /// Whether the rules on stages admit it as the `s`-th stage from the end.
  bool admits_place(DownsetId outer, DownsetId inner, std::int64_t s) const;
  bool constrained() const { return constrained_; }
  /// The only position that the rules leave to the `s`-th stage from the end; -1: any.
  std::int64_t pinned_position(std::int64_t s) const;
  std::vector<std::int64_t> pinned_positions() const;
  /// Whether groups of a kind have to stay inside a domain, and whether groups of these shapes do.
  bool confines(model::StageConstraints::Scope scope) const;
  bool stays_inside(model::StageConstraints::Scope scope,
                    const std::vector<network::GroupShape>& shapes) const;
  std::int64_t counted(DownsetId d) const { return counted_.empty() ? 0 : counted_[at(d)]; }

 private:
  void count_types();
  void build_strategy(int k, StageMaximum::BitSets& known);
  void number_cuts(int k);
  void number_mixes(int k);
  util::Array<double> sum(const std::vector<double>& of_layer);
  util::Array<int> count(const std::vector<int>& of_layer);
  void build_ties();
  void build_constraints();
  void find_confinements();
  bool holds_part_of_tie(DownsetId outer, DownsetId inner) const;

  const model::Problem& problem_;
  const network::Network& network_;
  std::shared_ptr<util::Storage> storage_;
  Lattice lattice_;
  TickScale scale_;
  std::vector<StrategySums> strategies_;
  double usable_bytes_ = 0;
  /// By type, for every device: how many before it are of that type. Empty: all are of one.
  std::vector<std::vector<std::int64_t>> devices_of_type_;
  bool collapse_ = true;
  bool horizon_known_ = false;
  std::shared_ptr<const Rules> target_rules_;
  StageRule default_rule_;
  std::vector<StageRule> rules_;
  std::vector<TieSums> ties_;
  bool constrained_ = false;
  util::Array<int> counted_;            ///< counted layers of every downset
  util::Array<int> no_boundary_;        ///< not 0: no stage may begin with this downset
  std::vector<util::Array<int>> sets_;  ///< of every set that no stage mixes: layers by downset
  /// Layers that belong into the stage at a place from the end, with their downsets.
  std::vector<std::pair<std::int64_t, int>> places_;
  /// The positions of stages at a place from the end.
  std::vector<std::pair<std::int64_t, std::int64_t>> positions_;
  struct Confined {
    model::StageConstraints::Scope scope = model::StageConstraints::Scope::kTensor;
    int domain = 0;  ///< of network::Network::domains
  };
  std::vector<Confined> confined_;
  mutable std::map<std::tuple<int, int, std::int64_t>, std::unique_ptr<std::vector<Ticks>>>
      transfers_;
};

}  // namespace nestplan::solver
