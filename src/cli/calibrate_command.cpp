#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/calibration_report.hpp"
#include "cli/commands.hpp"
#include "cli/console.hpp"
#include "cli/outputs.hpp"
#include "cli/overlap.hpp"
#include "cli/plan_output.hpp"
#include "cli/text.hpp"
#include "nestplan/calibrate/fit.hpp"
#include "nestplan/calibrate/measurements.hpp"
#include "nestplan/cost/device_models.hpp"
#include "nestplan/io/device_file.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"

namespace nestplan::cli {
namespace {

using calibrate::Sample;

void check(const Flags& flags) {
  if (flags.cluster.empty() && flags.device.empty()) {
    throw InvalidConfig("calibrate: --device or --cluster is needed, what was measured on");
  }
  if (flags.runs.empty() && flags.layers.empty()) {
    throw InvalidConfig("calibrate: --runs or --layers is needed, what was measured");
  }
  if (flags.json && is_standard_output(flags.output)) {
    throw InvalidConfig("--json and -o - cannot share stdout");
  }
}

/// One device without neighbours.
model::Cluster alone(const model::Device& device) {
  model::Cluster cluster;
  cluster.name = cluster.device.name = device.name;
  cluster.hierarchy().levels = {{"device", 1, 1e9, 1e-6, 1}};
  return cluster;
}

/// The device as it is known so far, and its errors.
io::DeviceFile device_of(const Flags& flags, const std::optional<model::Cluster>& cluster) {
  io::DeviceFile file;
  if (!flags.device.empty()) {
    file = io::read_device_file(flags.device);
  } else {
    file.device = cluster->device;
    file.relative_error = cost::generation_of(file.device).relative_error;
  }
  file.device.model = cost::model_of(file.device);
  return file;
}

/// Paths of models are relative to the table that names them.
std::vector<Sample> samples_of(const Flags& flags, calibrate::Setting setting) {
  std::vector<Sample> samples;
  const auto add = [&](const std::string& path, auto read) {
    if (path.empty()) return;
    setting.load_model = [folder = std::filesystem::path(path).parent_path()](
                             const std::string& model) { return io::read_model(folder / model); };
    for (Sample& sample : read(io::read_text(path), path, setting)) {
      samples.push_back(std::move(sample));
    }
  };
  add(flags.runs, calibrate::read_runs);
  add(flags.layers, calibrate::read_layers);
  return samples;
}

calibrate::FitOptions fit_options(const Flags& flags) {
  calibrate::FitOptions options;
  options.loss = flags.loss == "huber" ? calibrate::Loss::kHuber : calibrate::Loss::kCauchy;
  options.folds = static_cast<int>(*flags.folds);
  return options;
}

/// Begins the source of a fitted parameter; with the other it tells a calibration's sentence in a
/// provenance.
constexpr std::string_view kFitted = "fitted to ";
constexpr std::string_view kEnd = " by nestplan calibrate";

/// `text` without the sentences of earlier calibrations.
std::string without_calibrations(std::string text) {
  for (;;) {
    const std::size_t begin = text.find(fmt::format("Parameters {}", kFitted));
    const std::size_t end = text.find(kEnd, begin);
    if (begin == std::string::npos || end == std::string::npos) return text;
    const std::size_t stop = std::min(text.find('.', end), text.size() - 1);
    text.erase(begin, text.find_first_not_of(' ', stop + 1) - begin);
    while (text.ends_with(' ')) text.pop_back();
  }
}

std::string tables_of(const Flags& flags) {
  return flags.runs + (flags.runs.empty() || flags.layers.empty() ? "" : ", ") + flags.layers;
}

/// Measurements that the device has been fitted to are no news: as its prior and again as samples
/// they count twice.
void warn_of_repeats(const io::DeviceFile& file, const Flags& flags) {
  if (flags.quiet) return;
  for (const std::string& table : {flags.runs, flags.layers}) {
    if (table.empty()) continue;
    const bool repeated =
        std::any_of(file.sources.begin(), file.sources.end(), [&table](const auto& source) {
          return source.second.starts_with(kFitted) &&
                 source.second.find(table) != std::string::npos;
        });
    if (!repeated) continue;
    print_message(fmt::format(
        "nestplan: {} has been fitted to {} before: what was measured then counts twice, and the "
        "errors are too small",
        flags.device.empty() ? file.device.name : flags.device, table));
  }
}

/// The device with what was found, and where that is from.
io::DeviceFile calibrated(io::DeviceFile file, const Flags& flags, const calibrate::Fit& fit,
                          std::size_t samples) {
  const std::string fitted =
      fmt::format("{}{} of {}", kFitted,
                  counted(static_cast<std::int64_t>(samples), "measured time"), tables_of(flags));
  file.device.model = fit.model;
  file.relative_error = fit.relative_error;
  const std::string before = without_calibrations(file.provenance);
  const char* const from =
      before == file.provenance ? "" : ", from those of an earlier calibration";
  file.provenance =
      fmt::format("{}{}Parameters {}{}{}.", before, before.empty() ? "" : " ", fitted, kEnd, from);
  for (const calibrate::FittedParameter& each : fit.parameters) {
    if (each.determined) file.sources[each.parameter->name] = fitted;
  }
  return file;
}

}  // namespace

ExitCode run_calibrate(const Flags& flags) {
  check(flags);
  refuse_shared_outputs(
      {{"-o", flags.output}},
      {{"--runs", flags.runs}, {"--layers", flags.layers}, {"--cluster", flags.cluster}});
  std::optional<io::OutputFile> output;
  const bool to_stdout = is_standard_output(flags.output);
  if (!flags.output.empty() && !to_stdout) output.emplace(flags.output);

  std::optional<model::Cluster> cluster;
  if (!flags.cluster.empty()) cluster = io::read_cluster(flags.cluster);
  const io::DeviceFile file = device_of(flags, cluster);
  calibrate::Setting setting;
  setting.cluster = cluster ? *cluster : alone(file.device);
  setting.cluster.device = file.device;
  setting.overlap = overlap_of(flags);
  warn_of_repeats(file, flags);
  const std::vector<Sample> samples = samples_of(flags, setting);
  const calibrate::Fit fit =
      calibrate::fit(samples, {*file.device.model, file.relative_error}, fit_options(flags));

  const std::string document =
      io::device_file_to_json(calibrated(file, flags, fit, samples.size()));
  if (output) output->commit(document);
  const std::string report = flags.json ? calibration_json(file.device.name, samples, fit)
                                        : calibration_text(file.device.name, samples, fit);
  if (to_stdout) {
    print_result(document);
    if (!flags.quiet) print_error_text(report);
  } else {
    print_result(report);
  }
  return ExitCode::kDone;
}

}  // namespace nestplan::cli
