#include "cli/calibration_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "cli/describe_device.hpp"
#include "cli/plan_report.hpp"
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

const char* comment(const FittedParameter& fitted) {
  if (fitted.exact) return "kept: known exactly";
  if (!fitted.determined) return "kept: the measurements do not determine it";
  return fitted.at_bound ? "at its bound: something else is wrong" : "";
}

std::string parameter_table(const Fit& fit) {
  Table table(
      {{"parameter"}, {"before", Table::Align::kRight}, {"after", Table::Align::kRight}, {""}});
  for (const FittedParameter& fitted : fit.parameters) {
    const model::DeviceParameter& parameter = *fitted.parameter;
    table.add(
        {parameter.name, parameter_text(parameter, fitted.before, fitted.relative_error_before),
         parameter_text(parameter, fitted.after, fitted.relative_error_after), comment(fitted)});
  }
  return table.text(3);
}

std::string error_line(const char* of, std::span<const Sample> samples,
                       const std::vector<double>& predicted) {
  const ErrorSize size = calibrate::error_size(samples, predicted);
  return fmt::format("  {:<10} {:>7} in the median, {:>7} at the 90th percentile\n", of,
                     percent(size.median), percent(size.ninth));
}

/// What the errors say of the fit as a whole.
std::string verdict(std::span<const Sample> samples, const Fit& fit) {
  if (2 * fit.outliers.size() > samples.size()) {
    return "most measurements are far off whatever the parameters: another device, other settings "
           "or another unit would explain them";
  }
  const bool any = std::any_of(fit.parameters.begin(), fit.parameters.end(),
                               [](const FittedParameter& each) { return each.determined; });
  if (!any) return "the measurements determine no parameter: the device is what it was";
  const std::optional<bool> better = calibrate::beats_prior(samples, fit);
  if (!better) {
    return "nothing is held out: whether the fit predicts other runs better than the parameters "
           "before is not known";
  }
  if (*better) return "";
  return "on what it was not fitted to, the fit predicts no better than the parameters before: "
         "these measurements are no reason to change them";
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
          {"determined", fitted.determined},
          {"exact", fitted.exact},
          {"at_bound", fitted.at_bound}};
}

}  // namespace

std::string calibration_text(const std::string& device, std::span<const Sample> samples,
                             const Fit& fit) {
  std::string text = fmt::format("{}: {}, noise {}\n\n", printable(device),
                                 counted(std::ssize(samples), "measured time"), percent(fit.noise));
  text += parameter_table(fit) + "\nerrors of predictions\n";
  text += error_line("before", samples, fit.before_s) + error_line("fit", samples, fit.after_s);
  text += fit.folds > 0 ? error_line("held out", samples, fit.held_out_s) +
                              fmt::format("  (held out: from fits to the other {} of {} parts)\n",
                                          fit.folds - 1, fit.folds)
                        : "  held out: none, all measurements are of one group\n";
  const std::string conclusion = verdict(samples, fit);
  if (!conclusion.empty()) text += '\n' + labelled_paragraph("verdict", conclusion);
  if (fit.outliers.empty()) return text;
  text += fmt::format("\n{} {} far off, and hardly counted\n",
                      counted(std::ssize(fit.outliers), "measurement"),
                      fit.outliers.size() == 1 ? "is" : "are");
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
  const std::optional<bool> better = calibrate::beats_prior(samples, fit);
  const Json document{{"format", kCalibrationFormat},
                      {"device", device},
                      {"samples", samples.size()},
                      {"noise", fit.noise},
                      {"folds", fit.folds},
                      {"errors",
                       {{"before", error_json(samples, fit.before_s)},
                        {"fit", error_json(samples, fit.after_s)},
                        {"held_out", error_json(samples, fit.held_out_s)}}},
                      {"better_held_out", better ? Json(*better) : Json()},
                      {"parameters", std::move(parameters)},
                      {"outliers", std::move(outliers)},
                      {"times", std::move(times)}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace nestplan::cli
