#include "baselines/alpa.hpp"

#include <algorithm>
#include <numeric>

#include "baselines/search.hpp"
#include "baselines/stage_costs.hpp"
#include "solver/ladder.hpp"

/// Alpa (Zheng et al., Automating Inter- and Intra-Operator Parallelism for Distributed Deep
/// Learning, OSDI 2022, arXiv 2201.12023):
///
/// - the cluster is a mesh of hosts by devices; a stage gets a submesh of section 5.2 and uses it
///   as a logical mesh of data by tensor parallelism (section 4.1);
/// - the intra-operator pass takes the fastest way to run a stage there, whatever memory it needs;
///   a reduce-scatter and an all-gather may take the place of an all-reduce, which is ZeRO's
///   sharding (section 4.2); layers are recomputed in all stages or in none;
/// - afterwards a stage is dropped if the state and the activations of the stages behind it do not
///   fit (equation 5), and stages are cut by a dynamic program (equations 2 to 4);
/// - a stage costs what it costs on the first submesh of its shape, and transfers between stages
///   cost nothing (section 7).
///
/// All stages have the same number of copies here, as the plans of this planner have, and they lie
/// one behind the other.

namespace nestplan::baselines {
namespace {

using solver::at;

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kEpsilon_s = 1e-6;

/// The dynamic program for one bound on the time of a stage.
class BoundedProgram {
 public:
  BoundedProgram(const InterOperatorProblem& problem, std::int64_t grain)
      : problem_(problem), grain_(grain), devices_(problem.devices / grain) {
    for (const std::int64_t size : problem.sizes) sizes_.push_back(size / grain);
    const auto [least, most] = std::minmax_element(sizes_.begin(), sizes_.end());
    least_ = *least;
    most_ = *most;
    depth_ = std::min<std::int64_t>(problem.layers, devices_ / least_);
    for (std::int64_t s = 0; s <= depth_; ++s) {
      layers_.emplace_back(at((problem.layers + 1) * width(s)));
    }
  }

  bool can_cover() const { return depth_ * most_ >= devices_; }
  std::int64_t depth() const { return depth_; }

  /// Least sum of stage times for each number of stages, none slower than `bound_s`. The fastest
  /// plan by sum and slowest stage; none if it is `over` before that is known.
  InterOperatorPlan solve(double bound_s, const std::function<bool()>& over) {
    for (auto& states : layers_) std::fill(states.begin(), states.end(), State{});
    state(0, problem_.layers, 0)->sum_s = 0;
    for (std::int64_t s = 1; s <= depth_; ++s) {
      for (int begin = problem_.layers - 1; begin >= 0; --begin) {
        if (over()) return {};
        extend(s, begin, bound_s);
      }
    }
    InterOperatorPlan best;
    for (std::int64_t s = 1; s <= depth_; ++s) {
      const State* whole = state(s, 0, devices_);
      if (whole == nullptr || whole->sum_s == kNever) continue;
      InterOperatorPlan plan = trace(s);
      if (plan.seconds < best.seconds) best = std::move(plan);
    }
    return best;
  }

 private:
  struct State {
    double sum_s = kNever;
    int end = 0;
    int choice = 0;
  };

  /// `s` stages have between `s·least_` and `s·most_` devices.
  std::int64_t width(std::int64_t s) const { return s * (most_ - least_) + 1; }

  State* state(std::int64_t s, int begin, std::int64_t devices) {
    const std::int64_t offset = devices - s * least_;
    if (offset < 0 || offset >= width(s)) return nullptr;
    return &layers_[at(s)][at(begin * width(s) + offset)];
  }

  void extend(std::int64_t s, int begin, double bound_s) {
    for (int end = begin + 1; end <= problem_.layers; ++end) {
      for (int choice = 0; choice < static_cast<int>(sizes_.size()); ++choice) {
        const std::size_t stage = problem_.index(begin, end, choice);
        if (problem_.seconds[stage] > bound_s || problem_.most_stages[stage] < s) continue;
        const std::int64_t first = (s - 1) * least_;
        for (std::int64_t d = first; d < first + width(s - 1); ++d) {
          const State& rest = *state(s - 1, end, d);
          if (rest.sum_s == kNever || d + sizes_[at(choice)] > devices_) continue;
          State& here = *state(s, begin, d + sizes_[at(choice)]);
          const double sum_s = rest.sum_s + problem_.seconds[stage];
          if (sum_s < here.sum_s) here = {sum_s, end, choice};
        }
      }
    }
  }

  InterOperatorPlan trace(std::int64_t s) {
    InterOperatorPlan plan;
    double slowest = 0;
    plan.seconds = state(s, 0, devices_)->sum_s;
    std::int64_t devices = devices_;
    for (int begin = 0; s > 0; --s) {
      const State& here = *state(s, begin, devices);
      plan.stages.push_back({begin, here.end, here.choice});
      slowest = std::max(slowest, problem_.seconds[problem_.index(begin, here.end, here.choice)]);
      devices -= sizes_[at(here.choice)];
      begin = here.end;
    }
    plan.seconds += static_cast<double>(problem_.microbatches - 1) * slowest;
    return plan;
  }

  const InterOperatorProblem& problem_;
  std::int64_t grain_;    ///< devices that all stages have a multiple of
  std::int64_t devices_;  ///< in grains, as all that follow
  std::vector<std::int64_t> sizes_;
  std::int64_t least_ = 1;
  std::int64_t most_ = 1;
  std::int64_t depth_ = 1;
  std::vector<std::vector<State>> layers_;  ///< by stages: (first layer, devices)
};

/// Alpa's choices for one configuration of copies and micro-batches.
class InterOperatorPass {
 public:
  InterOperatorPass(StageCosts& costs, const Mesh& mesh) : costs_(costs) {
    problem_.layers = costs.layers();
    problem_.devices = mesh.devices();
    problem_.microbatches = costs.configuration().microbatches;
    const std::vector<Submesh> shapes = submeshes(mesh);
    for (int choice = 0; choice < costs.choices(); ++choice) {
      const auto has_size = [&](const Submesh& shape) {
        return shape.devices() == costs.devices(choice);
      };
      if (std::none_of(shapes.begin(), shapes.end(), has_size)) continue;
      problem_.sizes.push_back(costs.devices(choice));
      choices_.push_back(choice);
    }
  }

  /// No stage size, or no number of stages, uses all devices.
  bool hopeless() const {
    if (choices_.empty()) return true;
    std::int64_t grain = 0;
    for (const std::int64_t size : problem_.sizes) grain = std::gcd(grain, size);
    const std::int64_t most = *std::max_element(problem_.sizes.begin(), problem_.sizes.end());
    return problem_.devices % grain != 0 || most * problem_.layers < problem_.devices;
  }

  struct Result {
    double seconds = kNever;
    RowPlan plan;
  };

  /// Nothing faster if the time is up on the way.
  Result run(model::Recompute recompute, double better_than_s, const Clock& clock) {
    if (!profile(recompute, clock)) return {};
    const InterOperatorPlan found =
        cut_into_stages(problem_, better_than_s, [&clock] { return clock.over(); });
    Result result{found.seconds, {costs_.configuration().dp, costs_.configuration().dp_inner, {}}};
    for (const MeshStage& stage : found.stages) {
      const StageOption option = *fastest(stage.begin, stage.end, stage.choice, recompute);
      result.plan.stages.push_back({stage.begin, stage.end,
                                    costs_.strategy(choices_[at(stage.choice)]), option.recompute,
                                    option.shard.zero, option.shard.span});
    }
    return result;
  }

 private:
  /// The intra-operator pass: the fastest way, and of equally fast ones that with most room.
  std::optional<StageOption> fastest(int begin, int end, int choice, model::Recompute recompute) {
    std::optional<StageOption> best;
    for (const StageOption& option : costs_.options(choices_[at(choice)], begin, end)) {
      if (option.recompute != recompute) continue;
      const auto key = [&](const StageOption& o) {
        return std::pair(per_microbatch_s(o), -o.most_in_flight);
      };
      if (!best || key(option) < key(*best)) best = option;
    }
    return best;
  }

  double per_microbatch_s(const StageOption& option) const {
    return option.stable_s + option.once_s / static_cast<double>(problem_.microbatches);
  }

  /// False if the time was up before all stages were profiled.
  bool profile(model::Recompute recompute, const Clock& clock) {
    const int layers = problem_.layers;
    const std::size_t stages = at(layers) * at(layers) * choices_.size();
    problem_.seconds.assign(stages, kNever);
    problem_.most_stages.assign(stages, 0);
    for (int begin = 0; begin < layers; ++begin) {
      for (int end = begin + 1; end <= layers; ++end) {
        if (clock.over()) return false;
        for (int choice = 0; choice < static_cast<int>(choices_.size()); ++choice) {
          const std::optional<StageOption> option = fastest(begin, end, choice, recompute);
          if (!option) continue;
          const std::size_t stage = problem_.index(begin, end, choice);
          problem_.seconds[stage] = per_microbatch_s(*option);
          problem_.most_stages[stage] = most_stages(option->most_in_flight);
        }
      }
    }
    return true;
  }

  std::int64_t most_stages(std::int64_t most_in_flight) const {
    std::int64_t stages = 0;
    while (stages < problem_.layers && costs_.in_flight(stages + 1) <= most_in_flight) ++stages;
    return stages;
  }

  StageCosts& costs_;
  InterOperatorProblem problem_;
  std::vector<int> choices_;  ///< of the costs: those whose stages fill a submesh
};

}  // namespace

std::vector<Submesh> submeshes(const Mesh& mesh) {
  std::vector<Submesh> shapes;
  for (std::int64_t size = 1; size < mesh.per_host; size *= 2) {
    if (mesh.per_host % size == 0) shapes.push_back({1, size});
  }
  for (std::int64_t hosts = 1; hosts <= mesh.hosts; ++hosts) {
    shapes.push_back({hosts, mesh.per_host});
  }
  return shapes;
}

InterOperatorPlan cut_into_stages(const InterOperatorProblem& problem, double better_than_s,
                                  const std::function<bool()>& over) {
  std::int64_t grain = 0;
  for (const std::int64_t size : problem.sizes) grain = std::gcd(grain, size);
  InterOperatorPlan best;
  best.seconds = better_than_s;
  BoundedProgram program(problem, grain);
  if (problem.devices % grain != 0 || !program.can_cover()) return {};
  std::vector<double> bounds = problem.seconds;
  std::sort(bounds.begin(), bounds.end());
  const auto rounds = static_cast<double>(problem.microbatches);
  double last = -kNever;
  for (const double bound : bounds) {
    if (bound == kNever || bound * rounds >= best.seconds || over()) break;
    if (bound - last < kEpsilon_s) continue;
    last = bound;
    InterOperatorPlan plan = program.solve(bound, over);
    if (plan.seconds < best.seconds) best = std::move(plan);
  }
  return best.stages.empty() ? InterOperatorPlan{} : best;
}

Finding find_alpa(const Task& task) {
  const solver::Instance instance(task.problem, task.network,
                                  solver::row_lattice(task.problem.graph));
  const std::vector<int> row = model::topological_order(task.problem.graph);
  const Mesh mesh = mesh_of(task.problem.cluster);
  solver::ClassCache cache(instance);
  std::vector<InterOperatorPass::Result> improvements;
  double best_s = kNever;
  for (const solver::Configuration& configuration : solver::ConfigurationSpace(instance).list()) {
    if (task.clock.over()) break;
    if (configuration.dp_inner != configuration.dp || configuration.vpp != 1) continue;
    StageCosts costs(instance, configuration, cache);
    InterOperatorPass pass(costs, mesh);
    if (pass.hopeless()) continue;
    for (const model::Recompute recompute : task.problem.options.recompute) {
      InterOperatorPass::Result result = pass.run(recompute, best_s, task.clock);
      if (result.plan.stages.empty()) continue;
      best_s = result.seconds;
      improvements.push_back(std::move(result));
    }
  }
  Finding finding{{}, "no submeshes of the cluster hold the stages"};
  for (auto it = improvements.rbegin(); it != improvements.rend(); ++it) {
    finding.plan = judge(task, placed(it->plan, row, task.problem.graph));
    if (finding.plan->status != model::Status::kInfeasible) break;
  }
  return finding;
}

}  // namespace nestplan::baselines
