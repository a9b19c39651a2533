#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/util/format.hpp"

namespace nestplan::cli {

using util::counted;
using util::gibibytes;
using util::gibibytes_or_zero;
using util::names_text;
using util::percent;
using util::precise_seconds;
using util::printable;
using util::Range;
using util::range_text;

/// Columns a terminal needs for UTF-8 `text` (no wide or combining characters are expected).
std::size_t display_width(std::string_view text);

/// `text` cut to at most `width` columns, the last one then being "…".
std::string shortened(const std::string& text, std::size_t width);

/// `text` in lines of at most `width` columns, broken at blanks; a longer word has a line of its
/// own.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

/// "0–7, 9, … (12 ranges)": at most `shown` of them.
std::string ranges_text(const std::vector<Range>& ranges, std::size_t shown = 6);

/// What `ranges` (ascending, disjoint) leave of `[0, size)`.
std::vector<Range> complement(const std::vector<Range>& ranges, std::int64_t size);

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

  /// The same, but what is too much goes on in lines below.
  std::string wrapped_text(std::size_t flexible, std::size_t width = 120) const;

 private:
  std::vector<std::size_t> widths(std::size_t flexible, std::size_t width) const;
  std::vector<std::string> headings() const;
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace nestplan::cli
