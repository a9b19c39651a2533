#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::util {

/// `text` in double quotes, fit for a one-line message: control characters, quotes, backslashes and
/// bytes that are not UTF-8 are escaped, and what exceeds `limit` code points is cut to "…".
std::string quoted(std::string_view text, std::size_t limit = 60);

/// Cost of turning `from` into `to` (bytes): 2 per insertion, deletion, substitution or swap of
/// neighbours, 1 per change of case (optimal string alignment distance).
std::size_t edit_cost(std::string_view from, std::string_view to);

/// The candidate nearest to `word`, if one is near enough to be what was meant; the first of
/// equals.
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

/// A hint to append to a message about an unknown `word`: ` (did you mean "x"?)`, or the list of
/// known words when none is near, or nothing when there are no candidates.
std::string hint(std::string_view word, std::span<const std::string> candidates);

/// The parts of `text` between separators, empty ones included; one part where there is none.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Bytes in decimal units, three significant digits at least: "512 B", "1.25 GB", "80 GB".
std::string format_bytes(double bytes);

/// Bytes in binary units: "512 B", "74.5 GiB".
std::string format_bytes_binary(double bytes);

/// Seconds in the unit that suits: "2.5 us", "1.25 ms", "12.3 s", "2 h 05 min".
std::string format_seconds(double seconds);

/// A whole number with thousands separators: "16,384".
std::string format_count(std::int64_t count);

/// A rate or an amount with a decimal prefix and a unit: (9.89e14, "FLOP/s") is "989 TFLOP/s".
std::string format_si(double value, std::string_view unit);

}  // namespace nestplan::util
