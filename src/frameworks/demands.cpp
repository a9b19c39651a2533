#include "frameworks/demands.hpp"

#include <fmt/format.h>

#include "nestplan/targets/targets.hpp"

namespace nestplan::frameworks {

void make_even(Draft& draft) {
  Recipe& r = draft.recipe;
  r.layout = dealt_out(layers_of(r.layout), predictions_of(r.layout), r.pp, r.vpp);
}

void use_sequence_parallelism(Draft& draft) { draft.recipe.sequence_parallel = true; }

bool is_no_decoder(const Draft& draft) {
  return draft.kind != ModelKind::kDecoder && draft.kind != ModelKind::kOther;
}

std::string explain_no_decoder(const Draft& draft) {
  return fmt::format("{}, but what these settings are for trains decoders",
                     targets::with_article(draft.kind));
}

}  // namespace nestplan::frameworks
