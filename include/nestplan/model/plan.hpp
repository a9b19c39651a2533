#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/model/overlap.hpp"

namespace nestplan::model {

enum class Objective : std::uint8_t { k1F1B, kPaper };
enum class Schedule : std::uint8_t { k1F1B, kGPipe };
enum class Recompute : std::uint8_t { kNone, kSelective, kFull };
/// The devices that share a stage's state under ZeRO: all copies, or those inside a pod, with
/// whole copies of the state in the other pods (hybrid sharding).
enum class ShardSpan : std::uint8_t { kAll, kPod };
enum class Status : std::uint8_t { kOptimal, kFeasible, kInfeasible };

/// Bytes per parameter of weights, gradients and optimizer state.
struct StateBytes {
  double weight = 2;
  double gradient = 4;
  double optimizer = 12;
  bool operator==(const StateBytes&) const = default;
};

/// Device memory that no plan may use, beside what the cluster reserves.
struct MemoryReserve {
  double context_bytes = 0;       ///< of the driver and the framework
  double communicator_bytes = 0;  ///< of each kind of group that a stage communicates in
  double margin = 0;              ///< share of the rest, left for fragmentation; in [0, 1)
  bool operator==(const MemoryReserve&) const = default;
};

/// Which layers the stages may hold, beyond the order of the graph.
struct StageConstraints {
  /// A layer that belongs into one stage: 0 is the first, 1 the second …, -1 the last.
  struct Pin {
    int layer = 0;
    std::int64_t stage = 0;
    bool operator==(const Pin&) const = default;
  };
  /// A stage that starts at a position of its pod, numbered like Pin::stage. The position need not
  /// be one that a gap leads to.
  struct Place {
    std::int64_t stage = 0;
    std::int64_t position = 0;
    bool operator==(const Place&) const = default;
  };
  /// Groups of devices that can be asked to stay together: of a strategy, or a whole pod.
  enum class Scope : std::uint8_t { kTensor, kContext, kExpert, kData, kPod };
  /// All groups of a kind stay inside one block each of a domain of the network.
  struct Confinement {
    Scope scope = Scope::kTensor;
    std::string domain;  ///< see network::Network::domains
    bool operator==(const Confinement&) const = default;
  };
  /// How many counted layers (see Layer::counted) stages hold.
  enum class Layout : std::uint8_t {
    kAny,
    kFirstLast,  ///< equally many in all stages but the first and the last
    kEven        ///< equally many in all stages
  };
  std::vector<Pin> pins;
  std::vector<std::vector<int>> together;   ///< layers that share a stage
  std::vector<std::vector<int>> cuts;       ///< sets of layers; no stage holds layers of two
  std::optional<std::int64_t> first, last;  ///< counted layers of the first and of the last stage
  std::optional<std::int64_t> least, most;  ///< counted layers of any stage
  Layout layout = Layout::kAny;
  std::vector<Place> places;
  std::vector<Confinement> confined;

  /// Neither about what stages hold nor about single ones.
  bool none() const { return none_but_layout() && layout == Layout::kAny; }
  bool none_but_layout() const {
    return pins.empty() && together.empty() && cuts.empty() && !first && !last && !least && !most &&
           places.empty();
  }
  bool operator==(const StageConstraints&) const = default;
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
  std::vector<ShardSpan> shard{ShardSpan::kAll};  ///< sorted, not empty
  std::vector<std::int64_t> vpp{1};               ///< chunks per stage; sorted, not empty
  MemoryReserve reserve;
  StageConstraints stages;
  std::string target = "any";  ///< whose rules hold, see targets::rule_set
  std::string precision;       ///< of the costs, for these rules; empty: not known
  bool overlap_p2p = true;     ///< whether transfers between stages may run beside computation
  Overlap overlap{};

  /// The share of transfers between stages of so many chunks that runs beside computation.
  double transfer_overlap(std::int64_t chunks) const {
    return chunks > 1 && overlap_p2p ? overlap.pipeline : 0;
  }
  bool operator==(const PlanOptions&) const = default;
};

/// Seconds of one stage, per micro-batch except what is once per iteration. `total_s` is t_i: the
/// sum of the items up to `zero_s` less `hidden_s`.
struct StageTime {
  double total_s = 0;
  double forward_s = 0;   ///< with the forward collectives
  double backward_s = 0;  ///< with the backward collectives
  double recompute_s = 0;
  double receive_s = 0;
  double gradient_receive_s = 0;
  double zero_s = 0;
  double sync_s = 0;        ///< once per iteration, without what is hidden of it
  double update_s = 0;      ///< the part of `sync_s` that is the optimizer's step
  double collective_s = 0;  ///< the part of forward, backward and recompute that is collectives
  double tie_s = 0;         ///< once per iteration: gradients of parameters shared with stage 1

  // What runs beside computation, see Overlap.
  double hidden_s = 0;           ///< of collectives and ZeRO traffic
  double hidden_forward_s = 0;   ///< the part of it in forward steps
  double hidden_transfer_s = 0;  ///< of what is received, while an interleaved pipeline is full
  double hidden_sync_s = 0;      ///< of the synchronisation, once per iteration

  /// What a micro-batch takes while the pipeline is full.
  double pace_s() const { return total_s - hidden_transfer_s; }
};

/// Bytes per device. `total_bytes` is state, activations and reserve; the other items say what
/// these consist of.
struct StageMemory {
  double total_bytes = 0;
  double state_bytes = 0;
  double activation_bytes = 0;
  double reserve_bytes = 0;  ///< context and communicators

  double weight_bytes = 0;  ///< of the state
  double gradient_bytes = 0;
  double optimizer_bytes = 0;
  double gathered_bytes = 0;   ///< weights of the largest layer under ZeRO 3
  double in_flight_bytes = 0;  ///< of the activations: kept for all micro-batches in flight
  double working_bytes = 0;    ///< what one layer needs beside: recomputed, logits and loss
  double context_bytes = 0;    ///< of the reserve
  double communicator_bytes = 0;
  double table_bytes = 0;   ///< a note: weights of tables over the vocabulary, in `weight_bytes`
  double margin_bytes = 0;  ///< left free of what the device has; not in the total
  double limit_bytes = 0;   ///< what the total must not exceed, on the smallest of the devices
};

struct StagePlan {
  std::vector<int> layers;  ///< indices into Graph::layers, ascending
  int strategy = 0;         ///< index into Graph::strategies
  std::int64_t position = 0;
  std::int64_t devices = 0;  ///< the unit: tp·cp·dp_inner
  Recompute recompute = Recompute::kNone;
  int zero = 0;
  ShardSpan shard = ShardSpan::kAll;
  /// With interleaving, the layers of each of the vpp chunks; else empty.
  std::vector<std::vector<int>> chunks{};
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
  Overlap overlap{};  ///< what the costs are with
};

/// Where one iteration goes, along the stage that is the bottleneck. Adds up to the iteration time:
/// what runs beside computation is not counted again.
struct TimeSplit {
  double compute_s = 0;
  double recompute_s = 0;
  double collective_s = 0;  ///< tensor, context and expert parallel
  double pipeline_s = 0;    ///< point to point
  double data_parallel_s = 0;
  double update_s = 0;  ///< the optimizer's step
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
  std::string limit{};              ///< of its method, which was reached, as a clause; empty: none
  /// Why configurations were dropped, with counts, in a fixed order.
  std::vector<std::pair<std::string, std::int64_t>> rejected;
  /// With several ranks: what each of them computed, waited for and sent.
  std::vector<RankFigure> per_rank;
};

/// How far a search that found nothing was from device memory.
struct MemoryShortfall {
  double required_bytes = 0;   ///< on the fullest stage of the plan that comes nearest
  double available_bytes = 0;  ///< that a plan may use
  double state_bytes = 0;      ///< weights, gradients and optimizer state of the whole model, once
  /// Of these devices: as many as hold that state alone, if nothing else took any memory.
  std::int64_t least_devices = 0;
};

/// A complete plan with its cost.
struct Plan {
  Status status = Status::kInfeasible;
  std::string reason;  ///< for kInfeasible: which limit binds, by how much, what would fit
  std::optional<MemoryShortfall> shortfall;  ///< for kInfeasible, if that limit is memory
  Objective objective = Objective::k1F1B;
  double iteration_time_s = 0;
  double lower_bound_s = 0;
  double gap = 0;  ///< (iteration_time - lower_bound) / iteration_time
  PlanStrategy strategy;
  std::vector<StagePlan> stages;
  TimeSplit split;
  SearchStats search;
};

/// Devices that the stages stand on, in all pods.
std::int64_t devices_used(const Plan& plan);

/// A plan as a person or another tool writes it: what is missing is to be chosen optimally.
struct PartialStage {
  std::vector<int> layers;
  int strategy = 0;
  std::optional<std::int64_t> position;
  std::optional<Recompute> recompute;
  std::optional<int> zero;
  std::optional<ShardSpan> shard{};
  std::vector<std::vector<int>> chunks{};  ///< with interleaving; else empty
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
const char* to_string(ShardSpan span);
const char* to_string(Status status);

}  // namespace nestplan::model
