#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/placement/placement.hpp"

namespace nestplan::frameworks {

/// How the ranks of a placement can be started.
struct Launch {
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;
  /// Ranks of every node where these are neighbours in the order of its devices, and as many on
  /// all: what torchrun starts (docs.pytorch.org/docs/stable/elastic/run.html). 0: it is not so.
  std::int64_t per_node = 0;
  std::string hosts;  ///< as Slurm writes it; empty: without names, or not in their order
};

Launch launch_of(const placement::Placement& placement);

/// Comment lines: how to start `program`, a Python script with its arguments, on every rank.
std::vector<std::string> launch_lines(const Launch& launch, const std::string& program);

}  // namespace nestplan::frameworks
