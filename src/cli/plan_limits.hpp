#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/flags.hpp"
#include "cli/inquiry.hpp"
#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// What keeps a plan from being faster. Gains are shares of the iteration time, or of the time per
/// sequence where the batch changes; nothing: not searched to the end.
struct PlanLimits {
  std::size_t fullest = 0;            ///< stage with the least memory left
  std::optional<double> memory_gain;  ///< of the best plan without limits of memory
  std::optional<double> batch_gain;   ///< of the best plan for twice the batch
  std::vector<std::pair<std::string, double>>
      network_gains;  ///< same plan, one level twice as fast
};

/// On the first rank. *Collective.*
PlanLimits plan_limits(const Flags& flags, const Inquiry& inquiry, const Finding& best);

/// In words: what binds most, and all of it.
std::string limits_text(const PlanLimits& limits, const model::Plan& plan);

nlohmann::ordered_json limits_json(const PlanLimits& limits);

}  // namespace nestplan::cli
