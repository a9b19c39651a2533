#include "frameworks/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "frameworks/demands.hpp"
#include "nestplan/frameworks/layers.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::frameworks {
namespace {

using util::idx;

template <typename Value>
Value chosen(const std::optional<Value>& value, const std::string& parent, const char* key) {
  if (value) return *value;
  throw InvalidInput(
      fmt::format("{}: \"{}\" is missing, the plan leaves it open (nestplan evaluate PLAN … -o "
                  "FILE chooses it)",
                  parent, key));
}

/// Layers of the parts of the pipeline, in the order in which a micro-batch passes them.
std::vector<std::vector<std::string>> parts_of(const model::PlanOutline& plan) {
  std::vector<std::vector<std::string>> parts;
  for (std::int64_t c = 0; c < plan.vpp; ++c) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const auto& chunks = plan.stages[s].chunks;
      if (std::ssize(chunks) != plan.vpp) {
        throw InvalidInput(fmt::format("stages[{}].chunks: there are {}, but strategy.vpp is {}", s,
                                       chunks.size(), plan.vpp));
      }
      parts.push_back(chunks[idx(c)]);
    }
  }
  return parts;
}

Recipe recipe_of(const model::PlanOutline& plan, const Job& job, placement::RankOrder order) {
  const model::StageOutline& first = plan.stages.front();
  Recipe recipe;
  recipe.tp = first.tp;
  recipe.cp = first.cp;
  recipe.ep = first.ep * first.tp / first.etp;
  recipe.etp = first.etp;
  recipe.pp = std::ssize(plan.stages);
  recipe.vpp = plan.vpp;
  recipe.dp = plan.dp();
  recipe.micro_batch = chosen(plan.micro_batch, "strategy", "micro_batch");
  const std::int64_t count = chosen(plan.microbatches, "strategy", "microbatches");
  recipe.global_batch = plan.global_batch.value_or(recipe.dp * recipe.micro_batch * count);
  recipe.sequence = job.sequence;
  recipe.schedule = chosen(plan.schedule, "strategy", "schedule");
  recipe.context = first.context;
  recipe.sequence_parallel = job.sequence_parallel;
  recipe.zero = chosen(first.zero, "stages[0]", "zero");
  recipe.shard_groups = first.shard == model::ShardSpan::kPod ? plan.dp_outer : 1;
  recipe.recompute = chosen(first.recompute, "stages[0]", "recompute");
  recipe.precision = job.precision;
  recipe.order = order;
  recipe.hidden = counted_hidden(plan.overlap);
  return recipe;
}

/// A plan for another model may have the same name.
void check_model(const Draft& draft) {
  const std::int64_t layers = layers_of(draft.recipe.layout);
  if (!draft.job.architecture || layers == 0 || layers == draft.job.architecture->layers) return;
  throw InvalidInput(fmt::format("stages[].layers: hold {} layers, but the model has {}", layers,
                                 draft.job.architecture->layers));
}

/// Tokens of one stack are the sequence: of several, plans count all.
void take_sequence(const model::PlanOutline& plan, Draft& draft) {
  if (!plan.tokens || draft.recipe.layout.empty()) return;
  std::int64_t& sequence = draft.recipe.sequence;
  if (sequence == 0) sequence = *plan.tokens;
  if (sequence == *plan.tokens) return;
  throw InvalidConfig(
      fmt::format("--seq: {} tokens, but the plan is for sequences of {}", sequence, *plan.tokens));
}

Draft draft_of(const model::PlanOutline& plan, const Job& job, placement::RankOrder order) {
  Draft draft{.recipe = recipe_of(plan, job, order), .job = job};
  const model::StageOutline& first = plan.stages.front();
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const model::StageOutline& stage = plan.stages[s];
    const std::string field = fmt::format("stages[{}]", s);
    const int zero = chosen(stage.zero, field, "zero");
    const model::Recompute recompute = chosen(stage.recompute, field, "recompute");
    draft.per_stage_strategies |= stage.tp != first.tp || stage.cp != first.cp ||
                                  stage.ep != first.ep || stage.etp != first.etp ||
                                  stage.context != first.context;
    draft.per_stage_zero |= zero != first.zero || (zero > 0 && stage.shard != first.shard);
    draft.per_stage_recompute |= recompute != first.recompute;
    draft.most_zero = std::max(draft.most_zero, zero);
    draft.most_recompute = std::max(draft.most_recompute, recompute);
  }
  if (draft.recipe.dp * draft.recipe.cp == 1) draft.per_stage_zero = false;
  const std::vector<std::vector<std::string>> ids = parts_of(plan);
  draft.kind = job.kind.value_or(kind_by_layers(ids));
  CountedParts parts = counted(ids);
  draft.recipe.layout = std::move(parts.layout);
  draft.layout_problem = std::move(parts.problem);
  take_sequence(plan, draft);
  check_model(draft);
  return draft;
}

targets::Candidate candidate_of(const Draft& draft) {
  const Recipe& r = draft.recipe;
  const Job& job = draft.job;
  targets::Candidate c;
  c.model = job.dimensions;
  if (c.model.blocks == 0) c.model.blocks = layers_of(r.layout);
  if (c.model.sequence == 0) c.model.sequence = r.sequence;
  c.model.kind = draft.kind;
  c.precision = r.precision;
  c.vocabulary_multiple = job.vocabulary_multiple;
  c.tied_embeddings = job.tied_embeddings;
  c.chain = job.chain;
  if (c.model.hidden == 0 && r.ep > 1) c.model.experts = r.ep;  // how many is not known
  const bool experts = c.model.experts > 0 || r.ep > 1;
  c.tp = r.tp;
  c.cp = r.cp;
  c.ep = experts ? r.ep : 1;
  c.etp = experts ? r.etp : 1;
  c.micro_batch = r.micro_batch;
  if (r.tp > 1) c.sequence_parallel = r.sequence_parallel;
  c.context = r.context;
  c.devices = job.devices;
  c.global_batch = r.global_batch;
  c.dp = r.dp;
  c.dp_inner = r.dp / r.shard_groups;
  c.microbatches = r.microbatches();
  c.pp = r.pp;
  c.vpp = r.vpp;
  c.schedule = r.schedule;
  if (!r.layout.empty()) {
    c.model.predictions = predictions_of(r.layout);
    c.predictions_apart = targets::parts_with_predictions(r.layout) > 1;
    c.layout = kind_of(r.layout, r.pp);
    c.first_layers = r.layout.front().layers;
    c.last_layers = r.layout.back().layers;
  }
  c.per_stage_strategies = draft.per_stage_strategies;
  c.per_stage_zero = draft.per_stage_zero;
  c.per_stage_recompute = draft.per_stage_recompute;
  if (!draft.per_stage_zero) {
    c.zero = r.zero;
    c.shard = r.shard_groups > 1 ? model::ShardSpan::kPod : model::ShardSpan::kAll;
  }
  if (!draft.per_stage_recompute && !draft.own_recompute) c.recompute = r.recompute;
  return c;
}

/// Where the plan says what a target's rule is about, and how to come near it.
struct Treatment {
  std::string_view rule;
  const char* field;
  Remedy remedy{};
  const char* source = "";  ///< of the rule
};

void set_zero(Draft& draft, int zero) {
  draft.recipe.zero = zero;
  draft.per_stage_zero = false;
}
void use_zero_1(Draft& draft) { set_zero(draft, 1); }
void use_zero_2(Draft& draft) { set_zero(draft, 2); }

void use_fsdp(Draft& draft) {
  set_zero(draft, draft.recipe.pp > 1 ? 1 : 2);
  draft.recipe.shard_groups = 1;
}

void use_most_zero(Draft& draft) {
  set_zero(draft, draft.most_zero);
  draft.recipe.shard_groups = 1;
}

void use_most_recompute(Draft& draft) {
  draft.recipe.recompute = draft.most_recompute;
  draft.per_stage_recompute = false;
}

void keep_own_recompute(Draft& draft) { draft.own_recompute = true; }
void use_all_copies(Draft& draft) { draft.recipe.shard_groups = 1; }
void use_1f1b(Draft& draft) { draft.recipe.schedule = model::Schedule::k1F1B; }
void use_gpipe(Draft& draft) { draft.recipe.schedule = model::Schedule::kGPipe; }

void use_other_form(Draft& draft) {
  const bool ring = draft.recipe.context == model::ContextForm::kRing;
  draft.recipe.context = ring ? model::ContextForm::kAllToAll : model::ContextForm::kRing;
}

constexpr Treatment kTreatments[] = {
    {"model", "model"},
    {"model-pipeline", "model"},
    {"model-zero", "stages[].zero", {use_zero_2, "ZeRO 2"}},
    {"encoder-decoder", "model"},
    {"encoder", "model"},
    {"predictions", "stages[].layers"},
    {"predictions-together", "stages[].layers"},
    {"precision", "--precision"},
    {"sequence-parallel", "stages[0].strategy", {use_sequence_parallelism, "sequence parallelism"}},
    {"ulysses-alone", "stages[0].cp"},
    {"ulysses-pipeline", "stages[0].cp"},
    {"ulysses-experts", "stages[0].cp"},
    {"context-ring", "stages[0].strategy", {use_other_form, "the other form of cp"}},
    {"context-form", "stages[0].strategy", {use_other_form, "the other form of cp"}},
    {"expert-sequence", "stages[0].strategy", {use_sequence_parallelism, "sequence parallelism"}},
    {"batch", "batch.global_batch"},
    {"world", "strategy.dp"},
    {"one-strategy", "stages[].strategy"},
    {"schedule", "strategy.schedule", {use_1f1b, "1f1b"}},
    {"microbatches-1f1b", "strategy.schedule", {use_gpipe, "gpipe"}},
    {"microbatches", "strategy.microbatches"},
    {"interleaving", "strategy.vpp"},
    {"interleaving-two-stages", "strategy.vpp"},
    {"interleaving-groups", "strategy.microbatches"},
    {"interleaving-rounds", "strategy.microbatches"},
    {"interleaving-gpipe", "strategy.schedule", {use_1f1b, "1f1b"}},
    {"layers", "stages[].layers"},
    {"middle-layers", "stages[].layers"},
    {"even-stages", "stages[].layers", {make_even, "as many layers in all stages"}},
    {"zero-stages", "stages[].zero", {use_zero_1, "ZeRO 1"}},
    {"zero-single-stage", "stages[].zero", {use_zero_2, "ZeRO 2"}},
    {"zero-context", "stages[].zero", {use_zero_1, "ZeRO 1"}},
    {"expert-zero", "stages[].zero", {use_zero_2, "ZeRO 2"}},
    {"expert-pipeline", "strategy.pp"},
    {"plain-copies", "stages[].zero", {use_fsdp, "ZeRO 1 with a pipeline, else ZeRO 2"}},
    {"mixed-precision", "strategy.dp"},
    {"one-zero", "stages[].zero", {use_most_zero, "the highest, over all copies"}},
    {"pod-shards", "stages[].shard", {use_all_copies, "shards over all copies"}},
    {"partial-experts", "stages[].shard", {use_all_copies, "shards over all copies"}},
    {"selective", "stages[].recompute", {keep_own_recompute, "its own choice of operators"}},
    {"one-recompute", "stages[].recompute", {use_most_recompute, "the most of them"}},
};

/// Of a rule that no treatment names.
const char* field_of(targets::Scope scope) {
  switch (scope) {
    case targets::Scope::kStrategy:
      return "stages[0].strategy";
    case targets::Scope::kConfiguration:
      return "strategy.dp";
    case targets::Scope::kPipeline:
      return "strategy.pp";
    case targets::Scope::kStage:
      return "stages[].zero";
  }
  throw InternalError("a scope without a field");
}

Treatment treatment_of(const targets::Rule& rule) {
  Treatment treatment{rule.name, field_of(rule.scope)};
  for (const Treatment& known : kTreatments) {
    if (known.rule == rule.name) treatment = known;
  }
  treatment.source = rule.source;
  return treatment;
}

/// The demands and rules of one framework, as they strike a draft.
class Fitting {
 public:
  Fitting(const Framework& framework, bool nearest) : framework_(framework), nearest_(nearest) {}

  /// Whether nothing is broken, or else a remedy was applied.
  bool holds(Draft& draft) {
    if (!is_no_decoder(draft)) check_stages(draft);  // of others rules tell why
    if (framework_.rules != nullptr) {
      const targets::Candidate candidate = candidate_of(draft);
      if (const targets::Rule* rule = framework_.rules->broken(candidate)) {
        treat(draft, treatment_of(*rule), rule->explain(candidate));
        return false;
      }
    }
    check_stages(draft);
    for (const Demand& demand : framework_.demands) {
      const bool settled = demand.remedy.stays && treated_.contains(demand.name);
      if (settled || !demand.broken(draft)) continue;
      treat(draft, {demand.name, demand.field, demand.remedy, demand.source},
            demand.explain(draft));
      return false;
    }
    return true;
  }

  std::vector<std::string> take_remarks() { return std::move(remarks_); }

 private:
  void check_stages(const Draft& draft) const {
    if (draft.recipe.pp == 1 || draft.layout_problem.empty()) return;
    throw InvalidInput(fmt::format("stages[].layers: {}, so {} cannot be told where stages begin",
                                   draft.layout_problem, framework_.title));
  }

  void treat(Draft& draft, const Treatment& treatment, const std::string& problem) {
    const bool again = !treated_.insert(std::string(treatment.rule)).second;
    const bool curable = treatment.remedy.apply != nullptr && !again;
    if (!curable || !nearest_) {
      const std::string message =
          fmt::format("{}: {} ({} rule {}{}; source: {})", treatment.field, problem,
                      framework_.title, treatment.rule,
                      curable ? fmt::format("; --nearest takes {}", treatment.remedy.becomes) : "",
                      treatment.source);
      if (std::string_view(treatment.field).starts_with("--")) throw InvalidConfig(message);
      throw InvalidInput(message);
    }
    remarks_.push_back(fmt::format("{}: {} (exported with {})", treatment.field, problem,
                                   treatment.remedy.becomes));
    try {
      treatment.remedy.apply(draft);
    } catch (const InvalidInput& error) {
      throw InvalidInput(fmt::format("{}: {}", treatment.field, error.what()));
    }
  }

  const Framework& framework_;
  bool nearest_;
  std::set<std::string> treated_;
  std::vector<std::string> remarks_;
};

}  // namespace

Fit fit(const model::PlanOutline& plan, const Job& job, placement::RankOrder order,
        const Framework& framework, bool nearest) {
  if (order != placement::RankOrder::kPipelineLast && framework.numbering != Numbering::kEither) {
    throw InvalidConfig(fmt::format("--rank-order: {} numbers ranks as {}, not {}", framework.title,
                                    placement::to_string(placement::RankOrder::kPipelineLast),
                                    placement::to_string(order)));
  }
  Draft draft = draft_of(plan, job, order);
  draft.recipe = normalised(std::move(draft.recipe));
  Fitting fitting(framework, nearest);
  while (!fitting.holds(draft)) draft.recipe = normalised(std::move(draft.recipe));
  return {std::move(draft.recipe), draft.kind, fitting.take_remarks()};
}

}  // namespace nestplan::frameworks
