#include "cli/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastFlexible = 8;

bool starts_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

/// "layer.12" as ("layer.", 12); nothing for names without a canonical trailing number.
struct NumberedName {
  std::string_view prefix;
  std::int64_t number = 0;
};

std::optional<NumberedName> numbered(std::string_view name) {
  const std::size_t last = name.find_last_not_of("0123456789");
  const std::size_t begin = last == std::string_view::npos ? 0 : last + 1;
  const std::string_view digits = name.substr(begin);
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || (digits.size() > 1 && digits.front() == '0')) return std::nullopt;
  return NumberedName{name.substr(0, begin), number};
}

/// Index behind the run of consecutive numbers that starts at `begin`.
std::size_t run_end(const std::vector<std::string>& names, std::size_t begin) {
  const auto first = numbered(names[begin]);
  std::size_t end = begin + 1;
  while (first && end < names.size()) {
    const auto next = numbered(names[end]);
    const auto expected = first->number + static_cast<std::int64_t>(end - begin);
    if (!next || next->prefix != first->prefix || next->number != expected) break;
    ++end;
  }
  return end;
}

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

std::string printable(std::string_view text) {
  constexpr std::string_view kKept = "\"\\";  // escaped in quotes only
  std::string out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find_first_of(kKept));
    const std::string quoted = util::quoted(part, std::numeric_limits<std::size_t>::max());
    out += quoted.substr(1, quoted.size() - 2);
    text.remove_prefix(part.size());
    if (text.empty()) break;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

std::string range_text(const Range& range) {
  if (range.end - range.begin == 1) return fmt::format("{}", range.begin);
  return fmt::format("{}–{}", range.begin, range.end - 1);
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

std::string names_text(const std::vector<std::string>& names) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < names.size();) {
    const std::size_t end = run_end(names, begin);
    std::string part = printable(names[begin]);
    if (end - begin > 1) part += fmt::format("–{}", numbered(names[end - 1])->number);
    parts.push_back(std::move(part));
    begin = end;
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string gibibytes(double bytes) {
  const double value = bytes / (1 << 30);
  return fmt::format("{:.{}f}", value, value < 0.1 ? 4 : 1);
}

std::string gibibytes_or_zero(double bytes) { return bytes > 0 ? gibibytes(bytes) : "0"; }

std::string precise_seconds(double seconds) {
  const auto scaled = [](double value, const char* unit) {
    const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (seconds >= 1) return scaled(seconds, "s");
  return seconds >= 1e-3 ? scaled(seconds * 1e3, "ms") : scaled(seconds * 1e6, "us");
}

std::string plain_number(double value) { return fmt::format("{:.6g}", value); }

std::string Table::text(std::size_t flexible, std::size_t width) const {
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

  const auto line = [&](auto&& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      text += std::string(kGap, ' ');
      text += padded(shortened(cell(c), widths[c]), widths[c], columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + '\n';
  };
  std::string out = line([&](std::size_t c) { return columns_[c].heading; });
  for (const auto& row : rows_) out += line([&](std::size_t c) { return row[c]; });
  return out;
}

}  // namespace nestplan::cli
