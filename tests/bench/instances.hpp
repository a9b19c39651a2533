#pragma once

#include <string>
#include <vector>

#include "nestplan/model/problem.hpp"

namespace nestplan::bench {

/// Searches of `inputs/` that measurements are quoted of, by name:
///
/// - `omni-vision`: Qwen2.5-Omni 7B, vision tower in operators, the rest in blocks (21,699
///   downsets), tp 2 and 4 mixed, 48 stages in each of two replicas on 1,024 H100s, NEST's
///   objective;
/// - `omni-operator`: the same in operators throughout (104,613 downsets);
/// - `omni-block`: the same in blocks;
/// - `omni-layer`: the same in whole layers and 24 stages, small enough to be run at will;
/// - `llama-405b`: Llama 3.1 405B on 16,384 H100s, strategies mixed, uneven batches: a sweep over
///   26,479 configurations;
/// - `llama-405b-uniform`: the same with one strategy a plan: 105,916 configurations.
///
/// Throws InvalidConfig for any other name.
model::Problem named_instance(const std::string& name);

std::vector<std::string> instance_names();

}  // namespace nestplan::bench
