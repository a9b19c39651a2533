#include "nestplan/solver/solver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/util/errors.hpp"
#include "solver/fleet.hpp"
#include "solver/interleaved.hpp"
#include "solver/partial_plan.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {
namespace {

/// Whether the stages fit into a pod and have their expert groups.
bool legal_by_form(const model::Problem& problem, const network::Network& network,
                   const cost::PlacedPlan& plan) {
  const std::int64_t pods = plan.dp / plan.dp_inner;
  std::int64_t end = 0;
  for (const cost::PlacedStage& stage : plan.stages) {
    const model::Strategy& strategy = problem.graph.strategies[at(stage.strategy)];
    if (stage.position < end || !expert_groups_fit(strategy, plan.dp_inner, pods)) return false;
    end = stage.position + strategy.tp * strategy.cp * plan.dp_inner;
  }
  return end <= network.devices() / pods;
}

/// Every choice that `partial` leaves open, made so that the plan is legal but for its memory, if
/// that can be, and needs little of it: what is shown when nothing fits.
cost::PlacedPlan nearest(const model::Problem& problem, const network::Network& network,
                         const model::PartialPlan& partial) {
  cost::PlacedPlan plan = one_behind_another(problem, partial, partial.dp_inner.value_or(1));
  for (std::int64_t inner = 2; !partial.dp_inner && inner <= partial.dp; ++inner) {
    if (legal_by_form(problem, network, plan)) break;
    if (partial.dp % inner != 0) continue;
    cost::PlacedPlan other = one_behind_another(problem, partial, inner);
    if (legal_by_form(problem, network, other)) plan = std::move(other);
  }
  // Stage by stage the option that needs least, by the evaluator's own account.
  const auto memory = [&](std::size_t i) {
    return cost::evaluate(problem, network, plan).stages[i].memory;
  };
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    cost::PlacedStage best = plan.stages[i];
    const model::StageMemory given = memory(i);
    if (given.total_bytes <= given.limit_bytes) continue;
    double least = given.total_bytes;
    for (const model::Recompute recompute : problem.options.recompute) {
      for (const int zero : problem.options.zero) {
        for (const model::ShardSpan span : problem.options.shard) {
          plan.stages[i].recompute = partial.stages[i].recompute.value_or(recompute);
          plan.stages[i].zero = partial.stages[i].zero.value_or(zero);
          plan.stages[i].shard = partial.stages[i].shard.value_or(span);
          if (const double now = memory(i).total_bytes; now < least) {
            least = now;
            best = plan.stages[i];
          }
        }
      }
    }
    plan.stages[i] = best;
  }
  return plan;
}

}  // namespace

model::Plan solve(const model::Problem& problem, const network::Network& network,
                  const SearchSettings& settings) {
  SoloFleet fleet;
  return *solve(problem, network, settings, fleet);
}

model::Plan complete(const model::Problem& problem, const network::Network& network,
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
  options.vpp = {1};
  options.stages = {};
  options.target = "any";
  if (is_interleaved(partial)) return complete_interleaved(restricted, network, partial);
  std::vector<std::vector<int>> layers;
  std::vector<int> strategies;
  std::vector<StageRule> rules;
  for (const model::PartialStage& stage : partial.stages) {
    layers.push_back(stage.layers);
    strategies.push_back(stage.strategy);
    rules.push_back(rule_of(stage, options));
  }
  options.micro_batches = {problem.graph.strategies[at(strategies.front())].micro_batch};
  const Lattice lattice = Lattice::of_chain(restricted.graph, layers);
  double horizon_s = 0;
  constexpr int kMostAttempts = 4;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Instance instance(restricted, network, lattice, true, horizon_s);
    instance.fix_stages(strategies, rules);
    SoloTeam team;
    LocalBoard board;
    const SearchSettings settings;
    Search search(instance, settings, {team, board, 0}, kNoTotal);
    const SearchResult result = search.finish(search.meet(search.run()));
    horizon_s = result.better_horizon_s;
    if (horizon_s != 0) continue;
    if (result.plan) return to_plan(instance, result);
    model::Plan plan = cost::evaluate(restricted, network, nearest(restricted, network, partial));
    if (plan.status != model::Status::kInfeasible) {
      throw InternalError("the evaluator accepts a plan that the search calls infeasible");
    }
    plan.search = result.stats;
    return plan;
  }
  throw InternalError("no size of tick suits this plan");
}

}  // namespace nestplan::solver
