#include "solver/rules.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "nestplan/util/errors.hpp"

namespace nestplan::solver {

using targets::Candidate;
using targets::Rule;
using targets::Scope;

Rules::Rules(const model::Problem& problem)
    : options_(problem.options),
      set_(targets::rule_set(problem.options.target)),
      free_(set_.name() == targets::kAny) {
  using Layout = model::StageConstraints::Layout;
  for (const Layout layout : {Layout::kFirstLast, Layout::kAny}) {
    if (layout >= options_.stages.layout && set_.expresses(layout)) layout_ = layout;
  }
  if (free_) return;
  model_.model = problem.graph.dimensions;
  model_.precision = options_.precision;
  if (model_.model.hidden > 0) model_.tied_embeddings = !problem.graph.ties.empty();
  model_.chain = model::in_a_row(problem.graph);
  // A target that knows no pipeline for this model is asked about single stages only, which are all
  // alike.
  const auto forbids = [&](std::optional<bool> Candidate::*freedom) {
    Candidate pipeline = model_;
    pipeline.pp = 2;
    pipeline.*freedom = true;
    return set_.broken(pipeline) != nullptr;
  };
  same_strategy_ = forbids(&Candidate::per_stage_strategies);
  same_recompute_ = forbids(&Candidate::per_stage_recompute);
  same_shard_ = forbids(&Candidate::per_stage_zero);
  if (!same_strategy_) {
    throw InternalError("rules of depths are asked about one strategy for all stages");
  }
}

Candidate Rules::of_strategy(const model::Strategy& strategy) const {
  Candidate candidate = model_;
  targets::set_strategy(candidate, strategy);
  // A graph that knows its dimensions says in `sp` whether the sequence is split.
  if (model_.model.hidden > 0 && strategy.tp > 1) candidate.sequence_parallel = strategy.sp > 1;
  return candidate;
}

Candidate Rules::of_configuration(const Configuration& configuration,
                                  const model::Strategy& strategy) const {
  Candidate candidate = of_strategy(strategy);
  candidate.devices = configuration.pods.devices;
  candidate.global_batch = options_.global_batch;
  candidate.uneven_batch = options_.allow_uneven_batch;
  candidate.dp = configuration.dp;
  candidate.dp_inner = configuration.dp_inner;
  candidate.microbatches = configuration.microbatches;
  return candidate;
}

const Rule* Rules::ask(const Candidate& candidate, Scope scope) const {
  if (free_) return nullptr;
  const Rule* broken = set_.broken(candidate, scope);
  if (broken != nullptr) last_ = candidate;
  return broken;
}

const Rule* Rules::broken_by(const model::Strategy& strategy) const {
  return ask(of_strategy(strategy), Scope::kStrategy);
}

const Rule* Rules::broken_by(const Configuration& configuration,
                             const model::Strategy& strategy) const {
  return ask(of_configuration(configuration, strategy), Scope::kConfiguration);
}

const Rule* Rules::broken_by_depth(const Configuration& configuration,
                                   const model::Strategy& strategy, std::int64_t depth) const {
  Candidate candidate = of_configuration(configuration, strategy);
  candidate.pp = depth;
  candidate.vpp = configuration.vpp;
  candidate.schedule = options_.schedule;
  if (!options_.overlap_p2p) candidate.overlap_p2p = false;
  candidate.layout = layout_;
  return ask(candidate, Scope::kPipeline);
}

const Rule* Rules::broken_by_stage(const Configuration& configuration,
                                   const model::Strategy& strategy, std::int64_t stages,
                                   model::Recompute recompute, const ShardChoice& shard) const {
  Candidate candidate = of_configuration(configuration, strategy);
  candidate.pp = stages;
  candidate.zero = shard.zero;
  candidate.shard = shard.span;
  candidate.recompute = recompute;
  return ask(candidate, Scope::kStage);
}

bool Rules::has(Scope scope) const {
  const auto rules = set_.rules();
  return !free_ && std::any_of(rules.begin(), rules.end(),
                               [scope](const Rule& rule) { return rule.scope == scope; });
}

std::string Rules::describe(const Rule& rule) const {
  return fmt::format("{} rule {}: {}", set_.name(), rule.name, rule.says);
}

}  // namespace nestplan::solver
