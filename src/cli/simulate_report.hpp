#pragma once

#include <string>

#include "cli/inputs.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/simulate/simulation.hpp"

namespace nestplan::cli {

/// What a simulation came to, as text for people. `all_stages`: however many there are.
std::string simulation_report(const simulate::Pipeline& pipeline,
                              const simulate::Simulation& simulation, const model::Plan& plan,
                              const Setup& setup, bool all_stages);

/// The same as a `nestplan.simulation/1` document, ending in a newline. Of an infeasible plan,
/// which is not simulated, only why.
std::string simulation_json(const simulate::Pipeline& pipeline,
                            const simulate::Simulation& simulation, const model::Plan& plan);
std::string infeasible_simulation_json(const model::Plan& plan);

}  // namespace nestplan::cli
