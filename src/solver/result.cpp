#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/util/errors.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {
namespace {

constexpr double kAgreement = 1e-9;
constexpr const char* kStoppedEarly = "stopped before any plan was found";

/// The judge's word on what the search found. A plan of a search that was stopped may be better
/// than what it was offered for: of a bottleneck only, say.
model::Plan judge(const Instance& instance, const SearchResult& result) {
  model::Plan plan = cost::evaluate(instance.problem(), instance.network(), *result.plan);
  const double claimed = instance.scale().seconds(result.total);
  if (plan.status == model::Status::kInfeasible) {
    throw InternalError("the evaluator rejects the plan of the search: " + plan.reason);
  }
  const double off = plan.iteration_time_s - claimed;
  if ((result.complete ? std::abs(off) : off) > kAgreement * std::abs(claimed)) {
    throw InternalError(fmt::format("the search claims {} s for a plan that takes {} s", claimed,
                                    plan.iteration_time_s));
  }
  return plan;
}

}  // namespace

std::optional<Lattice> enumerate(const model::Graph& graph, const std::function<bool()>& stop) {
  try {
    return Lattice::enumerate(graph, Lattice::kDefaultMax, stop);
  } catch (const lattice::Interrupted&) {
    return std::nullopt;
  }
}

model::Plan stopped_at_once(const model::Problem& problem, double seconds) {
  model::Plan plan;
  plan.objective = problem.options.objective;
  plan.reason = kStoppedEarly;
  plan.search.seconds = seconds;
  plan.search.stopped = true;
  return plan;
}

void check_options(const model::PlanOptions& options) {
  if (options.global_batch < 1) {
    throw InvalidConfig("the global batch must be at least 1 sequence");
  }
  if (options.recompute.empty()) throw InvalidConfig("no kind of recomputation is allowed");
  if (options.zero.empty()) throw InvalidConfig("no ZeRO stage is allowed");
}

model::Plan to_plan(const Instance& instance, const SearchResult& result, bool explain) {
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
    if (!result.complete) {
      plan.reason = kStoppedEarly;
    } else if (explain) {
      Infeasibility why = explain_infeasible(instance);
      plan.reason = std::move(why.reason);
      plan.shortfall = why.shortfall;
    }
  }
  plan.search = result.stats;
  plan.search.stopped = !result.complete;
  return plan;
}

}  // namespace nestplan::solver
