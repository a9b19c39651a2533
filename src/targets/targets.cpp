#include "nestplan/targets/targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"
#include "targets/checks.hpp"
#include "targets/frameworks.hpp"

namespace nestplan::targets {
namespace {

constexpr std::array kScopes{Scope::kStrategy, Scope::kConfiguration, Scope::kPipeline,
                             Scope::kStage};
constexpr const char* kOwn = "what a plan is";

constexpr Check kWholeBatch{[](const Candidate& c) { return !c.uneven_batch && kBatch.broken(c); },
                            [](const Candidate& c) { return kBatch.explain(c); }};

const Rule kRules[] = {
    {kExpertsExist, "expert-model", Scope::kStrategy, "EP above 1 needs a model with experts.",
     kOwn},
    {kExperts, "experts", Scope::kStrategy, "Experts split evenly over EP.", kOwn},
    {kWholeBatch, "batch", Scope::kConfiguration,
     "The global batch is a whole number of micro-batches on every copy, unless it may be uneven.",
     kOwn},
    {kWorld, "world", Scope::kPipeline, "tp·cp·pp divides the devices of the job.", kOwn},
    {kChunksNeedStages, "interleaving", Scope::kPipeline, "Interleaving needs several stages.",
     kOwn},
};

const Layout kLayouts[] = {
    {model::StageConstraints::Layout::kAny, "any", kOwn},
    {model::StageConstraints::Layout::kFirstLast, "any", kOwn},
    {model::StageConstraints::Layout::kEven, "any", kOwn},
};

std::vector<Setting> no_settings(const Candidate&) { return {}; }

const RuleSet& any() {
  static const RuleSet set(kAny, "what holds for all of them", kRules, kLayouts, no_settings);
  return set;
}

constexpr std::array kSets{any, megatron, deepspeed, torchtitan};

}  // namespace

void set_strategy(Candidate& candidate, const model::Strategy& strategy) {
  candidate.tp = strategy.tp;
  candidate.cp = strategy.cp;
  candidate.micro_batch = strategy.micro_batch;
  candidate.context = strategy.context;
  candidate.sequence_parallel.reset();
  if (strategy.sp > 1) candidate.sequence_parallel = true;
  const bool experts = candidate.model.experts > 0 || strategy.ep > 1;
  const std::int64_t shards = strategy.ep * strategy.tp;
  candidate.etp = experts ? strategy.etp : 1;
  candidate.ep = !experts ? 1 : shards % strategy.etp == 0 ? shards / strategy.etp : 0;
}

bool RuleSet::expresses(model::StageConstraints::Layout layout) const {
  return std::any_of(layouts_.begin(), layouts_.end(),
                     [&](const Layout& known) { return known.layout == layout; });
}

const Rule* RuleSet::broken(const Candidate& candidate, Scope scope) const {
  const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& each) {
    return each.scope == scope && each.broken(candidate);
  });
  return rule == rules_.end() ? nullptr : &*rule;
}

const Rule* RuleSet::broken(const Candidate& candidate) const {
  for (const Scope scope : kScopes) {
    if (const Rule* rule = broken(candidate, scope)) return rule;
  }
  return nullptr;
}

const RuleSet& rule_set(std::string_view name) {
  for (const auto set : kSets) {
    if (set().name() == name) return set();
  }
  const std::vector<std::string> names = rule_set_names();
  throw InvalidConfig(
      fmt::format("target: unknown framework {}{}", util::quoted(name), util::hint(name, names)));
}

std::vector<std::string> rule_set_names() {
  std::vector<std::string> names;
  for (const auto set : kSets) names.emplace_back(set().name());
  return names;
}

const char* to_string(Scope scope) {
  switch (scope) {
    case Scope::kStrategy:
      return "strategy";
    case Scope::kConfiguration:
      return "configuration";
    case Scope::kPipeline:
      return "pipeline";
    case Scope::kStage:
      return "stage";
  }
  throw InternalError("a scope without a name");
}

const char* with_article(model::ModelKind kind) {
  switch (kind) {
    case model::ModelKind::kOther:
      return "a graph of layers";
    case model::ModelKind::kDecoder:
      return "a decoder";
    case model::ModelKind::kEncoder:
      return "an encoder";
    case model::ModelKind::kEncoderDecoder:
      return "an encoder-decoder";
    case model::ModelKind::kMultimodal:
      return "a multimodal model";
    case model::ModelKind::kUNet:
      return "a U-Net";
    case model::ModelKind::kDiffusionTransformer:
      return "a diffusion transformer";
  }
  throw InternalError("a kind of model without a name");
}

std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t multiple, std::int64_t tp) {
  const std::int64_t step = multiple * tp;
  return (vocabulary + step - 1) / step * step;
}

}  // namespace nestplan::targets
