#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "nestplan/model/problem.hpp"

namespace nestplan::testing {

/// `shared/nest` beside the checkout: the public NEST instances in this project's formats; empty
/// when there is none.
std::optional<std::filesystem::path> nest_directory();

/// The entries of `index.json`, one for each instance; none without the directory.
std::vector<nlohmann::json> nest_instances();

/// What an entry asks for, with NEST's state bytes and uneven batches.
model::Problem nest_problem(const nlohmann::json& instance);

}  // namespace nestplan::testing
