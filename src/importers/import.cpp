#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "importers/chakra_layers.hpp"
#include "importers/file_kinds.hpp"
#include "importers/fx_reader.hpp"
#include "importers/graph_builder.hpp"
#include "importers/onnx_reader.hpp"
#include "nestplan/importers/importers.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

constexpr std::array<const char*, 3> kFormats{"onnx", "fx", "chakra"};
constexpr std::array<const char*, 2> kGranularities{"operator", "block"};

template <typename Value, std::size_t N>
Value parse_name(const char* what, const std::array<const char*, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<Value>(i);
  }
  throw InvalidConfig(
      fmt::format("{}: unknown {}{}", what, util::quoted(name),
                  util::hint(name, std::vector<std::string>(names.begin(), names.end()))));
}

Imported import_onnx(std::string_view content, const std::string& file,
                     const cost::CostModel& costs, const Options& options) {
  const OnnxReader reader(content, file, options.dimensions, options.unknown_memory_bound);
  std::vector<std::int64_t> micro_batches = options.micro_batches;
  if (const auto fixed = reader.fixed_batch()) {
    if (micro_batches.empty()) micro_batches = {*fixed};
    if (micro_batches != std::vector{*fixed}) {
      throw InvalidConfig(fmt::format(
          "--micro-batch: {} was exported for a batch of {} (a symbolic first axis of its first "
          "input leaves it open)",
          file, *fixed));
    }
  }
  if (micro_batches.empty()) micro_batches = {1};
  std::vector<OperatorGraph> readings;
  for (const std::int64_t micro_batch : micro_batches) readings.push_back(reader.read(micro_batch));
  Imported imported = build_graph(std::move(readings), file, costs, options);
  imported.remarks.insert(imported.remarks.end(), reader.remarks().begin(), reader.remarks().end());
  return imported;
}

Imported import_fx(std::string_view content, const std::string& file, const cost::CostModel& costs,
                   const Options& options) {
  const FxReader reader(content, file, options.unknown_memory_bound);
  const std::vector<std::int64_t>& known = reader.micro_batches();
  for (const std::int64_t wanted : options.micro_batches) {
    if (std::find(known.begin(), known.end(), wanted) != known.end()) continue;
    throw InvalidConfig(fmt::format("--micro-batch: {} was traced with {}, not {}", file,
                                    fmt::join(known, ", "), wanted));
  }
  std::vector<OperatorGraph> readings;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const bool wanted = options.micro_batches.empty() ||
                        std::find(options.micro_batches.begin(), options.micro_batches.end(),
                                  known[i]) != options.micro_batches.end();
    if (wanted) readings.push_back(reader.read(i));
  }
  return build_graph(std::move(readings), file, costs, options);
}

}  // namespace

std::vector<std::string> format_names() { return {kFormats.begin(), kFormats.end()}; }

Format parse_format(std::string_view name) { return parse_name<Format>("format", kFormats, name); }

const char* to_string(Format format) { return kFormats[static_cast<std::size_t>(format)]; }

std::vector<std::string> granularity_names() {
  return {kGranularities.begin(), kGranularities.end()};
}

Granularity parse_granularity(std::string_view name) {
  return parse_name<Granularity>("granularity", kGranularities, name);
}

Format detect_format(std::string_view content, const std::string& file) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) throw InvalidInput(file + ": is empty");
  if (content[first] == '{') return format_of_json(content, file);
  refuse_known_files(content, file);
  if (file.ends_with(".onnx")) return Format::kOnnx;
  if (file.ends_with(".et") || file.ends_with(".chakra")) return Format::kChakra;
  throw InvalidInput(fmt::format("{}: its name does not tell what it is (--format {})", file,
                                 fmt::join(kFormats, ", ")));
}

Imported import_graph(std::string_view content, const std::string& file, Format format,
                      const cost::CostModel& costs, const Options& options) {
  switch (format) {
    case Format::kOnnx:
      return import_onnx(content, file, costs, options);
    case Format::kFx:
      return import_fx(content, file, costs, options);
    case Format::kChakra:
      return layers_of_trace(read_trace(content, file), file, costs.precision().activation_bytes,
                             options);
  }
  throw InternalError("a format without a reader");
}

}  // namespace nestplan::importers
