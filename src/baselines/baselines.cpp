#include "nestplan/baselines/baselines.hpp"

#include <algorithm>
#include <utility>

#include "baselines/search.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::baselines {
namespace {

Finding find(Method method, const Task& task) {
  const std::vector<std::int64_t>& vpp = task.problem.options.vpp;
  if (method != Method::kPhaze && std::find(vpp.begin(), vpp.end(), 1) == vpp.end()) {
    return {{}, "its stages are not interleaved, which --vpp demands"};
  }
  switch (method) {
    case Method::kManual:
      return find_manual(task);
    case Method::kMcmc:
      return find_mcmc(task);
    case Method::kPhaze:
      return find_phaze(task);
    case Method::kAlpa:
      return find_alpa(task);
    case Method::kMist:
      return find_mist(task);
  }
  throw InternalError("a method that does not exist");
}

}  // namespace

std::vector<Method> methods() {
  return {Method::kManual, Method::kMcmc, Method::kPhaze, Method::kAlpa, Method::kMist};
}

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const Method method : methods()) names.emplace_back(to_string(method));
  return names;
}

const char* to_string(Method method) {
  switch (method) {
    case Method::kManual:
      return "manual";
    case Method::kMcmc:
      return "mcmc";
    case Method::kPhaze:
      return "phaze";
    case Method::kAlpa:
      return "alpa";
    case Method::kMist:
      return "mist";
  }
  throw InternalError("a method that does not exist");
}

model::Plan find_plan(Method method, const model::Problem& problem, const network::Network& network,
                      const SearchBudget& budget) {
  const Clock clock(budget);
  Finding finding = find(method, {problem, network, budget, clock});
  model::Plan plan;
  if (finding.plan) {
    plan = std::move(*finding.plan);
  } else {
    plan.objective = problem.options.objective;
    plan.reason = std::move(finding.reason);
  }
  plan.search.seconds = clock.spent_s();
  plan.search.stopped = clock.was_over();
  plan.search.limit = std::move(finding.limit);
  return plan;
}

}  // namespace nestplan::baselines
