#pragma once

#include <string>
#include <vector>

#include "cli/flags.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/plan.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::cli {

/// What `--slice`, `--nodelist`, `--exclude`, `--whole-hosts`, `--choose-nodes` and `--background`
/// leave of a cluster. Throws InvalidConfig that names the flag. `remarks` hear of hosts that were
/// chosen.
void apply_machine_flags(const Flags& flags, model::Cluster& cluster,
                         std::vector<std::string>& remarks);

/// Adds what `--keep-inside` and `--stage-at` demand to the rules on stages. Throws InvalidConfig
/// that names the flag.
void add_place_rules(const Flags& flags, const network::Network& network,
                     model::StageConstraints& rules);

}  // namespace nestplan::cli
