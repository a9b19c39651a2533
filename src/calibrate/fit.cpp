#include "nestplan/calibrate/fit.hpp"

#include <ceres/ceres.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::calibrate {
namespace {

using model::DeviceModel;
using model::DeviceParameter;

constexpr double kFirstNoise = 0.05;
constexpr double kLeastNoise = 0.01;
constexpr int kNoiseRounds = 4;
constexpr double kSettled = 0.1;  // change of the noise
/// Standard error after over before, below which the samples are taken to say something, and from
/// which on they say nothing at all.
constexpr double kDetermined = 0.8;
constexpr double kUntouched = 0.99;
/// Noises from which on a residual makes an outlier.
constexpr double kFarOff = 4;
constexpr double kHuberAt = 1.345;  // 95 % efficient on normal noise (Huber, 1964)
constexpr double kCauchyAt = 2.385;
/// Measured over predicted time, or its inverse, that nothing but a wrong unit explains.
constexpr double kBeyondBelief = 30;
constexpr double kRounding = 1e-6;  ///< how near a bound is at it, as a share

bool is_exact(const DeviceParameter& parameter, const Prior& prior) {
  return !(prior.relative_error.*parameter.value > 0) || !(prior.model.*parameter.value > 0);
}

std::vector<const DeviceParameter*> free_parameters(const Prior& prior) {
  std::vector<const DeviceParameter*> free;
  for (const DeviceParameter& parameter : model::device_parameters()) {
    if (parameter.measurable && !is_exact(parameter, prior)) free.push_back(&parameter);
  }
  return free;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double predict(const Sample& sample, const DeviceModel& model) {
  const double seconds = sample.seconds(model);
  if (!(seconds > 0)) throw InternalError(sample.where + ": predicted to take no time");
  return seconds;
}

std::vector<double> predict(std::span<const Sample> samples, const DeviceModel& model) {
  std::vector<double> predicted;
  for (const Sample& sample : samples) predicted.push_back(predict(sample, model));
  return predicted;
}

/// ln T(x) - ln t over the noise; every parameter is a block of its own.
class Residual {
 public:
  Residual(const Sample& sample, const DeviceModel& rest,
           const std::vector<const DeviceParameter*>& parameters, double noise)
      : sample_(sample), rest_(rest), parameters_(parameters), noise_(noise) {}

  bool operator()(double const* const* logarithms, double* residual) const {
    DeviceModel model = rest_;
    for (std::size_t j = 0; j < parameters_.size(); ++j) {
      model.*parameters_[j]->value = std::exp(*logarithms[j]);
    }
    *residual = std::log(predict(sample_, model) / sample_.measured_s) / noise_;
    return true;
  }

 private:
  const Sample& sample_;
  const DeviceModel& rest_;
  const std::vector<const DeviceParameter*>& parameters_;
  double noise_;
};

/// (x - x0) / e.
struct PriorResidual {
  double mean;
  double error;
  template <typename T>
  bool operator()(const T* x, T* residual) const {
    *residual = (*x - T(mean)) / T(error);
    return true;
  }
};

/// An estimate of the parameters of `free`; the others are those of the prior.
class Estimate {
 public:
  Estimate(std::span<const Sample> samples, const Prior& prior, Loss loss)
      : samples_(samples),
        prior_(prior),
        loss_(loss),
        free_(free_parameters(prior)),
        model_(prior.model) {
    find();
    while (!free_.empty() && ratio(least_determined()) >= kDetermined) {
      put_back();
      find();
    }
  }

  const DeviceModel& model() const { return model_; }
  double noise() const { return noise_; }
  bool determined(const DeviceParameter& parameter) const {
    return std::find(free_.begin(), free_.end(), &parameter) != free_.end();
  }
  /// Of a determined parameter.
  double relative_error(const DeviceParameter& parameter) const {
    return errors_[static_cast<std::size_t>(std::find(free_.begin(), free_.end(), &parameter) -
                                            free_.begin())];
  }

 private:
  /// Standard error after over before.
  double ratio(std::size_t j) const {
    return errors_[j] / (prior_.relative_error.*free_[j]->value);
  }

  std::size_t least_determined() const {
    std::size_t least = 0;
    for (std::size_t j = 1; j < free_.size(); ++j) {
      if (ratio(j) > ratio(least)) least = j;
    }
    return least;
  }

  /// Of what is not determined: all that nothing is said of, or else the least determined one.
  void put_back() {
    const double bound = std::min(kUntouched, ratio(least_determined()));
    std::vector<const DeviceParameter*> kept;
    for (std::size_t j = 0; j < free_.size(); ++j) {
      if (ratio(j) < bound) {
        kept.push_back(free_[j]);
      } else {
        model_.*free_[j]->value = prior_.model.*free_[j]->value;
      }
    }
    free_ = std::move(kept);
  }

  /// From where the last search ended, until the noise settles.
  void find() {
    for (int round = 0; round < kNoiseRounds; ++round) {
      if (!free_.empty()) minimise();
      const double assumed = std::exchange(noise_, noise_left());
      if (std::abs(noise_ / assumed - 1) < kSettled) break;
    }
  }

  /// About the median residual: what all samples have in common is no noise.
  double noise_left() const {
    std::vector<double> residuals;
    for (const Sample& sample : samples_) {
      residuals.push_back(std::log(predict(sample, model_) / sample.measured_s));
    }
    const double middle = median(residuals);
    for (double& residual : residuals) residual = std::abs(residual - middle);
    return std::max(kLeastNoise, 1.4826 * median(std::move(residuals)));
  }

  std::unique_ptr<ceres::LossFunction> loss() const {
    if (loss_ == Loss::kHuber) return std::make_unique<ceres::HuberLoss>(kHuberAt);
    return std::make_unique<ceres::CauchyLoss>(kCauchyAt);
  }

  void minimise() {
    std::vector<double> logarithms;
    for (const DeviceParameter* parameter : free_) {
      logarithms.push_back(std::log(model_.*parameter->value));
    }
    std::vector<double*> blocks;
    for (double& logarithm : logarithms) blocks.push_back(&logarithm);
    ceres::Problem problem;
    add_samples(problem, blocks);
    add_prior(problem, blocks);
    ceres::Solver::Options options;
    options.linear_solver_type = ceres::DENSE_QR;
    options.logging_type = ceres::SILENT;
    options.max_num_iterations = 50;
    options.function_tolerance = 1e-5;
    ceres::Solver::Summary summary;
    ceres::Solve(options, &problem, &summary);
    for (std::size_t j = 0; j < free_.size(); ++j) {
      model_.*free_[j]->value = std::exp(logarithms[j]);
    }
    find_errors(problem, blocks);
  }

  void add_samples(ceres::Problem& problem, const std::vector<double*>& blocks) {
    ceres::NumericDiffOptions steps;
    steps.relative_step_size = 1e-4;
    for (const Sample& sample : samples_) {
      auto cost = std::make_unique<ceres::DynamicNumericDiffCostFunction<Residual, ceres::FORWARD>>(
          new Residual(sample, prior_.model, free_, noise_), ceres::TAKE_OWNERSHIP, steps);
      for (std::size_t j = 0; j < free_.size(); ++j) cost->AddParameterBlock(1);
      cost->SetNumResiduals(1);
      problem.AddResidualBlock(cost.release(), loss().release(), blocks);
    }
  }

  void add_prior(ceres::Problem& problem, const std::vector<double*>& blocks) const {
    for (std::size_t j = 0; j < free_.size(); ++j) {
      const DeviceParameter& parameter = *free_[j];
      problem.AddResidualBlock(
          new ceres::AutoDiffCostFunction<PriorResidual, 1, 1>(new PriorResidual{
              std::log(prior_.model.*parameter.value), prior_.relative_error.*parameter.value}),
          nullptr, blocks[j]);
      if (parameter.least > 0)
        problem.SetParameterLowerBound(blocks[j], 0, std::log(parameter.least));
      problem.SetParameterUpperBound(blocks[j], 0, std::log(parameter.most));
    }
  }

  /// The prior keeps the normal equations regular.
  void find_errors(ceres::Problem& problem, const std::vector<double*>& blocks) {
    ceres::Covariance covariance{ceres::Covariance::Options()};
    std::vector<std::pair<const double*, const double*>> diagonal;
    for (const double* block : blocks) diagonal.emplace_back(block, block);
    if (!covariance.Compute(diagonal, &problem)) {
      throw InternalError("calibrate: the covariance of the fit is singular");
    }
    errors_.assign(blocks.size(), 0);
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      double variance = 0;
      covariance.GetCovarianceBlock(blocks[j], blocks[j], &variance);
      errors_[j] = std::sqrt(variance);
    }
  }

  std::span<const Sample> samples_;
  const Prior& prior_;
  Loss loss_;
  std::vector<const DeviceParameter*> free_;
  DeviceModel model_;
  std::vector<double> errors_;  ///< of the logarithms, by free_
  double noise_ = kFirstNoise;
};

/// Fold of every sample.
std::vector<int> folds_of(std::span<const Sample> samples, int folds) {
  std::map<std::string, int> fold_of;
  std::vector<int> fold;
  for (const Sample& sample : samples) {
    const int next = static_cast<int>(fold_of.size()) % folds;
    fold.push_back(fold_of.emplace(sample.group, next).first->second);
  }
  return fold;
}

std::vector<double> hold_out(std::span<const Sample> samples, const Prior& prior,
                             const FitOptions& options, int folds) {
  const std::vector<int> fold = folds_of(samples, folds);
  std::vector<double> predicted(samples.size());
  for (int f = 0; f < folds; ++f) {
    std::vector<Sample> others;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (fold[i] != f) others.push_back(samples[i]);
    }
    const Estimate estimate(others, prior, options.loss);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (fold[i] == f) predicted[i] = predict(samples[i], estimate.model());
    }
  }
  return predicted;
}

int group_count(std::span<const Sample> samples) {
  std::map<std::string, int> groups;
  for (const Sample& sample : samples) ++groups[sample.group];
  return static_cast<int>(groups.size());
}

std::vector<std::size_t> outliers_of(std::span<const Sample> samples, const Fit& fit) {
  const auto size = [&](std::size_t i) {
    return std::abs(std::log(fit.after_s[i] / samples[i].measured_s));
  };
  std::vector<std::size_t> outliers;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (size(i) > kFarOff * fit.noise) outliers.push_back(i);
  }
  std::stable_sort(outliers.begin(), outliers.end(),
                   [&](std::size_t a, std::size_t b) { return size(a) > size(b); });
  return outliers;
}

/// A table of milliseconds would be fitted at the bounds of all parameters.
void check_units(std::span<const Sample> samples, std::span<const double> predicted) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    ratios.push_back(samples[i].measured_s / predicted[i]);
  }
  const double ratio = median(ratios);
  if (ratio <= kBeyondBelief && ratio >= 1 / kBeyondBelief) return;
  const auto furthest = ratio > 1 ? std::max_element(ratios.begin(), ratios.end())
                                  : std::min_element(ratios.begin(), ratios.end());
  const auto i = static_cast<std::size_t>(furthest - ratios.begin());
  throw InvalidInput(
      fmt::format("calibrate: in the median, measured times are {:.4g} times the predicted ones "
                  "(at {}: {} measured, {} predicted): are they in seconds, and of this device?",
                  ratio, samples[i].where, util::format_seconds(samples[i].measured_s),
                  util::format_seconds(predicted[i])));
}

FittedParameter fitted_parameter(const DeviceParameter& parameter, const Prior& prior,
                                 const Estimate& estimate) {
  FittedParameter fitted{.parameter = &parameter,
                         .before = prior.model.*parameter.value,
                         .after = estimate.model().*parameter.value,
                         .relative_error_before = prior.relative_error.*parameter.value,
                         .relative_error_after = prior.relative_error.*parameter.value,
                         .determined = estimate.determined(parameter),
                         .exact = is_exact(parameter, prior)};
  if (!fitted.determined) return fitted;
  fitted.relative_error_after = estimate.relative_error(parameter);
  fitted.at_bound = fitted.after >= parameter.most * (1 - kRounding) ||
                    fitted.after <= parameter.least * (1 + kRounding);
  return fitted;
}

}  // namespace

Fit fit(std::span<const Sample> samples, const Prior& prior, const FitOptions& options) {
  if (samples.empty()) throw InvalidInput("calibrate: there is nothing measured to fit to");
  std::vector<double> before_s = predict(samples, prior.model);
  check_units(samples, before_s);
  const Estimate estimate(samples, prior, options.loss);
  Fit fit;
  fit.model = estimate.model();
  fit.relative_error = prior.relative_error;
  fit.noise = estimate.noise();
  for (const DeviceParameter& parameter : model::device_parameters()) {
    if (!parameter.measurable) continue;
    fit.parameters.push_back(fitted_parameter(parameter, prior, estimate));
    fit.relative_error.*parameter.value = fit.parameters.back().relative_error_after;
  }
  fit.before_s = std::move(before_s);
  fit.after_s = predict(samples, fit.model);
  fit.outliers = outliers_of(samples, fit);
  fit.folds = std::min(options.folds, group_count(samples));
  if (fit.folds < 2) fit.folds = 0;
  if (fit.folds > 0) fit.held_out_s = hold_out(samples, prior, options, fit.folds);
  return fit;
}

std::optional<bool> beats_prior(std::span<const Sample> samples, const Fit& fit) {
  if (fit.held_out_s.empty()) return std::nullopt;
  return error_size(samples, fit.held_out_s).median < error_size(samples, fit.before_s).median;
}

ErrorSize error_size(std::span<const Sample> samples, std::span<const double> predicted) {
  std::vector<double> sizes;
  for (std::size_t i = 0; i < predicted.size(); ++i) {
    sizes.push_back(std::abs(predicted[i] / samples[i].measured_s - 1));
  }
  if (sizes.empty()) return {};
  std::sort(sizes.begin(), sizes.end());
  const auto at = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(sizes.size()));
    return sizes[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {at(0.5), at(0.9)};
}

}  // namespace nestplan::calibrate
