#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::util {

/// A table of comma-separated values (RFC 4180) with a header: cells in double quotes may hold
/// commas, line breaks and doubled quotes; blanks around other cells are dropped, as are empty
/// lines and lines that begin with '#'.
struct Csv {
  struct Row {
    std::size_t line = 0;  ///< in which it begins, the first of the file being 1
    std::vector<std::string> cells;
  };
  std::vector<std::string> columns;
  std::vector<Row> rows;
};

/// Throws InvalidInput with "file:line: what is wrong" for a table without a header, a column
/// without a name or with one that another has, a quote that does not end, and a row with more or
/// fewer cells than there are columns.
Csv parse_csv(std::string_view text, const std::string& file);

}  // namespace nestplan::util
