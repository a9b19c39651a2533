#pragma once

#include <string>

#include "nestplan/frameworks/recipe.hpp"

namespace nestplan::frameworks {

/// A plan on its way to one recipe for all its stages.
struct Draft {
  Recipe recipe;  ///< of the first stage, where stages differ
  const Job& job;
  ModelKind kind = ModelKind::kDecoder;
  std::string layout_problem{};  ///< why the recipe has no layout
  bool per_stage_strategies = false;
  bool per_stage_zero = false;
  bool per_stage_recompute = false;
  int most_zero = 0;
  model::Recompute most_recompute = model::Recompute::kNone;
  bool own_recompute = false;  ///< the framework's choice of operators stands for the plan's
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

// What several formats demand, and remedies that several have.

void make_even(Draft& draft);
void use_sequence_parallelism(Draft& draft);

/// Neither a decoder nor a graph, of which nothing is known.
bool is_no_decoder(const Draft& draft);
std::string explain_no_decoder(const Draft& draft);

}  // namespace nestplan::frameworks
