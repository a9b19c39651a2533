#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "io/samples.hpp"
#include "nestplan/io/files.hpp"

namespace nestplan::io {
namespace {

namespace fs = std::filesystem;
using test::content_of;
using test::Json;

/// Reference data beside the checkout.
const fs::path kShared = fs::path(NESTPLAN_SOURCE_DIR).parent_path() / "shared";

/// Reads, writes and reads again: nothing may change.
void expect_round_trip(const model::Graph& graph) {
  const std::string once = graph_to_json(graph);
  EXPECT_EQ(graph_to_json(parse_graph(once, graph.name)), once);
}

std::vector<fs::path> files_like(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  return files;
}

TEST(Published, GraphsAndClustersRead) {
  const fs::path folder = kShared / "nest";
  if (!fs::exists(folder)) GTEST_SKIP() << "no reference data at " << folder;
  const auto graphs = files_like(folder, ".graph.json");
  const auto clusters = files_like(folder, ".cluster.json");
  EXPECT_FALSE(graphs.empty());
  EXPECT_FALSE(clusters.empty());
  for (const fs::path& path : graphs) {
    SCOPED_TRACE(path);
    expect_round_trip(read_graph(path));
  }
  for (const fs::path& path : clusters) {
    SCOPED_TRACE(path);
    const std::string name = path.filename().string();
    const auto dash = name.find('-');
    EXPECT_EQ(read_cluster(path).devices(), std::stoll(name.substr(dash + 1)));
  }
}

TEST(Published, ReferencePlansRead) {
  const fs::path folder = kShared / "nest";
  if (!fs::exists(folder)) GTEST_SKIP() << "no reference data at " << folder;
  std::map<std::string, std::string> graph_of;
  for (const Json& instance : Json::parse(content_of(folder / "index.json"))) {
    graph_of[instance.at("id")] = instance.at("graph");
  }
  int plans = 0;
  for (const Json& entry : Json::parse(content_of(folder / "reference.json"))) {
    if (!entry.contains("plan")) continue;
    SCOPED_TRACE(entry.at("id"));
    const model::Graph graph = read_graph(folder / graph_of.at(entry.at("id")));
    const model::PartialPlan plan = parse_plan(entry.at("plan").dump(), "reference", graph);
    EXPECT_EQ(plan.dp, entry.at("plan").at("strategy").at("dp"));
    EXPECT_EQ(plan.stages.size(), entry.at("plan").at("stages").size());
    ++plans;
  }
  EXPECT_GT(plans, 0);
}

TEST(Published, OracleInstancesRead) {
  const fs::path folder = kShared / "oracle";
  if (!fs::exists(folder)) GTEST_SKIP() << "no oracle instances at " << folder;
  int instances = 0;
  for (const fs::path& path : files_like(folder, ".jsonl")) {
    std::istringstream lines(content_of(path));
    for (std::string line; std::getline(lines, line);) {
      const Json instance = Json::parse(line);
      SCOPED_TRACE(instance.at("graph").at("name"));
      expect_round_trip(parse_graph(instance.at("graph").dump(), "graph"));
      EXPECT_GT(parse_cluster(instance.at("cluster").dump(), "cluster").devices(), 0);
      ++instances;
    }
  }
  EXPECT_GT(instances, 0);
}

}  // namespace
}  // namespace nestplan::io
