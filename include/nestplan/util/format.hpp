#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::util {

/// `text` fit for one line of a terminal or a page: control characters and broken UTF-8 escaped.
std::string printable(std::string_view text);

/// Half-open interval of numbers of devices, stages …
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// "0–7", or "3" for a single one.
std::string range_text(const Range& range);

/// Names with runs of trailing numbers drawn together: "embedding, layer.0–4".
std::string names_text(const std::vector<std::string>& names);

/// "12.3 %".
std::string percent(double fraction);

/// Bytes as GiB with one decimal (four for less than a tenth), without the unit.
std::string gibibytes(double bytes);

/// The same, and nothing is 0.
std::string gibibytes_or_zero(double bytes);

/// Seconds with four significant digits: "10.05 s", "812.3 ms".
std::string precise_seconds(double seconds);

}  // namespace nestplan::util
