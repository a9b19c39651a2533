#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nestplan::facts {

/// A line of a table of published facts; cells by the name of their column.
class Row {
 public:
  Row(std::string table, int index, std::map<std::string, std::string> cells)
      : table_(std::move(table)), index_(index), cells_(std::move(cells)) {}

  int index() const { return index_; }  ///< of the line, the first below the header being 0

  /// Empty if the source does not say. Throws InvalidInput if there is no such column.
  const std::string& text(const std::string& column) const;
  bool says(const std::string& column) const { return !text(column).empty(); }

  /// Throws InvalidInput, naming table and row, for a cell that is not a number.
  std::optional<double> number(const std::string& column) const;
  std::int64_t count(const std::string& column, std::int64_t fallback) const;

 private:
  std::string table_;
  int index_;
  std::map<std::string, std::string> cells_;
};

/// The folder of published facts beside the checkout; empty when there is none.
std::optional<std::filesystem::path> directory();

/// A table of comma-separated values with a header and quoted cells. Throws IoError if it cannot be
/// read, InvalidInput if a row has more or fewer cells than the header.
std::vector<Row> read_table(const std::filesystem::path& path);

}  // namespace nestplan::facts
