#include "cli/cost_terms.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

namespace nestplan::cli {
namespace {

/// Counts of bytes are rounded to parts of a byte.
constexpr double kRounding = 1e-4;

/// What is left takes time in proportion to bytes.
void forget_fixed_times(model::Cluster& cluster) {
  if (auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network)) {
    hierarchy->collectives = "hierarchical-ring";
    for (model::NetworkLevel& level : hierarchy->levels) level.latency_s = 0;
  } else {
    for (auto& dimension : std::get<model::TorusSpec>(cluster.network).dimensions) {
      dimension.latency_s = 0;
    }
  }
}

/// A problem without latencies, and its best plan; no plan where none fits.
struct Case {
  model::Problem problem;
  model::Plan plan;

  explicit Case(std::uint64_t seed) : problem(testing::random_problem(seed)) {
    forget_fixed_times(problem.cluster);
    plan = solver::solve(problem, *network::make_network(problem.cluster));
  }

  bool fits() const { return plan.status == model::Status::kOptimal; }

  model::Plan scaled(const std::vector<CostTerm>& terms, double factor) const {
    model::Problem other = problem;
    for (const CostTerm& term : terms) term.scale(other, factor);
    return cost::evaluate(other, *network::make_network(other.cluster), cost::placed(plan));
  }
};

/// Those that are not of the network.
std::vector<CostTerm> own_terms(const model::Problem& problem) {
  std::vector<CostTerm> terms = cost_terms(problem);
  std::erase_if(terms, [](const CostTerm& term) { return term.name.starts_with("network: "); });
  return terms;
}

double computed_s(const model::StageTime& time) {
  return time.forward_s + time.backward_s + time.recompute_s - time.collective_s;
}

TEST(CostTermsTest, AllTogetherScaleTheWholeIteration) {
  int cases = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(200); ++seed) {
    SCOPED_TRACE(seed);
    const Case each(seed);
    if (!each.fits()) continue;
    ++cases;
    for (const double factor : {0.5, 3.0}) {
      const model::Plan scaled = each.scaled(own_terms(each.problem), factor);
      const double expected = factor * each.plan.iteration_time_s;
      ASSERT_NEAR(scaled.iteration_time_s, expected, kRounding * expected) << factor;
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(CostTermsTest, EachScalesItsOwnAndLeavesMemory) {
  for (std::uint64_t seed = 0; seed < testing::seeds(200); ++seed) {
    const Case each(seed);
    if (!each.fits()) continue;
    for (const CostTerm& term : own_terms(each.problem)) {
      SCOPED_TRACE(std::to_string(seed) + " " + term.name);
      constexpr double kFactor = 2;
      const model::Plan scaled = each.scaled({term}, kFactor);
      ASSERT_EQ(scaled.status, model::Status::kOptimal);
      for (std::size_t s = 0; s < scaled.stages.size(); ++s) {
        const model::StageTime& before = each.plan.stages[s].time;
        const model::StageTime& after = scaled.stages[s].time;
        ASSERT_EQ(scaled.stages[s].memory.total_bytes, each.plan.stages[s].memory.total_bytes);
        const auto expect = [&](double was, double is, bool own) {
          const double expected = own ? kFactor * was : was;
          ASSERT_NEAR(is, expected, kRounding * expected + 1e-15);
        };
        expect(computed_s(before), computed_s(after), term.name == "compute");
        expect(before.receive_s, after.receive_s, term.name == "transfers");
        expect(before.gradient_receive_s, after.gradient_receive_s, term.name == "transfers");
        expect(before.zero_s, after.zero_s, term.name == "data parallel");
        expect(before.tie_s, after.tie_s, term.name == "data parallel");
        expect(before.update_s, after.update_s, term.name == "optimizer");
      }
    }
  }
}

TEST(CostTermsTest, TheOptimizersStepIsOneWhereItTakesTime) {
  const auto named = [](const model::Problem& problem) {
    const std::vector<CostTerm> terms = cost_terms(problem);
    return std::any_of(terms.begin(), terms.end(),
                       [](const CostTerm& term) { return term.name == "optimizer"; });
  };
  model::Problem problem = testing::random_problem(0);
  problem.graph.updates.clear();
  EXPECT_FALSE(named(problem));
  problem.graph.updates = {{0, 1e-12}};
  EXPECT_TRUE(named(problem));
}

TEST(CostTermsTest, OneLevelAtATime) {
  for (std::uint64_t seed = 0; seed < testing::seeds(100); ++seed) {
    SCOPED_TRACE(seed);
    const Case each(seed);
    if (!each.fits()) continue;
    std::vector<CostTerm> levels = cost_terms(each.problem);
    std::erase_if(levels, [](const CostTerm& term) { return !term.name.starts_with("network: "); });
    ASSERT_FALSE(levels.empty());
    for (const CostTerm& level : levels) {
      ASSERT_GE(each.scaled({level}, 2).iteration_time_s, each.plan.iteration_time_s * (1 - 1e-12));
    }
    // All levels are slower: so is all that is communicated, and nothing else.
    const model::Plan slower = each.scaled(levels, 2);
    std::vector<CostTerm> moved = own_terms(each.problem);
    std::erase_if(moved, [](const CostTerm& term) {
      return term.name == "compute" || term.name == "optimizer";
    });
    const model::Plan dearer = each.scaled(moved, 2);
    ASSERT_NEAR(slower.iteration_time_s, dearer.iteration_time_s,
                kRounding * dearer.iteration_time_s);
  }
}

}  // namespace
}  // namespace nestplan::cli
