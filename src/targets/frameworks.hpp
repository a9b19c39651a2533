#pragma once

#include "nestplan/targets/targets.hpp"

namespace nestplan::targets {

const RuleSet& megatron();
const RuleSet& deepspeed();
const RuleSet& torchtitan();

}  // namespace nestplan::targets
