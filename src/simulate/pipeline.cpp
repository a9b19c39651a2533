#include "nestplan/simulate/pipeline.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/util/index.hpp"
#include "simulate/links.hpp"

namespace nestplan::simulate {
namespace {

using util::idx;

/// The problem with the layers of one chunk of every stage alone, and nothing between them.
std::pair<model::Problem, cost::PlacedPlan> chunk_of(const model::Problem& problem,
                                                     const cost::PlacedPlan& plan,
                                                     std::size_t chunk) {
  std::pair<model::Problem, cost::PlacedPlan> out{problem, plan};
  model::Graph& graph = out.first.graph;
  graph.layers.clear();
  graph.edges.clear();
  graph.ties.clear();
  for (cost::PlacedStage& stage : out.second.stages) {
    stage.layers.clear();
    for (const int layer : stage.chunks[chunk]) {
      stage.layers.push_back(static_cast<int>(graph.layers.size()));
      graph.layers.push_back(problem.graph.layers[idx(layer)]);
    }
    stage.chunks.clear();
  }
  return out;
}

class Builder {
 public:
  Builder(const model::Problem& problem, const network::Network& network, const model::Plan& plan)
      : problem_(problem), network_(network), plan_(plan) {
    pipeline_.schedule = plan.strategy.schedule;
    pipeline_.stages = static_cast<std::int64_t>(plan.stages.size());
    pipeline_.chunks = std::max<std::int64_t>(1, plan.strategy.vpp);
    pipeline_.microbatches = plan.strategy.microbatches;
    pipeline_.transfer_overlap = problem.options.transfer_overlap(pipeline_.chunks);
  }

  Pipeline build() {
    fill_work();
    find_parts();
    fill_kinds();
    for (const model::StagePlan& stage : plan_.stages) {
      pipeline_.sync_s.push_back(stage.time.sync_s);
      pipeline_.update_s.push_back(stage.time.update_s);
      pipeline_.tie_s.push_back(stage.time.tie_s);
    }
    return std::move(pipeline_);
  }

 private:
  /// Of all stages of a plan, in which `whole` times are known.
  std::vector<PartWork> work_of(const model::Problem& problem, const cost::PlacedPlan& plan,
                                const model::Plan& whole) const {
    // Without the gathers of weights, stage 3 of ZeRO is stage 2.
    cost::PlacedPlan ungathered = plan;
    bool gathers = false;
    for (cost::PlacedStage& stage : ungathered.stages) {
      gathers = gathers || stage.zero == 3;
      stage.zero = std::min(stage.zero, 2);
    }
    const model::Plan two = gathers ? cost::evaluate(problem, network_, ungathered) : whole;
    std::vector<PartWork> work;
    for (std::size_t s = 0; s < whole.stages.size(); ++s) {
      const model::StageTime& time = whole.stages[s].time;
      const double gather = (time.zero_s - two.stages[s].time.zero_s) / 2;
      work.push_back({time.forward_s + gather - time.hidden_forward_s,
                      time.backward_s + time.recompute_s + (time.zero_s - gather) -
                          (time.hidden_s - time.hidden_forward_s)});
    }
    return work;
  }

  void fill_work() {
    const cost::PlacedPlan plan = cost::placed(plan_);
    const std::vector<PartWork> whole = work_of(problem_, plan, plan_);
    if (pipeline_.chunks == 1) {
      pipeline_.work = whole;
      return;
    }
    for (std::int64_t chunk = 0; chunk < pipeline_.chunks; ++chunk) {
      const auto [problem, part] = chunk_of(problem_, plan, idx(chunk));
      const std::vector<PartWork> work =
          work_of(problem, part, cost::evaluate(problem, network_, part));
      pipeline_.work.insert(pipeline_.work.end(), work.begin(), work.end());
    }
    for (std::int64_t stage = 0; stage < pipeline_.stages; ++stage) {
      divide(stage, whole[idx(stage)].forward_s, &PartWork::forward_s);
      divide(stage, whole[idx(stage)].backward_s, &PartWork::backward_s);
    }
  }

  /// Makes the chunks' times add up to the stage's.
  void divide(std::int64_t stage, double whole_s, double PartWork::*time) {
    double sum = 0;
    for (std::int64_t part = stage; part < pipeline_.parts(); part += pipeline_.stages) {
      sum += pipeline_.work[idx(part)].*time;
    }
    if (sum <= 0) return;
    for (std::int64_t part = stage; part < pipeline_.parts(); part += pipeline_.stages) {
      pipeline_.work[idx(part)].*time *= whole_s / sum;
    }
  }

  void find_parts() {
    part_of_.assign(problem_.graph.layers.size(), 0);
    for (std::int64_t stage = 0; stage < pipeline_.stages; ++stage) {
      const model::StagePlan& plan = plan_.stages[idx(stage)];
      for (const int layer : plan.layers) part_of_[idx(layer)] = stage;
      for (std::size_t chunk = 0; chunk < plan.chunks.size(); ++chunk) {
        for (const int layer : plan.chunks[chunk]) {
          part_of_[idx(layer)] = static_cast<std::int64_t>(chunk) * pipeline_.stages + stage;
        }
      }
    }
  }

  /// What a device hands on from the parts before `part` to that one: of every layer its largest
  /// edge that goes there or beyond.
  double cut_bytes(std::int64_t part, int strategy) const {
    std::map<int, double> largest;
    for (const model::Edge& edge : problem_.graph.edges) {
      if (part_of_[idx(edge.from)] >= part || part_of_[idx(edge.to)] < part) continue;
      double& bytes = largest[edge.from];
      bytes = std::max(bytes, edge.bytes[idx(strategy)]);
    }
    double sum = 0;
    for (const auto& [layer, bytes] : largest) sum += bytes;
    return sum;
  }

  /// Bytes/s of each of `unit` devices that send over `level`.
  double rate(int level, std::int64_t unit) const {
    constexpr double kBytes = 1e12;
    return kBytes / (network_.transfer_s(2 * kBytes, level, unit) -
                     network_.transfer_s(kBytes, level, unit));
  }

  std::int64_t stage_of(std::int64_t part) const { return part % pipeline_.stages; }

  void fill_kinds() {
    const std::int64_t pods = plan_.strategy.dp_outer;
    const network::PodLayout layout{network_.devices(), pods, network_.devices() / pods};
    std::vector<Boundary> boundaries;  // by the stage before it
    for (std::int64_t stage = 0; stage < std::min(pipeline_.stages, pipeline_.parts() - 1);
         ++stage) {
      const model::StagePlan& producer = plan_.stages[idx(stage)];
      const model::StagePlan& consumer = plan_.stages[idx(stage_of(stage + 1))];
      boundaries.push_back({producer.position, consumer.position, producer.devices});
    }
    const StageLinks links(network_, layout, boundaries);
    pipeline_.has_uplinks = links.has_uplinks();
    std::map<std::vector<std::int64_t>, std::size_t> known;
    for (std::int64_t pod = 0; pod < pods; ++pod) {
      const auto [at, added] = known.emplace(links.signature(pod), pipeline_.kinds.size());
      if (added) {
        pipeline_.kinds.push_back(kind_of(links.pod(pod)));
        pipeline_.kinds.back().first_pod = pod;
      } else {
        ++pipeline_.kinds[at->second].pods;
      }
    }
  }

  PodKind kind_of(std::span<const PodBoundary> boundaries) const {
    PodKind kind;
    kind.forward.resize(idx(pipeline_.parts()));
    kind.gradient.resize(idx(pipeline_.parts()));
    Numbers numbers;
    for (std::int64_t part = 1; part < pipeline_.parts(); ++part) {
      const std::int64_t producer = stage_of(part - 1);
      const std::int64_t consumer = stage_of(part);
      const PodBoundary& at = boundaries[idx(producer)];
      Transfer& forward = kind.forward[idx(part)];
      Transfer& gradient = kind.gradient[idx(part - 1)];
      forward = transfer(part, consumer, producer, at);
      gradient = transfer(part, producer, producer, at);
      use_links(forward, producer, at.near, at.far, numbers, kind.links);
      use_links(gradient, consumer, at.far, at.near, numbers, kind.links);
    }
    return kind;
  }

  /// Over the boundary before `part`, in either direction.
  Transfer transfer(std::int64_t part, std::int64_t receiver, std::int64_t producer,
                    const PodBoundary& at) const {
    const std::int64_t unit = plan_.stages[idx(producer)].devices;
    Transfer out;
    out.level = at.level;
    out.device_bytes = cut_bytes(part, plan_.stages[idx(receiver)].strategy);
    out.pod_bytes = out.device_bytes * static_cast<double>(at.pairs);
    out.seconds = network_.transfer_s(out.device_bytes, at.level, unit);
    out.rate = rate(at.level, unit);
    out.latency_s = std::clamp(out.seconds - out.device_bytes / out.rate, 0.0, out.seconds);
    return out;
  }

  /// Links of a kind of pods by what they are: of blocks the level, the first device and the
  /// direction; of ports level 0 or -1 for all others, the stage and the direction out.
  struct LinkName {
    int level = 0;
    std::int64_t where = 0;
    bool port = false;
    bool down = false;
    auto operator<=>(const LinkName&) const = default;
  };
  using Numbers = std::map<LinkName, std::int64_t>;

  static std::int64_t number_of(const LinkName& name, const SharedLink& link, Numbers& numbers,
                                std::vector<SharedLink>& links) {
    const auto [at, added] = numbers.emplace(name, static_cast<std::int64_t>(links.size()));
    if (added) links.push_back(link);
    return at->second;
  }

  /// `out` and `in`: the blocks that the transfer from `sender` leaves and enters.
  void use_links(Transfer& transfer, std::int64_t sender, const std::vector<Crossing>& out,
                 const std::vector<Crossing>& in, Numbers& numbers,
                 std::vector<SharedLink>& links) const {
    if (transfer.seconds <= 0) return;
    const double port = rate(transfer.level, 1);
    const std::int64_t own =
        number_of({transfer.level == 0 ? 0 : -1, sender, true, false}, {port, -1}, numbers, links);
    // The port is as wide for every level; what a level leaves of it counts as used.
    transfer.uses.push_back({own, links[idx(own)].capacity / port});
    for (const bool down : {false, true}) {
      for (const Crossing& crossing : down ? in : out) {
        const double capacity =
            static_cast<double>(crossing.size) * rate(crossing.level, crossing.size);
        const std::int64_t link = number_of({crossing.level, crossing.block, false, down},
                                            {capacity, crossing.level}, numbers, links);
        transfer.uses.push_back({link, static_cast<double>(crossing.devices)});
      }
    }
  }

  const model::Problem& problem_;
  const network::Network& network_;
  const model::Plan& plan_;
  std::vector<std::int64_t> part_of_;
  Pipeline pipeline_;
};

}  // namespace

Pipeline build_pipeline(const model::Problem& problem, const network::Network& network,
                        const model::Plan& plan) {
  return Builder(problem, network, plan).build();
}

}  // namespace nestplan::simulate
