#pragma once

#include <array>

#include "nestplan/model/plan.hpp"

namespace nestplan::model {

/// A term of the iteration time, as tables call it.
struct PlanTerm {
  const char* name;
  double TimeSplit::*seconds;
};

/// All of them: they add up to the iteration time.
inline constexpr std::array<PlanTerm, 7> kPlanTerms{{{"compute", &TimeSplit::compute_s},
                                                     {"recompute", &TimeSplit::recompute_s},
                                                     {"collectives", &TimeSplit::collective_s},
                                                     {"transfers", &TimeSplit::pipeline_s},
                                                     {"data parallel", &TimeSplit::data_parallel_s},
                                                     {"optimizer", &TimeSplit::update_s},
                                                     {"bubble", &TimeSplit::bubble_s}}};

}  // namespace nestplan::model
