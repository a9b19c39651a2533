#include "cli/plan_terms.hpp"

#include <cmath>

#include "nestplan/util/text.hpp"

namespace nestplan::cli {
std::string term_text(double seconds) {
  return std::abs(seconds) < util::kNoSeconds ? "0 s" : util::format_seconds(seconds);
}

nlohmann::ordered_json terms_json(const model::TimeSplit& split, const model::TimeSplit& from) {
  nlohmann::ordered_json terms{{"compute_s", split.compute_s - from.compute_s},
                               {"recompute_s", split.recompute_s - from.recompute_s},
                               {"collective_s", split.collective_s - from.collective_s},
                               {"pipeline_s", split.pipeline_s - from.pipeline_s},
                               {"data_parallel_s", split.data_parallel_s - from.data_parallel_s}};
  if (split.update_s > 0 || from.update_s > 0) terms["update_s"] = split.update_s - from.update_s;
  terms["bubble_s"] = split.bubble_s - from.bubble_s;
  return terms;
}

}  // namespace nestplan::cli
