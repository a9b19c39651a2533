#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::baselines {

/// Time and wish of the user, as far as searches ask.
class Clock {
 public:
  explicit Clock(const SearchBudget& budget)
      : budget_(budget), start_(std::chrono::steady_clock::now()) {}

  double spent_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double left_s() const { return budget_.time_limit_s - spent_s(); }

  /// Time is up or a stop was asked for. Stays so.
  bool over() const {
    over_ = over_ || left_s() <= 0 || (budget_.stop_requested && budget_.stop_requested());
    return over_;
  }
  bool was_over() const { return over_; }

 private:
  const SearchBudget& budget_;
  std::chrono::steady_clock::time_point start_;
  mutable bool over_ = false;
};

/// What a search for a plan works on.
struct Task {
  const model::Problem& problem;
  const network::Network& network;
  const SearchBudget& budget;
  const Clock& clock;
};

/// A judged plan; or none was found, for this reason.
struct Finding {
  std::optional<model::Plan> plan;
  std::string reason;
  std::string limit{};  ///< SearchStats::limit
};

Finding find_manual(const Task& task);
Finding find_mcmc(const Task& task);
Finding find_phaze(const Task& task);
Finding find_alpa(const Task& task);
Finding find_mist(const Task& task);

/// Whether the planner, with its options and rules, may return this legal plan, whose stages stand
/// side by side. Does not ask about memory.
bool admitted(const Task& task, const cost::PlacedPlan& plan);

/// The word of cost::evaluate on a plan; an infeasible one if it is not admitted.
model::Plan judge(const Task& task, const cost::PlacedPlan& plan);

}  // namespace nestplan::baselines
