#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"

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
      {"llama-2-7b", 6'738'415'616},     {"llama-3.1-8b", 8'030'261'248},
      {"llama-3.1-70b", 70'553'706'496}, {"llama-3.1-405b", 405'853'388'800},
      {"mistral-7b", 7'241'732'096},     {"qwen2.5-7b", 7'615'616'512},
      {"bert-large", 335'174'458},       {"gpt-3-175b", 174'604'259'328}};
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "models")) {
    const model::Architecture a = io::read_architecture(entry.path());
    expect_provenance(entry.path() / "config.json");
    ASSERT_TRUE(published.contains(a.name)) << a.name;
    EXPECT_EQ(total_parameters(a), published[a.name]) << a.name;
    published.erase(a.name);
  }
  EXPECT_TRUE(published.empty());
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
