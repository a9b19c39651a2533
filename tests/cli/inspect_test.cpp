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

TEST_F(InspectTest, Device) {
  const std::string file = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/devices/h100-sxm.json";
  const Json device = inspect_json({file});
  EXPECT_EQ(device["kind"], "device");
  EXPECT_EQ(device["peak_flops_per_s"]["bf16"], 989e12);
  const Json& parameter = device["parameters"]["kernel_time"];
  EXPECT_EQ(parameter["value"], 3e-6);
  EXPECT_EQ(parameter["relative_error"], 0.5);
  EXPECT_NE(parameter["source"].get<std::string>().find("NVIDIA"), std::string::npos);
  const std::string text = run({"inspect", file}).out;
  EXPECT_NE(text.find("matmul_efficiency"), std::string::npos) << text;
  EXPECT_NE(text.find("3 us ± 50 %"), std::string::npos) << text;
}

TEST_F(InspectTest, SaysWhichDevicesItKnowsNothingOf) {
  Json file = small_cluster();
  file["device"]["name"] = "MI300X";
  write_json("cluster.json", file);
  const std::string text = run({"inspect", "--cluster", path("cluster.json")}).out;
  EXPECT_NE(text.find("nothing is known of \"MI300X\" (known: "), std::string::npos) << text;
  EXPECT_EQ(inspect_json({"--cluster", path("cluster.json")})["device"]["parameters_from"],
            "general");

  file["device"]["name"] = "H100SXM";
  write_json("cluster.json", file);
  EXPECT_EQ(run({"inspect", "--cluster", path("cluster.json")}).out.find("nothing is known"),
            std::string::npos);
  EXPECT_EQ(inspect_json({"--cluster", path("cluster.json")})["device"]["parameters_from"],
            "hopper");

  Json device = file["device"];
  device["format"] = "nestplan.device/1";
  device["name"] = "h1000";
  write_json("device.json", device);
  const std::string of_device = run({"inspect", path("device.json")}).out;
  EXPECT_NE(of_device.find("did you mean \"h100\"?"), std::string::npos) << of_device;
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

TEST_F(InspectTest, MixtureOfExperts) {
  const std::string model = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/deepseek-v3";
  const Json json = inspect_json({model});
  EXPECT_EQ(json["experts"]["count"], 256);
  EXPECT_EQ(json["experts"]["layers"], 58);
  EXPECT_EQ(json["latent_attention"]["kv_rank"], 512);
  EXPECT_EQ(json["mtp_layers"], 1);
  EXPECT_EQ(json["parameters"]["total"], 671026404352);
  EXPECT_EQ(json["parameters"]["active"], 37552282624);
  const std::string text = run({"inspect", model}).out;
  EXPECT_NE(text.find("256 of 2,048, gated, 8 per token, shared 2,048, in 58 of 61 layers"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("latent: 1,536 for queries, 512 for keys and values"), std::string::npos);
  EXPECT_NE(text.find("37,552,282,624"), std::string::npos);
  EXPECT_NE(text.find("1 more token, beside: 11,610,067,968"), std::string::npos);
}

TEST_F(InspectTest, DiffusionTransformer) {
  const Json json =
      inspect_json({std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/dit-xl-2-256"});
  EXPECT_EQ(json["tokens"], 256);
  EXPECT_EQ(json["parameters"]["total"], 749826464);
  EXPECT_EQ(json["graph"]["layers"], 30);
  EXPECT_FALSE(json.contains("sequence"));
}

TEST_F(InspectTest, ForeignFilesAreRefused) {
  const std::string file = write_json("other.json", Json{{"a", 1}});
  const Outcome outcome = run({"inspect", file});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("other.json: "), std::string::npos) << outcome.err;
  EXPECT_EQ(run({"inspect", path("absent.json")}).exit_code, 2);
}

TEST_F(InspectTest, RulesOfFrameworks) {
  const Json all = inspect_json({"--rules"});
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0]["target"], "any");
  const Json megatron = inspect_json({"--rules", "--target", "megatron"});
  EXPECT_EQ(megatron["kind"], "rules");
  EXPECT_EQ(megatron, all[1]);
  EXPECT_EQ(megatron["rules"][0]["name"], "model");
  EXPECT_EQ(megatron["rules"][0]["scope"], "strategy");
  EXPECT_EQ(megatron["layouts"][0]["layout"], "even");
  const std::string text = run({"inspect", "--rules", "--target", "deepspeed"}).out;
  EXPECT_NE(text.find("ZeRO 2 and 3 need pp 1."), std::string::npos) << text;
  EXPECT_NE(text.find("deepspeed/runtime/pipe/engine.py"), std::string::npos) << text;
}

TEST_F(InspectTest, RulesRefuseWhatTheyDoNotList) {
  EXPECT_EQ(run({"inspect", "--rules", path("graph.json")}).exit_code, 2);
  EXPECT_EQ(run({"inspect", "--rules", "--cluster", path("cluster.json")}).exit_code, 2);
  EXPECT_EQ(run({"inspect", path("graph.json"), "--target", "megatron"}).exit_code, 2);
  const Outcome unknown = run({"inspect", "--rules", "--target", "megatorn"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("did you mean \"megatron\"?"), std::string::npos) << unknown.err;
}

}  // namespace
}  // namespace nestplan::test
