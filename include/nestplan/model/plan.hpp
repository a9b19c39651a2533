#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nestplan::model {

enum class Objective : std::uint8_t { k1F1B, kPaper };
enum class Schedule : std::uint8_t { k1F1B, kGPipe };
enum class Recompute : std::uint8_t { kNone, kFull };
enum class Status : std::uint8_t { kOptimal, kFeasible, kInfeasible };

/// Bytes per parameter of weights, gradients and optimizer state.
struct StateBytes {
  double weight = 2;
  double gradient = 4;
  double optimizer = 12;
};

/// What the search may choose from. Empty lists mean "no restriction".
struct PlanOptions {
  std::int64_t global_batch = 0;  ///< sequences per iteration, ≥ 1
  std::vector<std::int64_t> micro_batches;
  std::vector<std::int64_t> tp, cp, ep, pp, dp, dp_inner;
  std::vector<Recompute> recompute{Recompute::kNone, Recompute::kFull};  ///< sorted, not empty
  std::vector<int> zero{0, 1, 2, 3};                                     ///< sorted, not empty
  Objective objective = Objective::k1F1B;
  Schedule schedule = Schedule::k1F1B;
  bool per_stage_strategies = false;
  bool allow_uneven_batch = false;
  StateBytes state_bytes;
};

/// Seconds of one stage, per micro-batch except `sync_s` (once per iteration).
/// `total_s` is t_i: the sum of all but `sync_s`.
struct StageTime {
  double total_s = 0;
  double forward_s = 0;   ///< with the forward collectives
  double backward_s = 0;  ///< with the backward collectives
  double recompute_s = 0;
  double receive_s = 0;
  double gradient_receive_s = 0;
  double zero_s = 0;
  double sync_s = 0;
  double collective_s = 0;  ///< the part of forward, backward and recompute that is collectives
};

struct StageMemory {
  double total_bytes = 0;
  double state_bytes = 0;
  double activation_bytes = 0;
};

struct StagePlan {
  std::vector<int> layers;  ///< indices into Graph::layers, ascending
  int strategy = 0;         ///< index into Graph::strategies
  std::int64_t position = 0;
  std::int64_t devices = 0;  ///< the unit: tp·cp·dp_inner
  Recompute recompute = Recompute::kNone;
  int zero = 0;
  StageTime time;
  StageMemory memory;
};

/// The global choices of a plan.
struct PlanStrategy {
  std::int64_t dp = 1;
  std::int64_t dp_inner = 1;
  std::int64_t dp_outer = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::int64_t micro_batch = 1;
  std::int64_t microbatches = 1;
  Schedule schedule = Schedule::k1F1B;
};

/// Where one iteration goes, along the stage that is the bottleneck. Adds up to the iteration time.
struct TimeSplit {
  double compute_s = 0;
  double recompute_s = 0;
  double collective_s = 0;  ///< tensor, context and expert parallel
  double pipeline_s = 0;    ///< point to point
  double data_parallel_s = 0;
  double bubble_s = 0;
};

/// A figure of every rank of a search.
struct RankFigure {
  std::string name;  ///< with its unit
  double least = 0;
  double mean = 0;
  double most = 0;
};

/// What the search did; the only part of a result that may differ between runs.
struct SearchStats {
  double seconds = 0;
  std::int64_t ranks = 1;
  std::int64_t configurations = 0;  ///< (micro-batch, dp, dp_inner, strategy) considered
  std::int64_t tables = 0;          ///< tables filled
  std::int64_t cells = 0;           ///< table cells updated
  double largest_table_bytes = 0;   ///< of this rank's part
  bool stopped = false;             ///< before the optimum was proven
  /// Why configurations were dropped, with counts, in a fixed order.
  std::vector<std::pair<std::string, std::int64_t>> rejected;
  /// With several ranks: what each of them computed, waited for and sent.
  std::vector<RankFigure> per_rank;
};

/// A complete plan with its cost.
struct Plan {
  Status status = Status::kInfeasible;
  std::string reason;  ///< for kInfeasible: which limit binds, by how much, what would fit
  Objective objective = Objective::k1F1B;
  double iteration_time_s = 0;
  double lower_bound_s = 0;
  double gap = 0;  ///< (iteration_time - lower_bound) / iteration_time
  PlanStrategy strategy;
  std::vector<StagePlan> stages;
  TimeSplit split;
  SearchStats search;
};

/// A plan as a person or another tool writes it: what is missing is to be chosen optimally.
struct PartialStage {
  std::vector<int> layers;
  int strategy = 0;
  std::optional<std::int64_t> position;
  std::optional<Recompute> recompute;
  std::optional<int> zero;
};

struct PartialPlan {
  std::int64_t dp = 1;
  std::optional<std::int64_t> dp_inner;
  std::optional<Schedule> schedule;
  std::vector<PartialStage> stages;
};

const char* to_string(Objective objective);
const char* to_string(Schedule schedule);
const char* to_string(Recompute recompute);
const char* to_string(Status status);

}  // namespace nestplan::model
