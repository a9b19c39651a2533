#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/model/problem.hpp"
#include "nestplan/network/network.hpp"

namespace nestplan::testing {

/// A problem and a plan written by hand, small enough to compute on paper.
struct SmallCase {
  model::Problem problem;
  cost::PlacedPlan plan;

  /// One device type with ample memory, on `levels` of (fan-out, bytes/s, latency,
  /// oversubscription).
  explicit SmallCase(std::initializer_list<model::NetworkLevel> levels,
                     std::int64_t global_batch = 1) {
    problem.cluster.hierarchy().levels = levels;
    problem.cluster.device.memory_bytes = 1e15;
    problem.options.global_batch = global_batch;
  }

  static model::NetworkLevel level(std::int64_t fanout, double bandwidth, double latency_s = 0,
                                   double oversubscription = 1) {
    return {"level", fanout, bandwidth, latency_s, oversubscription};
  }

  /// Index of a new strategy; strategies come before layers and edges.
  int strategy(std::int64_t tp, std::int64_t cp = 1, std::int64_t ep = 1,
               std::int64_t micro_batch = 1) {
    model::Strategy s;
    s.id = fmt::format("s{}", problem.graph.strategies.size());
    s.tp = tp;
    s.cp = cp;
    s.ep = ep;
    s.micro_batch = micro_batch;
    problem.graph.strategies.push_back(s);
    return static_cast<int>(problem.graph.strategies.size()) - 1;
  }

  /// Index of a new layer that costs the same under every strategy.
  int layer(const model::LayerCost& cost = {}) {
    model::Layer layer;
    layer.id = fmt::format("n{}", problem.graph.layers.size());
    layer.costs.assign(problem.graph.strategies.size(), cost);
    problem.graph.layers.push_back(layer);
    return static_cast<int>(problem.graph.layers.size()) - 1;
  }

  void edge(int from, int to, double bytes) {
    edge(from, to, std::vector<double>(problem.graph.strategies.size(), bytes));
  }

  void edge(int from, int to, const std::vector<double>& bytes) {
    problem.graph.edges.push_back({from, to, bytes});
  }

  void data_parallel(std::int64_t dp, std::int64_t dp_inner) {
    plan.dp = dp;
    plan.dp_inner = dp_inner;
  }

  cost::PlacedStage& stage(const std::vector<int>& layers, int strategy, std::int64_t position) {
    plan.stages.push_back({layers, strategy, position, model::Recompute::kNone, 0});
    return plan.stages.back();
  }

  model::Plan evaluate() const {
    return cost::evaluate(problem, *network::make_network(problem.cluster), plan);
  }
};

/// Two copies with 100 bytes of weights, which are gathered in 5 s, and 200 of gradients, which are
/// reduced and scattered in 10 s, beside 1 s forward and 2 s backward.
inline SmallCase sharded(int zero) {
  SmallCase c({SmallCase::level(2, 10)}, 4);
  c.strategy(1);
  model::LayerCost cost;
  cost.forward_s = 1;
  cost.backward_s = 2;
  cost.parameters = 50;
  c.layer(cost);
  c.data_parallel(2, 2);
  c.stage({0}, 0, 0).zero = zero;
  return c;
}

}  // namespace nestplan::testing
