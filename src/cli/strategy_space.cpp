#include "cli/strategy_space.hpp"

#include <algorithm>
#include <numeric>

#include "nestplan/util/lists.hpp"

namespace nestplan::cli {

std::vector<std::int64_t>& list_of(model::PlanOptions& options, Degree degree) {
  const std::array<std::vector<std::int64_t>*, kDegrees> lists{&options.micro_batches,
                                                               &options.dp,
                                                               &options.pp,
                                                               &options.vpp,
                                                               &options.tp,
                                                               &options.cp,
                                                               &options.ep};
  return *lists[degree];
}

StrategyKey key_of(const model::Plan& plan, const model::Graph& graph) {
  const model::Strategy& first =
      graph.strategies[static_cast<std::size_t>(plan.stages.front().strategy)];
  return {plan.strategy.micro_batch,
          plan.strategy.dp,
          plan.strategy.pp,
          plan.strategy.vpp,
          first.tp,
          first.cp,
          first.ep};
}

StrategySpace whole_space(const model::Problem& problem) {
  const model::PlanOptions& options = problem.options;
  StrategySpace all;
  for (const model::Strategy& strategy : problem.graph.strategies) {
    all[kMicroBatch].push_back(strategy.micro_batch);
    all[kTp].push_back(strategy.tp);
    all[kCp].push_back(strategy.cp);
    all[kEp].push_back(strategy.ep);
  }
  const std::int64_t devices = problem.cluster.devices();
  for (std::int64_t dp = 1; dp <= std::min(devices, options.global_batch); ++dp) {
    if (options.allow_uneven_batch || options.global_batch % dp == 0) all[kDp].push_back(dp);
  }
  all[kPp].resize(
      std::min<std::size_t>(problem.graph.layers.size(), static_cast<std::size_t>(devices)));
  std::iota(all[kPp].begin(), all[kPp].end(), 1);
  all[kVpp] = options.vpp;
  model::PlanOptions given = options;
  for (std::size_t i = 0; i < kDegrees; ++i) {
    util::sort_unique(all[i]);
    const std::vector<std::int64_t>& wanted = list_of(given, static_cast<Degree>(i));
    if (wanted.empty()) continue;
    std::erase_if(all[i], [&](std::int64_t value) {
      return std::find(wanted.begin(), wanted.end(), value) == wanted.end();
    });
  }
  return all;
}

void restrict_to(const StrategySpace& space, model::Problem& problem) {
  for (std::size_t i = 0; i < kDegrees; ++i) {
    list_of(problem.options, static_cast<Degree>(i)) = space[i];
  }
}

}  // namespace nestplan::cli
