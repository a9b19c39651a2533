#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/problem.hpp"

namespace nestplan::testing {

/// One answer of the oracle: the least iteration time of one search and a plan that has it.
struct OracleAnswer {
  model::Objective objective = model::Objective::k1F1B;
  bool per_stage = false;
  std::optional<double> iteration_time_s;  ///< empty: infeasible
  std::int64_t micro_batch = 0;
  std::int64_t microbatches = 0;
  cost::PlacedPlan plan;
};

/// A tiny instance with optima that were enumerated by another program.
struct OracleInstance {
  std::string name;
  model::Problem problem;
  std::vector<OracleAnswer> answers;
};

/// `shared/oracle` beside the checkout; empty when there is none.
std::optional<std::filesystem::path> oracle_directory();

/// Reads one `.jsonl` file of instances. Throws InvalidInput for what it does not understand.
std::vector<OracleInstance> load_oracle(const std::filesystem::path& path);

}  // namespace nestplan::testing
