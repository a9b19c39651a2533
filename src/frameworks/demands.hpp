#pragma once

#include <string>

#include "nestplan/frameworks/recipe.hpp"

namespace nestplan::frameworks {

/// A plan on its way to one recipe for all its stages.
struct Draft {
  Recipe recipe;  ///< of the first stage, where stages differ
  const Job& job;
  std::string layout_problem{};  ///< why the recipe has no layout
  bool per_stage_strategies = false;
  bool per_stage_zero = false;
  bool per_stage_recompute = false;
  int most_zero = 0;
  model::Recompute most_recompute = model::Recompute::kNone;
};

/// How to come near what a framework cannot do.
struct Remedy {
  void (*apply)(Draft&) = nullptr;
  const char* becomes = "";  ///< "ZeRO 1"
  bool stays = false;        ///< what is broken stays so, and is only said
};

/// What a framework asks of a plan beside the rules of its target.
struct Demand {
  const char* name;
  const char* field;  ///< of the plan
  bool (*broken)(const Draft&);
  std::string (*explain)(const Draft&);
  const char* source;
  Remedy remedy{};  ///< none: `apply` is null
};

// What several frameworks demand. Each lists what it does, with its source.

bool is_uneven(const Draft& draft);
std::string explain_uneven(const Draft& draft);
void make_even(Draft& draft);

bool lacks_sequence_parallelism(const Draft& draft);
std::string explain_sequence_parallelism(const Draft& draft);
void use_sequence_parallelism(Draft& draft);

bool has_predictions(const Draft& draft);
std::string explain_predictions(const Draft& draft);

bool is_fp16(const Draft& draft);
bool is_fp8(const Draft& draft);
std::string explain_precision(const Draft& draft);

}  // namespace nestplan::frameworks
