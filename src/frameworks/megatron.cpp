#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/arguments.hpp"
#include "frameworks/fit.hpp"
#include "frameworks/framework.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

/// Megatron-LM as a shell array of arguments, and Megatron-Bridge as overrides of a recipe.
namespace nestplan::frameworks {
namespace {

constexpr const char* kArray = "MEGATRON_ARGS=(";

constexpr const char* kMegatronVersion = "NVIDIA/Megatron-LM at commit 000c4ac24f61";
constexpr const char* kBridgeVersion = "NVIDIA-NeMo/Megatron-Bridge at commit 167ba2ad3210";

/// Programs of the repository by what they train; the rules of the target let no others through.
const char* program_of(ModelKind kind) {
  switch (kind) {
    case ModelKind::kDecoder:
      return "pretrain_gpt.py";
    case ModelKind::kEncoder:
      return "pretrain_bert.py";
    case ModelKind::kEncoderDecoder:
      return "pretrain_t5.py";
    case ModelKind::kOther:
      return "PROGRAM.py";
    case ModelKind::kMultimodal:
    case ModelKind::kUNet:
    case ModelKind::kDiffusionTransformer:
      break;
  }
  throw InternalError("a kind of model without a program");
}

const Demand kRecipes[] = {
    {"recipes", "model", is_no_decoder, explain_no_decoder,
     "NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/recipes"},
};

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
bool wants_one_queue(const Recipe& r) {
  return (r.tp > 1 || r.cp > 1) && r.zero < 2 && !hidden_by_megatron(r).expert;
}

/// The value of CUDA_DEVICE_MAX_CONNECTIONS; 0: any. Exchanges between experts that are hidden want
/// many queues, and then arguments.py only warns.
int queues(const Recipe& r) {
  if (wants_one_queue(r)) return 1;
  return hidden_by_megatron(r).expert ? 32 : 0;
}

std::string write_megatron(const Sheet& sheet) {
  std::vector<std::string> lines = heading(megatron(), sheet);
  std::vector<ArgumentGroup> groups = strategy_arguments(sheet.recipe, sheet.job, sheet.kind);
  if (sheet.job.architecture) {
    const ModelArguments model = megatron_model(sheet.job, sheet.recipe);
    auto& shape = groups.front().arguments;
    shape.insert(shape.end(), model.arguments.begin(), model.arguments.end());
    for (std::string& gap : gaps_of(model)) lines.push_back(std::move(gap));
  } else {
    lines.emplace_back("The shape of the model is to be added (--model tells it).");
  }
  lines.emplace_back("Source this file; data, tokenizer and optimizer come behind the arguments.");
  for (std::string& line : launch_lines(
           sheet.launch, fmt::format("{} \"${{MEGATRON_ARGS[@]}}\" …", program_of(sheet.kind)))) {
    lines.push_back(std::move(line));
  }
  std::string text = "# shellcheck shell=bash disable=SC2034\n" + as_comment(lines);
  if (const int count = queues(sheet.recipe); count > 0) {
    text += fmt::format("export CUDA_DEVICE_MAX_CONNECTIONS={}\n", count);
  }
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
  if (const int count = queues(sheet.recipe); count > 0) {
    lines.push_back(fmt::format("with CUDA_DEVICE_MAX_CONNECTIONS={} in the environment.", count));
  }
  std::string text = as_comment(lines);
  for (const ArgumentGroup& group : strategy_arguments(sheet.recipe, sheet.job, sheet.kind)) {
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

/// Gradients and shards are hidden by the same arguments, rings and transfers by none.
Recipe carried(Recipe recipe, ModelKind) {
  const Hidden hidden = hidden_by_megatron(recipe);
  recipe.hidden = {
      .tensor = hidden.tensor, .expert = hidden.expert, .sync = hidden.sync || hidden.shards};
  return without_tf32(std::move(recipe));
}

}  // namespace

const Framework& megatron() {
  static const Framework framework{"megatron",
                                   "Megatron-LM",
                                   kMegatronVersion,
                                   &targets::rule_set("megatron"),
                                   {},
                                   Numbering::kEither,
                                   hidden_by_megatron,
                                   note_tf32,
                                   write_megatron,
                                   read_megatron,
                                   carried};
  return framework;
}

const Framework& bridge() {
  static const Framework framework{"bridge",
                                   "Megatron-Bridge",
                                   kBridgeVersion,
                                   &targets::rule_set("megatron"),
                                   kRecipes,
                                   Numbering::kEither,
                                   hidden_by_megatron,
                                   note_tf32,
                                   write_bridge,
                                   read_bridge,
                                   carried};
  return framework;
}

}  // namespace nestplan::frameworks
