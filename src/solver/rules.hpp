#pragma once

#include <string>

#include "nestplan/model/problem.hpp"
#include "nestplan/targets/targets.hpp"
#include "solver/configuration.hpp"

namespace nestplan::solver {

/// The rules of the framework that is to run the plan, asked about parts of the search. Each answer
/// is the first broken rule, or null. The target "any" breaks none: what holds for every framework
/// holds for every plan of the search.
class Rules {
 public:
  explicit Rules(const model::Problem& problem);

  const targets::RuleSet& set() const { return set_; }

  /// How many counted layers stages may hold, by the options and by what the framework can express:
  /// the freest of those that both allow.
  model::StageConstraints::Layout layout() const { return layout_; }

  /// Whether all stages must have the same strategy, recompute alike, and share state alike.
  bool same_strategy() const { return same_strategy_; }
  bool same_recompute() const { return same_recompute_; }
  bool same_shard() const { return same_shard_; }

  const targets::Rule* broken_by(const model::Strategy& strategy) const;
  const targets::Rule* broken_by(const Configuration& configuration,
                                 const model::Strategy& strategy) const;
  const targets::Rule* broken_by_depth(const Configuration& configuration,
                                       const model::Strategy& strategy, std::int64_t depth) const;
  /// Of one of so many stages.
  const targets::Rule* broken_by_stage(const Configuration& configuration,
                                       const model::Strategy& strategy, std::int64_t stages,
                                       model::Recompute recompute, const ShardChoice& shard) const;

  /// Whether any rule is of that scope.
  bool has(targets::Scope scope) const;

  /// A broken rule in one sentence, and the numbers of the last candidate that was asked about.
  std::string describe(const targets::Rule& rule) const;
  std::string explain(const targets::Rule& rule) const { return rule.explain(last_); }

 private:
  targets::Candidate of_strategy(const model::Strategy& strategy) const;
  targets::Candidate of_configuration(const Configuration& configuration,
                                      const model::Strategy& strategy) const;
  const targets::Rule* ask(const targets::Candidate& candidate, targets::Scope scope) const;

  const model::PlanOptions& options_;
  const targets::RuleSet& set_;
  bool free_ = false;         ///< the target is "any"
  targets::Candidate model_;  ///< what is known of every candidate
  model::StageConstraints::Layout layout_ = model::StageConstraints::Layout::kEven;
  bool same_strategy_ = false, same_recompute_ = false, same_shard_ = false;
  mutable targets::Candidate last_;
};

}  // namespace nestplan::solver
