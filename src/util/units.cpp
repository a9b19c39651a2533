#include "nestplan/util/units.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::util {
namespace {

/// One way to write a unit. The value is `number * multiply / divide`; both factors are exact
/// doubles (1e-6 would not be one).
struct Unit {
  std::string name;
  double multiply = 1;
  double divide = 1;
};

struct Dimension {
  const char* what;          ///< "a bandwidth"
  const char* example;       ///< for text without a number
  const char* typical_unit;  ///< for a number without a unit
  std::vector<Unit> units;
};

constexpr const char* kDecimal[] = {"", "k", "M", "G", "T", "P", "E"};

/// Bytes and bits with every prefix, each followed by `suffix`.
std::vector<Unit> data_units(const std::string& suffix) {
  std::vector<Unit> units;
  for (const auto& [symbol, bits] : {std::pair{"B", 1.0}, std::pair{"b", 8.0}}) {
    double decimal = 1, binary = 1;
    for (const std::string prefix : kDecimal) {
      units.push_back({prefix + symbol + suffix, decimal, bits});
      if (!prefix.empty()) {
        const std::string binary_prefix = (prefix == "k" ? "K" : prefix) + "i";
        units.push_back({binary_prefix + symbol + suffix, binary, bits});
      }
      decimal *= 1000;
      binary *= 1024;
    }
  }
  return units;
}

std::vector<Unit> flop_units() {
  std::vector<Unit> units;
  double scale = 1;
  for (const std::string prefix : kDecimal) {
    units.push_back({prefix + "FLOP/s", scale, 1});
    scale *= 1000;
  }
  return units;
}

const Dimension& bytes_dimension() {
  static const Dimension dimension{"an amount of data", "80 GiB", "GB", data_units("")};
  return dimension;
}

const Dimension& bandwidth_dimension() {
  static const Dimension dimension{"a bandwidth", "450 GB/s", "GB/s", data_units("/s")};
  return dimension;
}

const Dimension& time_dimension() {
  static const Dimension dimension{
      "a time", "2.5 us", "us", {{"s", 1, 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}}};
  return dimension;
}

const Dimension& flops_dimension() {
  static const Dimension dimension{"a compute rate", "989 TFLOP/s", "TFLOP/s", flop_units()};
  return dimension;
}

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// `written` with other people's spellings replaced by ours, as far as they are known.
std::string in_our_spelling(std::string_view written) {
  constexpr std::pair<std::string_view, std::string_view> kSpellings[] = {
      {"bytes", "B"}, {"byte", "B"},    {"bits", "b"}, {"bit", "b"},       {"µ", "u"},
      {"μ", "u"},     {"seconds", "s"}, {"sec", "s"},  {"FLOPS", "FLOP/s"}};
  std::string text(written);
  for (const auto& [theirs, ours] : kSpellings) {
    if (const auto at = text.find(theirs); at != std::string::npos) {
      text.replace(at, theirs.size(), ours);
    }
  }
  if (text.ends_with("ps")) text.replace(text.size() - 2, 2, "/s");
  return text;
}

/// The unit whose spelling is nearest to `given`; spellings of the same distance go to the first.
const Unit& nearest_unit(std::string_view given, const Dimension& dimension) {
  const std::string written = in_our_spelling(given);
  const Unit* best = nullptr;
  std::size_t best_cost = 0;
  for (const Unit& unit : dimension.units) {
    const std::size_t cost = edit_cost(written, unit.name);
    if (best == nullptr || cost < best_cost) {
      best = &unit;
      best_cost = cost;
    }
  }
  return *best;
}

[[noreturn]] void fail(std::string_view text, const Dimension& dimension,
                       std::string_view problem) {
  throw InvalidInput(fmt::format("{} {} (write {} like \"{}\")", quoted(text), problem,
                                 dimension.what, dimension.example));
}

[[noreturn]] void fail_unit(std::string_view text, std::string_view number, std::string_view unit,
                            const Dimension& dimension) {
  constexpr std::size_t kLongestUnit = 20;
  if (unit.size() > kLongestUnit || number.size() > kLongestUnit) {
    fail(text, dimension, fmt::format("is not {}", dimension.what));
  }
  if (unit.empty()) {
    throw InvalidInput(fmt::format("{} has no unit: {} is expected, for example \"{} {}\"",
                                   quoted(text), dimension.what, number, dimension.typical_unit));
  }
  throw InvalidInput(fmt::format("{} is not {} (did you mean \"{} {}\"?)", quoted(text),
                                 dimension.what, number, nearest_unit(unit, dimension).name));
}

bool starts_like_a_number(std::string_view text) {
  const char c = text.front() == '-' && text.size() > 1 ? text[1] : text.front();
  return (c >= '0' && c <= '9') || c == '.';
}

double parse(std::string_view text, const Dimension& dimension) {
  const std::string_view body = trimmed(text);
  if (body.empty()) fail(text, dimension, "is empty");
  if (!starts_like_a_number(body)) fail(text, dimension, "does not start with a number");

  double number = 0;
  const auto [end, error] = std::from_chars(body.data(), body.data() + body.size(), number);
  if (error == std::errc::result_out_of_range) fail(text, dimension, "is out of range");
  if (error != std::errc()) fail(text, dimension, "does not start with a number");
  if (body.front() == '-') fail(text, dimension, "is negative");

  const auto length = static_cast<std::size_t>(end - body.data());
  const std::string_view digits = body.substr(0, length);
  const std::string_view name = trimmed(body.substr(length));
  for (const Unit& unit : dimension.units) {
    if (unit.name != name) continue;
    const double value = number * unit.multiply / unit.divide;
    if (!std::isfinite(value)) fail(text, dimension, "is out of range");
    return value;
  }
  fail_unit(text, digits, name, dimension);
}

}  // namespace

double parse_bytes(std::string_view text) { return parse(text, bytes_dimension()); }
double parse_bandwidth(std::string_view text) { return parse(text, bandwidth_dimension()); }
double parse_seconds(std::string_view text) { return parse(text, time_dimension()); }
double parse_flops(std::string_view text) { return parse(text, flops_dimension()); }

}  // namespace nestplan::util
