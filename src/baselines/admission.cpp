#include <algorithm>
#include <tuple>

#include "baselines/search.hpp"
#include "solver/placement.hpp"
#include "solver/rules.hpp"

namespace nestplan::baselines {
namespace {

using solver::at;

template <typename Value>
bool among(const std::vector<Value>& list, const Value& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

template <typename Value>
bool among_or_free(const std::vector<Value>& list, const Value& value) {
  return list.empty() || among(list, value);
}

const model::Strategy& strategy_of(const model::Problem& problem, const cost::PlacedStage& stage) {
  return problem.graph.strategies[at(stage.strategy)];
}

/// Whether the lists of the options hold what a stage does.
bool offers(const model::Problem& problem, const cost::PlacedStage& stage) {
  const model::PlanOptions& options = problem.options;
  const model::Strategy& strategy = strategy_of(problem, stage);
  return among_or_free(options.micro_batches, strategy.micro_batch) &&
         among_or_free(options.tp, strategy.tp) && among_or_free(options.cp, strategy.cp) &&
         among_or_free(options.ep, strategy.ep) && among(options.recompute, stage.recompute) &&
         among(options.zero, stage.zero) && (stage.zero == 0 || among(options.shard, stage.shard));
}

bool offers(const model::Problem& problem, const cost::PlacedPlan& plan) {
  const model::PlanOptions& options = problem.options;
  const auto stages = static_cast<std::int64_t>(plan.stages.size());
  const auto chunks = std::max<std::int64_t>(1, std::ssize(plan.stages.front().chunks));
  if (!among(options.vpp, chunks) || !among_or_free(options.pp, stages) ||
      !among_or_free(options.dp, plan.dp) || !among_or_free(options.dp_inner, plan.dp_inner)) {
    return false;
  }
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const cost::PlacedStage& stage) {
    return offers(problem, stage) &&
           (options.per_stage_strategies || stage.strategy == plan.stages.front().strategy);
  });
}

/// What the rules of the target look at beside a stage.
solver::Configuration configuration_of(const Task& task, const cost::PlacedPlan& plan) {
  solver::Configuration configuration;
  configuration.micro_batch = strategy_of(task.problem, plan.stages.front()).micro_batch;
  configuration.dp = plan.dp;
  configuration.dp_inner = plan.dp_inner;
  const std::int64_t step = plan.dp * configuration.micro_batch;
  configuration.microbatches = (task.problem.options.global_batch + step - 1) / step;
  const std::int64_t pods = plan.dp / plan.dp_inner;
  configuration.pods = {task.network.devices(), pods, task.network.devices() / pods};
  return configuration;
}

/// Whether the framework that is to run the plan can.
bool obeys_target(const Task& task, const solver::Rules& rules, const cost::PlacedPlan& plan) {
  const solver::Configuration configuration = configuration_of(task, plan);
  const auto depth = static_cast<std::int64_t>(plan.stages.size());
  const cost::PlacedStage& first = plan.stages.front();
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const cost::PlacedStage& stage) {
    const model::Strategy& s = strategy_of(task.problem, stage);
    const bool alike = (!rules.same_strategy() || stage.strategy == first.strategy) &&
                       (!rules.same_recompute() || stage.recompute == first.recompute) &&
                       (!rules.same_shard() ||
                        std::tie(stage.zero, stage.shard) == std::tie(first.zero, first.shard));
    return alike && rules.broken_by(s) == nullptr && rules.broken_by(configuration, s) == nullptr &&
           rules.broken_by_depth(configuration, s, depth) == nullptr &&
           rules.broken_by_stage(configuration, s, depth, stage.recompute,
                                 {stage.zero, stage.shard}) == nullptr;
  });
}

/// What stages in the middle hold of counted layers, where the rules want that to be the same.
std::int64_t middle_of(const solver::Instance& instance, std::int64_t depth) {
  using Layout = model::StageConstraints::Layout;
  const auto counted = [&](std::int64_t from_end) {
    const auto outer = static_cast<solver::DownsetId>(from_end);
    return instance.counted(outer) - instance.counted(outer - 1);
  };
  switch (instance.rules().layout()) {
    case Layout::kAny:
      return -1;
    case Layout::kFirstLast:
      return depth > 2 ? counted(2) : 0;
    case Layout::kEven:
      return counted(1);
  }
  return -1;
}

/// Whether no group of a stage leaves the domain that it has to stay in.
bool stays_inside(const solver::Instance& instance, solver::Configuration configuration,
                  const cost::PlacedPlan& plan) {
  for (const cost::PlacedStage& stage : plan.stages) {
    if (!among(configuration.strategies, stage.strategy)) {
      configuration.strategies.push_back(stage.strategy);
    }
  }
  configuration.max_depth = static_cast<std::int64_t>(plan.stages.size());
  solver::ClassCache cache(instance);
  const solver::Placement placement(instance, configuration, cache);
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const cost::PlacedStage& stage) {
    int position = 0;
    while (placement.position(position) != stage.position) ++position;
    const auto choice = std::find(configuration.strategies.begin(), configuration.strategies.end(),
                                  stage.strategy) -
                        configuration.strategies.begin();
    const int of = static_cast<int>(choice);
    return placement.classes(of)[at(placement.class_of(of, position))]->allowed;
  });
}

/// Whether the rules on stages and places admit every stage.
bool obeys_constraints(const Task& task, const cost::PlacedPlan& plan) {
  std::vector<std::vector<int>> layers;
  for (const cost::PlacedStage& stage : plan.stages) layers.push_back(stage.layers);
  const solver::Instance instance(task.problem, task.network,
                                  solver::Lattice::of_chain(task.problem.graph, layers));
  const auto depth = static_cast<std::int64_t>(plan.stages.size());
  const std::int64_t middle = middle_of(instance, depth);
  for (std::int64_t from_end = depth; from_end >= 1; --from_end) {
    const auto outer = static_cast<solver::DownsetId>(from_end);
    const std::int64_t pinned = instance.pinned_position(from_end);
    if (instance.admits(outer, outer - 1, middle) != solver::Verdict::kAdmitted ||
        !instance.admits_place(outer, outer - 1, from_end) ||
        (pinned >= 0 && pinned != plan.stages[at(depth - from_end)].position)) {
      return false;
    }
  }
  return task.problem.options.stages.confined.empty() ||
         stays_inside(instance, configuration_of(task, plan), plan);
}

}  // namespace

bool admitted(const Task& task, const cost::PlacedPlan& plan) {
  if (!offers(task.problem, plan)) return false;
  const solver::Rules rules(task.problem);
  if (!obeys_target(task, rules, plan)) return false;
  const model::StageConstraints& constraints = task.problem.options.stages;
  const bool free = constraints.none_but_layout() && constraints.confined.empty() &&
                    rules.layout() == model::StageConstraints::Layout::kAny;
  return free || obeys_constraints(task, plan);
}

model::Plan judge(const Task& task, const cost::PlacedPlan& plan) {
  model::Plan judged = cost::evaluate(task.problem, task.network, plan);
  if (judged.status == model::Status::kInfeasible || admitted(task, plan)) return judged;
  judged.status = model::Status::kInfeasible;
  judged.reason = "the restrictions and rules on plans exclude it";
  return judged;
}

}  // namespace nestplan::baselines
