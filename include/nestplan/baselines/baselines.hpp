#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::baselines {

/// Other ways to come to a plan, each as its paper describes it. They choose among the plans that
/// the planner chooses from, with the same costs of layers and collectives; what they do not know
/// or do not vary is what their papers leave out. Each one's source file says what that is.
enum class Method : std::uint8_t {
  kManual,  ///< Megatron-LM's takeaways (Narayanan et al., SC 2021; Korthikanti et al., MLSys 2023)
  kMcmc,    ///< Markov chain Monte Carlo (FlexFlow, MLSys 2019; TopoOpt, NSDI 2023)
  kPhaze,   ///< exact on a network where all pairs are alike (Piper, 2021; Phaze, ICML 2024)
  kAlpa,    ///< submeshes and dynamic programming over stages (Alpa, OSDI 2022)
  kMist     ///< Pareto points of stages and a mixed-integer program (Mist, EuroSys 2025)
};

/// All of them, in the order of reports, and their names in the same order.
std::vector<Method> methods();
std::vector<std::string> method_names();
const char* to_string(Method method);

/// How far a search goes.
struct SearchBudget {
  std::uint64_t seed = 1;          ///< of the Markov chains
  std::int64_t mcmc_steps = 5000;  ///< proposals of all chains together, ≥ 1
  int mist_nodes = 2000;           ///< of the tree of one mixed-integer program
  double time_limit_s = std::numeric_limits<double>::infinity();
  std::function<bool()> stop_requested;  ///< polled now and then, if set
};

/// What `method` comes to, judged by cost::evaluate on the network as it is. A plan that the
/// planner's options and rules exclude is none. Status kOptimal (legal and within memory) or
/// kInfeasible with the reason; `search` holds the seconds, whether it was stopped, and its limit.
/// The same arguments give the same plan unless a search is stopped. Throws like `solver::solve`.
model::Plan find_plan(Method method, const model::Problem& problem, const network::Network& network,
                      const SearchBudget& budget = {});

}  // namespace nestplan::baselines
