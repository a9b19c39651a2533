#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace nestplan::baselines {

/// What one way to run a stage takes: in every micro-batch, and beyond that in the first and last.
struct StagePoint {
  double stable_s = 0;
  double delta_s = 0;
  bool operator==(const StagePoint&) const = default;
};

/// How many blocks of a model each stage of a pipeline gets, and in which of its ways it runs them
/// (Mist, EuroSys 2025, section 5.3): the least
///
///   `(G-1)·max t_i + Σ t_i + max (d_i - Σ_(j<i) t_j)`
///
/// where a stage waits with its extra work `d_i` until those before it are done.
struct InterStageProgram {
  std::int64_t microbatches = 1;  ///< G
  std::int64_t blocks = 1;        ///< of all stages together
  /// By stage and by its blocks, from `least_blocks` on: the ways to run it; none: it cannot.
  std::vector<std::vector<std::vector<StagePoint>>> points;
  std::int64_t least_blocks = 1;
};

struct InterStageChoice {
  std::int64_t blocks = 0;
  int point = 0;
};

struct InterStagePlan {
  double seconds = std::numeric_limits<double>::infinity();
  std::vector<InterStageChoice> stages;
};

/// What a solver came to.
struct InterStageAnswer {
  enum class End : std::uint8_t {
    kProven,  ///< no choice is faster than the plan, or than what was asked for
    kNodes,   ///< the limit on nodes
    kTime     ///< the limit on time
  };
  std::optional<InterStagePlan> plan;
  End end = End::kProven;
};

/// What a choice for every stage takes.
double objective_s(const InterStageProgram& program, const std::vector<InterStageChoice>& stages);

/// Solves the program as a mixed-integer one with CBC, in at most `nodes` nodes of its tree and
/// `time_limit_s`. No plan if no choice is faster than `better_than_s`, or none was found within
/// the limits. Throws InternalError if CBC gives up for another reason.
InterStageAnswer solve(const InterStageProgram& program, double better_than_s, double time_limit_s,
                       int nodes);

}  // namespace nestplan::baselines
