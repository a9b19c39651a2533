#include "nestplan/util/host_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::util {
namespace {

constexpr std::size_t kMostDigits = 18;  ///< of a number: 64 bits hold it and the one after it
constexpr std::size_t kWidest = 64;      ///< leading zeros included

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string padded(std::uint64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

std::uint64_t number_of(std::string_view digits) {
  std::uint64_t number = 0;
  for (const char c : digits) number = 10 * number + static_cast<std::uint64_t>(c - '0');
  return number;
}

class ListReader {
 public:
  explicit ListReader(std::string_view list) : list_(list) {}

  std::vector<std::string> names() {
    while (true) {
      while (at_ < list_.size() && is_separator(list_[at_])) ++at_;
      if (at_ == list_.size()) return std::move(names_);
      read_entry();
    }
  }

 private:
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::size_t width = 1;
  };
  struct Part {
    std::string text;           ///< before the bracket
    std::vector<Range> ranges;  ///< none: there is no bracket
  };

  [[noreturn]] void fail(std::size_t position, const std::string& problem) const {
    throw InvalidInput(
        fmt::format("{}: position {}: {}", quoted(list_, 40), position + 1, problem));
  }

  void read_entry() {
    const std::size_t start = at_;
    std::vector<Part> parts(1);
    std::uint64_t count = 1;
    while (at_ < list_.size() && !is_separator(list_[at_])) {
      const char c = list_[at_];
      if (c == ']') fail(at_, "there is no \"[\" for this \"]\"");
      if (c != '[') {
        parts.back().text += c;
        ++at_;
        continue;
      }
      std::uint64_t inside = 0;
      parts.back().ranges = read_bracket();
      for (const Range& range : parts.back().ranges) inside += range.last - range.first + 1;
      count *= inside;  // below 2^40: each factor is checked
      if (count + names_.size() > kMostHostNames) {
        fail(start, fmt::format("the list has more than {} names", format_count(kMostHostNames)));
      }
      parts.emplace_back();
    }
    if (names_.size() == kMostHostNames) {
      fail(start, fmt::format("the list has more than {} names", format_count(kMostHostNames)));
    }
    append_names(parts, 0, "");
  }

  std::vector<Range> read_bracket() {
    const std::size_t open = at_++;
    std::vector<Range> ranges;
    std::uint64_t count = 0;
    while (true) {
      const std::size_t start = at_;
      Range range;
      const std::string_view first = read_number(open);
      range.first = range.last = number_of(first);
      range.width = first.size();
      if (at_ < list_.size() && list_[at_] == '-') {
        ++at_;
        range.last = number_of(read_number(open));
      }
      if (range.last < range.first) fail(start, "the range ends before it starts");
      const std::uint64_t numbers = range.last - range.first + 1;
      if (numbers > kMostHostNames || (count += numbers) > kMostHostNames) {
        fail(start, fmt::format("the list has more than {} names", format_count(kMostHostNames)));
      }
      ranges.push_back(range);
      if (at_ == list_.size()) fail(open, "the bracket is not closed");
      const char next = list_[at_++];
      if (next == ']') return ranges;
      if (next != ',') fail(at_ - 1, "a number in brackets is followed by \"-\", \",\" or \"]\"");
    }
  }

  std::string_view read_number(std::size_t open) {
    const std::size_t start = at_;
    while (at_ < list_.size() && is_digit(list_[at_])) ++at_;
    const std::string_view digits = list_.substr(start, at_ - start);
    if (digits.empty() && at_ == list_.size()) fail(open, "the bracket is not closed");
    if (digits.empty()) fail(start, "a number is missing");
    const auto significant = digits.find_first_not_of('0');
    const std::size_t zeros = significant == std::string_view::npos ? digits.size() : significant;
    if (digits.size() > kWidest || digits.size() - zeros > kMostDigits) {
      fail(start, "the number is too long");
    }
    return digits;
  }

  void append_names(const std::vector<Part>& parts, std::size_t index, const std::string& before) {
    const Part& part = parts[index];
    const std::string name = before + part.text;
    if (part.ranges.empty()) {
      names_.push_back(name);
      return;
    }
    for (const Range& range : part.ranges) {
      for (std::uint64_t number = range.first; number <= range.last; ++number) {
        append_names(parts, index + 1, name + padded(number, range.width));
      }
    }
  }

  std::string_view list_;
  std::size_t at_ = 0;
  std::vector<std::string> names_;
};

/// Numbers in the order they were added, as what stands in brackets.
class Numbers {
 public:
  explicit Numbers(std::string_view digits) { open(digits); }

  void add(std::string_view digits) {
    if (padded(last_ + 1, width_) == digits) {
      ++last_;
      return;
    }
    close();
    open(digits);
  }

  /// With its brackets, where there are several numbers or `always`.
  std::string text(bool always = false) const {
    Numbers whole = *this;
    whole.close();
    const bool single = whole.closed_.find_first_of(",-") == std::string::npos;
    return single && !always ? whole.closed_ : '[' + whole.closed_ + ']';
  }

 private:
  void open(std::string_view digits) {
    first_ = last_ = number_of(digits);
    width_ = digits.size();
  }
  void close() {
    if (!closed_.empty()) closed_ += ',';
    closed_ += padded(first_, width_);
    if (last_ > first_) closed_ += '-' + padded(last_, width_);
  }

  std::string closed_;
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::size_t width_ = 1;
};

/// A name up to its last number, and the numbers that follow it.
struct Entry {
  std::string prefix;
  std::optional<Numbers> numbers;  ///< none: the name does not end in a number
};

/// The digits at the end of a name, as many as a number may have.
std::string_view last_digits(std::string_view name) {
  std::size_t start = name.size();
  while (start > 0 && is_digit(name[start - 1]) && name.size() - start < kMostDigits) --start;
  return name.substr(start);
}

/// Where, and in which digits, two texts differ if a single number is all that differs.
struct Difference {
  std::size_t start = 0;
  std::string_view first, second;
};

std::optional<Difference> one_number_apart(std::string_view a, std::string_view b) {
  const auto mismatch = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  auto start = static_cast<std::size_t>(mismatch.first - a.begin());
  while (start > 0 && is_digit(a[start - 1])) --start;
  const auto digits = [&](std::string_view text) {
    std::size_t end = start;
    while (end < text.size() && is_digit(text[end])) ++end;
    return text.substr(start, end - start);
  };
  const Difference difference{start, digits(a), digits(b)};
  const auto usable = [](std::string_view number) {
    return !number.empty() && number.size() <= kMostDigits;
  };
  const bool same_rest =
      a.substr(start + difference.first.size()) == b.substr(start + difference.second.size());
  if (!usable(difference.first) || !usable(difference.second) || !same_rest) return std::nullopt;
  return difference;
}

}  // namespace

std::vector<std::string> expand_hosts(std::string_view list) { return ListReader(list).names(); }

std::string compress_hosts(std::span<const std::string> names) {
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    const bool unfit = name.empty() || std::any_of(name.begin(), name.end(), [](char c) {
                         return is_separator(c) || c == '[' || c == ']';
                       });
    if (unfit) throw InvalidInput(fmt::format("{} cannot be in a list of hosts", quoted(name)));
    const std::string_view digits = last_digits(name);
    const std::string prefix = name.substr(0, name.size() - digits.size());
    if (digits.empty()) {
      entries.push_back({prefix, std::nullopt});
    } else if (!entries.empty() && entries.back().numbers && entries.back().prefix == prefix) {
      entries.back().numbers->add(digits);
    } else {
      entries.push_back({prefix, Numbers(digits)});
    }
  }

  std::string list;
  for (std::size_t i = 0; i < entries.size();) {
    const Entry& entry = entries[i];
    std::size_t next = i + 1;
    std::string text = entry.prefix + (entry.numbers ? entry.numbers->text() : "");
    if (entry.numbers) {
      const std::string brackets = entry.numbers->text(true);
      std::optional<Difference> field;
      std::optional<Numbers> outer;
      for (; next < entries.size() && entries[next].numbers; ++next) {
        const auto step = one_number_apart(entries[next - 1].prefix, entries[next].prefix);
        if (!step || entries[next].numbers->text(true) != brackets) break;
        const auto whole = one_number_apart(entry.prefix, entries[next].prefix);
        if (!whole || (field && (whole->start != field->start || step->start != field->start))) {
          break;
        }
        if (!field) {
          field = whole;
          outer = Numbers(whole->first);
        }
        outer->add(whole->second);
      }
      if (field) {
        text = entry.prefix.substr(0, field->start) + outer->text(true) +
               entry.prefix.substr(field->start + field->first.size()) + brackets;
      }
    }
    if (!list.empty()) list += ',';
    list += text;
    i = next;
  }
  return list;
}

}  // namespace nestplan::util
