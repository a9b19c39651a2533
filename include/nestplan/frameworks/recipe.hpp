#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "nestplan/frameworks/model_details.hpp"
#include "nestplan/model/architecture.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/overlap.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/placement/placement.hpp"
#include "nestplan/targets/layout.hpp"

namespace nestplan::frameworks {

using model::ModelKind;

/// Communication that is to run beside computation, by the names of model::Overlap.
struct Hidden {
  bool tensor = false;
  bool context = false;
  bool expert = false;
  bool shards = false;
  bool sync = false;
  bool pipeline = false;
  bool operator==(const Hidden&) const = default;
};

/// What a plan counts as hidden, in part or in whole.
Hidden counted_hidden(const model::Overlap& overlap);

/// One strategy for the whole of a run: what frameworks can be told of a plan.
struct Recipe {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;   ///< as frameworks count: see targets::Candidate
  std::int64_t etp = 1;  ///< ranks that share an expert; tp for a model without experts
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
  std::int64_t dp = 1;
  std::int64_t micro_batch = 1;
  std::int64_t global_batch = 1;  ///< sequences
  std::int64_t sequence = 0;      ///< tokens; 0: not known
  model::Schedule schedule = model::Schedule::k1F1B;
  model::ContextForm context = model::ContextForm::kRing;
  bool sequence_parallel = false;
  int zero = 0;
  std::int64_t shard_groups = 1;  ///< parts of the copies, each of which holds the whole state
  model::Recompute recompute = model::Recompute::kNone;
  std::string precision = "bf16";
  placement::RankOrder order = placement::RankOrder::kPipelineLast;
  targets::PipelineLayout layout{};  ///< pp·vpp parts; empty: not known
  Hidden hidden{};

  std::int64_t ranks() const { return tp * cp * pp * dp; }
  /// Of one copy in an iteration.
  std::int64_t microbatches() const { return global_batch / (dp * micro_batch); }
  bool operator==(const Recipe&) const = default;
};

/// The same run with what makes no difference set to what it is by default: sequence parallelism
/// without tensor parallelism, ZeRO where a single copy holds the state, a schedule of one stage,
/// hidden communication that there is none of …
Recipe normalised(Recipe recipe);

/// How the layers lie in the parts.
model::StageConstraints::Layout kind_of(const targets::PipelineLayout& layout, std::int64_t pp);

/// `layers` in `pp`·`vpp` parts: equally many in all, or `first` and `last` in the first and the
/// last. Modules of prediction go with the loss. Throws InvalidInput if they do not divide.
targets::PipelineLayout dealt_out(std::int64_t layers, std::int64_t predictions, std::int64_t pp,
                                  std::int64_t vpp, std::optional<std::int64_t> first = {},
                                  std::optional<std::int64_t> last = {});

std::int64_t layers_of(const targets::PipelineLayout& layout);
std::int64_t predictions_of(const targets::PipelineLayout& layout);

/// What is known of a run beside its plan.
struct Job {
  std::string model;  ///< as it is called; empty: not known
  model::Dimensions dimensions{};
  std::optional<bool> tied_embeddings{};
  std::optional<bool> chain{};                        ///< its layers follow one another in a row
  std::optional<ModelKind> kind{};                    ///< empty: as the plan's layers are called
  std::optional<model::Architecture> architecture{};  ///< of an encoder-decoder: its decoder
  std::int64_t decoder_sequence = 0;                  ///< of an encoder-decoder: tokens
  ModelDetails details{};
  std::string precision = "bf16";
  std::int64_t vocabulary_multiple =
      0;                          ///< tables are padded to a multiple of it times tp; 0: free
  std::int64_t sequence = 0;      ///< tokens; 0: those of the plan
  bool sequence_parallel = true;  ///< with tp above 1
  std::int64_t slices = 0;        ///< of a torus, joined by a slower network; 0: no torus
  std::int64_t devices = 0;       ///< of the cluster; 0: not known
};

}  // namespace nestplan::frameworks
