#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

class InspectTest : public Workspace {
 protected:
  Json inspect_json(Words words) const {
    words.insert(words.begin(), {"inspect", "--json"});
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out);
  }
};

TEST_F(InspectTest, Graph) {
  const Json graph = inspect_json({path("graph.json")});
  EXPECT_EQ(graph["kind"], "graph");
  EXPECT_EQ(graph["layers"], 4);
  EXPECT_EQ(graph["edges"], 3);
  EXPECT_EQ(graph["chain"], true);
  EXPECT_EQ(graph["strategies"][1]["parameters"], 2000000);
  const std::string text = run({"inspect", path("graph.json")}).out;
  EXPECT_NE(text.find("a, b.0–1, c"), std::string::npos) << text;
}

TEST_F(InspectTest, BranchingGraph) {
  Json graph = small_graph();
  graph["edges"][1]["from"] = "a";  // b.0 and b.1 side by side
  write_json("graph.json", graph);
  EXPECT_EQ(inspect_json({path("graph.json")})["chain"], false);
}

TEST_F(InspectTest, Cluster) {
  Json file = small_cluster();
  file["network"]["levels"][1]["oversubscription"] = 4;
  write_json("cluster.json", file);
  const Json cluster = inspect_json({"--cluster", path("cluster.json")});
  EXPECT_EQ(cluster["kind"], "cluster");
  EXPECT_EQ(cluster["devices"], 8);
  EXPECT_EQ(cluster["levels"][0]["blocks"], 2);
  EXPECT_EQ(cluster["levels"][0]["effective_bytes_per_s"], 100e9);
  EXPECT_EQ(cluster["levels"][1]["effective_bytes_per_s"], 2.5e9);
  const std::string text = run({"inspect", path("cluster.json")}).out;
  EXPECT_NE(text.find("└─ 2 × node of 4"), std::string::npos) << text;
}

TEST_F(InspectTest, Model) {
  const std::string model = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/llama-3.1-8b";
  for (const std::string& file : {model, model + "/config.json"}) {
    const Json json = inspect_json({file, "--seq", "8192"});
    EXPECT_EQ(json["kind"], "model");
    EXPECT_EQ(json["layers"], 32);
    EXPECT_EQ(json["parameters"]["total"], 8030261248);
    EXPECT_EQ(json["sequence"], 8192);
    // 6 FLOPs per parameter that is multiplied with, plus attention
    EXPECT_GT(json["flops_per_token"].get<double>(), 6 * 7.5e9);
    EXPECT_LT(json["flops_per_token"].get<double>(), 6 * 9e9);
  }
}

TEST_F(InspectTest, Plan) {
  ASSERT_EQ(run(on_small({"plan"}, {"-o", path("plan.json")})).exit_code, 0);
  const Json plan = inspect_json({path("plan.json")});
  EXPECT_EQ(plan["kind"], "plan");
  EXPECT_EQ(plan["status"], "optimal");
  EXPECT_EQ(run({"inspect", path("plan.json")}).exit_code, 0);
}

TEST_F(InspectTest, PlanWrittenByHand) {
  const std::string plan = write_json(
      "hand.json", Json{{"format", "nestplan.plan/1"}, {"stages", {{{"layers", {"a"}}}, 3}}});
  const Outcome outcome = run({"inspect", plan});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find('?'), std::string::npos);
}

TEST_F(InspectTest, SeveralFilesAreAList) {
  const Json list = inspect_json({path("graph.json"), path("cluster.json")});
  ASSERT_TRUE(list.is_array());
  EXPECT_EQ(list[0]["kind"], "graph");
  EXPECT_EQ(list[1]["kind"], "cluster");
}

TEST_F(InspectTest, NamesThatAreNotUtf8) {
  const std::string name = "g\xff.json";
  write_json(name, small_graph());
  EXPECT_EQ(inspect_json({path(name)})["name"], "small");
  EXPECT_NE(run({"inspect", path(name)}).out.find("g\\xff.json"), std::string::npos);
}

TEST_F(InspectTest, PipesAreReadOnce) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  Process inspect({"inspect", "--json", pipe}, directory_);
  write("pipe", small_graph().dump());
  const Outcome outcome = inspect.wait();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out)["name"], "small");
}

TEST_F(InspectTest, ForeignFilesAreRefused) {
  const std::string file = write_json("other.json", Json{{"a", 1}});
  const Outcome outcome = run({"inspect", file});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("other.json: "), std::string::npos) << outcome.err;
  EXPECT_EQ(run({"inspect", path("absent.json")}).exit_code, 2);
}

}  // namespace
}  // namespace nestplan::test
