#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "nestplan/baselines/baselines.hpp"
#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/placed.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/oracle.hpp"
#include "support/random_problem.hpp"
#include "support/seeds.hpp"

/// No baseline is better than the planner, and what it comes to is a plan.

namespace nestplan::baselines {
namespace {

constexpr double kRelative = 1e-9;

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

/// `best`: the optimum; nothing: there is no plan. Returns whether the baseline has one.
bool expect_no_better(Method method, const model::Problem& problem, const network::Network& network,
                      const std::optional<double>& best, const std::string& name,
                      const SearchBudget& budget = {}) {
  const model::Plan plan = find_plan(method, problem, network, budget);
  if (plan.status == model::Status::kInfeasible) {
    EXPECT_FALSE(plan.reason.empty()) << name << ' ' << to_string(method);
    return false;
  }
  const model::Plan judged = cost::evaluate(problem, network, cost::placed(plan));
  EXPECT_EQ(judged.status, model::Status::kOptimal) << name << ' ' << to_string(method);
  EXPECT_EQ(judged.iteration_time_s, plan.iteration_time_s) << name << ' ' << to_string(method);
  EXPECT_TRUE(best) << name << ": " << to_string(method)
                    << " has a plan where there is none: " << testing::describe(cost::placed(plan));
  if (best) {
    EXPECT_GE(plan.iteration_time_s, *best * (1 - kRelative))
        << name << ' ' << to_string(method) << ": " << testing::describe(cost::placed(plan));
  }
  return true;
}

TEST(Baselines, AreNoBetterThanThePlannerOnRandomInstances) {
  std::vector<std::int64_t> plans(methods().size(), 0);
  SearchBudget budget;
  budget.mcmc_steps = 400;
  std::int64_t feasible = 0;
  for (std::uint64_t seed = 0; seed < testing::seeds(400); ++seed) {
    const model::Problem problem = testing::random_problem(seed);
    const auto network = network::make_network(problem.cluster);
    const model::Plan own = solver::solve(problem, *network);
    std::optional<double> best;
    if (own.status != model::Status::kInfeasible) best = own.iteration_time_s;
    feasible += best ? 1 : 0;
    for (std::size_t i = 0; i < methods().size(); ++i) {
      plans[i] += expect_no_better(methods()[i], problem, *network, best,
                                   "seed " + std::to_string(seed), budget)
                      ? 1
                      : 0;
    }
  }
  // Their plans are rarer than the planner's, not rare.
  for (std::size_t i = 0; i < methods().size(); ++i) {
    EXPECT_GT(10 * plans[i], feasible) << to_string(methods()[i]) << ' ' << plans[i];
  }
}

TEST(Baselines, AreNoBetterThanTheOracle) {
  const auto directory = testing::oracle_directory();
  if (!directory) GTEST_SKIP() << "no shared/oracle beside the checkout";
  SearchBudget budget;
  budget.mcmc_steps = 400;
  for (const char* file : {"instances.jsonl", "wide.jsonl"}) {
    for (const testing::OracleInstance& instance : testing::load_oracle(*directory / file)) {
      const auto network = network::make_network(instance.problem.cluster);
      for (const testing::OracleAnswer& answer : instance.answers) {
        model::Problem problem = instance.problem;
        problem.options.objective = answer.objective;
        problem.options.per_stage_strategies = answer.per_stage;
        for (const Method method : methods()) {
          expect_no_better(method, problem, *network, answer.iteration_time_s, instance.name,
                           budget);
        }
      }
    }
  }
}

TEST(Baselines, AreNoBetterThanThePlannerOnModelsAndClusters) {
  SearchBudget budget;
  budget.mcmc_steps = 200;
  for (const char* cluster : {"tpuv4-fat-tree-64", "single-node-8xh100", "mesh-2x2x4",
                              "mixed-h100-a100", "dgx-h100-superpod-rails"}) {
    for (const char* name : {"bert-large", "llama-2-7b", "mixtral-8x7b", "flan-t5-xxl"}) {
      model::Problem problem;
      problem.cluster = io::read_cluster(kInputs / "clusters" / (std::string(cluster) + ".json"));
      problem.cluster.limit = std::min<std::int64_t>(problem.cluster.devices(), 128);
      problem.options.global_batch = 256;
      const model::Model model = io::read_model(kInputs / "models" / name);
      cost::ProfileOptions profile;
      profile.sequence = 512;
      profile.ep = {1, 8};
      problem.graph = cost::build_graph(model, problem.cluster.device, profile);
      const auto network = network::make_network(problem.cluster);
      const model::Plan own = solver::solve(problem, *network);
      std::optional<double> best;
      if (own.status != model::Status::kInfeasible) best = own.iteration_time_s;
      for (const Method method : methods()) {
        expect_no_better(method, problem, *network, best, std::string(name) + " on " + cluster,
                         budget);
      }
    }
  }
}

}  // namespace
}  // namespace nestplan::baselines
