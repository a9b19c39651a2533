#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/frameworks/recipe.hpp"

namespace nestplan::frameworks {

/// A setting of Megatron-LM and the fields of Megatron-Bridge that it becomes
/// (NVIDIA-NeMo/Megatron-Bridge docs/megatron-lm-to-megatron-bridge.md).
struct Argument {
  std::string flag;                 ///< without dashes; empty: only for Megatron-Bridge
  std::vector<std::string> fields;  ///< empty: only for Megatron-LM
  /// Empty: not set. "true" for a switch.
  std::string value;
  bool is_switch = false;
};

struct ArgumentGroup {
  std::string title;
  std::vector<Argument> arguments;
};

/// What a recipe sets; see src/frameworks/arguments.cpp.
std::vector<ArgumentGroup> strategy_arguments(const Recipe& recipe, const Job& job, ModelKind kind);

/// Of the communication that `recipe` hides, what Megatron-LM hides.
Hidden hidden_by_megatron(const Recipe& recipe);

/// The shape of a model, and what of it is not said.
struct ModelArguments {
  std::vector<Argument> arguments;
  std::vector<std::string> untold;  ///< there is no argument here
  std::vector<std::string> open;    ///< the config does not tell, so that a default holds
};
ModelArguments megatron_model(const Job& job, const Recipe& recipe);
ModelArguments deepspeed_model(const Job& job, const Recipe& recipe);

/// The lines that say what is not said; none for a model that is not known.
std::vector<std::string> gaps_of(const ModelArguments& model);

/// Arguments that were read back, by flag or by field.
class GivenArguments {
 public:
  enum class Spelling { kFlags, kFields };
  GivenArguments(std::map<std::string, std::string> values, Spelling spelling)
      : values_(std::move(values)), spelling_(spelling) {}

  /// Value of a setting; empty if it is not set. Throws InvalidInput if it is no number.
  std::optional<std::int64_t> number(const char* flag, const char* field) const;
  std::string text(const char* flag, const char* field) const;
  bool is_on(const char* flag, const char* field) const { return text(flag, field) == "true"; }

 private:
  std::map<std::string, std::string> values_;
  Spelling spelling_;
};

/// The recipe behind `strategy_arguments`. Throws InvalidInput for degrees that do not make up
/// `ranks` and for layouts that do not fit them.
Recipe recipe_of(const GivenArguments& given, std::int64_t ranks);

/// A whole number. Throws InvalidInput that names `what` for other text.
std::int64_t parse_number(std::string_view text, std::string_view what);

}  // namespace nestplan::frameworks
