#include "support/nest.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"

/// The public NEST instances: no plan that the reference solver found is better than ours.

namespace nestplan {
namespace {

using Json = nlohmann::json;
using model::Status;

constexpr double kRelative = 1e-9;

/// Answers of the reference solver.
Json reference() {
  std::ifstream in(*testing::nest_directory() / "reference.json");
  return Json::parse(in);
}

/// Graph files of the instances, in order; one empty name where there are no instances.
std::vector<std::string> graphs() {
  std::map<std::string, int> names;
  for (const Json& item : testing::nest_instances()) ++names[item.at("graph")];
  if (names.empty()) return {""};
  std::vector<std::string> result;
  for (const auto& [name, count] : names) result.push_back(name);
  return result;
}

/// The choices of a plan, its costs included: what may not differ between runs.
std::string without_search(const model::Plan& plan, const model::Problem& problem) {
  Json json = Json::parse(io::plan_to_json(plan, problem.graph, problem.cluster));
  json.erase("search");
  return json.dump();
}

/// A plan of the reference, with what it leaves open chosen optimally.
model::Plan reference_plan(const std::string& text, const model::Problem& problem) {
  return solver::complete(problem, *network::make_network(problem.cluster),
                          io::parse_plan(text, "reference.json", problem.graph));
}

class Nest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam().empty()) GTEST_SKIP() << "no shared/nest beside the checkout";
    for (const Json& item : reference()) {
      if (item.at("status") == "ok") reference_[item.at("id")] = item.at("plan").dump();
    }
    for (const Json& item : testing::nest_instances()) {
      if (item.at("graph") == GetParam()) instances_.push_back(item);
    }
    ASSERT_FALSE(instances_.empty());
  }

  std::vector<Json> instances_;
  std::map<std::string, std::string> reference_;
};

TEST_P(Nest, IsNoWorseThanTheReference) {
  for (const Json& instance : instances_) {
    const std::string id = instance.at("id");
    SCOPED_TRACE(id);
    const model::Problem problem = testing::nest_problem(instance);
    const auto network = network::make_network(problem.cluster);
    const model::Plan plan = solver::solve(problem, *network);
    if (const auto known = reference_.find(id); known != reference_.end()) {
      const model::Plan other = reference_plan(known->second, problem);
      if (other.status == Status::kOptimal) {
        ASSERT_EQ(plan.status, Status::kOptimal) << plan.reason;
        EXPECT_LE(plan.iteration_time_s, other.iteration_time_s * (1 + kRelative));
      }
    }
    if (plan.status != Status::kInfeasible) {
      const model::Plan judged = cost::evaluate(problem, *network, testing::placed(plan));
      EXPECT_EQ(judged.status, Status::kOptimal) << judged.reason;
      EXPECT_NEAR(judged.iteration_time_s, plan.iteration_time_s,
                  kRelative * plan.iteration_time_s);
    } else {
      EXPECT_FALSE(plan.reason.empty());
    }
    EXPECT_EQ(without_search(plan, problem),
              without_search(solver::solve(problem, *network), problem))
        << "another run, another plan";
  }
}

TEST(NestReference, MostPlansCanBeCompared) {
  if (graphs().front().empty()) GTEST_SKIP() << "no shared/nest beside the checkout";
  std::map<std::string, std::string> plans;
  for (const Json& item : reference()) {
    if (item.at("status") == "ok") plans[item.at("id")] = item.at("plan").dump();
  }
  int compared = 0;
  for (const Json& instance : testing::nest_instances()) {
    const auto plan = plans.find(instance.at("id"));
    if (plan == plans.end()) continue;
    const model::Problem problem = testing::nest_problem(instance);
    compared += reference_plan(plan->second, problem).status == Status::kOptimal;
  }
  EXPECT_GT(compared, static_cast<int>(plans.size()) / 2);
}

INSTANTIATE_TEST_SUITE_P(Graphs, Nest, ::testing::ValuesIn(graphs()), [](const auto& parameter) {
  std::string name = parameter.param.substr(0, parameter.param.find(".graph"));
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name.empty() ? std::string("none") : name;
});

}  // namespace
}  // namespace nestplan
