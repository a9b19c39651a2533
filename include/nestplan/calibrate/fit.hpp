#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nestplan/model/device.hpp"

namespace nestplan::calibrate {

/// A time that was measured, and what predicts it.
struct Sample {
  std::string where;  ///< "runs.csv:12"
  std::string label;  ///< what it is of, in a few words
  /// Samples of one group are left out of a fit together, so that none is predicted from another of
  /// its kind.
  std::string group;
  double measured_s = 0;
  std::function<double(const model::DeviceModel&)> seconds;
};

/// What is known of the parameters before anything is measured.
struct Prior {
  model::DeviceModel model;
  model::DeviceModel relative_error;  ///< standard error over value; 0: known exactly
};

/// How much samples that lie far off count.
enum class Loss {
  kHuber,  ///< their distance instead of its square
  kCauchy  ///< its logarithm: the less, the farther they are
};

struct FitOptions {
  Loss loss = Loss::kCauchy;
  int folds = 5;  ///< ≥ 2
};

/// Sizes of relative errors, |predicted / measured - 1|.
struct ErrorSize {
  double median = 0;
  double ninth = 0;  ///< the 90th percentile
};

struct FittedParameter {
  const model::DeviceParameter* parameter = nullptr;
  double before = 0;
  double after = 0;
  double relative_error_before = 0;
  double relative_error_after = 0;
  bool determined = false;  ///< else it is what it was: the samples say too little, or it is exact
  bool exact = false;       ///< known exactly before, or 0: no sample may move it
  bool at_bound = false;    ///< determined, and the samples want more of it or less than there is
};

struct Fit {
  model::DeviceModel model;
  model::DeviceModel relative_error;
  std::vector<FittedParameter> parameters;  ///< those that may be measured
  std::vector<double> before_s;             ///< predictions of the prior, by sample
  std::vector<double> after_s;
  std::vector<double> held_out_s;     ///< each from a fit without the sample's fold; may be empty
  std::vector<std::size_t> outliers;  ///< samples that are far off after the fit, farthest first
  double noise = 0;                   ///< standard deviation of the logarithm of a sample
  int folds = 0;                      ///< 0: all samples are of one group, so none is held out
};

/// Maximum a posteriori estimate of a device's measurable parameters by robust nonlinear least
/// squares, in logarithms, so that all are positive and errors relative: with `x` the logarithms of
/// the parameters, minimise
///
///     Σ_i ρ((ln T_i(x) - ln t_i)² / σ²) + Σ_j ((x_j - x0_j) / e_j)²
///
/// within the parameters' bounds, over samples `t_i` that the model predicts to take `T_i`; `x0_j`
/// and `e_j` are the prior and its relative error and ρ is a Huber or Cauchy loss (Ceres Solver;
/// Levenberg-Marquardt on forward differences). The noise σ is estimated from the residuals
/// as 1.4826 times their median distance from their median (Rousseeuw and Croux, "Alternatives to
/// the Median Absolute Deviation", 1993), in a few rounds, and is never below 1 %.
///
/// Standard errors are from the covariance of the estimate. A parameter whose error the samples
/// reduce by less than a fifth is not determined by them: it is put back to the prior, the least
/// determined one first, and the others are fitted again.
///
/// Held out errors are those of k-fold cross-validation: groups are dealt out to the folds in the
/// order in which they come, and everything above is done without the fold's samples.
///
/// Deterministic. Throws InvalidInput without samples, and where these are in the median more than
/// 30 times as long as the prior predicts or less than a 30th, which units explain and no device;
/// InternalError if a time is predicted that is not positive.
Fit fit(std::span<const Sample> samples, const Prior& prior, const FitOptions& options = {});

/// Whether samples are predicted better, in the median, by fits without them than by the prior.
/// Nothing if none is held out.
std::optional<bool> beats_prior(std::span<const Sample> samples, const Fit& fit);

/// Of `predicted` times, by sample.
ErrorSize error_size(std::span<const Sample> samples, std::span<const double> predicted);

}  // namespace nestplan::calibrate
