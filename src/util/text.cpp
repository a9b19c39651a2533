#include "nestplan/util/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace nestplan::util {
namespace {

constexpr std::size_t kListedWords = 12;

bool is_continuation(unsigned char byte) { return (byte & 0xC0U) == 0x80U; }

/// Bytes of the well-formed UTF-8 sequence at the front of `text` (Unicode 15, table 3-7), 0 if
/// there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80U) return 1;
  const std::size_t length = lead >= 0xF0U ? 4 : lead >= 0xE0U ? 3 : 2;
  if (lead < 0xC2U || lead > 0xF4U || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte(i))) return 0;
  }
  const unsigned char second = byte(1);
  const bool overlong = (lead == 0xE0U && second < 0xA0U) || (lead == 0xF0U && second < 0x90U);
  const bool surrogate = lead == 0xEDU && second > 0x9FU;
  const bool beyond = lead == 0xF4U && second > 0x8FU;
  return overlong || surrogate || beyond ? 0 : length;
}

/// U+0080 … U+009F steer terminals, U+2028, U+2029 and the bidirectional marks break lines or
/// reorder them.
bool is_unprintable(std::string_view sequence) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(sequence[i]); };
  if (sequence.size() == 1) return byte(0) < 0x20U || byte(0) == 0x7FU;
  if (sequence.size() == 2) return byte(0) == 0xC2U && byte(1) < 0xA0U;
  if (sequence.size() == 3 && byte(0) == 0xE2U) {
    const bool separators_or_embeddings = byte(1) == 0x80U && byte(2) >= 0xA8U && byte(2) <= 0xAEU;
    const bool isolates = byte(1) == 0x81U && byte(2) >= 0xA6U && byte(2) <= 0xA9U;
    return separators_or_embeddings || isolates;
  }
  return false;
}

void append_escaped(std::string& out, std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
}

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

std::size_t substitution_cost(char a, char b) {
  if (a == b) return 0;
  return lower(a) == lower(b) ? 1 : 2;
}

/// `value` (≥ 1 of its unit) with three significant digits, more when it has more than three before
/// the point, and no trailing zeros.
std::string significant(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

template <std::size_t kCount>
std::string scaled(double value, double base, const std::array<const char*, kCount>& prefixes,
                   std::string_view unit) {
  std::size_t i = 0;
  // compared as it will be printed, so that 999.6 kB becomes 1 MB and not 1000 kB
  while (i + 1 < kCount && std::round(value) >= base) {
    value /= base;
    ++i;
  }
  const std::string number =
      i == 0 && value == std::floor(value) ? fmt::format("{:.0f}", value) : significant(value);
  return fmt::format("{} {}{}", number, prefixes[i], unit);
}

constexpr std::array kDecimalPrefixes{"", "k", "M", "G", "T", "P", "E"};
constexpr std::array kBinaryPrefixes{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

}  // namespace

std::string quoted(std::string_view text, std::size_t limit) {
  std::string out = "\"";
  for (std::size_t shown = 0; !text.empty(); ++shown) {
    if (shown == limit) {
      out += "…";
      break;
    }
    const std::size_t length = utf8_length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    if (length == 0 || is_unprintable(sequence) || sequence == "\"" || sequence == "\\") {
      append_escaped(out, sequence);
    } else {
      out += sequence;
    }
    text.remove_prefix(sequence.size());
  }
  return out + '"';
}

std::size_t edit_cost(std::string_view from, std::string_view to) {
  constexpr std::size_t kEdit = 2;
  std::vector<std::size_t> before, above(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) above[j] = kEdit * j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = kEdit * i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({above[j] + kEdit, row[j - 1] + kEdit,
                         above[j - 1] + substitution_cost(from[i - 1], to[j - 1])});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + kEdit);
    }
    before = above;
    above.swap(row);
  }
  return above[to.size()];
}

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 200;  // beyond, no typing error explains it
  if (word.size() > kLongestWord) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_cost = 0;
  for (const std::string& candidate : candidates) {
    const std::size_t longer = std::max(word.size(), candidate.size());
    if (candidate.size() > kLongestWord) continue;
    const std::size_t cost = edit_cost(word, candidate);
    const bool near = cost <= std::max<std::size_t>(2, longer * 4 / 5);
    if (near && (!best || cost < best_cost)) {
      best = candidate;
      best_cost = cost;
    }
  }
  return best;
}

std::string hint(std::string_view word, std::span<const std::string> candidates) {
  if (candidates.empty()) return "";
  if (const auto near = nearest(word, candidates)) {
    return fmt::format(" (did you mean {}?)", util::quoted(*near));
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(candidates.size(), kListedWords); ++i) {
    if (i > 0) list += ", ";
    list += util::quoted(candidates[i]);
  }
  if (candidates.size() > kListedWords) {
    list += fmt::format(" and {} more", candidates.size() - kListedWords);
  }
  return fmt::format(" (known: {})", list);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string format_bytes(double bytes) { return scaled(bytes, 1000, kDecimalPrefixes, "B"); }

std::string format_bytes_binary(double bytes) { return scaled(bytes, 1024, kBinaryPrefixes, "B"); }

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 999.5e-9) return significant(seconds * 1e9) + " ns";
  if (seconds < 999.5e-6) return significant(seconds * 1e6) + " us";
  if (seconds < 999.5e-3) return significant(seconds * 1e3) + " ms";
  if (seconds < 119.5) return significant(seconds) + " s";
  const double minutes = std::floor(seconds / 60);
  const double hours = std::floor(minutes / 60);
  if (hours < 2)
    return fmt::format("{:.0f} min {:02.0f} s", minutes, std::floor(seconds - 60 * minutes));
  return fmt::format("{:.0f} h {:02.0f} min", hours, minutes - 60 * hours);
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string format_si(double value, std::string_view unit) {
  return scaled(value, 1000, kDecimalPrefixes, unit);
}

}  // namespace nestplan::util
