#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

#include "cli/flags.hpp"
#include "cli/inputs.hpp"
#include "cli/ranks.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// What one of several searches came to.
struct Finding {
  Setup setup;                      ///< what was searched
  std::optional<model::Plan> plan;  ///< on the first rank

  bool fits() const { return plan && plan->status != model::Status::kInfeasible; }
  /// Stopped before it was known whether anything fits.
  bool undecided() const {
    return plan && plan->status == model::Status::kInfeasible && plan->search.stopped;
  }
};

/// Several searches about the same inputs, which are read once. All ranks ask the same, in the same
/// order; `--time-limit` is for all of it together.
class Inquiry {
 public:
  using Change = std::function<void(model::Problem&)>;

  /// Reads the inputs. *Collective.*
  Inquiry(const Flags& flags, const Ranks& ranks);

  const Ranks& ranks() const { return ranks_; }

  /// What `flags` say about the inputs, after `change`; on the first rank. Throws like
  /// `load_setup`.
  Setup load(const Flags& flags, const Change& change = {}) const;

  /// Searches that on all ranks. `any_plan`: the first plan that fits is enough. *Collective.*
  Finding ask(const Flags& flags, const Change& change = {}, bool any_plan = false) const;

  /// The first rank's number on all ranks. *Collective.*
  std::int64_t agree(std::int64_t mine) const;

  /// Time is up or a signal came; the first rank's word for all. *Collective.*
  bool over() const;

 private:
  /// Of the time limit, by the first rank's clock. *Collective.*
  double left_s() const;

  const Flags& flags_;
  const Ranks& ranks_;
  InputFiles files_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace nestplan::cli
