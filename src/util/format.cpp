#include "nestplan/util/format.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "nestplan/util/text.hpp"

namespace nestplan::util {
namespace {

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

/// U+FFFE and U+FFFF, which printable() keeps and XML does not allow.
bool is_noncharacter(std::string_view text) {
  return text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF");
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr std::string_view kKept = "\"\\";  // escaped in quotes only
  std::string out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find_first_of(kKept));
    const std::string in_quotes = quoted(part, std::numeric_limits<std::size_t>::max());
    out += in_quotes.substr(1, in_quotes.size() - 2);
    text.remove_prefix(part.size());
    if (text.empty()) break;
    out += text.front();
    text.remove_prefix(1);
  }
  return out;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
  const std::string printed = printable(text);
  const std::string_view all = printed;
  std::string out;
  out.reserve(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_noncharacter(all.substr(i))) {
      out += kReplacement;
      i += 2;
      continue;
    }
    switch (all[i]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += all[i];
    }
  }
  return out;
}

std::string range_text(const Range& range) {
  if (range.end - range.begin == 1) return fmt::format("{}", range.begin);
  return fmt::format("{}–{}", range.begin, range.end - 1);
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

std::string counted(std::int64_t count, std::string_view noun) {
  const std::string number = format_count(count) + ' ';
  if (count == 1) return number + std::string(noun);
  if (noun.ends_with('y')) return number + std::string(noun.substr(0, noun.size() - 1)) + "ies";
  return number + std::string(noun) + (noun.ends_with("ch") ? "es" : "s");
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string gibibytes(double bytes) {
  const double value = bytes / (1 << 30);
  return fmt::format("{:.{}f}", value, value < 0.1 ? 4 : 1);
}

std::string gibibytes_or_zero(double bytes) { return bytes > 0 ? gibibytes(bytes) : "0"; }

std::string rate_text(double amount) {
  return amount < 1e3 || amount >= 1e15 ? fmt::format("{:.4g}", amount)
                                        : format_count(std::llround(amount));
}

std::string difference_text(double seconds) {
  if (std::abs(seconds) < kNoSeconds) return "=";
  return (seconds < 0 ? "−" : "+") + format_seconds(std::abs(seconds));
}

std::string precise_seconds(double seconds) {
  const auto scaled = [](double value, const char* unit) {
    const int decimals = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (seconds >= 1) return scaled(seconds, "s");
  return seconds >= 1e-3 ? scaled(seconds * 1e3, "ms") : scaled(seconds * 1e6, "us");
}

}  // namespace nestplan::util
