#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "solver/placement.hpp"

namespace nestplan::solver {

/// What the layers of a stage do with a micro-batch.
struct StageWork {
  StageCompute compute;
  Traffic forward, backward;  ///< collectives

  Ticks recomputed(model::Recompute recompute) const;
  /// With the traffic of ZeRO. Not less with more of anything: hidden is what runs beside
  /// computation, so neither more of that nor more traffic makes the stage faster.
  Ticks time(model::Recompute recompute, const Traffic& zero) const;
};

/// What a stage may do about memory, and what it costs.
struct StageOption {
  model::Recompute recompute = model::Recompute::kNone;
  ShardChoice shard;
  Ticks time = 0;  ///< t without what is received
  Ticks sync = 0;  ///< once per iteration, what is exposed of it; counts for the first stage only
};

/// Prices the stages `D \ D'` of one configuration under one of its strategies: which options fit
/// into memory with `f` micro-batches in flight, and the ticks they take at a class of positions.
/// `load` is O(words); everything else O(1).
class StagePricer {
 public:
  StagePricer(const Instance& instance, const Placement& placement, int choice);

  /// Turns to stage `outer \ inner`. False if a layer of it cannot use the strategy.
  bool load(DownsetId outer, DownsetId inner);

  /// Decides, for `in_flight` micro-batches, how state is shared with which recomputation.
  /// kNone if nothing fits, which is then so for more in flight too; kSame if the decision is that
  /// of the last call since `load`.
  enum class Decision : std::uint8_t { kNone, kNew, kSame };
  Decision decide(std::int64_t in_flight);

  /// Least ticks over what was decided, at a class. Without what is received.
  Ticks least_time(int position_class) const;

  /// All options that fit, in canonical order (recompute, ZeRO, span of the shards).
  std::vector<StageOption> options(int position_class, std::int64_t in_flight);

  /// The options of one of several stages with this footprint and work that fit.
  std::vector<StageOption> options(int position_class, const cost::StageFootprint& stage,
                                   const StageWork& work, const cost::InFlight& in_flight);

  /// What a layer adds at least to the bytes of the stage that it is in, if that has so many of its
  /// parameters already.
  double share_of_layer(const model::LayerCost& layer, double tied_parameters) const;

  /// Least bytes over the options, context and communicators included.
  double least_bytes(std::int64_t in_flight) const;

 private:
  static constexpr std::size_t kChoices = kShardChoices.size();
  static constexpr std::size_t kRecomputations = 3;
  static constexpr std::int64_t kNotYetKnown = -1;

  /// What the stage is like on some types of devices: positions with the same types share it.
  struct Machine {
    TypeSet types = 1;
    double room_alone = 0;        ///< bytes that state and activations may take: of the only stage,
    double room_in_pipeline = 0;  ///< and of one of several
    double room = 0;              ///< of the stage
    StageCompute compute;         ///< without collectives
    /// How many micro-batches in flight fit, by recomputation and choice.
    std::array<std::array<std::int64_t, kChoices>, kRecomputations> most_in_flight{};
    /// Choices that fit and may be the fastest, as bits; none if nothing fits or can be faster.
    std::array<unsigned, kRecomputations> decided{};
  };

  /// State bytes per dense and expert parameter and per parameter of the largest layer.
  struct StateRates {
    double dense = 0, expert = 0, gathered = 0;
  };

  /// Of a choice by its index in kShardChoices.
  std::int64_t most_in_flight(Machine& machine, model::Recompute recompute, int choice) const;
  std::int64_t count_in_flight(const Machine& machine, model::Recompute recompute,
                               int choice) const;
  double state_bytes(int choice) const;
  unsigned worthwhile(Machine& machine, model::Recompute recompute, std::int64_t in_flight) const;
  bool decide(Machine& machine, std::int64_t in_flight);
  Machine& machine(int position_class) { return machines_[at(machine_of_[at(position_class)])]; }
  const Machine& machine(int position_class) const {
    return machines_[at(machine_of_[at(position_class)])];
  }
  /// At a class; empty if the stage has a collective that is left out, see kDrowning.
  std::optional<StageWork> work(int position_class) const;
  Traffic zero_traffic(int position_class, int choice) const;
  StageOption option(int position_class, model::Recompute recompute, int choice,
                     const StageWork& work) const;
  /// Selective recomputation is the same as none where no layer has it.
  void find_permitted(const Configuration& configuration);
  /// Whether the rules of the target let the stage recompute and share so.
  bool permitted(model::Recompute recompute, int choice) const {
    return (permitted_[alone_ ? 1 : 0][static_cast<std::size_t>(recompute)] >> choice & 1U) != 0;
  }
  bool offers(model::Recompute recompute) const {
    return recompute != model::Recompute::kSelective || sums_.has_selective ||
           recomputations().front() == recompute;
  }
  const std::vector<model::Recompute>& recomputations() const;
  const std::vector<int>& shards() const;

  const Instance& instance_;
  const StrategySums& sums_;
  const std::vector<SharedClass>& classes_;
  int strategy_;
  std::array<cost::ShardGroups, 2> shard_groups_;  ///< by span
  std::array<StateRates, kChoices> rates_{};
  bool one_pod_ = false;
  /// What the configuration prescribes for all stages; empty: free.
  std::vector<model::Recompute> only_recompute_;
  std::vector<int> only_shard_;
  /// Choices as bits, of one of several stages and of the only one, by recomputation.
  std::array<std::array<unsigned, kRecomputations>, 2> permitted_{};
  bool alone_ = false;
  std::vector<Machine> machines_;
  std::vector<int> machine_of_;     ///< by position class
  double reserve_alone_ = 0;        ///< bytes of context and communicators: of the only stage,
  double reserve_in_pipeline_ = 0;  ///< and of one of several
  DownsetId outer_ = 0;
  DownsetId inner_ = 0;
  cost::StageFootprint stage_;
  std::size_t outer_mix_ = 0;  ///< kinds of the two downsets, see StrategySums::mixes
  std::size_t inner_mix_ = 0;
  std::int64_t decided_from_ = 0;
  std::int64_t decided_until_ = 0;
};

}  // namespace nestplan::solver
