#include "cli/plan_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/cost_terms.hpp"
#include "cli/nothing.hpp"
#include "cli/text.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr double kNoGain = 5e-4;  ///< a share that shows as nothing

/// More than any plan takes.
constexpr double kEndlessBytes = 1e18;

void forget_memory(model::Problem& problem) {
  problem.cluster.device.memory_bytes = kEndlessBytes;
  for (model::Device& device : problem.cluster.other_devices) device.memory_bytes = kEndlessBytes;
}

std::size_t fullest_stage(const model::Plan& plan) {
  const auto left = [](const model::StagePlan& stage) {
    return stage.memory.limit_bytes - stage.memory.total_bytes;
  };
  const auto fullest =
      std::min_element(plan.stages.begin(), plan.stages.end(),
                       [&](const auto& a, const auto& b) { return left(a) < left(b); });
  return static_cast<std::size_t>(fullest - plan.stages.begin());
}

/// The share of its time that the plan would save were one level or dimension twice as fast.
std::vector<std::pair<std::string, double>> network_gains(const Finding& best) {
  const model::Problem& problem = best.setup.problem;
  const cost::PlacedPlan plan = cost::placed(*best.plan);
  std::vector<std::pair<std::string, double>> gains;
  for (const NetworkTerm& term : network_terms(problem)) {
    model::Problem faster = problem;
    term.scale(faster, 0.5);
    const model::Plan costed = cost::evaluate(faster, *network::make_network(faster.cluster), plan);
    gains.emplace_back(term.level, 1 - costed.iteration_time_s / best.plan->iteration_time_s);
  }
  return gains;
}

/// Of the time per sequence.
std::optional<double> gain_of(const Finding& finding, const model::Plan& plan, double batches) {
  if (!finding.fits() || finding.plan->search.stopped) return std::nullopt;
  return 1 - finding.plan->iteration_time_s / (batches * plan.iteration_time_s);
}

}  // namespace

PlanLimits plan_limits(const Flags& flags, const Inquiry& inquiry, const Finding& best) {
  PlanLimits limits;
  inquiry.ranks().together([&] {
    if (!inquiry.ranks().speaks()) return;
    limits.fullest = fullest_stage(*best.plan);
    limits.network_gains = network_gains(best);
  });
  if (inquiry.over()) return limits;
  const Finding without_limit = inquiry.ask(flags, forget_memory);
  if (without_limit.plan) limits.memory_gain = gain_of(without_limit, *best.plan, 1);
  if (inquiry.over()) return limits;
  Flags twice = flags;
  twice.global_batch = 2 * *flags.global_batch;
  const Finding of_twice = inquiry.ask(twice);
  if (of_twice.plan) limits.batch_gain = gain_of(of_twice, *best.plan, 2);
  return limits;
}

std::string limits_text(const PlanLimits& limits, const model::Plan& plan) {
  const auto share = [&](double seconds) { return percent(seconds / plan.iteration_time_s); };
  const model::StageMemory& memory = plan.stages[limits.fullest].memory;
  std::pair<double, std::string> most{0, ""};
  const auto weigh = [&](const std::optional<double>& gain, const std::string& name) {
    if (gain && *gain > kNoGain && *gain > most.first) most = {*gain, name};
  };
  weigh(limits.memory_gain, "memory");
  weigh(limits.batch_gain, "the batch");
  for (const auto& [level, gain] : limits.network_gains) weigh(gain, "the bandwidth of " + level);

  std::string text = fmt::format("{} of the time is computation. ",
                                 share(plan.split.compute_s + plan.split.recompute_s));
  text += most.second.empty() ? "Neither memory nor batch nor network binds."
                              : fmt::format("Beside it {} binds most.", most.second);
  text += fmt::format(" Memory: stage {} is the fullest with {} of {} GiB", limits.fullest + 1,
                      gibibytes(memory.total_bytes), gibibytes(memory.limit_bytes));
  if (limits.memory_gain) {
    text += "; without any limit " +
            (*limits.memory_gain < kNoGain
                 ? "no plan is faster"
                 : fmt::format("an iteration would take {} less", percent(*limits.memory_gain)));
  }
  text +=
      fmt::format(". Batch: {} {} {} of the time to the bubble",
                  counted(plan.strategy.microbatches, "micro-batch"),
                  plan.strategy.microbatches == 1 ? "leaves" : "leave", share(plan.split.bubble_s));
  if (limits.batch_gain) {
    const double gain = *limits.batch_gain;
    text += fmt::format("; of twice the batch a sequence would take {} {}", percent(std::abs(gain)),
                        gain < 0 ? "more" : "less");
  }
  std::vector<std::string> levels;
  for (const auto& [level, gain] : limits.network_gains) {
    levels.push_back(fmt::format("{} {}", level, percent(gain)));
  }
  return text + fmt::format(". Network: twice the bandwidth of one level takes off this plan: {}.",
                            fmt::join(levels, ", "));
}

nlohmann::ordered_json limits_json(const PlanLimits& limits) {
  nlohmann::ordered_json network = nlohmann::ordered_json::object();
  for (const auto& [level, gain] : limits.network_gains) network[level] = gain;
  return {{"fullest_stage", limits.fullest + 1},
          {"gain_without_memory_limit", or_null(limits.memory_gain)},
          {"gain_of_twice_the_batch", or_null(limits.batch_gain)},
          {"gain_of_twice_the_bandwidth", std::move(network)}};
}

}  // namespace nestplan::cli
