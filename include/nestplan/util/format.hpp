#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::util {

/// `text` fit for one line of a terminal or a page: control characters and broken UTF-8 escaped.
std::string printable(std::string_view text);

/// Text that cannot be mistaken for markup, in elements as well as in quoted attributes: `& < > "
/// '` as character references, and what XML 1.0 (section 2.2) does not allow, such as control
/// characters and bytes that are no UTF-8, escaped as in printable().
std::string escaped(std::string_view text);

/// Half-open interval of numbers of devices, stages …
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// "0–7", or "3" for a single one.
std::string range_text(const Range& range);

/// Names with runs of trailing numbers drawn together: "embedding, layer.0–4".
std::string names_text(const std::vector<std::string>& names);

/// "1 stage", "1,024 micro-batches", "2 strategies": `noun` is in the singular; one that ends in
/// "y" has a consonant before it.
std::string counted(std::int64_t count, std::string_view noun);

/// "12.3 %".
std::string percent(double fraction);

/// Bytes as GiB with one decimal (four for less than a tenth), without the unit.
std::string gibibytes(double bytes);

/// The same, and nothing is 0.
std::string gibibytes_or_zero(double bytes);

/// An amount, or one per second: "8,550" from a thousand on, "53.9" with four digits below and
/// beyond counting.
std::string rate_text(double amount);

/// Less than any time that matters.
inline constexpr double kNoSeconds = 1e-9;

/// "+1.2 s", "−1.2 s", or "=" for next to nothing.
std::string difference_text(double seconds);

/// Seconds with four significant digits: "10.05 s", "812.3 ms".
std::string precise_seconds(double seconds);

}  // namespace nestplan::util
