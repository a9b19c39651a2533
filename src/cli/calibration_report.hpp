#pragma once

#include <span>
#include <string>

#include "nestplan/calibrate/fit.hpp"

namespace nestplan::cli {

/// What a fit found, for people: errors before, after and held out; the parameters; outliers.
std::string calibration_text(const std::string& device, std::span<const calibrate::Sample> samples,
                             const calibrate::Fit& fit);

/// The same as a `nestplan.calibration/1` document.
std::string calibration_json(const std::string& device, std::span<const calibrate::Sample> samples,
                             const calibrate::Fit& fit);

}  // namespace nestplan::cli
