#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "solver/placement.hpp"

namespace nestplan::solver {

/// What a stage may do about memory, and what it costs.
struct StageOption {
  model::Recompute recompute = model::Recompute::kNone;
  int zero = 0;
  Ticks time = 0;  ///< t without what is received
  Ticks sync = 0;  ///< once per iteration, counts for the first stage only
};

/// Prices the stages `D \ D'` of one configuration under one of its strategies: which options fit
/// into memory with `f` micro-batches in flight, and the ticks they take at a class of positions.
/// `load` is O(words); everything else O(1).
class StagePricer {
 public:
  StagePricer(const Instance& instance, const Placement& placement, int choice);

  /// Turns to stage `outer \ inner`. False if a layer of it cannot use the strategy.
  bool load(DownsetId outer, DownsetId inner);

  /// Decides, for `in_flight` micro-batches, which ZeRO stage goes with which recomputation.
  /// kNone if nothing fits, which is then so for more in flight too; kSame if the decision is that
  /// of the last call since `load`.
  enum class Decision : std::uint8_t { kNone, kNew, kSame };
  Decision decide(std::int64_t in_flight);

  /// Least ticks over what was decided, at a class. Without what is received.
  Ticks least_time(int position_class) const;

  /// All options that fit, in canonical order (recompute, then ZeRO).
  std::vector<StageOption> options(int position_class, std::int64_t in_flight);

  /// What a layer adds at least to the bytes of the stage that it is in.
  double share_of_layer(const model::LayerCost& layer) const;

  /// Least bytes over the options.
  double least_bytes(std::int64_t in_flight) const;

  /// Compute and collectives, forward and backward, at a class.
  Ticks base(int position_class) const;

 private:
  static constexpr std::size_t kZeroStages = 4;
  static constexpr std::size_t kRecomputations = 2;
  static constexpr std::int64_t kNotYetKnown = -1;

  /// State bytes per dense and expert parameter and per parameter of the largest layer.
  struct StateRates {
    double dense = 0, expert = 0, gathered = 0;
  };

  std::int64_t most_in_flight(model::Recompute recompute, int zero);
  std::int64_t count_in_flight(model::Recompute recompute, int zero) const;
  int least_zero(model::Recompute recompute, std::int64_t in_flight);
  Ticks zero_traffic(int position_class, int zero) const;
  Ticks sync(int position_class, int zero) const;
  Ticks forward(int position_class) const;

  const Instance& instance_;
  const StrategySums& sums_;
  const std::vector<PositionClass>& classes_;
  int strategy_;
  cost::ShardGroups shard_groups_;
  std::array<StateRates, kZeroStages> rates_{};
  DownsetId outer_ = 0;
  DownsetId inner_ = 0;
  cost::StageFootprint stage_;
  Ticks compute_forward_ = 0;  ///< of the stage, without collectives
  Ticks compute_ = 0;          ///< forward and backward
  std::size_t outer_mix_ = 0;  ///< kinds of the two downsets, see StrategySums::mixes
  std::size_t inner_mix_ = 0;
  /// How many micro-batches in flight fit, by recomputation and ZeRO stage.
  std::array<std::array<std::int64_t, kZeroStages>, kRecomputations> most_in_flight_{};
  std::array<int, kRecomputations> decided_zero_{};  ///< -1: does not fit or cannot be faster
  std::int64_t decided_from_ = 0;
  std::int64_t decided_until_ = 0;
};

}  // namespace nestplan::solver
