#pragma once

#include <vector>

#include "nestplan/placement/placement.hpp"
#include "nestplan/report/report.hpp"
#include "nestplan/simulate/simulation.hpp"
#include "report/html.hpp"
#include "report/place_uses.hpp"

namespace nestplan::report {

// The sections of a page about a plan, one function each.

void write_summary(Html& html, const PlanReport& report, const std::vector<StageRecord>& stages);

/// `placed`: of the same plan.
void write_cluster(Html& html, const PlanReport& report, const placement::Placement& placed);

void write_schedule(Html& html, const simulate::Pipeline& pipeline,
                    const simulate::Simulation& simulation);

void write_memory(Html& html, const std::vector<StageRecord>& stages);

/// `simulation`: null if there is none.
void write_time(Html& html, const PlanReport& report, const std::vector<StageRecord>& stages,
                const simulate::Simulation* simulation);

/// `placed` and `simulation` may be null.
void write_network(Html& html, const PlanReport& report, const placement::Placement* placed,
                   const simulate::Pipeline* pipeline, const simulate::Simulation* simulation);

void write_alternatives(Html& html, const Alternatives& alternatives);

}  // namespace nestplan::report
