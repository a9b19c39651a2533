#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/solver/solver.hpp"

namespace nestplan {
namespace {

const std::filesystem::path kInputs = std::filesystem::path(NESTPLAN_SOURCE_DIR) / "inputs";

void expect_provenance(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const nlohmann::json content = nlohmann::json::parse(stream);
  EXPECT_GT(content.value("provenance", std::string()).size(), 20U) << file;
}

// Published totals; the model cards' sizes to the last digit where there are weights.
TEST(Inputs, EveryModelHasItsPublishedSize) {
  std::map<std::string, std::int64_t> published{
      {"llama-2-7b", 6'738'415'616},      {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496},  {"llama-3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},      {"qwen2.5-7b", 7'615'616'512},
      {"bert-large", 335'174'458},        {"gpt-3-175b", 174'604'259'328},
      {"t5-11b", 11'307'321'344},         {"flan-t5-xxl", 11'135'332'352},
      {"qwen2.5-omni-7b", 8'931'813'888}, {"sdxl-unet", 2'567'463'684}};
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "models")) {
    const model::Model m = io::read_model(entry.path());
    expect_provenance(entry.path() / "config.json");
    const std::string& name = name_of(m);
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(total_parameters(m), published[name]) << name;
    published.erase(name);
  }
  EXPECT_TRUE(published.empty());
}

cost::ProfileOptions default_options(const model::Model& m) {
  cost::ProfileOptions options;
  if (!has_sequence(m)) return options;
  options.sequence = max_positions(m) > 0 ? std::min<std::int64_t>(4096, max_positions(m)) : 4096;
  return options;
}

TEST(Inputs, EveryModelPlansAtOnce) {
  model::Problem problem;
  problem.cluster = io::read_cluster(kInputs / "clusters" / "tpuv4-fat-tree-128.json");
  problem.options.global_batch = 128;
  const auto network = cost::make_network(problem.cluster);
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "models")) {
    const model::Model m = io::read_model(entry.path());
    problem.graph = build_graph(m, problem.cluster.device, default_options(m));
    solver::SearchSettings settings;
    settings.time_limit_s = 20;  // a hundred times what it takes
    const model::Plan plan = solver::solve(problem, *network, settings);
    EXPECT_EQ(plan.status, model::Status::kOptimal) << name_of(m) << ": " << plan.reason;
  }
}

/// The towers' lattice is a grid that grows with the square of what a layer falls into.
TEST(Inputs, TowersHaveManyDownsets) {
  const model::Model m = io::read_model(kInputs / "models" / "qwen2.5-omni-7b");
  const auto downsets = [&m](cost::Granularity granularity) {
    cost::ProfileOptions options = default_options(m);
    options.granularity = granularity;
    return lattice::Lattice::enumerate(build_outline(m, options)).size();
  };
  EXPECT_EQ(downsets(cost::Granularity::kLayer), 35 * 35 + 30);
  EXPECT_EQ(downsets(cost::Granularity::kBlock), 67 * 67 + 58);
  EXPECT_EQ(downsets(cost::Granularity::kOperator), 323 * 323 + 284);
}

TEST(Inputs, EveryClusterLoadsAndTimesEveryModel) {
  const model::Architecture llama = io::read_architecture(kInputs / "models" / "llama-2-7b");
  int clusters = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "clusters")) {
    const model::Cluster cluster = io::read_cluster(entry.path());
    expect_provenance(entry.path());
    EXPECT_EQ(cluster.name, entry.path().stem().string());
    cost::ProfileOptions options;
    options.sequence = 4096;
    EXPECT_EQ(build_graph(llama, cluster.device, options).strategies.size(), 4U);
    ++clusters;
  }
  EXPECT_EQ(clusters, 9);
}

TEST(Inputs, ClustersHaveTheSizeOfTheirName) {
  for (const std::int64_t devices : {64, 128, 256, 512, 1024}) {
    const std::string name = "tpuv4-fat-tree-" + std::to_string(devices) + ".json";
    EXPECT_EQ(io::read_cluster(kInputs / "clusters" / name).devices(), devices);
  }
  const auto devices = [](const char* name) {
    return io::read_cluster(kInputs / "clusters" / name).devices();
  };
  EXPECT_EQ(devices("h100-spine-leaf-1024.json"), 1024);
  EXPECT_EQ(devices("dgx-h100-superpod.json"), 1024);
  EXPECT_EQ(devices("single-node-8xh100.json"), 8);
  EXPECT_EQ(devices("h100-16384.json"), 16384);
}

}  // namespace
}  // namespace nestplan
