#include "cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastFlexible = 8;

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::string padded(const std::string& text, std::size_t width, Table::Align align) {
  const std::size_t used = display_width(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return align == Table::Align::kLeft ? text + blanks : blanks + text;
}

}  // namespace

std::size_t display_width(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_character));
}

std::string shortened(const std::string& text, std::size_t width) {
  if (display_width(text) <= width) return text;
  std::size_t kept = 0;
  std::size_t end = 0;
  while (end < text.size()) {
    if (starts_character(text[end]) && ++kept == width) break;
    ++end;
  }
  return text.substr(0, end) + "…";
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines(1);
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const std::size_t used = display_width(lines.back());
    if (used > 0 && used + 1 + display_width(word) > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
    begin = end + 1;
  }
  return lines;
}

std::string ranges_text(const std::vector<Range>& ranges, std::size_t shown) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < std::min(shown, ranges.size()); ++i) {
    parts.push_back(range_text(ranges[i]));
  }
  if (ranges.size() > shown) parts.push_back(fmt::format("… ({} ranges)", ranges.size()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<Range> complement(const std::vector<Range>& ranges, std::int64_t size) {
  std::vector<Range> rest;
  std::int64_t begin = 0;
  for (const Range& range : ranges) {
    if (range.begin > begin) rest.push_back({begin, range.begin});
    begin = std::max(begin, range.end);
  }
  if (begin < size) rest.push_back({begin, size});
  return rest;
}

std::string plain_number(double value) { return fmt::format("{:.6g}", value); }

std::vector<std::size_t> Table::widths(std::size_t flexible, std::size_t width) const {
  std::vector<std::size_t> widths;
  std::size_t total = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = display_width(columns_[c].heading);
    for (const auto& row : rows_) widest = std::max(widest, display_width(row[c]));
    widths.push_back(widest);
    total += kGap + widest;
  }
  if (total > width) {
    const std::size_t excess = total - width;
    std::size_t& cut = widths[flexible];
    cut = std::max(kLeastFlexible, cut > excess ? cut - excess : 0);
  }
  return widths;
}

std::vector<std::string> Table::headings() const {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  return headings;
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<std::size_t>& widths) const {
  std::string text;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    text += std::string(kGap, ' ');
    text += padded(shortened(cells[c], widths[c]), widths[c], columns_[c].align);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string Table::text(std::size_t flexible, std::size_t width) const {
  const std::vector<std::size_t> widths = this->widths(flexible, width);
  std::string out = line(headings(), widths);
  for (const auto& row : rows_) out += line(row, widths);
  return out;
}

std::string Table::wrapped_text(std::size_t flexible, std::size_t width) const {
  const std::vector<std::size_t> widths = this->widths(flexible, width);
  std::string out = line(headings(), widths);
  for (std::vector<std::string> cells : rows_) {
    for (const std::string& part : wrapped(cells[flexible], widths[flexible])) {
      cells[flexible] = part;
      out += line(cells, widths);
      cells.assign(columns_.size(), "");
    }
  }
  return out;
}

}  // namespace nestplan::cli
