#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace nestplan::cli {

/// What tables and documents show where there is nothing.
inline constexpr const char* kNothing = "–";

template <typename Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

/// Rounded to a whole number.
inline nlohmann::ordered_json whole_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(std::llround(*value)) : nlohmann::ordered_json(nullptr);
}

}  // namespace nestplan::cli
