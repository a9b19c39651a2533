#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::cli {

/// Columns a terminal needs for UTF-8 `text` (no wide or combining characters are expected).
std::size_t display_width(std::string_view text);

/// `text` cut to at most `width` columns, the last one then being "…".
std::string shortened(const std::string& text, std::size_t width);

/// `text` fit for one line of a terminal: control characters and broken UTF-8 escaped.
std::string printable(std::string_view text);

/// Half-open interval of device numbers.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// "0–7", or "3" for a single one.
std::string range_text(const Range& range);

/// "0–7, 9, … (12 ranges)": at most `shown` of them.
std::string ranges_text(const std::vector<Range>& ranges, std::size_t shown = 6);

/// What `ranges` (ascending, disjoint) leave of `[0, size)`.
std::vector<Range> complement(const std::vector<Range>& ranges, std::int64_t size);

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

/// "80", "3.5", "1e-05": a number without digits that say nothing.
std::string plain_number(double value);

/// A table of text whose columns line up.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string heading;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// `cells`: one per column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Indented by two, at most `width` columns wide: what is too much is cut from column `flexible`.
  std::string text(std::size_t flexible, std::size_t width = 120) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nestplan::cli
