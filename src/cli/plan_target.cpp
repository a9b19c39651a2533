#include "cli/plan_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/plan_layout.hpp"

namespace nestplan::cli {
namespace {

using Layout = model::StageConstraints::Layout;

/// Whether all stages have `of` in common.
template <typename Property>
bool same(const model::Plan& plan, Property of) {
  const auto first = of(plan.stages.front());
  return std::all_of(plan.stages.begin(), plan.stages.end(),
                     [&](const model::StagePlan& stage) { return of(stage) == first; });
}

void set_stages(targets::Candidate& candidate, const model::Plan& plan) {
  const auto recompute = [](const model::StagePlan& stage) { return stage.recompute; };
  const auto zero = [](const model::StagePlan& stage) { return stage.zero; };
  const auto shard = [](const model::StagePlan& stage) {
    return stage.zero > 0 ? stage.shard : model::ShardSpan::kAll;
  };
  candidate.per_stage_recompute = !same(plan, recompute);
  candidate.per_stage_zero = !same(plan, zero) || !same(plan, shard);
  if (!*candidate.per_stage_recompute) candidate.recompute = recompute(plan.stages.front());
  if (*candidate.per_stage_zero) return;
  candidate.zero = zero(plan.stages.front());
  candidate.shard = shard(plan.stages.front());
}

/// Whether the chunks of every stage hold equally many counted layers.
bool chunks_are_even(const model::Plan& plan, const model::Graph& graph) {
  return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const model::StagePlan& stage) {
    return std::all_of(stage.chunks.begin(), stage.chunks.end(), [&](const auto& layers) {
      return model::counted_layers(graph, layers) ==
             model::counted_layers(graph, stage.chunks.front());
    });
  });
}

/// How the plan deals out its layers, by the plainest name that says it.
void set_layout(targets::Candidate& candidate, const model::Plan& plan, const model::Graph& graph) {
  std::vector<std::int64_t> counts;
  for (const model::StagePlan& stage : plan.stages) {
    counts.push_back(model::counted_layers(graph, stage.layers));
  }
  const auto even = [](auto begin, auto end) {
    return std::adjacent_find(begin, end, std::not_equal_to{}) == end;
  };
  if (counts.size() > 1) {
    candidate.first_layers = counts.front();
    candidate.last_layers = counts.back();
  }
  if (!chunks_are_even(plan, graph)) {
    candidate.layout = Layout::kAny;
  } else if (even(counts.begin(), counts.end())) {
    candidate.layout = Layout::kEven;
  } else {
    const bool inner = counts.size() < 3 || even(counts.begin() + 1, counts.end() - 1);
    candidate.layout = inner ? Layout::kFirstLast : Layout::kAny;
  }
}

bool predictions_are_apart(const model::Plan& plan, const model::Graph& graph) {
  const auto predicts = [&](const model::StagePlan& stage) {
    return std::any_of(stage.layers.begin(), stage.layers.end(), [&](int layer) {
      return graph.layers[static_cast<std::size_t>(layer)].id.starts_with("mtp.");
    });
  };
  return std::count_if(plan.stages.begin(), plan.stages.end(), predicts) > 1;
}

}  // namespace

targets::Candidate candidate_of(const model::Plan& plan, const Setup& setup) {
  const model::Graph& graph = setup.problem.graph;
  targets::Candidate candidate;
  candidate.model = graph.dimensions;
  candidate.precision = setup.precision;
  candidate.vocabulary_multiple = setup.vocabulary_multiple;
  // What is tied in a graph that does not know its dimensions need not be embeddings.
  if (graph.dimensions.hidden > 0) candidate.tied_embeddings = !graph.ties.empty();
  candidate.chain = model::in_a_row(graph);
  const auto strategy = [&](const model::StagePlan& stage) -> const model::Strategy& {
    return graph.strategies[static_cast<std::size_t>(stage.strategy)];
  };
  const model::Strategy& first = strategy(plan.stages.front());
  targets::set_strategy(candidate, first);
  // Nor does such a graph say whether the sequence is split.
  if (graph.dimensions.hidden > 0 && first.tp > 1) candidate.sequence_parallel = first.sp > 1;
  candidate.per_stage_strategies =
      !same(plan, [&](const model::StagePlan& stage) { return stage.strategy; });
  const auto forget_unless_same = [&](std::int64_t targets::Candidate::*known,
                                      std::int64_t model::Strategy::*degree) {
    const auto of = [&](const model::StagePlan& stage) { return strategy(stage).*degree; };
    if (!same(plan, of)) candidate.*known = 0;
  };
  forget_unless_same(&targets::Candidate::tp, &model::Strategy::tp);
  forget_unless_same(&targets::Candidate::cp, &model::Strategy::cp);
  forget_unless_same(&targets::Candidate::ep, &model::Strategy::ep);
  forget_unless_same(&targets::Candidate::etp, &model::Strategy::etp);
  candidate.devices = setup.problem.cluster.devices();
  candidate.global_batch = setup.problem.options.global_batch;
  candidate.uneven_batch = setup.problem.options.allow_uneven_batch;
  if (!setup.problem.options.overlap_p2p) candidate.overlap_p2p = false;
  candidate.dp = plan.strategy.dp;
  candidate.dp_inner = plan.strategy.dp_inner;
  candidate.microbatches = plan.strategy.microbatches;
  candidate.pp = plan.strategy.pp;
  candidate.vpp = plan.strategy.vpp;
  candidate.schedule = plan.strategy.schedule;
  set_stages(candidate, plan);
  set_layout(candidate, plan, graph);
  candidate.predictions_apart = predictions_are_apart(plan, graph);
  return candidate;
}

std::string broken_rules(const model::Plan& plan, const Setup& setup) {
  const targets::RuleSet& rules = targets::rule_set(setup.problem.options.target);
  if (plan.stages.empty() || rules.name() == targets::kAny) return "";
  const targets::Candidate candidate = candidate_of(plan, setup);
  std::vector<std::string> broken;
  for (const targets::Rule& rule : rules.rules()) {
    if (!rule.broken(candidate)) continue;
    broken.push_back(fmt::format("{} rule {}: {} ({})", rules.name(), rule.name, rule.says,
                                 rule.explain(candidate)));
  }
  return fmt::format("{}", fmt::join(broken, "; "));
}

std::optional<io::PlanTarget> target_of(const model::Plan& plan, const Setup& setup) {
  const targets::RuleSet& rules = targets::rule_set(setup.problem.options.target);
  if (plan.stages.empty() || rules.name() == targets::kAny) return {};
  io::PlanTarget target{std::string(rules.name()), std::string(rules.version()), {}};
  for (auto& [key, value, why] : rules.settings(candidate_of(plan, setup))) {
    target.settings.push_back({std::move(key), std::move(value), std::move(why)});
  }
  if (rules.name() == "megatron" && needs_layout(plan, setup.problem.graph)) {
    if (auto layout = megatron_layout_of(plan, setup.problem.graph)) {
      target.settings.push_back({"pipeline_model_parallel_layout", std::move(*layout),
                                 "stages hold different numbers of layers"});
    }
  }
  return target;
}

}  // namespace nestplan::cli
