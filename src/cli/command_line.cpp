#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <sstream>
#include <string_view>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

constexpr std::string_view kSection = "plan";
constexpr std::size_t kShownName = 60;  ///< of a name in a configuration file that is not known

struct Subcommand {
  Command command;
  const char* name;
  const char* help;
};

constexpr Subcommand kSubcommands[] = {
    {Command::kPlan, "plan", "find the fastest plan that fits, with a proof of how good it is"},
    {Command::kResume, "resume", "go on with a search that was stopped, from its checkpoint"},
    {Command::kEvaluate, "evaluate", "cost of a given plan, stage by stage"},
    {Command::kSimulate, "simulate", "one iteration of a given plan, event by event"},
    {Command::kCalibrate, "calibrate", "a device's parameters from measured times"},
    {Command::kCompare, "compare", "the planner's plan beside those of its baselines"},
    {Command::kBatch, "batch", "plan many jobs from one file, with a summary at the end"},
    {Command::kExport, "export", "a plan's ranks on hosts and devices, as launchers take them"},
    {Command::kImport, "import", "a graph from an ONNX model, a torch.fx trace or a Chakra trace"},
    {Command::kReport, "report", "a page about a plan or a batch, to be read in a browser"},
    {Command::kInspect, "inspect",
     "what is in a model, cluster, device, graph, plan or checkpoint file"},
};

/// What a configuration file may set.
bool is_config_option(const Option& option) {
  return option.belongs_to(Command::kPlan) && option.name != "config" &&
         option.name != "dump-config";
}

std::vector<std::string> config_keys() {
  std::vector<std::string> keys;
  for (const Option& option : options()) {
    if (is_config_option(option)) keys.emplace_back(option.name);
  }
  return keys;
}

/// The table's own spelling of `name`, which outlives any file.
std::string_view option_named(std::string_view name) {
  for (const Option& option : options()) {
    if (option.name == name) return option.name;
  }
  throw InternalError(fmt::format("no option is called {}", name));
}

void add_option(CLI::App& app, const Option& option, RawValues& raw) {
  std::string names = fmt::format("--{}", option.name);
  if (!option.letter.empty()) names = fmt::format("-{},{}", option.letter, names);
  const auto store = [&raw, name = option.name](const CLI::results_t& values) {
    raw[name] = values;
    return true;
  };
  CLI::Option* added = nullptr;
  if (option.is_switch()) {
    added = app.add_flag_function(names, [&raw, name = option.name](std::int64_t count) {
      raw[name] = {count > 0 ? "true" : "false"};
    });
  } else {
    added = app.add_option(names, store);
    added->type_name(std::string(option.value));
    added->type_size(1)->expected(1)->allow_extra_args(false);
    added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (!option.fallback.empty()) added->default_str(std::string(option.fallback));
  }
  added->description(std::string(option.help))->group(std::string(option.group));
}

/// Text of `--flag` in an argument such as `--flag=3`.
std::string_view flag_part(std::string_view argument) {
  return argument.substr(0, argument.find('='));
}

[[noreturn]] void refuse_argument(std::string_view argument, const Subcommand* subcommand) {
  std::vector<std::string> known;
  if (subcommand == nullptr) {
    known = {"--help", "--version"};
    for (const Subcommand& entry : kSubcommands) known.emplace_back(entry.name);
  } else {
    for (const Option& option : options()) {
      if (option.belongs_to(subcommand->command)) known.push_back(fmt::format("--{}", option.name));
    }
  }
  const bool flag = argument.starts_with('-');
  const char* const kind = flag ? "option" : subcommand == nullptr ? "command" : "argument";
  const std::string where = subcommand == nullptr ? "" : fmt::format(" of {}", subcommand->name);
  const bool can_hint = flag || subcommand == nullptr;
  throw InvalidConfig(fmt::format("unknown {} {}{}{}", kind, util::quoted(argument), where,
                                  can_hint ? util::hint(flag_part(argument), known) : ""));
}

/// One line without CLI11's trailing remarks.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Items of the `[plan]` section of a configuration file.
RawValues parse_config(const std::string& path, const std::string& text) {
  std::istringstream file(text);
  const std::vector<std::string> keys = config_keys();
  RawValues values;
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(file)) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of a section's ends
    if (item.parents != std::vector<std::string>{std::string(kSection)}) {
      throw InvalidInput(fmt::format("{}: {}: not in the section [{}]", path,
                                     util::quoted(item.fullname(), kShownName), kSection));
    }
    if (std::find(keys.begin(), keys.end(), item.name) == keys.end()) {
      throw InvalidInput(fmt::format("{}: [{}] {}: unknown key{}", path, kSection,
                                     util::quoted(item.name, kShownName),
                                     util::hint(item.name, keys)));
    }
    auto& collected = values[option_named(item.name)];
    collected.insert(collected.end(), item.inputs.begin(), item.inputs.end());
  }
  return values;
}

/// Flags over file: what is not on the command line comes from the file.
void add_config(const std::string& path, const std::string& text, RawValues& raw) {
  RawValues from_file = parse_config(path, text);
  try {
    parse_flags(Command::kPlan, from_file);
  } catch (const InvalidConfig& error) {
    throw InvalidInput(fmt::format("{}: {}", path, error.what()));
  }
  raw.merge(from_file);
}

std::string config_string(const Option& option, const std::string& text) {
  if (text.find_first_of("\"#\n") != std::string::npos) {
    throw InvalidConfig(
        fmt::format("--{}: {} has a character (\" or #) that a configuration file cannot hold",
                    option.name, util::quoted(text)));
  }
  return fmt::format("\"{}\"", text);
}

/// Values as a configuration file writes them; empty for those that are not set.
class ConfigWriter {
 public:
  ConfigWriter(const Option& option, const Flags& flags) : option_(option), flags_(flags) {}

  std::string operator()(const Switch& type) const { return flags_.*type.field ? "true" : "false"; }
  std::string operator()(const Text& type) const {
    const std::string& text = flags_.*type.field;
    return text.empty() ? "" : config_string(option_, text);
  }
  std::string operator()(const Integer& type) const { return scalar(flags_.*type.field); }
  std::string operator()(const Duration& type) const { return scalar(flags_.*type.field); }
  std::string operator()(const Size& type) const {
    const auto& bytes = flags_.*type.field;
    return bytes ? config_string(option_, size_text(*bytes)) : "";
  }
  std::string operator()(const Percent& type) const {
    const auto& percent = flags_.*type.field;
    return percent ? config_string(option_, percent_text(*percent)) : "";
  }
  std::string operator()(const Choice& type) const { return scalar(flags_.*type.field); }
  std::string operator()(const IntegerList& type) const { return list(flags_.*type.field); }
  std::string operator()(const RealList& type) const { return list(flags_.*type.field); }
  std::string operator()(const WordList& type) const {
    std::vector<std::string> words;
    for (const std::string& word : flags_.*type.field) {
      words.push_back(config_string(option_, word));
    }
    return list(words);
  }
  std::string operator()(const ChoiceList& type) const { return list(flags_.*type.field); }

 private:
  template <typename Value>
  static std::string scalar(const std::optional<Value>& value) {
    return value ? fmt::format("{}", *value) : "";
  }
  template <typename Value>
  static std::string list(const std::vector<Value>& values) {
    return values.empty() ? "" : fmt::format("[{}]", fmt::join(values, ", "));
  }

  const Option& option_;
  const Flags& flags_;
};

/// CLI11 takes numbers for the value of a switch and ends in a foreign exception for other words.
void check_switch_values(std::span<const char* const> arguments) {
  for (const std::string_view argument : arguments) {
    const std::string_view flag = flag_part(argument);
    if (!flag.starts_with("--") || flag.size() == argument.size()) continue;
    const std::string_view value = argument.substr(flag.size() + 1);
    for (const Option& option : options()) {
      if (option.name != flag.substr(2) || !option.is_switch()) continue;
      if (value == "true" || value == "false") continue;
      throw InvalidConfig(
          fmt::format("{}: {} is neither true nor false", flag, util::quoted(value)));
    }
  }
}

void describe_app(CLI::App& app) {
  app.name("nestplan");
  app.description(
      "Plans the distributed training of large models: the fastest parallel strategy and device\n"
      "placement that fits in memory, with a bound on what can be better.");
  app.set_version_flag("--version", std::string("nestplan ") + NESTPLAN_VERSION);
  app.set_help_flag("-h,--help", "print this and stop");
  app.allow_extras();
  app.footer(
      "Exit codes: 0 done, 1 internal error, 2 bad usage or input, 3 no feasible plan,\n"
      "4 stopped by signal or time limit, 5 file system failure, 6 out of memory.");
}

void add_subcommand(CLI::App& app, const Subcommand& subcommand, RawValues& raw,
                    std::vector<std::string>& files) {
  CLI::App* sub = app.add_subcommand(subcommand.name, subcommand.help);
  sub->allow_extras();
  sub->set_help_flag();  // so that its heading is not the first one
  for (const Option& option : options()) {
    if (option.belongs_to(subcommand.command)) add_option(*sub, option, raw);
  }
  sub->set_help_flag("-h,--help", "print this and stop")->group("Run and output");
  if (subcommand.command == Command::kPlan) {
    sub->footer(
        "SIGINT, SIGTERM and SIGUSR1 end the search with the best plan so far (exit code 4), and\n"
        "with --checkpoint save it first: the same command, or `nestplan resume FILE`, goes on, "
        "with\n"
        "any number of ranks. A checkpoint whose search is done is kept and gives its plan at "
        "once.\n"
        "Under mpirun send it SIGUSR1, which it hands on to the ranks; after SIGINT and SIGTERM "
        "it\n"
        "kills them a moment later and ends with 1, whatever they end with.");
  } else if (subcommand.command == Command::kResume) {
    sub->add_option("FILE", files, "the checkpoint, of nestplan plan --checkpoint FILE");
    sub->footer(
        "The file knows what is planned: its inputs need not be there any more. Any number of "
        "ranks\n"
        "goes on, to the same plan. If FILE is damaged or missing, FILE.1, the save before it, is "
        "taken.");
  } else if (subcommand.command == Command::kEvaluate) {
    sub->add_option("PLAN", files, "the plan, a nestplan.plan/1 file");
    sub->footer(
        "Takes the flags of the search, so that they can be repeated; what the plan fixes stays: "
        "its\n"
        "layers, strategies, micro-batch and dp, and any position, recompute and ZeRO it names.");
  } else if (subcommand.command == Command::kSimulate) {
    sub->add_option("PLAN", files, "the plan, a nestplan.plan/1 file");
    sub->footer(
        "Takes the flags of evaluate and costs the plan in the same way, then runs its schedule on "
        "the\nnetwork: what the formula says and what comes out are printed side by side.");
  } else if (subcommand.command == Command::kReport) {
    sub->add_option(
        "PLAN", files,
        "the plan, a nestplan.plan/1 file; or a batch: the directory of its -o, or what "
        "--json printed");
    sub->footer(
        "Takes the flags of evaluate and costs the plan in the same way; a batch needs none. The "
        "page is\none HTML file that loads nothing. Exit code 3: the plan does not fit, and the "
        "page "
        "says why.");
  } else if (subcommand.command == Command::kCalibrate) {
    sub->footer(
        "Columns of both tables (those in brackets may be left out; what they are then):\n"
        "  model, seq, [micro_batch 1], [tp cp ep 1], [etp tp], [precision bf16],\n"
        "  [attention fused, flash1, flash2 or unfused], [sequence_parallel yes], [device],\n"
        "  [group], [note]\n"
        "Of --runs: global_batch, iteration_s or tokens_per_s, [devices: the cluster's],\n"
        "  [pp vpp 1], [dp: devices/(tp*cp*pp)], [zero 1], [recompute none]\n"
        "Of --layers: layer, forward_s and backward_s or one of them, [granularity layer]\n"
        "Rows of a group are held out together. Runs on several devices need --cluster.");
  } else if (subcommand.command == Command::kCompare) {
    sub->footer(
        "Takes the flags of plan. Every method works with the same costs and restrictions, and "
        "the\nevaluator judges every plan; X marks a method without a plan that fits. "
        "--time-limit is for\neach method. Exit codes: 0 some method has a plan, 3 none has, 4 a "
        "search was stopped.");
  } else if (subcommand.command == Command::kExport) {
    sub->add_option("PLAN", files, "the plan, a nestplan.plan/1 file");
    sub->footer(
        "Takes the plan and the cluster it was made for; no model. Hosts that the cluster file "
        "does "
        "not\nname get their names from --hosts; formats that can do without them use their "
        "order.");
  } else if (subcommand.command == Command::kImport) {
    sub->add_option("FILE", files, "the model or the trace");
    sub->footer(
        "Writes a nestplan.graph/1 file for --graph, with times on the accelerator of --cluster or "
        "--device.\nA torch.fx trace is what inputs/export_torch_graph.py writes. Times of a "
        "Chakra "
        "trace are measured:\nit needs neither.");
  } else if (subcommand.command == Command::kBatch) {
    sub->add_option("BATCH", files, "the jobs, a nestplan.batch/1 file");
    sub->footer(
        "A job that is finished in the directory of -o with the same inputs and options is not\n"
        "repeated; one that fails does not stop the others. Exit codes: 0 every job has its best\n"
        "plan; 4 a signal came; else that of the most serious job, in the order 1, 5, 6, 2, 4, 3.");
  } else if (subcommand.command == Command::kInspect) {
    sub->add_option("FILES", files,
                    "what to describe: models, clusters, graphs, plans, checkpoints");
  }
}

/// The one command that was given. Throws InvalidConfig for none, several, or leftovers.
Command chosen_command(const CLI::App& app) {
  const Subcommand* chosen = nullptr;
  for (const Subcommand& subcommand : kSubcommands) {
    if (!app.got_subcommand(subcommand.name)) continue;
    if (chosen != nullptr) {
      throw InvalidConfig(
          fmt::format("{} and {}: one command at a time", chosen->name, subcommand.name));
    }
    chosen = &subcommand;
  }
  if (chosen != nullptr) {
    const std::vector<std::string> extras = app.get_subcommand(chosen->name)->remaining();
    if (!extras.empty()) refuse_argument(extras.front(), chosen);
  }
  if (!app.remaining().empty()) refuse_argument(app.remaining().front(), nullptr);
  if (chosen == nullptr) {
    throw InvalidConfig(
        "a command is needed: plan, resume, evaluate, simulate, calibrate, compare, export, "
        "import, batch, report or inspect "
        "(see "
        "nestplan --help)");
  }
  return chosen->command;
}

/// Throws InvalidConfig unless the command has as many files as it takes.
void check_files(const Invocation& invocation) {
  const char* wanted = nullptr;
  if (invocation.command == Command::kEvaluate) wanted = "evaluate: one plan file";
  if (invocation.command == Command::kSimulate) wanted = "simulate: one plan file";
  if (invocation.command == Command::kReport) wanted = "report: one plan or batch";
  if (invocation.command == Command::kExport) wanted = "export: one plan file";
  if (invocation.command == Command::kResume) wanted = "resume: one checkpoint";
  if (invocation.command == Command::kImport) wanted = "import: one model or trace";
  if (invocation.command == Command::kBatch) wanted = "batch: one batch file";
  if (wanted != nullptr && invocation.files.size() != 1) {
    throw InvalidConfig(fmt::format("{} is needed, {} given", wanted, invocation.files.size()));
  }
}

}  // namespace

Invocation parse_command_line(int argc, const char* const* argv, const FileReader& read) {
  Invocation invocation;
  RawValues raw;
  CLI::App app;
  describe_app(app);
  for (const Subcommand& subcommand : kSubcommands) {
    add_subcommand(app, subcommand, raw, invocation.files);
  }

  check_switch_values(std::span(argv, static_cast<std::size_t>(argc)));
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    invocation.text = app.help();
    return invocation;
  } catch (const CLI::CallForVersion& version) {
    invocation.text = std::string(version.what()) + "\n";
    return invocation;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();
    throw InvalidConfig(what.substr(0, what.find(':')) + ": a value is needed");
  } catch (const CLI::ParseError& error) {
    throw InvalidConfig(first_line(error.what()));
  }

  invocation.command = chosen_command(app);
  check_files(invocation);
  if (raw.contains("config")) {
    const std::string path = parse_flags(invocation.command, raw).config;
    add_config(path, read(path), raw);
  }
  invocation.flags = parse_flags(invocation.command, raw);
  return invocation;
}

std::string dump_config(const Flags& flags) {
  std::string text = fmt::format("[{}]\n", kSection);
  for (const Option& option : options()) {
    if (!is_config_option(option)) continue;
    const std::string value = std::visit(ConfigWriter(option, flags), option.type);
    text += fmt::format("# {}\n", option.help);
    text += value.empty() ? fmt::format("# {} =\n", option.name)
                          : fmt::format("{} = {}\n", option.name, value);
  }
  return text;
}

}  // namespace nestplan::cli
