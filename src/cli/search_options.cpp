#include "cli/search_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace nestplan::cli {
namespace {

bool is_input(std::string_view name) {
  return name == "model" || name == "graph" || name == "cluster";
}

std::string value_of(const std::vector<std::string>& texts) {
  return texts == std::vector<std::string>{"true"} ? "" : fmt::format("{}", fmt::join(texts, ","));
}

/// Questions whose answers come with one plan.
void add_questions(const Flags& flags, io::SearchOptions& options) {
  if (flags.fewest_devices) options.emplace_back("fewest-devices", "");
  if (flags.what_if) options.emplace_back("what-if", "");
  if (flags.top) options.emplace_back("top", fmt::format("{}", *flags.top));
  if (flags.explain) options.emplace_back("explain", "");
}

}  // namespace

io::SearchOptions search_options(const Flags& flags) {
  const auto defaults = search_values(parse_flags(Command::kPlan, {}));
  const auto values = search_values(flags);
  io::SearchOptions result;
  for (const Option& option : options()) {
    const std::string name(option.name);
    const auto given = values.find(name);
    if (!option.belongs_to(Command::kPlan) || given == values.end() || is_input(name)) continue;
    const auto usual = defaults.find(name);
    if (usual != defaults.end() && usual->second == given->second) continue;
    result.emplace_back(name, value_of(given->second));
  }
  add_questions(flags, result);
  return result;
}

std::string command_text(const io::SearchOptions& options) {
  std::string text;
  for (const auto& [name, value] : options) {
    text += " --" + name;
    if (!value.empty()) text += ' ' + shell_word(value);
  }
  return text;
}

std::string restriction_text(const io::SearchOptions& written) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : written) {
    const auto known = std::find_if(options().begin(), options().end(), [&](const Option& option) {
      return option.belongs_to(Command::kPlan) && option.name == name;
    });
    if (known == options().end() || !chooses_plans(*known)) continue;
    parts.push_back(value.empty() ? name : name + ' ' + value);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace nestplan::cli
