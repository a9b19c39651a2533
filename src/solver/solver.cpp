#include "nestplan/solver/solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/util/errors.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {
namespace {

constexpr double kAgreement = 1e-9;

void check_options(const model::PlanOptions& options) {
  if (options.global_batch < 1) {
    throw InvalidConfig("the global batch must be at least 1 sequence");
  }
  if (options.recompute.empty()) throw InvalidConfig("no kind of recomputation is allowed");
  if (options.zero.empty()) throw InvalidConfig("no ZeRO stage is allowed");
}

/// The judge's word on what the search found.
model::Plan judge(const Instance& instance, const SearchResult& result) {
  model::Plan plan = cost::evaluate(instance.problem(), instance.network(), *result.plan);
  const double claimed = instance.scale().seconds(result.total);
  if (plan.status == model::Status::kInfeasible) {
    throw InternalError("the evaluator rejects the plan of the search: " + plan.reason);
  }
  if (std::abs(plan.iteration_time_s - claimed) > kAgreement * std::abs(claimed)) {
    throw InternalError(fmt::format("the search claims {} s for a plan that takes {} s", claimed,
                                    plan.iteration_time_s));
  }
  return plan;
}

model::Plan finish(const Instance& instance, const SearchResult& result) {
  model::Plan plan;
  if (result.plan) {
    plan = judge(instance, result);
    const double lower_bound = instance.scale().seconds(result.lower_bound);
    const bool optimal = result.lower_bound >= result.total;
    plan.status = optimal ? model::Status::kOptimal : model::Status::kFeasible;
    plan.lower_bound_s =
        optimal ? plan.iteration_time_s : std::min(lower_bound, plan.iteration_time_s);
    plan.gap = plan.iteration_time_s > 0
                   ? (plan.iteration_time_s - plan.lower_bound_s) / plan.iteration_time_s
                   : 0;
  } else {
    plan.status = model::Status::kInfeasible;
    plan.objective = instance.options().objective;
    plan.lower_bound_s = instance.scale().seconds(result.lower_bound);
    plan.reason =
        result.complete ? explain_infeasible(instance) : "stopped before any plan was found";
  }
  plan.search = result.stats;
  return plan;
}

/// Every choice that `partial` leaves open, made so that the plan needs little memory: what is
/// shown when nothing fits.
cost::PlacedPlan nearest(const model::Problem& problem, const cost::Network& network,
                         const model::PartialPlan& partial) {
  cost::PlacedPlan plan;
  plan.dp = partial.dp;
  plan.dp_inner = partial.dp_inner.value_or(1);
  std::int64_t next = 0;
  for (const model::PartialStage& stage : partial.stages) {
    const model::Strategy& strategy = problem.graph.strategies[at(stage.strategy)];
    cost::PlacedStage placed{stage.layers, stage.strategy, stage.position.value_or(next),
                             stage.recompute.value_or(model::Recompute::kNone),
                             stage.zero.value_or(0)};
    next = placed.position + strategy.tp * strategy.cp * plan.dp_inner;
    plan.stages.push_back(std::move(placed));
  }
  // Stage by stage the option that needs least, by the evaluator's own account.
  const auto bytes = [&](std::size_t i) {
    return cost::evaluate(problem, network, plan).stages[i].memory.total_bytes;
  };
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    cost::PlacedStage best = plan.stages[i];
    double least = bytes(i);
    if (least <= std::floor(problem.cluster.device.usable_bytes())) continue;
    for (const model::Recompute recompute : problem.options.recompute) {
      for (const int zero : problem.options.zero) {
        plan.stages[i].recompute = partial.stages[i].recompute.value_or(recompute);
        plan.stages[i].zero = partial.stages[i].zero.value_or(zero);
        if (const double now = bytes(i); now < least) {
          least = now;
          best = plan.stages[i];
        }
      }
    }
    plan.stages[i] = best;
  }
  return plan;
}

}  // namespace

model::Plan solve(const model::Problem& problem, const cost::Network& network,
                  const SearchSettings& settings) {
  check_options(problem.options);
  const Instance instance(problem, network, Lattice::enumerate(problem.graph), settings.collapse);
  SoloTeam team;
  LocalBoard board;
  return finish(instance, Search(instance, settings, team, board).run());
}

model::Plan complete(const model::Problem& problem, const cost::Network& network,
                     const model::PartialPlan& partial) {
  check_options(problem.options);
  if (partial.stages.empty()) throw InvalidInput("the plan has no stages");
  model::Problem restricted = problem;
  model::PlanOptions& options = restricted.options;
  if (partial.schedule) options.schedule = *partial.schedule;
  options.dp = {partial.dp};
  options.dp_inner.clear();
  if (partial.dp_inner) options.dp_inner = {*partial.dp_inner};
  options.tp.clear();
  options.cp.clear();
  options.ep.clear();
  options.pp.clear();
  options.per_stage_strategies = true;
  std::vector<std::vector<int>> layers;
  std::vector<int> strategies;
  std::vector<StageRule> rules;
  for (const model::PartialStage& stage : partial.stages) {
    layers.push_back(stage.layers);
    strategies.push_back(stage.strategy);
    StageRule rule{options.recompute, options.zero, stage.position.value_or(-1)};
    if (stage.recompute) rule.recompute = {*stage.recompute};
    if (stage.zero) rule.zero = {*stage.zero};
    rules.push_back(std::move(rule));
  }
  options.micro_batches = {problem.graph.strategies[at(strategies.front())].micro_batch};
  Instance instance(restricted, network, Lattice::of_chain(restricted.graph, layers));
  instance.fix_stages(strategies, std::move(rules));
  SoloTeam team;
  LocalBoard board;
  const SearchSettings settings;
  const SearchResult result = Search(instance, settings, team, board).run();
  if (!result.plan) {
    model::Plan plan = cost::evaluate(restricted, network, nearest(restricted, network, partial));
    if (plan.status != model::Status::kInfeasible) {
      throw InternalError("the evaluator accepts a plan that the search calls infeasible");
    }
    plan.search = result.stats;
    return plan;
  }
  return finish(instance, result);
}

}  // namespace nestplan::solver
