#include "frameworks/demands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace nestplan::frameworks {

bool is_uneven(const Draft& draft) {
  const Recipe& r = draft.recipe;
  return r.pp > 1 && kind_of(r.layout, r.pp) != model::StageConstraints::Layout::kEven;
}

std::string explain_uneven(const Draft& draft) {
  std::vector<std::int64_t> counts;
  for (const targets::LayoutPart& part : draft.recipe.layout) counts.push_back(part.layers);
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return fmt::format("stages of {} to {} layers; nearest: as many in all, --stage-layers even",
                     *least, *most);
}

void make_even(Draft& draft) {
  Recipe& r = draft.recipe;
  r.layout = dealt_out(layers_of(r.layout), predictions_of(r.layout), r.pp, r.vpp);
}

bool lacks_sequence_parallelism(const Draft& draft) {
  return draft.recipe.tp > 1 && !draft.recipe.sequence_parallel;
}

std::string explain_sequence_parallelism(const Draft& draft) {
  return fmt::format("tp {} without sequence parallelism; nearest: with it", draft.recipe.tp);
}

void use_sequence_parallelism(Draft& draft) { draft.recipe.sequence_parallel = true; }

bool has_predictions(const Draft& draft) { return predictions_of(draft.recipe.layout) > 0; }

std::string explain_predictions(const Draft& draft) {
  return fmt::format("{} modules of multi-token prediction, which the framework does not have",
                     predictions_of(draft.recipe.layout));
}

bool is_fp16(const Draft& draft) { return draft.recipe.precision == "fp16"; }
bool is_fp8(const Draft& draft) { return draft.recipe.precision == "fp8"; }

std::string explain_precision(const Draft& draft) {
  return fmt::format("it does not train in {}; nearest: bf16", draft.recipe.precision);
}

}  // namespace nestplan::frameworks
