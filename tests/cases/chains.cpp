#include "cases/chains.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cost/samples.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan::cases {

std::vector<Piece> pieces(std::int64_t count, const Piece& each) {
  return std::vector<Piece>(static_cast<std::size_t>(count), each);
}

std::vector<Piece> joined(std::initializer_list<std::vector<Piece>> parts) {
  std::vector<Piece> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

model::Problem chain(const std::vector<Piece>& pieces, std::int64_t pp) {
  model::Problem problem;
  problem.graph.name = "chain";
  problem.graph.strategies.push_back({.id = "one"});
  for (const Piece& piece : pieces) {
    model::LayerCost cost;
    cost.forward_s = piece.seconds / 3;
    cost.backward_s = piece.seconds - cost.forward_s;
    cost.parameters = piece.parameters;
    const auto index = static_cast<int>(problem.graph.layers.size());
    problem.graph.layers.push_back({"n" + std::to_string(index), {cost}, piece.counted});
    if (index > 0) problem.graph.edges.push_back({index - 1, index, {0}});
  }
  problem.cluster = node(pp);
  problem.options.global_batch = 1024;
  problem.options.dp = {1};
  problem.options.pp = {pp};
  problem.options.zero = {0};
  problem.options.recompute = {model::Recompute::kNone};
  problem.options.state_bytes = {1, 0, 0};
  return problem;
}

model::Plan solve(const model::Problem& problem) {
  return solver::solve(problem, *network::make_network(problem.cluster));
}

std::vector<std::int64_t> sizes(const model::Plan& plan) {
  std::vector<std::int64_t> counts;
  for (const model::StagePlan& stage : plan.stages) counts.push_back(std::ssize(stage.layers));
  return counts;
}

std::vector<std::int64_t> counted_sizes(const model::Plan& plan, const model::Graph& graph) {
  std::vector<std::int64_t> counts;
  for (const model::StagePlan& stage : plan.stages) {
    counts.push_back(std::count_if(stage.layers.begin(), stage.layers.end(), [&](int layer) {
      return graph.layers[static_cast<std::size_t>(layer)].counted;
    }));
  }
  return counts;
}

double bottleneck(const model::Plan& plan) {
  double most = 0;
  for (const model::StagePlan& stage : plan.stages) most = std::max(most, stage.time.total_s);
  return most;
}

double least_bottleneck(const std::vector<double>& costs, std::int64_t parts) {
  const std::size_t n = costs.size();
  std::vector<double> before(n + 1, 0);
  std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
  // least[k]: of the first k layers in as many parts as there were rounds
  std::vector<double> least(n + 1, std::numeric_limits<double>::infinity());
  least[0] = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    std::vector<double> next(n + 1, std::numeric_limits<double>::infinity());
    for (std::size_t end = 1; end <= n; ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) {
        next[end] = std::min(next[end], std::max(least[begin], before[end] - before[begin]));
      }
    }
    least = std::move(next);
  }
  return least[n];
}

void expect_complete(const model::Plan& plan, std::size_t layers) {
  std::vector<int> all;
  for (const model::StagePlan& stage : plan.stages) {
    EXPECT_FALSE(stage.layers.empty());
    all.insert(all.end(), stage.layers.begin(), stage.layers.end());
  }
  std::vector<int> expected(layers);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

model::Cluster node(std::int64_t devices, double memory_bytes) {
  model::Cluster cluster;
  cluster.name = "node";
  cluster.device = {"device", memory_bytes, 0, {{"bf16", 989e12}, {"fp8", 1979e12}}, 3.35e12};
  cluster.hierarchy().levels = {{"node", devices, 450e9, 1e-6, 1}};
  return cluster;
}

model::Architecture gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                        std::int64_t vocabulary) {
  model::Architecture a = test::gpt(layers, hidden, heads);
  a.vocab = vocabulary;
  a.max_positions = a.learned_positions = 4096;
  a.tied_embeddings = false;
  return a;
}

}  // namespace nestplan::cases
