#include "nestplan/cost/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/cost/update.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::cost {
namespace {

using model::CollectiveOp;

using util::idx;

std::string str(std::int64_t number) { return std::to_string(number); }

std::string bytes_str(double bytes) { return str(static_cast<std::int64_t>(bytes)); }

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::string field(std::size_t stage, const char* name) {
  return "plan: stages[" + std::to_string(stage) + "]." + name + ": ";
}

void check_degrees(const PlacedPlan& plan, const model::PlanOptions& options) {
  if (options.global_batch < 1) {
    throw InvalidConfig("global batch " + str(options.global_batch) + ": it must be at least 1");
  }
  if (plan.dp < 1) {
    throw InvalidInput("plan: strategy.dp: " + str(plan.dp) + " (it must be at least 1)");
  }
  if (plan.dp_inner < 1 || plan.dp % plan.dp_inner != 0) {
    throw InvalidInput("plan: strategy.dp_inner: " + str(plan.dp_inner) +
                       " (it must be a divisor of dp = " + str(plan.dp) + ")");
  }
}

/// Chunks of each stage; 1 without interleaving.
std::size_t chunks_of(const PlacedPlan& plan) {
  return std::max<std::size_t>(1, plan.stages.front().chunks.size());
}

/// Every stage has equally many chunks, of all of its layers.
void check_chunks(const PlacedPlan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlacedStage& stage = plan.stages[s];
    if (std::max<std::size_t>(1, stage.chunks.size()) != chunks_of(plan)) {
      throw InvalidInput(field(s, "chunks") + std::to_string(stage.chunks.size()) +
                         " chunks, but the first stage has " + std::to_string(chunks_of(plan)));
    }
    if (stage.chunks.empty()) continue;
    std::vector<int> all;
    for (const std::vector<int>& chunk : stage.chunks) {
      if (chunk.empty()) throw InvalidInput(field(s, "chunks") + "a chunk has no layers");
      all.insert(all.end(), chunk.begin(), chunk.end());
    }
    std::vector<int> layers = stage.layers;
    std::sort(all.begin(), all.end());
    std::sort(layers.begin(), layers.end());
    if (all != layers) throw InvalidInput(field(s, "chunks") + "not the layers of the stage");
  }
}

/// Stage of every layer. Throws unless the stages partition the layers.
std::vector<int> stage_of_layers(const model::Graph& graph, const PlacedPlan& plan) {
  std::vector<int> stage_of(graph.layers.size(), -1);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].layers.empty()) {
      throw InvalidInput(field(s, "layers") + "empty (a stage has at least one layer)");
    }
    for (const int layer : plan.stages[s].layers) {
      if (layer < 0 || idx(layer) >= graph.layers.size()) {
        throw InvalidInput(field(s, "layers") + "no layer has index " + str(layer) +
                           " (the graph has " + std::to_string(graph.layers.size()) + ")");
      }
      int& stage = stage_of[idx(layer)];
      if (stage >= 0) {
        throw InvalidInput(field(s, "layers") + "\"" + graph.layers[idx(layer)].id +
                           "\" is already in stages[" + str(stage) + "]");
      }
      stage = static_cast<int>(s);
    }
  }
  const auto missing = std::find(stage_of.begin(), stage_of.end(), -1);
  if (missing != stage_of.end()) {
    throw InvalidInput("plan: stages: layer \"" + graph.layers[idx(missing - stage_of.begin())].id +
                       "\" is in no stage");
  }
  return stage_of;
}

/// The part of the model that every layer is in, in the order in which a micro-batch passes them:
/// its stage, or with interleaving the chunk `c` of stage `i`, which is part `c·p + i`.
std::vector<int> parts_of_layers(const PlacedPlan& plan, std::vector<int> stage_of) {
  const auto stages = static_cast<int>(plan.stages.size());
  for (int s = 0; s < stages; ++s) {
    const auto& chunks = plan.stages[idx(s)].chunks;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      for (const int layer : chunks[c]) stage_of[idx(layer)] = static_cast<int>(c) * stages + s;
    }
  }
  return stage_of;
}

void check_order(const model::Graph& graph, const PlacedPlan& plan,
                 const std::vector<int>& part_of) {
  const auto stages = static_cast<int>(plan.stages.size());
  for (const model::Edge& edge : graph.edges) {
    const int from = part_of[idx(edge.from)];
    const int to = part_of[idx(edge.to)];
    if (from > to) {
      throw InvalidInput(field(idx(to % stages), "layers") + "\"" + graph.layers[idx(edge.to)].id +
                         "\" needs \"" + graph.layers[idx(edge.from)].id +
                         "\", which comes later, in stages[" + str(from % stages) + "]" +
                         (from >= stages ? " chunk " + str(from / stages) : ""));
    }
  }
}

std::string usable_strategies(const model::Graph& graph, const model::Layer& layer) {
  std::string ids;
  for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
    if (layer.costs[s]) ids += (ids.empty() ? "" : ", ") + graph.strategies[s].id;
  }
  return ids.empty() ? "none" : ids;
}

void check_choices(const model::Graph& graph, const PlacedPlan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlacedStage& stage = plan.stages[s];
    if (stage.strategy < 0 || idx(stage.strategy) >= graph.strategies.size()) {
      throw InvalidInput(field(s, "strategy") + "no strategy has index " + str(stage.strategy));
    }
    if (stage.zero < 0 || stage.zero > 3) {
      throw InvalidInput(field(s, "zero") + str(stage.zero) + " (it is 0, 1, 2 or 3)");
    }
    if (stage.position < 0) {
      throw InvalidInput(field(s, "position") + str(stage.position) + " (it is at least 0)");
    }
    const model::Strategy& strategy = graph.strategies[idx(stage.strategy)];
    for (const int layer : stage.layers) {
      if (graph.layers[idx(layer)].costs[idx(stage.strategy)]) continue;
      throw InvalidInput(field(s, "strategy") + "layer \"" + graph.layers[idx(layer)].id +
                         "\" has no costs for \"" + strategy.id + "\" (it has " +
                         usable_strategies(graph, graph.layers[idx(layer)]) + ")");
    }
    const std::int64_t first = graph.strategies[idx(plan.stages[0].strategy)].micro_batch;
    if (strategy.micro_batch != first) {
      throw InvalidInput(field(s, "strategy") + "\"" + strategy.id + "\" is for micro-batches of " +
                         str(strategy.micro_batch) + ", but the first stage has " + str(first));
    }
  }
}

/// What all stages share.
struct Frame {
  std::int64_t devices = 0;
  std::int64_t dp_inner = 1;
  std::int64_t dp_outer = 1;
  std::int64_t pod_size = 0;
  std::int64_t micro_batch = 1;
  std::int64_t microbatches = 1;
};

enum class Group : std::uint8_t {
  kTensor,
  kContext,
  kExpert,
  kData,
  kExpertPeers,
  kDataInPod,  ///< of hybrid sharding: the part of kData in one pod, and who shares an index in it
  kDataAcrossPods,
  kExpertPeersInPod,
  kExpertPeersAcrossPods
};
constexpr std::size_t kGroups = 9;

Group group_of(model::GroupKind kind) {
  switch (kind) {
    case model::GroupKind::kTensor:
      return Group::kTensor;
    case model::GroupKind::kContext:
      return Group::kContext;
    case model::GroupKind::kExpert:
      return Group::kExpert;
    case model::GroupKind::kData:
      return Group::kData;
  }
  throw InternalError("a collective has a group that does not exist");
}

/// `ep` may split the data-parallel members of a pod, or join those of whole consecutive pods.
bool expert_groups_exist(const Frame& frame, const model::Strategy& strategy) {
  const std::int64_t per_pod = strategy.cp * frame.dp_inner;
  if (per_pod % strategy.ep == 0) return true;
  return strategy.ep % per_pod == 0 && frame.dp_outer % (strategy.ep / per_pod) == 0;
}

/// The groups of one stage over all pods, reduced to the distinct shapes they have in the network.
class StageGroups {
 public:
  StageGroups(const network::Network& network, const Frame& frame, const model::Strategy& strategy,
              std::int64_t position)
      : network_(network), frame_(frame), strategy_(strategy), position_(position) {}

  /// Seconds of the slowest group.
  double collective_s(CollectiveOp op, double bytes, Group group) {
    double slowest = 0;
    for (const network::GroupShape& shape : shapes(group)) {
      slowest = std::max(slowest, network_.collective_s(op, bytes, shape));
    }
    return slowest;
  }

 private:
  std::int64_t replicas_per_pod() const { return strategy_.cp * frame_.dp_inner; }
  bool experts_span_pods() const { return replicas_per_pod() % strategy_.ep != 0; }

  /// Member `i` of the data-parallel group of tensor rank `t`; pod by pod.
  std::int64_t data_member(std::int64_t i, std::int64_t t) const {
    const std::int64_t pod = i / replicas_per_pod();
    const std::int64_t replica = i % replicas_per_pod();
    return pod * frame_.pod_size + position_ + replica * strategy_.tp + t;
  }

  const std::set<network::GroupShape>& shapes(Group group) {
    auto& known = shapes_[static_cast<std::size_t>(group)];
    if (!known) {
      known.emplace();
      list(group, *known);
    }
    return *known;
  }

  void list(Group group, std::set<network::GroupShape>& out) const {
    const std::int64_t tp = strategy_.tp;
    const std::int64_t cp = strategy_.cp;
    const std::int64_t ep = strategy_.ep;
    const std::int64_t members = replicas_per_pod() * frame_.dp_outer;
    switch (group) {
      case Group::kTensor:
        return add_shapes(members, tp, out,
                          [&](std::int64_t g, std::int64_t i) { return data_member(g, i); });
      case Group::kContext:
        return add_shapes(members / cp * tp, cp, out, [&](std::int64_t g, std::int64_t i) {
          return data_member(g / tp * cp + i, g % tp);
        });
      case Group::kExpert:
        return add_shapes(members / ep * tp, ep, out, [&](std::int64_t g, std::int64_t i) {
          return data_member(g / tp * ep + i, g % tp);
        });
      case Group::kData:
        return add_shapes(tp, members, out,
                          [&](std::int64_t g, std::int64_t i) { return data_member(i, g); });
      case Group::kExpertPeers:
        return add_shapes(ep * tp, members / ep, out, [&](std::int64_t g, std::int64_t i) {
          return data_member(g / tp + i * ep, g % tp);
        });
      case Group::kDataInPod:
        return add_shapes(frame_.dp_outer * tp, replicas_per_pod(), out,
                          [&](std::int64_t g, std::int64_t i) {
                            return data_member(g / tp * replicas_per_pod() + i, g % tp);
                          });
      case Group::kDataAcrossPods:
        return add_shapes(replicas_per_pod() * tp, frame_.dp_outer, out,
                          [&](std::int64_t g, std::int64_t i) {
                            return data_member(i * replicas_per_pod() + g / tp, g % tp);
                          });
      case Group::kExpertPeersInPod:
        if (experts_span_pods()) return;
        return add_shapes(frame_.dp_outer * ep * tp, replicas_per_pod() / ep, out,
                          [&](std::int64_t g, std::int64_t i) {
                            const std::int64_t pod = g / tp / ep;
                            return data_member(pod * replicas_per_pod() + g / tp % ep + i * ep,
                                               g % tp);
                          });
      case Group::kExpertPeersAcrossPods:
        return list(experts_span_pods() ? Group::kExpertPeers : Group::kDataAcrossPods, out);
    }
  }

  /// Shapes of `count` groups of `size` devices; `member(g, i)` is device `i` of group `g`.
  template <typename Member>
  void add_shapes(std::int64_t count, std::int64_t size, std::set<network::GroupShape>& out,
                  Member member) const {
    if (size < 2) return;
    std::vector<std::int64_t> devices(idx(size));
    for (std::int64_t g = 0; g < count; ++g) {
      for (std::int64_t i = 0; i < size; ++i) devices[idx(i)] = member(g, i);
      out.insert(network_.shape(devices));
    }
  }

  const network::Network& network_;
  const Frame& frame_;
  const model::Strategy& strategy_;
  std::int64_t position_;
  std::array<std::optional<std::set<network::GroupShape>>, kGroups> shapes_;
};

/// Times of a stage's layers apart from its collectives.
struct Compute {
  double forward_s = 0;
  double backward_s = 0;
  double selective_s = 0;
};

/// In each phase the stage is as slow as its slowest type of devices.
Compute compute_of(const model::Graph& graph, const PlacedStage& stage,
                   const std::set<int>& types) {
  Compute slowest;
  for (const int type : types) {
    Compute sum;
    for (const int layer : stage.layers) {
      const model::LayerTimes times =
          graph.layers[idx(layer)].costs[idx(stage.strategy)]->times(type);
      sum.forward_s += times.forward_s;
      sum.backward_s += times.backward_s;
      sum.selective_s += times.selective_s;
    }
    slowest.forward_s = std::max(slowest.forward_s, sum.forward_s);
    slowest.backward_s = std::max(slowest.backward_s, sum.backward_s);
    slowest.selective_s = std::max(slowest.selective_s, sum.selective_s);
  }
  return slowest;
}

/// Members of `tie` among the layers of a stage.
std::int64_t members_of(const model::Tie& tie, const PlacedStage& stage) {
  return std::count_if(tie.layers.begin(), tie.layers.end(), [&](int layer) {
    return std::find(stage.layers.begin(), stage.layers.end(), layer) != stage.layers.end();
  });
}

StageFootprint footprint_of(const model::Graph& graph, const PlacedStage& stage) {
  StageFootprint sum;
  for (const int layer : stage.layers) {
    const model::LayerCost& cost = *graph.layers[idx(layer)].costs[idx(stage.strategy)];
    sum.parameters += cost.parameters;
    sum.expert_parameters += cost.expert_parameters;
    sum.activation_bytes += cost.activation_bytes;
    sum.selective_bytes += cost.selectively_kept();
    sum.checkpoint_bytes += cost.checkpoint_bytes;
    sum.largest_layer = std::max(sum.largest_layer, cost.parameters + cost.expert_parameters);
    sum.largest_working = std::max(sum.largest_working, cost.working_bytes);
    sum.largest_selective =
        std::max(sum.largest_selective,
                 cost.activation_bytes - cost.selectively_kept() + cost.working_bytes);
    sum.largest_activation =
        std::max(sum.largest_activation, cost.activation_bytes + cost.working_bytes);
  }
  for (const model::Tie& tie : graph.ties) {
    const std::int64_t members = members_of(tie, stage);
    if (members > 1) {
      sum.parameters -= static_cast<double>(members - 1) * tie.parameters[idx(stage.strategy)];
    }
  }
  return sum;
}

/// Communication, and how much of it runs beside computation of any length.
struct Traffic {
  double total_s = 0;
  double beside_s = 0;
};

Traffic layer_collectives(const model::Graph& graph, const PlacedStage& stage, model::Phase phase,
                          const model::Overlap& overlap, StageGroups& groups) {
  Traffic sum;
  for (const int layer : stage.layers) {
    const model::LayerCost& cost = *graph.layers[idx(layer)].costs[idx(stage.strategy)];
    for (const model::Collective& c : cost.collectives) {
      if (c.phase != phase) continue;
      const double seconds = groups.collective_s(c.op, c.bytes, group_of(c.group));
      sum.total_s += seconds;
      sum.beside_s += overlap.of(c) * seconds;
    }
  }
  return sum;
}

/// The groups that share one kind of parameters.
struct Sharers {
  Group shard;                  ///< of ZeRO
  std::optional<Group> across;  ///< of copies of a shard, with hybrid sharding
  double shard_size = 1;        ///< devices of `shard`
};

Sharers sharers_of(model::ShardSpan span, const ShardGroups& sizes, bool experts) {
  const auto size = static_cast<double>(experts ? sizes.expert : sizes.dense);
  if (span == model::ShardSpan::kAll) {
    return {experts ? Group::kExpertPeers : Group::kData, std::nullopt, size};
  }
  if (experts) return {Group::kExpertPeersInPod, Group::kExpertPeersAcrossPods, size};
  return {Group::kDataInPod, Group::kDataAcrossPods, size};
}

/// `Z`: weights are gathered for the forward and once more for the backward step, which ends with
/// the reduce-scatter of gradients.
struct ZeroTraffic {
  double gather_s = 0;  ///< once
  double scatter_s = 0;
  double total_s() const { return 2 * gather_s + scatter_s; }
};

/// Of one kind of parameters, shared by `group`.
ZeroTraffic zero_traffic(int zero, double parameters, const model::StateBytes& bytes, Group group,
                         StageGroups& groups) {
  ZeroTraffic traffic;
  if (zero < 2) return traffic;
  traffic.scatter_s =
      groups.collective_s(CollectiveOp::kReduceScatter, bytes.gradient * parameters, group);
  if (zero == 3) {
    traffic.gather_s =
        groups.collective_s(CollectiveOp::kAllGather, bytes.weight * parameters, group);
  }
  return traffic;
}

struct SyncTraffic {
  double reduce_s = 0;
  double gather_s = 0;
  double total_s() const { return reduce_s + gather_s; }
};

/// `sync` of one kind of parameters. Without ZeRO all sum their gradients; else the copies of a
/// shard do, where there are any.
SyncTraffic sync_traffic(int zero, double parameters, const model::StateBytes& bytes,
                         const Sharers& sharers, StageGroups& groups) {
  const double gradients = bytes.gradient * parameters;
  const double weights = bytes.weight * parameters;
  SyncTraffic sync;
  if (zero == 0) {
    sync.reduce_s = groups.collective_s(CollectiveOp::kAllReduce, gradients, sharers.shard);
    return sync;
  }
  if (sharers.across) {
    sync.reduce_s = groups.collective_s(CollectiveOp::kAllReduce, gradients / sharers.shard_size,
                                        *sharers.across);
  }
  if (zero == 1) {
    sync.reduce_s += groups.collective_s(CollectiveOp::kReduceScatter, gradients, sharers.shard);
  }
  if (zero <= 2) {
    sync.gather_s = groups.collective_s(CollectiveOp::kAllGather, weights, sharers.shard);
  }
  return sync;
}

/// `cut(D)` under `strategy`, where `D` holds the parts from `boundary` on: every layer before it
/// sends the largest of its edges into `D`, whichever stage needs it, as tensors are relayed.
double cut_bytes(const model::Graph& graph, const std::vector<int>& part_of, int boundary,
                 int strategy) {
  std::vector<double> largest(graph.layers.size(), 0);
  for (const model::Edge& edge : graph.edges) {
    if (part_of[idx(edge.from)] >= boundary || part_of[idx(edge.to)] < boundary) continue;
    largest[idx(edge.from)] = std::max(largest[idx(edge.from)], edge.bytes[idx(strategy)]);
  }
  double sum = 0;
  for (const double bytes : largest) sum += bytes;
  return sum;
}

/// The worst level between a producer at `[from, from+unit)` and a consumer at `to`.
int worst_level(const network::Network& network, const Frame& frame, std::int64_t from,
                std::int64_t to, std::int64_t unit) {
  int worst = 0;
  for (std::int64_t pod = 0; pod < frame.dp_outer; ++pod) {
    const std::int64_t base = pod * frame.pod_size;
    for (std::int64_t r = 0; r < unit && base + to + r < frame.devices; ++r) {
      worst = std::max(worst, network.level(base + from + r, base + to + r));
    }
  }
  return worst;
}

class Evaluation {
 public:
  Evaluation(const model::Problem& problem, const network::Network& network, PlacedPlan plan)
      : problem_(problem), graph_(problem.graph), network_(network), plan_(std::move(plan)) {
    types_ = problem.cluster.types_of_devices();
    check_degrees(plan_, problem.options);
    if (plan_.stages.empty()) throw InvalidInput("plan: stages: empty (at least one is needed)");
    check_chunks(plan_);
    part_of_ = parts_of_layers(plan_, stage_of_layers(graph_, plan_));
    check_order(graph_, plan_, part_of_);
    check_choices(graph_, plan_);
    // Layers are summed in this order, whatever order they were given in.
    for (PlacedStage& stage : plan_.stages) std::sort(stage.layers.begin(), stage.layers.end());
    build_frame();
  }

  model::Plan run() {
    describe();
    check_batch();
    check_schedule();
    if (check_replicas()) {
      const bool placed = check_placement();
      const bool grouped = check_expert_groups();
      if (grouped) fill_memory();
      if (placed && grouped) {
        fill_times();
        fill_iteration();
      }
    }
    result_.status = result_.reason.empty() ? model::Status::kOptimal : model::Status::kInfeasible;
    return std::move(result_);
  }

 private:
  std::size_t stages() const { return plan_.stages.size(); }
  std::size_t vpp() const { return chunks_of(plan_); }

  const model::Strategy& strategy(std::size_t stage) const {
    return graph_.strategies[idx(plan_.stages[stage].strategy)];
  }

  std::int64_t unit(std::size_t stage) const {
    return strategy(stage).tp * strategy(stage).cp * frame_.dp_inner;
  }

  std::string stage_name(std::size_t stage) const {
    return "stage " + std::to_string(stage + 1) + " of " + std::to_string(stages());
  }

  void refuse(const std::string& reason) {
    if (!result_.reason.empty()) result_.reason += "; ";
    result_.reason += reason;
  }

  void build_frame() {
    frame_.devices = network_.devices();
    frame_.dp_inner = plan_.dp_inner;
    frame_.dp_outer = plan_.dp / plan_.dp_inner;
    frame_.pod_size = frame_.devices / frame_.dp_outer;
    frame_.micro_batch = strategy(0).micro_batch;
    frame_.microbatches =
        ceil_div(ceil_div(problem_.options.global_batch, plan_.dp), frame_.micro_batch);
  }

  void describe() {
    const model::PlanOptions& options = problem_.options;
    result_.objective = options.objective;
    result_.strategy.dp = plan_.dp;
    result_.strategy.dp_inner = frame_.dp_inner;
    result_.strategy.dp_outer = frame_.dp_outer;
    result_.strategy.pp = static_cast<std::int64_t>(stages());
    result_.strategy.vpp = static_cast<std::int64_t>(vpp());
    result_.strategy.micro_batch = frame_.micro_batch;
    result_.strategy.microbatches = frame_.microbatches;
    result_.strategy.schedule = options.schedule;
    result_.strategy.overlap = options.overlap;
    if (!options.overlap_p2p) result_.strategy.overlap.pipeline = 0;
    result_.stages.resize(stages());
    for (std::size_t s = 0; s < stages(); ++s) {
      model::StagePlan& out = result_.stages[s];
      out.layers = plan_.stages[s].layers;
      out.strategy = plan_.stages[s].strategy;
      out.position = plan_.stages[s].position;
      out.recompute = plan_.stages[s].recompute;
      out.zero = plan_.stages[s].zero;
      out.shard = plan_.stages[s].shard;
      out.chunks = plan_.stages[s].chunks;
    }
  }

  void check_schedule() {
    if (vpp() == 1) return;
    const auto p = static_cast<std::int64_t>(stages());
    if (p == 1) refuse("vpp = " + std::to_string(vpp()) + " needs more than one stage");
    if (problem_.options.schedule != model::Schedule::k1F1B) {
      refuse("vpp = " + std::to_string(vpp()) + " needs the schedule 1f1b");
    }
    if (frame_.microbatches % p != 0) {
      refuse("with interleaving the " + str(frame_.microbatches) +
             " micro-batches have to be a multiple of the " + str(p) + " stages");
    }
  }

  void check_batch() {
    const std::int64_t batch = problem_.options.global_batch;
    const std::int64_t mbs = frame_.micro_batch;
    const std::string step = "dp·micro-batch = " + str(plan_.dp) + "·" + str(mbs);
    if (plan_.dp > batch / mbs) {
      refuse("the batch of " + str(batch) + " sequences is smaller than " + step);
    } else if (!problem_.options.allow_uneven_batch && batch % (plan_.dp * mbs) != 0) {
      const std::int64_t below = batch - batch % (plan_.dp * mbs);
      refuse("the batch of " + str(batch) + " sequences is not a multiple of " + step +
             " (the nearest that are: " + str(below) + " and " + str(below + plan_.dp * mbs) + ")");
    }
  }

  bool check_replicas() {
    if (plan_.dp <= frame_.devices) return true;
    refuse("dp = " + str(plan_.dp) + " exceeds the cluster's " + str(frame_.devices) + " devices");
    return false;
  }

  bool check_placement() {
    bool fits = true;
    std::int64_t end = 0;
    for (std::size_t s = 0; s < stages(); ++s) {
      result_.stages[s].devices = unit(s);
      const std::int64_t position = plan_.stages[s].position;
      if (position < end) {
        refuse(stage_name(s) + " starts at position " + str(position) +
               " but the one before it ends at " + str(end));
        fits = false;
      }
      end = position + unit(s);
    }
    if (fits && end > frame_.pod_size) {
      refuse("the stages end at device " + str(end) + " of a pod, which has " +
             str(frame_.pod_size) + " (" + str(frame_.devices) + " devices in " +
             str(frame_.dp_outer) + (frame_.dp_outer == 1 ? " pod)" : " pods)"));
      fits = false;
    }
    return fits;
  }

  bool check_expert_groups() {
    bool legal = true;
    for (std::size_t s = 0; s < stages(); ++s) {
      if (expert_groups_exist(frame_, strategy(s))) continue;
      refuse(stage_name(s) + ": ep = " + str(strategy(s).ep) +
             " neither divides cp·dp_inner = " + str(strategy(s).cp * frame_.dp_inner) +
             " nor is a multiple of it by a divisor of " + "dp_outer = " + str(frame_.dp_outer));
      legal = false;
    }
    return legal;
  }

  ShardGroups groups_of(std::size_t stage, model::ShardSpan span) const {
    return shard_groups(span, plan_.dp, frame_.dp_inner, strategy(stage).cp, strategy(stage).ep);
  }

  /// Types of the devices that the stage has over all pods.
  std::set<int> types_of(std::size_t stage) const {
    if (types_.empty()) return {0};
    std::set<int> types;
    for (std::int64_t pod = 0; pod < frame_.dp_outer; ++pod) {
      const std::int64_t first = pod * frame_.pod_size + plan_.stages[stage].position;
      for (std::int64_t r = 0; r < unit(stage) && first + r < frame_.devices; ++r) {
        types.insert(types_[idx(first + r)]);
      }
    }
    return types.empty() ? std::set<int>{0} : types;
  }

  /// Bytes of the smallest of the stage's devices.
  double usable_bytes(std::size_t stage) const {
    double least = std::numeric_limits<double>::infinity();
    for (const int type : types_of(stage)) {
      least = std::min(least, problem_.cluster.type(type).usable_bytes());
    }
    return least;
  }

  InFlight in_flight_of(std::size_t stage) const {
    const auto place = static_cast<std::int64_t>(stages() - stage);
    if (vpp() == 1) {
      return {in_flight(problem_.options.schedule, place, frame_.microbatches), 1};
    }
    return interleaved_in_flight(place, static_cast<std::int64_t>(stages()),
                                 static_cast<std::int64_t>(vpp()), frame_.microbatches);
  }

  model::StageMemory memory_of(std::size_t stage, model::Recompute recompute, int zero,
                               model::ShardSpan span) const {
    const model::PlanOptions& options = problem_.options;
    const StageFootprint footprint = footprint_of(graph_, plan_.stages[stage]);
    const ShardGroups groups = groups_of(stage, span);
    const model::Strategy& s = strategy(stage);
    model::StageMemory memory;
    memory.state_bytes = state_bytes(footprint, zero, options.state_bytes, groups);
    memory.activation_bytes = activation_bytes(footprint, recompute, in_flight_of(stage));
    memory.reserve_bytes =
        reserve_bytes(options.reserve, communicators(s.tp, s.cp, s.ep, plan_.dp, stages() > 1));
    memory.total_bytes = memory.state_bytes + memory.activation_bytes + memory.reserve_bytes;
    itemise(stage, footprint, groups, recompute, zero, memory);
    return memory;
  }

  void itemise(std::size_t stage, const StageFootprint& footprint, const ShardGroups& groups,
               model::Recompute recompute, int zero, model::StageMemory& memory) const {
    const auto& [w, g, o] = problem_.options.state_bytes;
    const double all = footprint.parameters + footprint.expert_parameters;
    const double sharded = footprint.parameters / static_cast<double>(groups.dense) +
                           footprint.expert_parameters / static_cast<double>(groups.expert);
    memory.weight_bytes = w * (zero == 3 ? sharded : all);
    memory.gradient_bytes = g * (zero >= 2 ? sharded : all);
    memory.optimizer_bytes = o * (zero >= 1 ? sharded : all);
    memory.gathered_bytes = zero == 3 ? w * footprint.largest_layer : 0;
    memory.working_bytes = footprint.extra(recompute);
    memory.in_flight_bytes = memory.activation_bytes - memory.working_bytes;
    memory.context_bytes = problem_.options.reserve.context_bytes;
    memory.communicator_bytes = memory.reserve_bytes - memory.context_bytes;
    const PlacedStage& placed = plan_.stages[stage];
    for (const int layer : placed.layers) {
      memory.table_bytes +=
          w * graph_.layers[idx(layer)].costs[idx(placed.strategy)]->table_parameters;
    }
    const double usable = usable_bytes(stage);
    memory.limit_bytes = memory_limit(usable, problem_.options.reserve);
    memory.margin_bytes = std::floor(usable) - memory.limit_bytes;
  }

  void fill_memory() {
    std::size_t worst = 0;
    std::size_t too_big = 0;
    const auto excess = [this](std::size_t s) {
      const model::StageMemory& memory = result_.stages[s].memory;
      return memory.total_bytes - memory.limit_bytes;
    };
    for (std::size_t s = 0; s < stages(); ++s) {
      model::StagePlan& stage = result_.stages[s];
      stage.memory = memory_of(s, stage.recompute, stage.zero, stage.shard);
      if (excess(s) > 0) ++too_big;
      if (excess(s) > excess(worst)) worst = s;
    }
    if (too_big == 0) return;
    const double need = result_.stages[worst].memory.total_bytes;
    const double usable = result_.stages[worst].memory.limit_bytes;
    refuse(stage_name(worst) + " needs " + bytes_str(need) + " bytes of memory per device, " +
           bytes_str(need - usable) + " more than the " + bytes_str(usable) + " there are" +
           margin_note() +
           (too_big > 1 ? " (" + std::to_string(too_big) + " stages do not fit)" : "") + "; " +
           memory_advice(worst, usable));
  }

  std::string margin_note() const {
    const double margin = result_.stages.front().memory.margin_bytes;
    return margin > 0 ? " beside the margin of " + bytes_str(margin) : "";
  }

  /// The first allowed (recompute, ZeRO) under which `stage` fits, or the memory it would take.
  std::string memory_advice(std::size_t stage, double usable) const {
    double least = result_.stages[stage].memory.total_bytes;
    for (const model::Recompute recompute : problem_.options.recompute) {
      for (const int zero : problem_.options.zero) {
        for (const model::ShardSpan span : problem_.options.shard) {
          const double need = memory_of(stage, recompute, zero, span).total_bytes;
          if (need <= usable) {
            return std::string("it would fit with recompute ") + to_string(recompute) +
                   " and ZeRO " + str(zero) + (span == model::ShardSpan::kPod ? " in the pod" : "");
          }
          least = std::min(least, need);
        }
      }
    }
    return "no allowed recompute and ZeRO would make it fit, a device with " + bytes_str(least) +
           " usable bytes would";
  }

  void fill_times() {
    compute_.resize(stages());
    hidden_shards_s_.resize(stages(), 0);
    for (std::size_t s = 0; s < stages(); ++s) fill_stage_time(s);
  }

  void fill_stage_time(std::size_t s) {
    const PlacedStage& stage = plan_.stages[s];
    const model::Overlap& overlap = problem_.options.overlap;
    StageGroups groups(network_, frame_, strategy(s), stage.position);
    const Traffic forward =
        layer_collectives(graph_, stage, model::Phase::kForward, overlap, groups);
    const Traffic backward =
        layer_collectives(graph_, stage, model::Phase::kBackward, overlap, groups);
    const bool recompute = stage.recompute == model::Recompute::kFull;
    const bool selective = stage.recompute == model::Recompute::kSelective;
    compute_[s] = compute_of(graph_, stage, types_of(s));

    model::StageTime& time = result_.stages[s].time;
    time.forward_s = compute_[s].forward_s + forward.total_s;
    time.backward_s = compute_[s].backward_s + backward.total_s;
    time.recompute_s = recompute ? time.forward_s : selective ? compute_[s].selective_s : 0;
    time.collective_s = forward.total_s + backward.total_s + (recompute ? forward.total_s : 0);
    for (std::size_t chunk = 0; chunk < vpp(); ++chunk) {
      const std::size_t part = chunk * stages() + s;
      if (part > 0) time.receive_s += receive_s(s, part - 1);
      if (part + 1 < vpp() * stages()) time.gradient_receive_s += receive_s(s, part);
    }
    const ZeroTraffic zero = fill_data_parallel(s, groups);
    time.tie_s = tie_s(s);
    time.total_s = time.forward_s + time.backward_s + time.recompute_s + time.receive_s +
                   time.gradient_receive_s + time.zero_s;
    hide(s, {forward.beside_s, backward.beside_s + (recompute ? forward.beside_s : 0)}, zero);
    hide_transfers(s);
  }

  /// What sharing the stage's parameters takes. Returns the part per micro-batch item by item.
  ZeroTraffic fill_data_parallel(std::size_t s, StageGroups& groups) {
    const PlacedStage& stage = plan_.stages[s];
    const model::StateBytes& bytes = problem_.options.state_bytes;
    const StageFootprint footprint = footprint_of(graph_, stage);
    const ShardGroups sizes = groups_of(s, stage.shard);
    // Without ZeRO there are no shards to span anything.
    const model::ShardSpan span = stage.zero > 0 ? stage.shard : model::ShardSpan::kAll;
    model::StageTime& time = result_.stages[s].time;
    ZeroTraffic zero;
    SyncTraffic sync;
    for (const bool experts : {false, true}) {
      const double parameters = experts ? footprint.expert_parameters : footprint.parameters;
      const Sharers sharers = sharers_of(span, sizes, experts);
      const ZeroTraffic z = zero_traffic(stage.zero, parameters, bytes, sharers.shard, groups);
      const SyncTraffic y = sync_traffic(stage.zero, parameters, bytes, sharers, groups);
      time.zero_s += z.total_s();
      time.sync_s += y.total_s();
      zero.gather_s += z.gather_s;
      zero.scatter_s += z.scatter_s;
      sync.reduce_s += y.reduce_s;
      sync.gather_s += y.gather_s;
    }
    hide_sync(s, sync);
    time.update_s = update_s(s, update_bytes(footprint, stage.zero, bytes, sizes));
    time.sync_s += time.update_s;
    return zero;
  }

  /// Of the slowest type of devices.
  double update_s(std::size_t s, double bytes) const {
    double slowest = 0;
    for (const int type : types_of(s)) {
      slowest = std::max(slowest, graph_.update_s(bytes, type));
    }
    return slowest;
  }

  /// By phase, recomputation being part of the backward one.
  struct Phases {
    double forward_s = 0;
    double backward_s = 0;
    double total_s() const { return forward_s + backward_s; }
  };

  /// Takes off what runs beside computation: of each kind and phase the same part of what would if
  /// there were enough of it.
  void hide(std::size_t s, const Phases& collectives, const ZeroTraffic& zero) {
    const double share = problem_.options.overlap.shards;
    const Phases shards{share * zero.gather_s, share * (zero.gather_s + zero.scatter_s)};
    const double beside = collectives.total_s() + shards.total_s();
    if (beside <= 0) return;
    model::StageTime& time = result_.stages[s].time;
    time.hidden_s =
        std::min(beside, compute_[s].forward_s + compute_[s].backward_s + recomputed_s(s));
    const double part = time.hidden_s / beside;
    time.hidden_forward_s = part * (collectives.forward_s + shards.forward_s);
    hidden_shards_s_[s] = part * shards.total_s();
    time.total_s -= time.hidden_s;
  }

  void hide_transfers(std::size_t s) {
    const double share = problem_.options.transfer_overlap(static_cast<std::int64_t>(vpp()));
    if (share <= 0) return;
    model::StageTime& time = result_.stages[s].time;
    const double received = time.receive_s + time.gradient_receive_s;
    time.hidden_transfer_s = std::min(share * received, std::max(0.0, time.total_s - received));
  }

  void hide_sync(std::size_t s, const SyncTraffic& sync) {
    const double share = problem_.options.overlap.sync;
    model::StageTime& time = result_.stages[s].time;
    time.hidden_sync_s = std::min(share * sync.reduce_s, compute_[s].backward_s + recomputed_s(s)) +
                         std::min(share * sync.gather_s, compute_[s].forward_s);
    time.sync_s -= time.hidden_sync_s;
  }

  /// What stage `receiver` waits for over the boundary between `part` of the model and the part
  /// after it, in either direction: at the receiver's bytes, over the link of the forward producer.
  double receive_s(std::size_t receiver, std::size_t part) const {
    const std::size_t producer = part % stages();
    const std::size_t consumer = (part + 1) % stages();
    const double bytes =
        cut_bytes(graph_, part_of_, static_cast<int>(part) + 1, plan_.stages[receiver].strategy);
    const int level = worst_level(network_, frame_, plan_.stages[producer].position,
                                  plan_.stages[consumer].position, unit(producer));
    return network_.transfer_s(bytes, level, unit(producer));
  }

  /// What a stage exchanges with the first one about parameters that they share.
  double tie_s(std::size_t s) const {
    if (s == 0) return 0;
    const PlacedStage& stage = plan_.stages[s];
    double sum = 0;
    for (const model::Tie& tie : graph_.ties) {
      const std::int64_t members = members_of(tie, stage);
      if (members == 0 || idx(members) == tie.layers.size()) continue;
      const std::int64_t first = plan_.stages.front().position;
      const std::int64_t devices = std::min(unit(s), stage.position - first);
      const int level = worst_level(network_, frame_, first, stage.position, devices);
      sum += network_.transfer_s(
          problem_.options.state_bytes.gradient * tie.parameters[idx(stage.strategy)], level,
          unit(s));
    }
    return sum;
  }

  void fill_iteration() {
    const auto m = static_cast<double>(frame_.microbatches);
    const auto p = static_cast<double>(stages());
    const auto v = static_cast<double>(vpp());
    double sum = 0;
    double ties = 0;
    std::size_t bottleneck = 0;
    for (std::size_t s = 0; s < stages(); ++s) {
      sum += result_.stages[s].time.total_s;
      ties += result_.stages[s].time.tie_s;
      if (pace_s(s) > pace_s(bottleneck)) bottleneck = s;
    }
    const double slowest = pace_s(bottleneck);
    const bool paper = problem_.options.objective == model::Objective::kPaper;
    const model::StageTime& first = result_.stages[0].time;
    const double once = first.sync_s + (paper ? 0 : ties);
    result_.iteration_time_s =
        paper ? (m + (p - 1) / v) * slowest + once : sum / v + (m - 1 / v) * slowest + once;
    result_.lower_bound_s = result_.iteration_time_s;
    fill_split(bottleneck, m, once - first.update_s);
  }

  double pace_s(std::size_t s) const { return result_.stages[s].time.pace_s(); }

  /// Recomputation per micro-batch, without its collectives.
  double recomputed_s(std::size_t s) const {
    switch (plan_.stages[s].recompute) {
      case model::Recompute::kNone:
        return 0;
      case model::Recompute::kSelective:
        return compute_[s].selective_s;
      case model::Recompute::kFull:
        return compute_[s].forward_s;
    }
    return 0;
  }

  void fill_split(std::size_t bottleneck, double m, double exchange_s) {
    const model::StageTime& time = result_.stages[bottleneck].time;
    const Compute& compute = compute_[bottleneck];
    model::TimeSplit& split = result_.split;
    split.compute_s = m * (compute.forward_s + compute.backward_s);
    split.recompute_s = recomputed_s(bottleneck) * m;
    const double hidden_shards = hidden_shards_s_[bottleneck];
    split.collective_s = m * (time.collective_s - (time.hidden_s - hidden_shards));
    split.pipeline_s = m * (time.receive_s + time.gradient_receive_s - time.hidden_transfer_s);
    split.data_parallel_s = m * (time.zero_s - hidden_shards) + exchange_s;
    split.update_s = result_.stages[0].time.update_s;
    const double busy = split.compute_s + split.recompute_s + split.collective_s +
                        split.pipeline_s + split.data_parallel_s + split.update_s;
    split.bubble_s = std::max(0.0, result_.iteration_time_s - busy);
  }

  const model::Problem& problem_;
  const model::Graph& graph_;
  const network::Network& network_;
  PlacedPlan plan_;
  std::vector<int> part_of_;
  Frame frame_;
  std::vector<std::uint8_t> types_;  ///< by device; empty: of one type
  std::vector<Compute> compute_;
  std::vector<double> hidden_shards_s_;  ///< by stage: the part of its `hidden_s` that is ZeRO's
  model::Plan result_;
};

}  // namespace

model::Plan evaluate(const model::Problem& problem, const network::Network& network,
                     const PlacedPlan& plan) {
  return Evaluation(problem, network, plan).run();
}

}  // namespace nestplan::cost
