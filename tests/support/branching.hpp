#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nestplan/model/problem.hpp"

namespace nestplan::testing {

/// Branches of `length` layers from one source to one sink, with irregular costs.
inline model::Problem branching(int branches, int length, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  model::Problem problem;
  problem.graph.name = "branching";
  problem.graph.strategies = {{"tp1", 1, 1, 1, 1, 1, 1}, {"tp2", 2, 1, 1, 1, 1, 1}};
  const auto add = [&](const std::string& id) {
    const double forward = draw(1e-4, 1e-3);
    model::LayerCost one{forward, 2 * forward, 1e7, 0, 4e7, 1e6, {}};
    model::LayerCost two{forward / 1.8, forward / 0.9, 5e6, 0, 2e7, 1e6, {}};
    two.collectives.push_back(
        {model::Phase::kForward, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor, 1e6});
    problem.graph.layers.push_back({id, {one, two}});
    return static_cast<int>(problem.graph.layers.size()) - 1;
  };
  const auto connect = [&](int from, int to) {
    const double bytes = draw(1e5, 1e6);
    problem.graph.edges.push_back({from, to, {bytes, bytes}});
  };
  const int source = add("source");
  std::vector<int> ends;
  for (int b = 0; b < branches; ++b) {
    int last = source;
    for (int i = 0; i < length; ++i) {
      const int next = add("b" + std::to_string(b) + "." + std::to_string(i));
      connect(last, next);
      last = next;
    }
    ends.push_back(last);
  }
  const int sink = add("sink");
  for (const int end : ends) connect(end, sink);
  problem.cluster.name = "c";
  problem.cluster.device = {"d", 2e9, 0, {{"bf16", 1e14}}, 1e12};
  problem.cluster.hierarchy().levels = {{"node", 4, 1e11, 1e-6, 1}, {"rack", 6, 1e10, 5e-6, 2}};
  problem.options.global_batch = 24;
  model::quantise_counts(problem.graph);
  return problem;
}

}  // namespace nestplan::testing
