#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/frameworks/recipe.hpp"
#include "nestplan/model/plan_outline.hpp"
#include "nestplan/placement/placement.hpp"

/// Plans as training frameworks are configured.
namespace nestplan::frameworks {

/// "megatron" (Megatron-LM: a shell array of arguments), "bridge" (Megatron-Bridge and NeMo:
/// overrides), "deepspeed" (JSON), "torchtitan" (TOML), "maxtext" (YAML).
std::vector<std::string> format_names();
bool is_format(std::string_view name);

struct Settings {
  std::string text;                  ///< ends in a newline
  std::vector<std::string> remarks;  ///< what the framework is not told, or told otherwise
};

/// The settings with which `format` runs `plan` on the ranks of `placement`, headed by the launch
/// and by the remarks. What was written is read back, and is the same recipe.
///
/// Throws InvalidInput with the field of the plan, the rule and the nearest right thing for a plan
/// that the framework would not run, or run otherwise. With `nearest` what has a near setting takes
/// that, and a remark says so.
Settings settings_of(std::string_view format, const model::PlanOutline& plan, const Job& job,
                     const placement::Placement& placement, bool nearest = false);

/// The recipe that settings stand for when a launcher starts `ranks` ranks. What a format does not
/// say is as in `carried`. Throws InvalidInput naming what is wrong.
Recipe read(std::string_view format, std::string_view text, std::int64_t ranks);

/// The releases or commits of a framework that its settings were read from. Throws InvalidConfig.
std::string_view version_of(std::string_view format);

/// The part of a recipe of a decoder that `format` has words for: the rest as the model or the
/// launcher's user has it, here set to what `read` returns.
Recipe carried(std::string_view format, Recipe recipe);

}  // namespace nestplan::frameworks
