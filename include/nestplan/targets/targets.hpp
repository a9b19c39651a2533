#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/graph.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::targets {

/// The target that is no framework in particular: what holds for every one of them.
inline constexpr std::string_view kAny = "any";

/// What is known of a candidate plan. 0 and empty: not decided yet, and rules that need it say
/// nothing.
struct Candidate {
  model::Dimensions model;
  std::string precision;
  std::int64_t vocabulary_multiple = 0;  ///< tables are padded to a multiple of this times tp
  std::optional<bool> tied_embeddings;
  std::optional<bool> chain;  ///< the layers follow one another in a row

  // of a strategy
  std::int64_t tp = 0;
  std::int64_t cp = 0;
  /// Ways the experts of a layer are split between devices, as frameworks count: ep·tp/etp of a
  /// model::Strategy.
  std::int64_t ep = 0;
  std::int64_t etp = 0;
  std::int64_t micro_batch = 0;
  std::optional<bool> sequence_parallel;
  std::optional<model::ContextForm> context;

  // of a configuration
  std::int64_t devices = 0;  ///< there are; a plan may use fewer
  std::int64_t global_batch = 0;
  bool uneven_batch = false;  ///< the last micro-batches may be partly empty
  std::int64_t dp = 0;
  std::int64_t dp_inner = 0;
  std::int64_t microbatches = 0;

  // of a pipeline
  std::int64_t pp = 0;
  std::int64_t vpp = 0;
  std::optional<model::Schedule> schedule;
  std::optional<model::StageConstraints::Layout> layout;
  std::int64_t first_layers = 0;  ///< transformer layers of the first stage, where layout differs
  std::int64_t last_layers = 0;
  std::optional<bool> overlap_p2p;           ///< sends between stages run beside the computation
  std::optional<bool> per_stage_strategies;  ///< stages differ in tp, cp, ep or etp
  std::optional<bool> predictions_apart;     ///< several parts hold modules of prediction

  // of a stage, or of all where frameworks know only one for all
  std::optional<int> zero;
  std::optional<model::ShardSpan> shard;
  std::optional<model::Recompute> recompute;
  std::optional<bool> per_stage_zero;       ///< stages differ in ZeRO stage or span
  std::optional<bool> per_stage_recompute;  ///< stages differ in recomputation
};

/// Fills in what `strategy` decides. Its notes say that sequence parallelism is on, never that it
/// is off; EP and ETP of a model without experts are 1.
void set_strategy(Candidate& candidate, const model::Strategy& strategy);

/// What a rule looks at, beside the model: each scope adds to those before it.
enum class Scope : std::uint8_t {
  kStrategy,       ///< degrees inside a stage, form of context parallelism, precision
  kConfiguration,  ///< batch, copies, devices
  kPipeline,       ///< stages, chunks, schedule, layout
  kStage           ///< ZeRO, recomputation
};

/// A rule as functions.
struct Check {
  /// Whether what is known of the candidate breaks the rule. No allocation.
  bool (*broken)(const Candidate&);
  /// For a candidate that breaks it: the numbers, and the nearest that would not.
  std::string (*explain)(const Candidate&);
};

struct Rule : Check {
  const char* name;
  Scope scope;
  const char* says;    ///< one sentence
  const char* source;  ///< files of the framework's repository, or its documentation
};

/// A setting of the framework that a candidate implies.
struct Setting {
  std::string key;  ///< as the framework's configuration spells it; dots for nested ones
  std::string value;
  std::string why;
};

/// A distribution of layers to stages that the framework can express.
struct Layout {
  model::StageConstraints::Layout layout;
  const char* how;
  const char* source;
};

/// The rules of one framework, as they were at one time.
class RuleSet {
 public:
  using Settings = std::vector<Setting> (*)(const Candidate&);

  RuleSet(std::string_view name, std::string_view version, std::span<const Rule> rules,
          std::span<const Layout> layouts, Settings implied)
      : name_(name), version_(version), rules_(rules), layouts_(layouts), settings_(implied) {}

  std::string_view name() const { return name_; }
  std::string_view version() const { return version_; }  ///< what was looked at
  std::span<const Rule> rules() const { return rules_; }
  std::span<const Layout> layouts() const { return layouts_; }
  bool expresses(model::StageConstraints::Layout layout) const;

  /// The first rule of `scope` that the candidate breaks; null if there is none.
  const Rule* broken(const Candidate& candidate, Scope scope) const;

  /// The first broken rule of any scope.
  const Rule* broken(const Candidate& candidate) const;

  /// What must be set for the framework to do what the candidate says. Nothing about what is not
  /// known.
  std::vector<Setting> settings(const Candidate& candidate) const { return settings_(candidate); }

 private:
  std::string_view name_;
  std::string_view version_;
  std::span<const Rule> rules_;
  std::span<const Layout> layouts_;
  Settings settings_;
};

/// The rules of a framework, or with kAny those that hold for every one of them.
/// Throws InvalidConfig with what is known for any other name.
const RuleSet& rule_set(std::string_view name);

/// Of all rule sets; kAny is the first.
std::vector<std::string> rule_set_names();

const char* to_string(Scope scope);

/// "a decoder", "a U-Net", …
const char* with_article(model::ModelKind kind);

/// Rows of a vocabulary table that is split `tp` ways: the least multiple of `multiple`·`tp` that
/// holds `vocabulary` (NVIDIA/Megatron-LM, megatron/training/tokenizer/tokenizer.py).
std::int64_t padded_vocabulary(std::int64_t vocabulary, std::int64_t multiple, std::int64_t tp);

}  // namespace nestplan::targets
