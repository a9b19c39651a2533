#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/model/graph.hpp"
#include "nestplan/model/overlap.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::model {

/// Where a stage stands in its pod, and how it is split.
struct StageOutline {
  std::int64_t position = 0;
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  std::int64_t ep = 1;   ///< members of an expert group, at stride tp: see Strategy::ep
  std::int64_t etp = 1;  ///< ranks that share an expert; divides tp

  // What no placement asks for. Empty: not said.
  ContextForm context = ContextForm::kRing;  ///< with cp above 1
  std::optional<Recompute> recompute{};
  std::optional<int> zero{};
  ShardSpan shard = ShardSpan::kAll;
  std::vector<std::vector<std::string>>
      chunks{};  ///< ids of layers; one chunk without interleaving
  bool operator==(const StageOutline&) const = default;
};

/// What has to be known of a plan to carry it out, without the graph it was made for.
struct PlanOutline {
  Status status = Status::kOptimal;
  std::string reason{};                   ///< of an infeasible plan
  std::string model{};                    ///< as the plan calls it; empty: not said
  std::optional<std::int64_t> devices{};  ///< of the cluster that it was made for
  std::int64_t dp_inner = 1;
  std::int64_t dp_outer = 1;
  std::vector<StageOutline> stages;  ///< in the order of their positions

  // What no placement asks for. Empty: not said.
  std::int64_t vpp = 1;
  std::optional<Schedule> schedule{};
  std::optional<std::int64_t> micro_batch{};
  std::optional<std::int64_t> microbatches{};
  std::optional<std::int64_t> global_batch{};
  std::optional<std::int64_t> tokens{};  ///< of one sequence
  Overlap overlap{};                     ///< what it counts as hidden; none where nothing is said

  std::int64_t dp() const { return dp_inner * dp_outer; }
  bool operator==(const PlanOutline&) const = default;
};

}  // namespace nestplan::model
