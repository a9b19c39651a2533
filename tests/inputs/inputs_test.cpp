#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nestplan/cost/device_times.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/files.hpp"
#include "nestplan/io/huggingface.hpp"
#include "nestplan/lattice/lattice.hpp"
#include "nestplan/solver/solver.hpp"
#include "nestplan/util/host_list.hpp"
#include "nestplan/util/text.hpp"

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
  std::map<std::string, std::int64_t> published{{"llama-2-7b", 6'738'415'616},
                                                {"llama-3.1-8b", 8'030'261'248},
                                                {"llama-3.1-70b", 70'553'706'496},
                                                {"llama-3.1-405b", 405'853'388'800},
                                                {"mistral-7b", 7'241'732'096},
                                                {"qwen2.5-7b", 7'615'616'512},
                                                {"bert-large", 335'174'458},
                                                {"gpt-3-175b", 174'604'259'328},
                                                {"gpt-3-35b", 34'794'004'480},
                                                {"mixtral-790m", 791'233'536},
                                                {"t5-11b", 11'307'321'344},
                                                {"flan-t5-xxl", 11'135'332'352},
                                                {"qwen2.5-omni-7b", 8'931'813'888},
                                                {"sdxl-unet", 2'567'463'684},
                                                {"mixtral-8x7b", 46'702'792'704},
                                                {"mixtral-8x22b", 140'630'071'296},
                                                {"qwen1.5-moe-a2.7b", 14'315'784'192},
                                                {"qwen3-30b-a3b", 30'532'122'624},
                                                {"qwen3-235b-a22b", 235'093'634'560},
                                                {"deepseek-v2-lite", 15'706'484'224},
                                                {"deepseek-v3", 671'026'404'352},
                                                {"kimi-k2", 1'026'408'209'408},
                                                {"gpt-oss-20b", 20'914'757'184},
                                                {"gpt-oss-120b", 116'829'156'672},
                                                {"dit-xl-2-256", 749'826'464}};
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

// As far as the papers and model cards say: 12.9 B, 39 B, 2.7 B, 3.3 B, 22 B, 2.4 B (without
// embeddings), 37 B, 32.6 B, 3.6 B and 5.1 B (both without embeddings).
TEST(Inputs, MixturesHaveTheirPublishedActiveSize) {
  const auto active = [](const char* name) {
    return static_cast<double>(active_parameters(io::read_architecture(kInputs / "models" / name)));
  };
  EXPECT_NEAR(active("mixtral-8x7b"), 12.9e9, 0.05e9);
  EXPECT_NEAR(active("mixtral-8x22b"), 39e9, 0.5e9);
  EXPECT_NEAR(active("qwen1.5-moe-a2.7b"), 2.7e9, 0.05e9);
  EXPECT_NEAR(active("qwen3-30b-a3b"), 3.3e9, 0.06e9);
  EXPECT_NEAR(active("qwen3-235b-a22b"), 22e9, 0.5e9);
  EXPECT_NEAR(active("deepseek-v2-lite") - 102400 * 2048, 2.4e9, 0.06e9);
  EXPECT_NEAR(active("deepseek-v3"), 37e9, 0.6e9);
  EXPECT_NEAR(active("kimi-k2"), 32.6e9, 0.3e9);
  EXPECT_NEAR(active("gpt-oss-20b") - 201088 * 2880, 3.6e9, 0.05e9);
  EXPECT_NEAR(active("gpt-oss-120b") - 201088 * 2880, 5.1e9, 0.05e9);
}

// 11.5 B beside the shared embedding and output layer (README_WEIGHTS.md of
// huggingface.co/deepseek-ai/DeepSeek-V3).
TEST(Inputs, ThePredictionModuleHasItsPublishedSize) {
  const auto a = io::read_architecture(kInputs / "models" / "deepseek-v3");
  EXPECT_EQ(a.mtp_layers, 1);
  EXPECT_NEAR(static_cast<double>(mtp_parameters(a)), 11.5e9, 0.15e9);
}

/// A fact that may not be known.
void expect_fact(const nlohmann::json& fact, const char* key, std::int64_t value) {
  if (!fact.at(key).is_null()) {
    EXPECT_EQ(fact.at(key), value) << fact.at("name") << " " << key;
  }
}

TEST(Inputs, MixturesAreAsTheFactsSay) {
  const auto file =
      std::filesystem::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared" / "facts" / "models.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no reference data at " << file;
  const std::map<std::string, std::string> names{{"Mixtral-8x7B", "mixtral-8x7b"},
                                                 {"Mixtral-8x22B", "mixtral-8x22b"},
                                                 {"Qwen3-30B-A3B", "qwen3-30b-a3b"},
                                                 {"Qwen3-235B-A22B", "qwen3-235b-a22b"},
                                                 {"DeepSeek-V2-Lite-16B", "deepseek-v2-lite"},
                                                 {"DeepSeek-V3-671B", "deepseek-v3"},
                                                 {"Kimi-K2-1T", "kimi-k2"},
                                                 {"gpt-oss-120b", "gpt-oss-120b"}};
  std::ifstream stream(file);
  std::size_t found = 0;
  for (const nlohmann::json& fact : nlohmann::json::parse(stream)) {
    const auto name = fact.contains("name") ? names.find(fact["name"]) : names.end();
    if (name == names.end()) continue;
    ++found;
    const auto a = io::read_architecture(kInputs / "models" / name->second);
    expect_fact(fact, "layers", a.layers);
    expect_fact(fact, "hidden", a.hidden);
    expect_fact(fact, "heads", a.heads);
    expect_fact(fact, "kv_heads", a.kv_heads);
    expect_fact(fact, "vocab", a.vocab);
    expect_fact(fact, "experts", a.moe->experts);
    expect_fact(fact, "experts_per_token", a.moe->top_k);
    expect_fact(fact, "moe_ffn", a.moe->expert_ffn);
    const auto total = fact.at("derived_matrix_params_b");
    if (!total.is_null()) {
      EXPECT_NEAR(static_cast<double>(total_parameters(a)) / 1e9, total, 0.0005 * double{total});
    }
  }
  EXPECT_EQ(found, names.size());
}

cost::ProfileOptions default_options(const model::Model& m) {
  cost::ProfileOptions options;
  const auto* architecture = std::get_if<model::Architecture>(&m);
  if (architecture != nullptr && architecture->moe) options.ep = {1, 8};
  if (!has_sequence(m)) return options;
  options.sequence = max_positions(m) > 0 ? std::min<std::int64_t>(4096, max_positions(m)) : 4096;
  return options;
}

TEST(Inputs, EveryModelPlansAtOnce) {
  model::Problem problem;
  problem.options.global_batch = 128;
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "models")) {
    const model::Model m = io::read_model(entry.path());
    const bool huge = total_parameters(m) > 500'000'000'000;
    problem.cluster = io::read_cluster(
        kInputs / "clusters" / (huge ? "tpuv4-fat-tree-512.json" : "tpuv4-fat-tree-128.json"));
    const auto network = network::make_network(problem.cluster);
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

/// "a-{1,2}-b" written out: "a-1-b", "a-2-b".
std::vector<std::string> spelt_out(const std::string& name) {
  const std::size_t open = name.find('{');
  if (open == std::string::npos) return {name};
  const std::size_t close = name.find('}', open);
  std::vector<std::string> names;
  for (const std::string_view part :
       util::split(std::string_view(name).substr(open + 1, close - open - 1), ',')) {
    names.push_back(name.substr(0, open) + std::string(part) + name.substr(close + 1));
  }
  return names;
}

/// The names in the first column of the table below a heading of inputs/README.md.
std::set<std::string> described_under(const std::string& heading) {
  std::ifstream stream(kInputs / "README.md");
  std::set<std::string> names;
  bool below = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("## ")) below = line == "## " + heading;
    if (!below || !line.starts_with("| `")) continue;
    for (const std::string& name : spelt_out(line.substr(3, line.find('`', 3) - 3))) {
      EXPECT_TRUE(names.insert(name).second) << name << " is described twice";
    }
  }
  return names;
}

std::vector<std::filesystem::path> cluster_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "clusters")) {
    files.push_back(entry.path());
  }
  return files;
}

TEST(Inputs, EveryClusterSaysWhereItIsFromAndIsDescribed) {
  std::set<std::string> names;
  for (const auto& file : cluster_files()) {
    expect_provenance(file);
    names.insert(io::read_cluster(file).name);
    EXPECT_TRUE(names.contains(file.stem().string())) << file;
  }
  EXPECT_EQ(names, described_under("Clusters"));
}

/// On all of a small one, or on the first of a large one: then its inner levels, and its network as
/// a whole.
TEST(Inputs, EveryClusterPlansAtOnce) {
  const model::Model bert = io::read_model(kInputs / "models" / "bert-large");
  cost::ProfileOptions options;
  options.sequence = 512;
  for (const auto& file : cluster_files()) {
    model::Problem problem;
    problem.cluster = io::read_cluster(file);
    EXPECT_EQ(network::make_network(problem.cluster)->devices(), problem.cluster.devices());
    problem.cluster.limit = std::min<std::int64_t>(problem.cluster.devices(), 128);
    problem.options.global_batch = 256;
    problem.graph = cost::build_graph(bert, problem.cluster, options);
    EXPECT_FALSE(problem.graph.strategies.empty()) << file;
    const auto network = network::make_network(problem.cluster);
    solver::SearchSettings settings;
    settings.time_limit_s = 20;  // a hundred times what it takes
    const model::Plan plan = solver::solve(problem, *network, settings);
    EXPECT_EQ(plan.status, model::Status::kOptimal) << file << ": " << plan.reason;
  }
}

/// The numbers of NVLinks between GPUs that nvidia-smi topo -m prints on a DGX-1 with V100
/// (microsoft/msccl-tools, tests/test_topologies.py).
TEST(Inputs, TheDgx1HasItsLinks) {
  const std::vector<std::vector<int>> expected{{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                               {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                               {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                               {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  std::ifstream stream(kInputs / "clusters" / "dgx-1-v100.json");
  std::vector<std::vector<int>> links(8, std::vector<int>(8, 0));
  const nlohmann::json cluster = nlohmann::json::parse(stream);
  for (const nlohmann::json& link : cluster.at("network").at("links")) {
    const auto gpus = [&link](std::size_t end) {
      return util::expand_hosts(link["between"][end].get<std::string>());
    };
    const std::vector<std::string> from = gpus(0), to = gpus(1);
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto a = static_cast<std::size_t>(from[i].back() - '0');
      const auto b = static_cast<std::size_t>(to[i].back() - '0');
      links[a][b] += link.value("count", 1);
      links[b][a] += link.value("count", 1);
    }
  }
  EXPECT_EQ(links, expected);
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
  EXPECT_EQ(devices("llama-3-24576.json"), 24576);
  EXPECT_EQ(devices("h100-fat-tree-32768.json"), 32768);
  EXPECT_EQ(devices("dgx-h100-superpod-rails.json"), 1024);
  EXPECT_EQ(devices("gb200-nvl72-576.json"), 576);
  EXPECT_EQ(devices("selene-4480.json"), 4480);
  EXPECT_EQ(devices("aws-p4d-512.json"), 512);
  EXPECT_EQ(devices("mi300x-256.json"), 256);
  EXPECT_EQ(devices("frontier-75264.json"), 75264);
  EXPECT_EQ(devices("h100-slurm-440.json"), 440);
  EXPECT_EQ(devices("tpu-v5e-4x256.json"), 4 * 256);
  EXPECT_EQ(devices("trn2-ultraserver-64.json"), 64);
}

}  // namespace
}  // namespace nestplan
