#include "cli/calibration_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/text.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Json = nlohmann::ordered_json;
using calibrate::ErrorSize;
using calibrate::Fit;
using calibrate::FittedParameter;
using calibrate::Sample;

constexpr const char* kCalibrationFormat = "nestplan.calibration/1";
constexpr std::size_t kShownOutliers = 20;

std::string value_text(const FittedParameter& fitted, double value) {
  if (fitted.parameter->unit == model::DeviceParameter::Unit::kSeconds) {
    return util::format_seconds(value);
  }
  return fmt::format("{:.3f}", value);
}

std::string with_error(const FittedParameter& fitted, double value, double relative_error) {
  return fmt::format("{} ± {:.0f} %", value_text(fitted, value), 100 * relative_error);
}

std::string parameter_table(const Fit& fit) {
  Table table(
      {{"parameter"}, {"before", Table::Align::kRight}, {"after", Table::Align::kRight}, {""}});
  for (const FittedParameter& fitted : fit.parameters) {
    table.add({fitted.parameter->name,
               with_error(fitted, fitted.before, fitted.relative_error_before),
               with_error(fitted, fitted.after, fitted.relative_error_after),
               fitted.determined ? "" : "kept: the measurements do not determine it"});
  }
  return table.text(3);
}

std::string error_line(const char* of, std::span<const Sample> samples,
                       const std::vector<double>& predicted) {
  const ErrorSize size = calibrate::error_size(samples, predicted);
  return fmt::format("  {:<10} {:>7} in the median, {:>7} at the 90th percentile\n", of,
                     percent(size.median), percent(size.ninth));
}

double error_of(const Sample& sample, double predicted) {
  return predicted / sample.measured_s - 1;
}

std::string outlier_table(std::span<const Sample> samples, const Fit& fit) {
  Table table({{"where"},
               {"what"},
               {"measured", Table::Align::kRight},
               {"predicted", Table::Align::kRight},
               {"error", Table::Align::kRight}});
  for (std::size_t i = 0; i < fit.outliers.size() && i < kShownOutliers; ++i) {
    const Sample& sample = samples[fit.outliers[i]];
    const double predicted = fit.after_s[fit.outliers[i]];
    table.add({printable(sample.where), printable(sample.label),
               util::format_seconds(sample.measured_s), util::format_seconds(predicted),
               fmt::format("{:+.0f} %", 100 * error_of(sample, predicted))});
  }
  return table.text(1);
}

Json error_json(std::span<const Sample> samples, const std::vector<double>& predicted) {
  if (predicted.empty()) return {};
  const ErrorSize size = calibrate::error_size(samples, predicted);
  return {{"median", size.median}, {"ninth", size.ninth}};
}

Json parameter_json(const FittedParameter& fitted) {
  return {{"name", fitted.parameter->name},
          {"before", fitted.before},
          {"after", fitted.after},
          {"relative_error_before", fitted.relative_error_before},
          {"relative_error_after", fitted.relative_error_after},
          {"determined", fitted.determined}};
}

}  // namespace

std::string calibration_text(const std::string& device, std::span<const Sample> samples,
                             const Fit& fit) {
  std::string text = fmt::format("{}: {} measured times, noise {}\n\n", printable(device),
                                 util::format_count(std::ssize(samples)), percent(fit.noise));
  text += parameter_table(fit) + "\nerrors of predictions\n";
  text += error_line("before", samples, fit.before_s) + error_line("fit", samples, fit.after_s);
  text += fit.folds > 0 ? error_line("held out", samples, fit.held_out_s) +
                              fmt::format("  (held out: from fits to the other {} of {} parts)\n",
                                          fit.folds - 1, fit.folds)
                        : "  held out: none, all measurements are of one group\n";
  if (fit.outliers.empty()) return text;
  text += fmt::format("\n{} far off, and hardly counted\n",
                      fit.outliers.size() == 1
                          ? "1 measurement is"
                          : fmt::format("{} measurements are", fit.outliers.size()));
  text += outlier_table(samples, fit);
  if (fit.outliers.size() > kShownOutliers) {
    text += fmt::format("  … and {} more\n", fit.outliers.size() - kShownOutliers);
  }
  return text;
}

std::string calibration_json(const std::string& device, std::span<const Sample> samples,
                             const Fit& fit) {
  Json parameters = Json::array(), times = Json::array(), outliers = Json::array();
  for (const FittedParameter& fitted : fit.parameters) {
    parameters.push_back(parameter_json(fitted));
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    times.push_back({{"where", samples[i].where},
                     {"what", samples[i].label},
                     {"measured_s", samples[i].measured_s},
                     {"before_s", fit.before_s[i]},
                     {"fit_s", fit.after_s[i]},
                     {"held_out_s", fit.held_out_s.empty() ? Json() : Json(fit.held_out_s[i])}});
  }
  for (const std::size_t i : fit.outliers) outliers.push_back(samples[i].where);
  const Json document{{"format", kCalibrationFormat},
                      {"device", device},
                      {"samples", samples.size()},
                      {"noise", fit.noise},
                      {"folds", fit.folds},
                      {"errors",
                       {{"before", error_json(samples, fit.before_s)},
                        {"fit", error_json(samples, fit.after_s)},
                        {"held_out", error_json(samples, fit.held_out_s)}}},
                      {"parameters", std::move(parameters)},
                      {"outliers", std::move(outliers)},
                      {"times", std::move(times)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace nestplan::cli
