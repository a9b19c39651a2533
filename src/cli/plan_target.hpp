#pragma once

#include <optional>
#include <string>

#include "cli/inputs.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/targets/targets.hpp"

namespace nestplan::cli {

/// A plan as the rules of frameworks see it: what its stages do not agree on is not known, but that
/// they differ is. The plan has stages.
targets::Candidate candidate_of(const model::Plan& plan, const Setup& setup);

/// What the framework that was asked for cannot run of `plan`: every rule that is broken by its
/// name, with the numbers and the nearest that would do. Empty if it can, and as below.
std::string broken_rules(const model::Plan& plan, const Setup& setup);

/// The framework that was asked for, with the settings that `plan` implies there. Nothing for a
/// plan without stages or for no framework in particular.
std::optional<io::PlanTarget> target_of(const model::Plan& plan, const Setup& setup);

}  // namespace nestplan::cli
