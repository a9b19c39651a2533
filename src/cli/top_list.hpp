#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/best_plans.hpp"

namespace nestplan::cli {

/// The times of the best plan and by how much those of the others are longer or shorter, term by
/// term. At least one plan is there; `wanted` were asked for.
std::string top_text(const BestPlans& best, std::int64_t wanted);

nlohmann::ordered_json top_json(const BestPlans& best);

}  // namespace nestplan::cli
