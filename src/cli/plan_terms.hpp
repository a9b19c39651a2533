#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <string>

#include "nestplan/model/plan.hpp"

namespace nestplan::cli {

/// A term of the iteration time, as tables call it.
struct PlanTerm {
  const char* name;
  double model::TimeSplit::*seconds;
};

/// All of them: they add up to the iteration time.
inline constexpr std::array<PlanTerm, 6> kPlanTerms{
    {{"compute", &model::TimeSplit::compute_s},
     {"recompute", &model::TimeSplit::recompute_s},
     {"collectives", &model::TimeSplit::collective_s},
     {"transfers", &model::TimeSplit::pipeline_s},
     {"data parallel", &model::TimeSplit::data_parallel_s},
     {"bubble", &model::TimeSplit::bubble_s}}};

/// "1.2 s", or "0 s" for what is too short to matter.
std::string term_text(double seconds);

/// "+1.2 s", "−1.2 s", or "=" where two plans are alike.
std::string difference_text(double seconds);

/// The terms of `split` less those of `from`, in seconds by key.
nlohmann::ordered_json terms_json(const model::TimeSplit& split, const model::TimeSplit& from = {});

}  // namespace nestplan::cli
