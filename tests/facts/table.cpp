#include "facts/table.hpp"

#include <fstream>
#include <sstream>

#include "nestplan/util/errors.hpp"

namespace nestplan::facts {
namespace {

/// Cells of one line; quotes enclose commas, and two of them stand for one.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

}  // namespace

const std::string& Row::text(const std::string& column) const {
  const auto cell = cells_.find(column);
  if (cell == cells_.end()) throw InvalidInput(table_ + ": there is no column \"" + column + "\"");
  return cell->second;
}

std::optional<double> Row::number(const std::string& column) const {
  const std::string& cell = text(column);
  if (cell.empty()) return std::nullopt;
  std::size_t read = 0;
  double value = 0;
  try {
    value = std::stod(cell, &read);
  } catch (const std::exception&) {
    read = 0;
  }
  if (read == cell.size()) return value;
  throw InvalidInput(table_ + ": row " + std::to_string(index_) + ": " + column + ": \"" + cell +
                     "\" is not a number");
}

std::int64_t Row::count(const std::string& column, std::int64_t fallback) const {
  const std::optional<double> value = number(column);
  return value ? static_cast<std::int64_t>(*value) : fallback;
}

std::optional<std::filesystem::path> directory() {
  const std::filesystem::path path =
      std::filesystem::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared" / "facts";
  if (!std::filesystem::is_directory(path)) return std::nullopt;
  return path;
}

std::vector<Row> read_table(const std::filesystem::path& path) {
  std::ifstream in(path);
  if (!in) throw IoError("facts: cannot read " + path.string());
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> columns = cells_of(line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = cells_of(line);
    const int index = static_cast<int>(rows.size());
    if (cells.size() != columns.size()) {
      throw InvalidInput(path.string() + ": row " + std::to_string(index) + " has " +
                         std::to_string(cells.size()) + " cells, the header " +
                         std::to_string(columns.size()));
    }
    std::map<std::string, std::string> by_name;
    for (std::size_t i = 0; i < cells.size(); ++i) by_name[columns[i]] = cells[i];
    rows.emplace_back(path.filename().string(), index, std::move(by_name));
  }
  return rows;
}

}  // namespace nestplan::facts
