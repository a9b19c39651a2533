#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace nestplan::cli {

/// Comma-separated values (RFC 4180) of objects with the same members, which a heading names. Lists
/// go without their brackets; null is an empty field.
std::string csv_text(const std::vector<nlohmann::ordered_json>& records);

}  // namespace nestplan::cli
