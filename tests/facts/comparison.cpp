#include "facts/comparison.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::facts {
namespace {

using Choices = std::vector<std::pair<std::string, std::string>>;

/// The choices of a plan by name, in the order in which they are told.
Choices choices(const Solved& solved) {
  const model::PlanStrategy& s = solved.plan.strategy;
  const model::StagePlan& first = solved.plan.stages.front();
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::int64_t frameworks_ep =
      solved.experts ? solved.strategy.ep * solved.strategy.tp / solved.strategy.etp : 1;
  return {{"tp", text(solved.strategy.tp)},
          {"cp", text(solved.strategy.cp)},
          {"ep", text(frameworks_ep)},
          {"pp", text(s.pp)},
          {"vpp", text(s.vpp)},
          {"micro-batch", text(s.micro_batch)},
          {"zero", text(first.zero)},
          {"recompute", model::to_string(first.recompute)},
          {"dp-inner", text(s.dp_inner)}};
}

std::string differences(const Choices& from, const Choices& to) {
  std::string text;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].second == to[i].second) continue;
    if (!text.empty()) text += ", ";
    text += from[i].first + " " + from[i].second + " -> " + to[i].second;
  }
  return text;
}

/// A part of the iteration time.
struct Item {
  const char* name;
  double seconds = 0;
  bool communication = false;
};
using Items = std::array<Item, 6>;

Items items(const model::TimeSplit& split) {
  return {{{"compute", split.compute_s},
           {"recomputation", split.recompute_s},
           {"tp/cp/ep", split.collective_s, true},
           {"pipeline", split.pipeline_s, true},
           {"bubble", split.bubble_s},
           {"data parallel", split.data_parallel_s, true}}};
}

std::size_t largest_gain(const Items& before, const Items& after) {
  const auto gain = [&](std::size_t i) { return before[i].seconds - after[i].seconds; };
  std::size_t most = 0;
  for (std::size_t i = 1; i < before.size(); ++i) {
    if (gain(i) > gain(most)) most = i;
  }
  return most;
}

/// All communication is paid in full in the model, where frameworks hide much of it behind the
/// computation. DeepEP and HybridEP (deepseek-ai/DeepEP, README.md) moreover send a token once into
/// every NVLink domain, however many of its experts are there.
std::string caveat(const BridgeRecipe& recipe, const Item& item, bool expert_parallel) {
  if (!item.communication) return "";
  const bool experts = item.name == std::string("tp/cp/ep") && expert_parallel;
  if (experts && !recipe.dispatcher.empty()) {
    return "; the model has no " + recipe.dispatcher + " and hides nothing behind the computation";
  }
  return "; the model hides nothing behind the computation";
}

}  // namespace

Solved solve(const model::Problem& problem) {
  const std::unique_ptr<network::Network> network = network::make_network(problem.cluster);
  Solved solved;
  solved.plan = solver::solve(problem, *network);
  solved.experts = problem.graph.dimensions.experts > 0;
  if (solved.plan.stages.empty()) return solved;
  const int strategy = solved.plan.stages.front().strategy;
  solved.strategy = problem.graph.strategies[static_cast<std::size_t>(strategy)];
  return solved;
}

std::string explanation(const BridgeRecipe& recipe, const Solved& theirs, const Solved& ours) {
  const Items before = items(theirs.plan.split);
  const Items after = items(ours.plan.split);
  const std::size_t most = largest_gain(before, after);
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers), ": %s %.3g -> %.3g s", before[most].name,
                before[most].seconds, after[most].seconds);
  return differences(choices(theirs), choices(ours)) + numbers +
         caveat(recipe, before[most], theirs.strategy.ep > 1);
}

std::string shares(const model::Plan& plan) {
  std::string text;
  for (const Item& item : items(plan.split)) {
    const double percent = std::round(100 * item.seconds / plan.iteration_time_s);
    if (percent < 1) continue;
    if (!text.empty()) text += ", ";
    text += item.name + (" " + std::to_string(static_cast<int>(percent)));
  }
  return text;
}

}  // namespace nestplan::facts
