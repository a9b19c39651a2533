#pragma once

#include <string>
#include <vector>

#include "nestplan/distributed/solve.hpp"
#include "nestplan/io/files.hpp"

namespace nestplan::distributed {

/// Every way to lay out `ranks`.
inline std::vector<RankLayout> layouts(int ranks) {
  std::vector<RankLayout> result;
  for (int groups = 1; groups <= ranks; ++groups) {
    for (int downsets = 1; ranks % groups == 0 && downsets <= ranks / groups; ++downsets) {
      if (ranks / groups % downsets != 0) continue;
      result.push_back({groups, {downsets, ranks / groups / downsets}});
    }
  }
  return result;
}

inline std::string name(const RankLayout& layout) {
  return std::to_string(layout.groups) + "x" + std::to_string(layout.team.downsets) + "x" +
         std::to_string(layout.team.stages);
}

/// The plan's document without what may differ between runs.
inline std::string document(model::Plan plan, const model::Problem& problem) {
  plan.search = {};
  return io::plan_to_json(plan, problem.graph, problem.cluster, problem.options.global_batch);
}

}  // namespace nestplan::distributed
