#include "nestplan/util/csv.hpp"

#include <algorithm>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::util {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  bool done() const { return text_.empty(); }

  /// The next line that is neither empty nor a comment; without cells at the end of the text.
  Csv::Row next() {
    while (!done()) {
      const std::string_view rest = text_.substr(0, text_.find('\n'));
      if (!trimmed(rest).empty() && rest.front() != '#') return row();
      skip_line(rest.size());
    }
    return {line_, {}};
  }

  [[noreturn]] void fail(std::size_t line, const std::string& problem) const {
    throw InvalidInput(file_ + ":" + std::to_string(line) + ": " + problem);
  }

 private:
  void skip_line(std::size_t length) {
    text_.remove_prefix(std::min(length + 1, text_.size()));
    ++line_;
  }

  Csv::Row row() {
    Csv::Row row{line_, {}};
    while (true) {
      row.cells.push_back(cell());
      if (text_.empty() || text_.front() != ',') break;
      text_.remove_prefix(1);
    }
    skip_line(0);
    return row;
  }

  /// Up to the comma or line break behind it.
  std::string cell() {
    while (!text_.empty() && (text_.front() == ' ' || text_.front() == '\t')) {
      text_.remove_prefix(1);
    }
    if (!text_.empty() && text_.front() == '"') return quoted_cell();
    const std::string_view plain = text_.substr(0, text_.find_first_of(",\n"));
    text_.remove_prefix(plain.size());
    return std::string(trimmed(plain));
  }

  std::string quoted_cell() {
    const std::size_t begun = line_;
    std::string cell;
    text_.remove_prefix(1);
    while (true) {
      const std::size_t end = text_.find('"');
      if (end == std::string_view::npos) fail(begun, "a quote does not end");
      line_ += static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + end, '\n'));
      cell += text_.substr(0, end);
      text_.remove_prefix(end + 1);
      if (text_.empty() || text_.front() != '"') break;
      cell += '"';
      text_.remove_prefix(1);
    }
    const std::string_view behind = text_.substr(0, text_.find_first_of(",\n"));
    if (!trimmed(behind).empty()) {
      fail(line_, "there is " + quoted(trimmed(behind)) + " behind a quote");
    }
    text_.remove_prefix(behind.size());
    return cell;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t line_ = 1;
};

void check_columns(const Csv::Row& header, const Reader& reader) {
  if (header.cells.empty()) reader.fail(1, "there is no header");
  std::vector<std::string> seen;
  for (const std::string& column : header.cells) {
    if (column.empty()) reader.fail(header.line, "a column has no name");
    if (std::find(seen.begin(), seen.end(), column) != seen.end()) {
      reader.fail(header.line, "column " + quoted(column) + " is there twice");
    }
    seen.push_back(column);
  }
}

}  // namespace

Csv parse_csv(std::string_view text, const std::string& file) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  Reader reader(text, file);
  const Csv::Row header = reader.next();
  check_columns(header, reader);
  Csv csv{header.cells, {}};
  while (true) {
    Csv::Row row = reader.next();
    if (row.cells.empty()) return csv;
    if (row.cells.size() != csv.columns.size()) {
      reader.fail(row.line, std::to_string(row.cells.size()) + " cells, but " +
                                std::to_string(csv.columns.size()) + " columns");
    }
    csv.rows.push_back(std::move(row));
  }
}

}  // namespace nestplan::util
