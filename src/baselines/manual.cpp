#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "baselines/row.hpp"
#include "baselines/search.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/lists.hpp"

/// What Megatron-LM's authors tell users to do (Narayanan et al., Efficient Large-Scale Language
/// Model Training on GPU Clusters, SC 2021, arXiv 2104.04473, section 3):
///
/// - takeaway 1: tensor parallelism up to the devices of a host, then pipeline parallelism;
/// - takeaway 2: as little of both together as makes the model fit, data parallelism for the rest;
/// - takeaway 3: the micro-batch is tried out.
///
/// Of activation recomputation the least that fits (Korthikanti et al., Reducing Activation
/// Recomputation in Large Transformer Models, MLSys 2023, arXiv 2205.05198, sections 4 and 5). The
/// stages have equally many transformer layers, as the framework's own `--pipeline-model-parallel-
/// size` makes them; ranks are numbered tensor, then data, then pipeline (section 4). Experts are
/// split over as many devices of a host as there are beside tensor parallelism (the guidelines of
/// megatron/core/transformer/moe/README.md in NVIDIA/Megatron-LM). The recipe has no sharded
/// optimizer, and it does not look at the network beyond the host.

namespace nestplan::baselines {
namespace {

using util::idx;

class Recipe {
 public:
  explicit Recipe(const Task& task)
      : task_(task),
        graph_(task.problem.graph),
        row_(model::topological_order(graph_)),
        mesh_(mesh_of(task.problem.cluster)) {}

  Finding follow() {
    for (const auto& [tp, stages] : model_parallel_shapes()) {
      if (task_.clock.over()) break;
      best_.reset();
      for (const std::int64_t micro_batch : micro_batches()) try_shape(tp, stages, micro_batch);
      if (best_) return {std::move(best_), ""};
    }
    if (nearest_) return {std::move(nearest_), ""};
    return {{}, "no degree of tensor and pipeline parallelism suits batch and devices"};
  }

 private:
  using Shape = std::pair<std::int64_t, std::int64_t>;  ///< tensor parallelism, stages

  /// By takeaway 1. With experts, which would rather be split by expert than by tensor parallelism,
  /// the least of the latter that fits.
  std::vector<Shape> model_parallel_shapes() const {
    std::vector<std::int64_t> tps;
    for (const int k : offered_strategies(task_.problem)) tps.push_back(strategy(k).tp);
    util::sort_unique(tps);
    std::erase_if(tps, [&](std::int64_t tp) { return tp > mesh_.per_host && tp != tps.front(); });
    std::vector<Shape> shapes;
    for (const std::int64_t tp : tps) shapes.emplace_back(tp, 1);
    if (!has_experts() && !tps.empty()) tps = {tps.back()};
    for (std::int64_t stages = 2; stages <= std::ssize(row_); ++stages) {
      for (const std::int64_t tp : tps) shapes.emplace_back(tp, stages);
    }
    std::erase_if(shapes, [&](const Shape& shape) {
      return shape.first * shape.second > task_.network.devices() ||
             !allowed(task_.problem.options.pp, shape.second) || cuts(shape.second).empty();
    });
    return shapes;
  }

  bool has_experts() const {
    return std::any_of(graph_.strategies.begin(), graph_.strategies.end(),
                       [](const model::Strategy& s) { return s.ep > 1; });
  }

  /// Where stages begin that have equally many counted layers; nothing if they cannot. Where the
  /// graph does not tell which layers count, some may have one more.
  std::vector<int> cuts(std::int64_t stages) const {
    const std::int64_t counted = model::counted_layers(graph_);
    const bool all_alike = counted == std::ssize(row_) || counted == 0;
    const std::int64_t layers = all_alike ? std::ssize(row_) : counted;
    if (stages > layers || (!all_alike && layers % stages != 0)) return {};
    std::vector<int> begins{0};
    std::int64_t before = 0;
    for (int i = 0; i < static_cast<int>(row_.size()); ++i) {
      if (!all_alike && !graph_.layers[idx(row_[idx(i)])].counted) continue;
      const auto stage = std::ssize(begins);
      if (stage < stages && before == layers * stage / stages && before > 0) begins.push_back(i);
      ++before;
    }
    return begins;
  }

  std::vector<std::int64_t> micro_batches() const {
    std::vector<std::int64_t> sizes;
    for (const int k : offered_strategies(task_.problem)) sizes.push_back(strategy(k).micro_batch);
    return util::sorted_unique(std::move(sizes));
  }

  /// Strategies of one tensor parallelism: the least context parallelism, experts split as far as a
  /// host reaches, before those that are split less.
  std::vector<int> strategies(std::int64_t tp, std::int64_t micro_batch) const {
    std::vector<int> chosen;
    for (const int k : offered_strategies(task_.problem)) {
      const model::Strategy& s = strategy(k);
      const bool in_host = s.ep * s.tp <= std::max(mesh_.per_host, s.tp);
      if (s.tp == tp && s.micro_batch == micro_batch && in_host) chosen.push_back(k);
    }
    std::stable_sort(chosen.begin(), chosen.end(), [&](int a, int b) {
      const auto key = [&](const model::Strategy& s) { return std::tuple(s.cp, -s.ep, s.etp); };
      return key(strategy(a)) < key(strategy(b));
    });
    return chosen;
  }

  void try_shape(std::int64_t tp, std::int64_t stages, std::int64_t micro_batch) {
    for (const int k : strategies(tp, micro_batch)) {
      const std::int64_t most =
          task_.network.devices() / (model_parallel_size(strategy(k)) * stages);
      const std::vector<std::int64_t> copies = copy_counts(task_.problem, micro_batch, most);
      if (copies.empty()) continue;
      for (const model::Recompute recompute : task_.problem.options.recompute) {
        if (try_plan(k, stages, copies.back(), recompute)) return;
      }
    }
  }

  bool try_plan(int k, std::int64_t stages, std::int64_t copies, model::Recompute recompute) {
    RowPlan plan{copies, inner_copies(copies), {}};
    if (plan.dp_inner == 0) return false;
    const std::vector<int> begins = cuts(stages);
    for (std::size_t s = 0; s < begins.size(); ++s) {
      const int end = s + 1 < begins.size() ? begins[s + 1] : static_cast<int>(row_.size());
      plan.stages.push_back({begins[s], end, k, recompute, task_.problem.options.zero.front(),
                             task_.problem.options.shard.front()});
    }
    if (!has_costs(k)) return false;
    model::Plan judged = judge(task_, placed(plan, row_, graph_));
    if (judged.status == model::Status::kInfeasible) {
      nearest_ = std::move(judged);
      return false;
    }
    if (!best_ || judged.iteration_time_s < best_->iteration_time_s) best_ = std::move(judged);
    return true;
  }

  /// All copies side by side; where that is not allowed, the most that may be.
  std::int64_t inner_copies(std::int64_t copies) const {
    for (std::int64_t inner = copies; inner >= 1; --inner) {
      if (copies % inner == 0 && allowed(task_.problem.options.dp_inner, inner)) return inner;
    }
    return 0;
  }

  bool has_costs(int k) const {
    return std::all_of(graph_.layers.begin(), graph_.layers.end(),
                       [k](const model::Layer& layer) { return layer.costs[idx(k)].has_value(); });
  }

  const model::Strategy& strategy(int k) const { return graph_.strategies[idx(k)]; }

  const Task& task_;
  const model::Graph& graph_;
  std::vector<int> row_;
  Mesh mesh_;
  std::optional<model::Plan> best_;     ///< of the shape in turn
  std::optional<model::Plan> nearest_;  ///< the last that did not fit: of the largest shape
};

}  // namespace

Finding find_manual(const Task& task) { return Recipe(task).follow(); }

}  // namespace nestplan::baselines
