#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/arguments.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

/// Megatron-LM as a shell array of arguments, and Megatron-Bridge as overrides of a recipe.
namespace nestplan::frameworks {
namespace {

constexpr const char* kArray = "MEGATRON_ARGS=(";

bool is_plain(char c) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:/+-=@%";
  return kPlain.find(c) != std::string_view::npos;
}

/// A word as a shell takes it. Values have no quotes of their own.
std::string shell_word(const std::string& word) {
  return std::all_of(word.begin(), word.end(), is_plain) && !word.empty() ? word : "'" + word + "'";
}

std::string flag_line(const Argument& argument) {
  if (argument.is_switch) return fmt::format("  --{}\n", argument.flag);
  return fmt::format("  --{} {}\n", argument.flag, shell_word(argument.value));
}

std::string flag_lines(const ArgumentGroup& group) {
  std::string lines;
  for (const Argument& argument : group.arguments) {
    if (!argument.flag.empty() && !argument.value.empty()) lines += flag_line(argument);
  }
  return lines.empty() ? "" : fmt::format("  # {}\n{}", group.title, lines);
}

/// Operators of different streams are ordered by one hardware queue, which overlap of tensor- and
/// context-parallel communication counts on and Megatron-FSDP does not stand
/// (NVIDIA/Megatron-LM megatron/training/arguments.py; Blackwell and later do without it).
bool wants_one_queue(const Recipe& r) { return (r.tp > 1 || r.cp > 1) && r.zero < 2; }

std::string write_megatron(const Sheet& sheet) {
  std::vector<std::string> lines = heading(megatron(), sheet);
  std::vector<ArgumentGroup> groups = strategy_arguments(sheet.recipe, sheet.job);
  if (sheet.job.architecture) {
    ModelArguments model = model_arguments(*sheet.job.architecture);
    auto& shape = groups.front().arguments;
    shape.insert(shape.end(), model.arguments.begin(), model.arguments.end());
    for (const std::string& untold : model.untold) {
      lines.push_back(fmt::format("Of the model, no argument here says: {}.", untold));
    }
  }
  lines.emplace_back("Source this file; data, tokenizer and optimizer come behind the arguments.");
  for (std::string& line :
       launch_lines(sheet.launch, "pretrain_gpt.py \"${MEGATRON_ARGS[@]}\" …")) {
    lines.push_back(std::move(line));
  }
  std::string text = "# shellcheck shell=bash disable=SC2034\n" + as_comment(lines);
  if (wants_one_queue(sheet.recipe)) text += "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";
  text += fmt::format("{}\n", kArray);
  for (const ArgumentGroup& group : groups) text += flag_lines(group);
  return text + ")\n";
}

/// Words of a line of the array; quotes are single ones around whole words.
std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin == std::string_view::npos || line[begin] == '#') return words;
    line.remove_prefix(begin);
    const bool is_quoted = line.front() == '\'';
    if (is_quoted) line.remove_prefix(1);
    const std::size_t end = line.find(is_quoted ? '\'' : ' ');
    if (is_quoted && end == std::string_view::npos) throw InvalidInput("a quote is not closed");
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(std::min(line.size(), end == std::string_view::npos ? end : end + 1));
  }
}

Recipe read_megatron(std::string_view text, std::int64_t ranks) {
  const std::size_t begin = text.find(kArray);
  if (begin == std::string_view::npos) throw InvalidInput(fmt::format("no line is \"{}\"", kArray));
  text.remove_prefix(begin + std::string_view(kArray).size());
  std::map<std::string, std::string> values;
  for (const std::string_view line : util::split(text, '\n')) {
    if (line == ")") return recipe_of({std::move(values), GivenArguments::Spelling::kFlags}, ranks);
    const std::vector<std::string> words = shell_words(line);
    if (words.empty()) continue;
    if (!words[0].starts_with("--") || words.size() > 2) {
      throw InvalidInput(fmt::format("{} is not an argument with its value", util::quoted(line)));
    }
    values[words[0].substr(2)] = words.size() == 1 ? "true" : words[1];
  }
  throw InvalidInput("the array of arguments is not closed");
}

/// Values with characters that Hydra's grammar of overrides gives a meaning go into quotes, which
/// are part of the override (hydra.cc/docs/advanced/override_grammar/basic).
std::string override_value(const std::string& value) {
  return value.find_first_of("(|*") == std::string::npos ? value : '"' + value + '"';
}

std::string override_lines(const Argument& argument) {
  const char* absent = argument.is_switch ? "false" : "null";
  std::string lines;
  for (const std::string& field : argument.fields) {
    lines += fmt::format("{}={}\n", field,
                         argument.value.empty() ? absent : override_value(argument.value));
  }
  return lines;
}

/// Recipes have values of their own, so that what is not set is said as well.
std::string write_bridge(const Sheet& sheet) {
  std::vector<std::string> lines = heading(bridge(), sheet);
  lines.emplace_back("Overrides for a recipe of the model:");
  lines.emplace_back("  mapfile -t overrides < <(grep -v '^#' FILE)");
  for (std::string& line : launch_lines(
           sheet.launch,
           "scripts/training/run_recipe.py --recipe RECIPE --mode pretrain \"${overrides[@]}\"")) {
    lines.push_back(std::move(line));
  }
  if (wants_one_queue(sheet.recipe)) {
    lines.emplace_back("with CUDA_DEVICE_MAX_CONNECTIONS=1 in the environment.");
  }
  std::string text = as_comment(lines);
  for (const ArgumentGroup& group : strategy_arguments(sheet.recipe, sheet.job)) {
    for (const Argument& argument : group.arguments) text += override_lines(argument);
  }
  return text;
}

Recipe read_bridge(std::string_view text, std::int64_t ranks) {
  std::map<std::string, std::string> values;
  for (const std::string_view line : util::split(text, '\n')) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      throw InvalidInput(fmt::format("{} is not FIELD=VALUE", util::quoted(line)));
    }
    std::string_view value = line.substr(equals + 1);
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (value != "null" && value != "false") values[std::string(line.substr(0, equals))] = value;
  }
  return recipe_of({std::move(values), GivenArguments::Spelling::kFields}, ranks);
}

Recipe carried(Recipe recipe) { return without_tf32(std::move(recipe)); }

}  // namespace

const Framework& megatron() {
  static const Framework framework{"megatron",
                                   "Megatron-LM",
                                   &targets::rule_set("megatron"),
                                   {},
                                   Numbering::kEither,
                                   note_tf32,
                                   write_megatron,
                                   read_megatron,
                                   carried};
  return framework;
}

const Framework& bridge() {
  static const Framework framework{"bridge",     "Megatron-Bridge",  &targets::rule_set("megatron"),
                                   {},           Numbering::kEither, note_tf32,
                                   write_bridge, read_bridge,        carried};
  return framework;
}

}  // namespace nestplan::frameworks
