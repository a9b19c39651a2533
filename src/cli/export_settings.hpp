#pragma once

#include <string>

#include "cli/flags.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/placement/placement.hpp"

namespace nestplan::cli {

/// Whether `export --to` means the settings of a framework.
bool is_settings_format(const std::string& format);

/// The settings of the framework that `--to` names for the plan that was placed; what it cannot be
/// told goes to stderr as well, unless `--quiet`. Throws InvalidConfig or InvalidInput naming the
/// flag, or the file and its field, for a plan that the framework would not run as it is.
std::string exported_settings(const Flags& flags, const std::string& plan_file,
                              const model::Cluster& cluster, const placement::Placement& placement);

/// Throws InvalidConfig naming a flag that only settings of frameworks ask for, if one is given.
void refuse_settings_flags(const Flags& flags);

}  // namespace nestplan::cli
