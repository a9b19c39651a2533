#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string>

#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/outputs.hpp"
#include "cli/plan_output.hpp"
#include "cli/text.hpp"
#include "nestplan/importers/importers.hpp"
#include "nestplan/io/device_file.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using importers::Format;

/// "seq=2048", entry by entry.
std::map<std::string, std::int64_t> parse_dimensions(const std::vector<std::string>& entries) {
  std::map<std::string, std::int64_t> sizes;
  for (const std::string& entry : entries) {
    const std::size_t equals = std::min(entry.rfind('='), entry.size());
    const char* const begin = entry.data() + std::min(equals + 1, entry.size());
    const char* const end = entry.data() + entry.size();
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(begin, end, size);
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    if (equals == 0 || error != std::errc{} || stop != end || size < 1 || size > kMost) {
      throw InvalidConfig(
          fmt::format("--dim: {} is not NAME=N with a positive whole number", util::quoted(entry)));
    }
    if (!sizes.emplace(entry.substr(0, equals), size).second) {
      throw InvalidConfig(
          fmt::format("--dim: {} is given twice", util::quoted(entry.substr(0, equals))));
    }
  }
  return sizes;
}

importers::Options import_options(const Flags& flags) {
  importers::Options options;
  try {
    options.granularity = importers::parse_granularity(flags.granularity);
  } catch (const InvalidConfig& error) {
    throw InvalidConfig(fmt::format("--{}", error.what()));
  }
  options.tp = flags.tp;
  options.micro_batches = flags.micro_batch;
  options.dimensions = parse_dimensions(flags.dim);
  options.unknown_memory_bound = flags.unknown == "memory-bound";
  options.fused_attention = flags.attention != kUnfused;
  options.tensor_bytes = flags.tensor_bytes;
  return options;
}

/// Refuses flags that say nothing about files of `format`.
void refuse_idle_flags(const Flags& flags, Format format) {
  struct Idle {
    const char* name;
    bool given;
    std::vector<Format> formats;  ///< that it applies to
  };
  const std::vector<Format> models{Format::kOnnx, Format::kFx};
  const std::array<Idle, 6> known{{
      {"dim", !flags.dim.empty(), {Format::kOnnx}},
      {"unknown", flags.unknown == "memory-bound", models},
      {"attention", flags.attention.has_value(), models},
      {"cluster", !flags.cluster.empty(), models},
      {"device", !flags.device.empty(), models},
      {"tensor-bytes", flags.tensor_bytes.has_value(), {Format::kChakra}},
  }};
  for (const Idle& flag : known) {
    const auto& formats = flag.formats;
    if (!flag.given || std::find(formats.begin(), formats.end(), format) != formats.end()) continue;
    std::vector<std::string> names;
    for (const Format each : formats) names.emplace_back(importers::to_string(each));
    throw InvalidConfig(fmt::format("--{}: has no effect on a file of the format {}, only on {}",
                                    flag.name, importers::to_string(format),
                                    fmt::join(names, " and ")));
  }
}

/// A device whose times nobody asks for.
model::Device any_device(const std::string& precision) {
  model::Device device;
  device.name = "any";
  device.memory_bandwidth = 1;
  const cost::Precision known = cost::precision_of(precision);
  device.peak_flops = {{known.peak_name, 1}, {known.attention_name, 1}};
  return device;
}

model::Device device_of(const Flags& flags, Format format) {
  if (!flags.cluster.empty() && !flags.device.empty()) {
    throw InvalidConfig("--cluster and --device exclude each other: give one of them");
  }
  if (!flags.device.empty()) return io::read_device_file(flags.device).device;
  if (!flags.cluster.empty()) return io::read_cluster(flags.cluster).device;
  if (format == Format::kChakra) return any_device(flags.precision);
  throw InvalidConfig("import: --cluster or --device is needed, whose times the layers have");
}

std::string downsets_of(const model::Graph& graph) {
  try {
    return util::format_count(lattice::Lattice::enumerate(graph).size());
  } catch (const MemoryLimit&) {
    return fmt::format("more than {}", util::format_count(lattice::Lattice::kDefaultMax));
  }
}

/// What there is to say about a graph before it is planned.
void describe(const model::Graph& graph, const std::vector<std::string>& remarks) {
  double parameters = 0;
  for (const model::Layer& layer : graph.layers) parameters += layer.costs.front()->parameters;
  for (const model::Tie& tie : graph.ties) {
    parameters -= tie.parameters.front() * static_cast<double>(tie.layers.size() - 1);
  }
  const std::string downsets = downsets_of(graph);
  print_message(fmt::format("nestplan: {}, {}, {} downsets, {}; {} parameters in the first one",
                            counted(std::ssize(graph.layers), "layer"),
                            counted(std::ssize(graph.edges), "edge"), downsets,
                            counted(std::ssize(graph.strategies), "strategy"),
                            util::format_si(parameters, "")));
  if (downsets.starts_with("more")) {
    print_message(
        "nestplan: these are too many sets of layers to cut at: --granularity block makes fewer");
  }
  for (const std::string& remark : remarks) print_message(fmt::format("nestplan: {}", remark));
}

}  // namespace

ExitCode run_import(const Flags& flags, const std::string& file) {
  std::vector<NamedFile> inputs = input_names(flags);
  inputs.push_back({"--device", flags.device});
  inputs.push_back({"what is imported", file});
  refuse_shared_outputs({{"--output", flags.output}}, inputs);
  const std::string content = io::read_text(file);
  const Format format = flags.format ? importers::parse_format(*flags.format)
                                     : importers::detect_format(content, file);
  refuse_idle_flags(flags, format);
  const cost::AnalyticalCostModel costs(device_of(flags, format),
                                        cost::precision_of(flags.precision),
                                        cost::attention_kernel_of(flags.attention.value_or("")));
  const importers::Imported imported =
      importers::import_graph(content, file, format, costs, import_options(flags));
  if (!flags.quiet) describe(imported.graph, imported.remarks);
  write_result(flags.output, io::graph_to_json(imported.graph));
  return ExitCode::kDone;
}

}  // namespace nestplan::cli
