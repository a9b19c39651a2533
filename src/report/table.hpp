#pragma once

#include <string>
#include <vector>

#include "report/html.hpp"

namespace nestplan::report {

struct Column {
  std::string heading;
  bool number = false;
  bool wide = false;  ///< holds text that would be too narrow otherwise
};

/// The first cell of a row is what the row is about. A cell that is given with a target is a link.
struct Cell {
  std::string text;
  std::string target{};                                    ///< "#job-3"
  Cell(std::string content) : text(std::move(content)) {}  // NOLINT(google-explicit-constructor)
  Cell(std::string content, std::string link) : text(std::move(content)), target(std::move(link)) {}
};

/// In a box that scrolls where the window is narrower.
void write_table(Html& html, const std::string& caption, const std::vector<Column>& columns,
                 const std::vector<std::vector<Cell>>& rows);

/// Terms and what is said of them.
using Facts = std::vector<std::pair<std::string, std::string>>;
void write_facts(Html& html, const Facts& facts);

}  // namespace nestplan::report
