#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nestplan::cli {

enum class Command : unsigned {
  kPlan = 1,
  kEvaluate = 2,
  kInspect = 4,
  kBatch = 8,
  kResume = 16,
  kExport = 32,
  kSimulate = 64,
  kCalibrate = 128,
  kCompare = 256,
  kReport = 512,
  kImport = 1024
};

/// The `--attention` that is not the default.
inline constexpr std::string_view kUnfused = "unfused";

/// Names of model::StageConstraints::Layout, in the order of its enumerators.
std::vector<std::string> layout_names();

/// Everything a command line can say, as read through the table of options.
struct Flags {
  // inputs
  std::string model;
  std::string graph;
  std::string cluster;
  std::optional<std::int64_t> global_batch;
  std::optional<std::int64_t> seq;
  std::string tokens;
  std::string granularity;
  std::string precision;
  std::vector<double> state_bytes;
  // what the search may choose
  std::vector<std::int64_t> micro_batch, tp, cp, ep, pp, vpp, dp, dp_inner;
  std::vector<std::string> recompute;
  std::vector<std::string> shard;
  std::vector<std::int64_t> zero;
  std::optional<std::string> objective;
  std::optional<std::string> schedule;
  bool per_stage_strategies = false;
  bool allow_uneven_batch = false;
  bool no_transfer_overlap = false;
  std::vector<std::string> overlap;
  std::optional<std::string> target;
  // what stages may hold
  std::string slice;
  std::string nodelist;
  std::string exclude;
  bool whole_hosts = false;
  std::optional<std::int64_t> choose_nodes;
  std::optional<std::int64_t> segment;
  std::vector<std::string> background;
  std::vector<std::string> keep_inside;
  std::vector<std::string> stage_at;
  std::vector<std::string> pin;
  std::string together;
  std::string cut;
  std::optional<std::string> stage_layers;
  std::optional<std::int64_t> first_stage_layers, last_stage_layers;
  std::optional<std::int64_t> least_stage_layers, most_stage_layers;
  // memory that is left alone
  std::optional<double> context_reserve;      ///< bytes, whole
  std::optional<double> communicator_buffer;  ///< bytes, whole
  std::optional<double> memory_margin;        ///< percent
  // questions beside the plan
  bool fewest_devices = false;
  std::vector<std::int64_t> device_counts;
  bool weak = false;
  bool what_if = false;
  std::optional<std::int64_t> top;
  bool explain = false;
  bool pareto = false;
  std::optional<std::int64_t> pareto_points;
  // how a model is split and profiled
  std::vector<std::string> context_form;
  std::vector<std::int64_t> etp;
  std::optional<std::string> attention;
  bool no_sequence_parallel = false;
  bool no_mtp = false;
  std::optional<std::int64_t> vocabulary_multiple;
  std::vector<double> logit_bytes;
  std::vector<double> routing_imbalance;  ///< none or one
  std::vector<double> capacity_factor;    ///< none or one
  // how it runs and what comes out
  std::optional<double> time_limit;
  std::string checkpoint;
  std::optional<double> checkpoint_every;
  std::string grid;
  bool single_process = false;
  std::string output;
  std::optional<std::int64_t> ranks_per_job;
  std::vector<std::string> only;
  std::string task;
  std::string csv;
  std::string svg;
  std::string device, runs, layers;  ///< measured
  std::optional<std::string> loss;
  std::optional<std::int64_t> folds;
  std::vector<std::string> methods;  ///< compared; none: all
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> mcmc_steps;
  std::string config;
  bool dump_config = false;
  bool rules = false;
  std::optional<std::string> to;
  std::optional<std::string> rank_order;
  std::string hosts;
  bool groups = false;
  bool nearest = false;
  std::string trace;
  std::optional<std::string> format;   ///< of a file to import
  std::optional<std::string> unknown;  ///< operators
  std::vector<std::string> dim;
  std::optional<double> tensor_bytes;
  bool json = false;
  bool verbose = false;
  bool quiet = false;
};

struct Switch {
  bool Flags::*field;
};
struct Text {
  std::string Flags::*field;
};
struct Integer {
  std::optional<std::int64_t> Flags::*field;
  std::int64_t least;
};
/// A positive number of seconds.
struct Duration {
  std::optional<double> Flags::*field;
};
/// An amount of memory with its unit, such as "2 GiB", rounded up to whole bytes.
struct Size {
  std::optional<double> Flags::*field;
};
/// A share with its sign, such as "6%", of at least 0 and less than 100 %.
struct Percent {
  std::optional<double> Flags::*field;
};
struct IntegerList {
  std::vector<std::int64_t> Flags::*field;
  std::int64_t least;
  std::int64_t most;
};
/// Exactly `size` numbers, none negative.
struct RealList {
  std::vector<double> Flags::*field;
  std::size_t size;
};
struct Choice {
  std::optional<std::string> Flags::*field;
  std::vector<std::string> (*names)();
};
/// Words, in the order given.
struct WordList {
  std::vector<std::string> Flags::*field;
};
struct ChoiceList {
  std::vector<std::string> Flags::*field;
  std::vector<std::string> (*names)();
};
using OptionType = std::variant<Switch, Text, Integer, Duration, Size, Percent, IntegerList,
                                RealList, Choice, WordList, ChoiceList>;

/// One option: the only place that knows its name, help, default and bounds.
struct Option {
  std::string_view name;    ///< without dashes
  std::string_view letter;  ///< short form without dash, or empty
  std::string_view value;   ///< what `--help` calls the value; empty for switches
  std::string_view group;   ///< heading in `--help`
  std::string_view help;
  std::string_view fallback;  ///< default as it would be written on the command line; empty: none
  unsigned commands;          ///< bits of Command
  OptionType type;

  bool belongs_to(Command command) const {
    return (commands & static_cast<unsigned>(command)) != 0;
  }
  bool is_switch() const { return std::holds_alternative<Switch>(type); }
};

/// All options of all commands, in the order of `--help`.
std::span<const Option> options();

/// What was said for each option, as text; values of lists may still hold commas.
using RawValues = std::map<std::string_view, std::vector<std::string>>;

/// What decides on a plan: inputs, what the search may choose, what is assumed; as text, by name,
/// which `parse_flags` reads back to the same.
std::map<std::string, std::vector<std::string>> search_values(const Flags& flags);

/// Whether an option of `plan` says which plans are looked at, rather than what they cost or how.
bool chooses_plans(const Option& option);

/// Values of `Size` and `Percent` options as they are written.
std::string size_text(double bytes);
std::string percent_text(double percent);

/// Checks `raw` against the table and fills in the defaults of `command`.
/// Throws InvalidConfig, one line that names the flag and what would be right.
Flags parse_flags(Command command, const RawValues& raw);

}  // namespace nestplan::cli
