#include <gtest/gtest.h>

#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::string kModels = std::string(NESTPLAN_SOURCE_DIR) + "/inputs/models/";
const std::string kNode =
    std::string(NESTPLAN_SOURCE_DIR) + "/inputs/clusters/single-node-8xh100.json";

/// Flags that say what the layers of a model's graph are.
class ShapeTest : public Workspace {
 protected:
  Words on_node(const char* command, const std::string& model, const Words& more = {}) const {
    Words words{command, "--model", kModels + model, "--cluster", kNode, "--global-batch", "64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  Json graph_of(const std::string& model, const Words& more = {}) const {
    Words words{"inspect", "--json", kModels + model};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out).at("graph");
  }

  void expect_refusal(const Words& words, const std::string& says) const {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(is_one_line(outcome.err)) << outcome.err;
    EXPECT_NE(outcome.err.find(says), std::string::npos) << outcome.err;
  }
};

TEST_F(ShapeTest, InspectCountsDownsets) {
  const Json layers = graph_of("qwen2.5-omni-7b");
  EXPECT_EQ(layers,
            (Json{{"granularity", "layer"}, {"layers", 98}, {"edges", 97}, {"downsets", 1255}}));
  const Json blocks = graph_of("qwen2.5-omni-7b", {"--granularity", "block"});
  EXPECT_EQ(blocks["downsets"], 4547);
  const std::string text = run({"inspect", kModels + "t5-11b"}).out;
  EXPECT_NE(text.find("52 layers, 74 edges, 79 downsets (granularity layer)"), std::string::npos)
      << text;
  EXPECT_EQ(graph_of("sdxl-unet")["layers"], 24);
}

TEST_F(ShapeTest, FinerGranularityIsNeverSlower) {
  double coarser = 1e9;
  for (const char* granularity : {"layer", "block", "operator"}) {
    const Outcome outcome =
        run(on_node("plan", "bert-large", {"--json", "--pp", "4", "--granularity", granularity}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const Json plan = Json::parse(outcome.out);
    EXPECT_LE(plan["iteration_time_s"].get<double>(), coarser * (1 + 1e-12)) << granularity;
    coarser = plan["iteration_time_s"];
  }
}

TEST_F(ShapeTest, PlansOfBlocksAreEvaluatedAsBlocks) {
  const Words shape{"--granularity", "block", "--tokens", "decoder=128"};
  Words words = on_node("plan", "t5-11b", shape);
  words.insert(words.end(), {"--pp", "2", "--json", "-o", path("plan.json")});
  const Outcome planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  words = on_node("evaluate", "t5-11b", shape);
  words.insert(words.end(), {"--json", path("plan.json")});
  const Outcome evaluated = run(words);
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["iteration_time_s"],
            Json::parse(planned.out)["iteration_time_s"]);
  // the layers of the model are others
  expect_refusal(on_node("evaluate", "t5-11b", {path("plan.json")}), "layers");
}

TEST_F(ShapeTest, WrongShapesAreRefused) {
  expect_refusal(on_node("plan", "t5-11b", {"--granularity", "blok"}), "did you mean \"block\"?");
  expect_refusal(on_node("plan", "t5-11b", {"--tokens", "decoder"}),
                 "--tokens: \"decoder\" is not PART=N");
  expect_refusal(on_node("plan", "t5-11b", {"--tokens", "decoder=0"}), "positive whole number");
  expect_refusal(on_node("plan", "t5-11b", {"--tokens", "decoder=1,decoder=2"}), "given twice");
  expect_refusal(on_node("plan", "t5-11b", {"--tokens", "encoder=128"}),
                 "(did you mean \"decoder\"?)");
  expect_refusal(on_node("plan", "qwen2.5-omni-7b", {"--seq", "1000"}),
                 "is less than the 1774 tokens");
  expect_refusal(on_node("plan", "sdxl-unet", {"--seq", "1024"}), "--seq: sdxl-unet takes images");
  expect_refusal(on_small({"plan"}, {"--granularity", "block"}), "--granularity: is for a --model");
  expect_refusal(on_small({"plan"}, {"--tokens", "text=1"}), "--tokens: is for a --model");
}

/// A plan names its strategies, and `evaluate` profiles what they say.
TEST_F(ShapeTest, SplitsOfAModelAreProfiledOnDemand) {
  const Words more{"--seq",          "32768",      "--tp",   "2",  "--cp",           "4",
                   "--context-form", "all_to_all", "--json", "-o", path("plan.json")};
  const Outcome planned = run(on_node("plan", "llama-3.1-8b", more));
  ASSERT_EQ(planned.exit_code, 0) << planned.err;
  const Json plan = Json::parse(planned.out);
  EXPECT_EQ(plan["stages"][0]["strategy"].get<std::string>().substr(0, 11), "tp2-cp4a2a-");
  EXPECT_EQ(plan["stages"][0]["cp"], 4);
  const Outcome evaluated =
      run(on_node("evaluate", "llama-3.1-8b", {"--seq", "32768", "--json", path("plan.json")}));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.err;
  EXPECT_EQ(Json::parse(evaluated.out)["iteration_time_s"], plan["iteration_time_s"]);
}

TEST_F(ShapeTest, UnfusedAttentionAndWholeSequencesTakeMore) {
  const auto activations = [this](const Words& more) {
    Words words = on_node("plan", "llama-3.1-8b",
                          {"--json", "--tp", "4", "--pp", "2", "--micro-batch", "1", "--recompute",
                           "none", "--zero", "1", "--seq", "2048"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return Json::parse(outcome.out)["stages"][0]["memory"]["activation_bytes"].get<double>();
  };
  const double usual = activations({});
  EXPECT_GT(activations({"--attention", "unfused"}), usual);
  EXPECT_GT(activations({"--no-sequence-parallel"}), usual);
}

TEST_F(ShapeTest, SplitsThatCannotBeHadAreRefused) {
  expect_refusal(on_node("plan", "llama-3.1-8b", {"--ep", "2"}),
                 "--ep: no degree fits llama-3.1-8b: ep 2 is for experts");
  expect_refusal(on_node("plan", "llama-3.1-8b", {"--cp", "2", "--attention", "unfused"}),
                 "--cp: no degree fits llama-3.1-8b: cp 2 needs fused attention");
  expect_refusal(on_node("plan", "llama-3.1-8b", {"--context-form", "rings"}),
                 "did you mean \"ring\"?");
  expect_refusal(on_node("plan", "llama-3.1-8b", {"--vocabulary-multiple", "0"}),
                 "--vocabulary-multiple: 0 is out of range");
  expect_refusal(on_small({"plan"}, {"--etp", "1"}), "--etp: is for a --model");
  expect_refusal(on_small({"plan"}, {"--context-form", "ring"}),
                 "--context-form: is for a --model");
  expect_refusal(on_small({"plan"}, {"--attention", "fused"}), "--attention: is for a --model");
  expect_refusal(on_small({"plan"}, {"--no-sequence-parallel"}), "is for a --model");
  expect_refusal(on_small({"plan"}, {"--logit-bytes", "10"}), "--logit-bytes: is for a --model");
}

}  // namespace
}  // namespace nestplan::test
