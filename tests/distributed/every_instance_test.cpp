/// The same plan, to the byte, in every layout of the ranks: all oracle and NEST instances, and
/// graphs with towers and skips from `inputs`. A usual run takes one in five searches, each in
/// one layout, in rotation; NESTPLAN_SOAK=1 takes all of them in all layouts, 20 times.
/// `campaign_test` does so through the command, from files and with a process of its own for each
/// run, of which a night holds few.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "distributed/layouts.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/huggingface.hpp"
#include "support/nest.hpp"
#include "support/oracle.hpp"

namespace nestplan::distributed {
namespace {

constexpr std::size_t kRepeats = 20;
constexpr std::size_t kUsualStep = 5;

bool soaking() {
  const char* soak = std::getenv("NESTPLAN_SOAK");
  return soak != nullptr && std::string(soak) != "0";
}

/// A search, read or built only when its turn comes.
struct Search {
  std::string name;
  std::function<model::Problem()> problem;
};

/// `problem` under both objectives, with one strategy for all stages and with one for each.
void add_variants(const std::string& name, const std::function<model::Problem()>& problem,
                  std::vector<Search>& searches) {
  for (const model::Objective objective : {model::Objective::k1F1B, model::Objective::kPaper}) {
    for (const bool per_stage : {false, true}) {
      searches.push_back({name + " " + to_string(objective) + (per_stage ? " per stage" : ""),
                          [problem, objective, per_stage] {
                            model::Problem variant = problem();
                            variant.options.objective = objective;
                            variant.options.per_stage_strategies = per_stage;
                            return variant;
                          }});
    }
  }
}

class EveryInstance : public ::testing::Test {
 protected:
  /// Each search in the layouts whose turn it is; the first rank compares with what it finds alone.
  void expect_same_plans(const std::vector<Search>& searches) {
    const std::vector<RankLayout> all = layouts(world_.size());
    const std::size_t every = soaking() ? 1 : kUsualStep;
    const auto shift = static_cast<std::size_t>(world_.size());
    for (std::size_t i = shift % every; i < searches.size(); i += every) {
      const Search& search = searches[i];
      const model::Problem problem = search.problem();
      const auto network = network::make_network(problem.cluster);
      const std::string alone =
          world_.rank() == 0 ? document(solver::solve(problem, *network), problem) : "";
      const std::size_t runs = soaking() ? all.size() * kRepeats : 1;
      for (std::size_t run = 0; run < runs; ++run) {
        const RankLayout& layout = all[(i / every + run) % all.size()];
        const auto plan = solve(problem, *network, {}, world_, layout);
        ASSERT_EQ(plan.has_value(), world_.rank() == 0) << search.name;
        if (plan) {
          EXPECT_EQ(document(*plan, problem), alone) << search.name << " " << name(layout);
        }
      }
    }
  }

  const mpi::Comm world_ = mpi::Comm::duplicate(MPI_COMM_WORLD);
};

TEST_F(EveryInstance, OfTheOracle) {
  const auto directory = testing::oracle_directory();
  if (!directory) GTEST_SKIP() << "no shared/oracle beside the checkout";
  std::vector<Search> searches;
  for (const char* file : {"instances.jsonl", "wide.jsonl"}) {
    for (const testing::OracleInstance& instance : testing::load_oracle(*directory / file)) {
      add_variants(
          instance.name, [problem = instance.problem] { return problem; }, searches);
    }
  }
  expect_same_plans(searches);
}

TEST_F(EveryInstance, OfNest) {
  const std::vector<nlohmann::json> instances = testing::nest_instances();
  if (instances.empty()) GTEST_SKIP() << "no shared/nest beside the checkout";
  std::vector<Search> searches;
  for (const nlohmann::json& instance : instances) {
    searches.push_back(
        {instance.at("id"), [&instance] { return testing::nest_problem(instance); }});
  }
  expect_same_plans(searches);
}

/// A model of `inputs` on 64 devices, in blocks.
model::Problem shipped(const std::string& model, std::int64_t sequence) {
  const std::filesystem::path inputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";
  model::Problem problem;
  problem.cluster = io::read_cluster(inputs / "clusters" / "tpuv4-fat-tree-64.json");
  cost::ProfileOptions profile;
  profile.sequence = sequence;
  profile.granularity = cost::Granularity::kBlock;
  profile.tp = {1, 4};
  problem.graph =
      cost::build_graph(io::read_model(inputs / "models" / model), problem.cluster.device, profile);
  problem.options.micro_batches = profile.micro_batches;
  problem.options.tp = profile.tp;
  problem.options.pp = {4};
  problem.options.global_batch = 64;
  problem.options.allow_uneven_batch = true;
  return problem;
}

TEST_F(EveryInstance, OfShippedGraphsThatBranch) {
  std::vector<Search> searches;
  add_variants(
      "T5", [] { return shipped("t5-11b", 512); }, searches);
  add_variants(
      "Qwen2.5-Omni", [] { return shipped("qwen2.5-omni-7b", 4096); }, searches);
  add_variants(
      "UNet", [] { return shipped("sdxl-unet", 0); }, searches);
  expect_same_plans(searches);
}

}  // namespace
}  // namespace nestplan::distributed
