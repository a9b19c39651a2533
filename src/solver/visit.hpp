#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "solver/incumbent.hpp"
#include "solver/table.hpp"

namespace nestplan::solver {

/// A table to be filled.
struct TableRequest {
  Combine combine = Combine::kSum;
  std::vector<std::int64_t> depths;  ///< ascending, not empty
  TableLimits limits;
};

/// How far a visit has come: all that the tables it has had so far left behind.
struct VisitState {
  enum class Step : std::int64_t {
    kSeed,    ///< the least bottlenecks, for a first plan
    kScan,    ///< the least sums of all depths (1f1b), or the answer of all depths (paper)
    kRefine,  ///< one depth, with a cap on the stage time that falls
    kNarrow,  ///< the least bottleneck of that depth, where the cap falls in many steps
    kDone
  };
  Step step = Step::kDone;
  TableRequest request;  ///< the table that is next
  /// Depths still to be refined, with the least total that is in them; what promises most is last.
  std::vector<std::pair<Total, std::int64_t>> promising;
  std::vector<std::int64_t> depths;  ///< for the scan after the seed
  double factor = 1;                 ///< of the cap of the seed
  std::int64_t refined = 0;          ///< tables that the depth in refinement has had
  Ticks slowest = 0;                 ///< its slowest stage takes no less
  Total sum = 0;  ///< its stages take no less together, with the cap of the next table
};

/// The tables of one configuration, one after the other. For the `1f1b` objective,
/// `Σt + (m-1)·max t + sync_1`, they are filled with sums under a cap τ on the stage time: first
/// the largest τ that could still beat the incumbent, then, for each depth, with τ just below the
/// slowest stage of the last plan found, until the sum alone (with the best bottleneck that the
/// bounds or, after some steps, a table of bottlenecks allow) is too much. Every optimum is met
/// this way: at the step whose cap admits it, its sum is the least and its bottleneck that of the
/// plan found. For `paper`,
/// `(m+p-1)·max t + sync_1`, one table of bottlenecks does, with every option of the first stage.
class Visit {
 public:
  struct Subject {
    const Instance& instance;
    const Placement& placement;
    const DepthBounds& bounds;
    std::int64_t index = 0;  ///< of the configuration in the list
    bool prune = true;
  };

  /// Starts with the given depths.
  Visit(const Subject& subject, Incumbent& incumbent, std::vector<std::int64_t> depths);
  /// Goes on.
  Visit(const Subject& subject, Incumbent& incumbent, VisitState state);

  /// The table that is next; null: there is nothing more to be found here.
  const TableRequest* request() const {
    return state_.step == VisitState::Step::kDone ? nullptr : &state_.request;
  }

  /// Takes what the table that was requested has to say, and decides on the next. Collective over
  /// the table's team.
  void absorb(Table& table);

  const VisitState& state() const { return state_; }

 private:
  using Step = VisitState::Step;

  const Configuration& configuration() const { return subject_.placement.configuration(); }
  bool paper() const { return subject_.instance.options().objective == model::Objective::kPaper; }
  void seed(double factor);
  void absorb_seed(Table& table);
  void absorb_scan(Table& table);
  void absorb_refined(Table& table);
  void absorb_narrowed(Table& table);
  void scan(std::vector<std::int64_t> depths);
  void refine_first(std::int64_t depth, Ticks cap);
  void refine(std::int64_t depth, Ticks cap);
  void refine_next();
  void offer(std::int64_t depth, Total total, Ticks cap);
  Ticks stage_cap(std::int64_t depth) const;
  Ticks sum_limit(Ticks slowest) const;

  Subject subject_;
  Incumbent& incumbent_;
  VisitState state_;
};

/// Removes the depths that cannot beat the incumbent by their bounds.
void drop_hopeless(const Visit::Subject& subject, const Incumbent& incumbent,
                   std::vector<std::int64_t>& depths);

/// Removes the depths whose stages cannot hold the graph if none takes longer than `cap`. Where the
/// layers are not in a row, only those whose memory is too little in all.
void drop_unreachable(const Visit::Subject& subject, Ticks cap, std::vector<std::int64_t>& depths);

}  // namespace nestplan::solver
