#include "support/oracle.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/network/network.hpp"
#include "support/brute_force.hpp"

namespace nestplan {
namespace {

constexpr double kRelative = 1e-9;

class Oracle : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const auto directory = testing::oracle_directory();
    if (!directory) GTEST_SKIP() << "no shared/oracle beside the checkout";
    instances_ = testing::load_oracle(*directory / GetParam());
    ASSERT_FALSE(instances_.empty());
  }

  std::vector<testing::OracleInstance> instances_;
};

TEST_P(Oracle, PlansCostWhatTheyShould) {
  for (const testing::OracleInstance& instance : instances_) {
    const auto network = network::make_network(instance.problem.cluster);
    for (const testing::OracleAnswer& answer : instance.answers) {
      if (!answer.iteration_time_s) continue;
      model::Problem problem = instance.problem;
      problem.options.objective = answer.objective;
      const model::Plan plan = cost::evaluate(problem, *network, answer.plan);
      EXPECT_EQ(plan.status, model::Status::kOptimal) << instance.name << ": " << plan.reason;
      EXPECT_EQ(plan.strategy.microbatches, answer.microbatches) << instance.name;
      EXPECT_NEAR(plan.iteration_time_s, *answer.iteration_time_s,
                  kRelative * *answer.iteration_time_s)
          << instance.name << ' ' << to_string(answer.objective);
    }
  }
}

TEST_P(Oracle, BruteForceFindsTheSameOptimum) {
  for (const testing::OracleInstance& instance : instances_) {
    const auto network = network::make_network(instance.problem.cluster);
    bool per_stage = false;
    for (const auto& answer : instance.answers) per_stage = per_stage || answer.per_stage;
    const testing::Optima optima = testing::brute_force(instance.problem, *network, per_stage);
    for (const testing::OracleAnswer& answer : instance.answers) {
      const testing::Optimum& best = optima.at(answer.objective, answer.per_stage);
      ASSERT_EQ(best.feasible(), answer.iteration_time_s.has_value()) << instance.name;
      if (!best.feasible()) continue;
      EXPECT_NEAR(best.value_s, *answer.iteration_time_s, kRelative * *answer.iteration_time_s)
          << instance.name << ' ' << to_string(answer.objective) << " per stage "
          << answer.per_stage;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Oracle, ::testing::Values("instances.jsonl", "wide.jsonl"),
                         [](const auto& parameter) {
                           const std::string file = parameter.param;
                           return file.substr(0, file.find('.'));
                         });

}  // namespace
}  // namespace nestplan
