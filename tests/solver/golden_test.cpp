#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "nestplan/cost/evaluator.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/network/network.hpp"
#include "nestplan/solver/solver.hpp"
#include "support/brute_force.hpp"

/// Objectives of searches over our own inputs. They change when the cost of a layer does, and for
/// no other reason.

namespace nestplan {
namespace {

constexpr double kRelative = 1e-9;

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

struct GoldenCase {
  std::string name;
  std::string model;
  std::string cluster;
  std::int64_t sequence;
  std::int64_t global_batch;
  model::Objective objective;
  bool per_stage;
  bool uneven;
  double iteration_time_s;
};

void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name; }

class Golden : public ::testing::TestWithParam<GoldenCase> {};

TEST_P(Golden, ObjectiveIsTheKnownOne) {
  const GoldenCase& golden = GetParam();
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / (golden.cluster + ".json"));
  cost::ProfileOptions profile;
  profile.sequence = golden.sequence;
  profile.micro_batches = {1, 2};
  problem.graph = cost::build_graph(io::read_architecture(kInputs / "models" / golden.model),
                                    problem.cluster.device, profile);
  problem.options.global_batch = golden.global_batch;
  problem.options.objective = golden.objective;
  problem.options.per_stage_strategies = golden.per_stage;
  problem.options.allow_uneven_batch = golden.uneven;
  const auto network = network::make_network(problem.cluster);

  const model::Plan plan = solver::solve(problem, *network);
  ASSERT_EQ(plan.status, model::Status::kOptimal) << plan.reason;
  const model::Plan judged = cost::evaluate(problem, *network, testing::placed(plan));
  EXPECT_EQ(judged.status, model::Status::kOptimal) << judged.reason;
  EXPECT_NEAR(judged.iteration_time_s, golden.iteration_time_s,
              kRelative * golden.iteration_time_s);
  EXPECT_NEAR(plan.iteration_time_s, judged.iteration_time_s, kRelative * judged.iteration_time_s);
}

constexpr auto k1F1B = model::Objective::k1F1B;
constexpr auto kPaper = model::Objective::kPaper;

INSTANTIATE_TEST_SUITE_P(
    Inputs, Golden,
    ::testing::Values(GoldenCase{"Llama70B", "llama-3.1-70b", "h100-spine-leaf-1024", 8192, 1024,
                                 k1F1B, false, false, 9.9905699219023667},
                      GoldenCase{"Llama70BUneven", "llama-3.1-70b", "h100-spine-leaf-1024", 8192,
                                 1000, k1F1B, false, true, 9.7600995189316535},
                      GoldenCase{"Llama405B", "llama-3.1-405b", "h100-16384", 8192, 2048, k1F1B,
                                 false, false, 10.11446067299922},
                      GoldenCase{"Gpt3Paper", "gpt-3-175b", "dgx-h100-superpod", 2048, 1536, kPaper,
                                 false, false, 7.5352026934093939},
                      GoldenCase{"BertPerStage", "bert-large", "tpuv4-fat-tree-128", 512, 512,
                                 k1F1B, true, false, 0.061220860815103022}),
    [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace nestplan
