// What inputs/export_torch_graph.py makes of arguments, masks and mistakes. Skipped without
// PyTorch.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "importers/samples.hpp"
#include "importers/torch.hpp"

namespace nestplan::importers {
namespace {

using nlohmann::json;
using test::export_torch_graph;
using test::has;

class ExportScript : public testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_torch()) GTEST_SKIP() << test::no_torch();
    const char* test = testing::UnitTest::GetInstance()->current_test_info()->name();
    output_ = testing::TempDir() + "export_script." + test + ".json";
    std::filesystem::remove(output_);
  }
  void TearDown() override { std::filesystem::remove(output_); }

  /// What is written without a word.
  json exported(const std::string& model, const std::string& more) const {
    const test::Said said = export_torch_graph(model, more + " -o '" + output_ + "'");
    EXPECT_EQ(said.exit_code, 0) << said.text;
    EXPECT_EQ(said.text, "");
    return json::parse(io::read_text(output_));
  }

  void expect_refusal(const std::string& model, const std::string& more,
                      const std::string& says) const {
    const test::Said said = export_torch_graph(model, more + " -o '" + output_ + "'");
    EXPECT_EQ(said.exit_code, 2) << said.text;
    EXPECT_EQ(std::count(said.text.begin(), said.text.end(), '\n'), 1) << said.text;
    EXPECT_TRUE(has(said.text, "export_torch_graph.py: ")) << said.text;
    EXPECT_TRUE(has(said.text, says)) << said.text;
    EXPECT_FALSE(std::filesystem::exists(output_));
  }

  std::string output_;
};

TEST_F(ExportScript, ArgumentsOfAttentionAreBoundByTheSignature) {
  const json document = exported("FlashGpt", "--input 8x16");
  std::vector<json> attentions;
  for (const json& node : document["nodes"]) {
    if (node["type"] == "scaled_dot_product_attention") attentions.push_back(node);
  }
  ASSERT_EQ(attentions.size(), 2U);
  for (const json& node : attentions) {
    EXPECT_EQ(node["attributes"], json({{"is_causal", true}})) << node["name"];
    ASSERT_EQ(node["inputs"].size(), 3U);
  }
  // keys and values are those of the first one, which were given by position
  EXPECT_EQ(attentions[0]["inputs"][1], attentions[1]["inputs"][1]);
  EXPECT_EQ(attentions[0]["inputs"][2], attentions[1]["inputs"][2]);
  EXPECT_NE(attentions[0]["inputs"][0], attentions[1]["inputs"][0]);
}

TEST_F(ExportScript, LongMasksAreCausal) {
  const json document = exported("LongMask", "--input 4097x16");
  const json& constants = document["constants"];
  EXPECT_EQ(std::count_if(constants.begin(), constants.end(),
                          [](const json& each) { return each.value("causal", false); }),
            1);
}

TEST_F(ExportScript, MistakesAreOneLine) {
  expect_refusal("Gtp", "--input 8:int64", "has no function or class Gtp (did you mean \"Gpt\"?)");
  expect_refusal("torch_model.py:Gpt", "--input 8", "torch_model.py: no such file");
  expect_refusal("no_module:Gpt", "--input 8", "no_module: no such module");
  expect_refusal("broken", "--input 8", "cannot be built: ValueError: no weights");
  expect_refusal("number", "--input 8", "class int, not a torch.nn.Module");
  expect_refusal("Branching", "--input 8", "torch.fx cannot trace it");
  expect_refusal("Encoder", "--input 8y16", "is no shape such as");
  expect_refusal("Encoder", "--input 8x16:flot32", "did you mean \"float32\"?");
  expect_refusal("Encoder", "--input 8x17", "cannot be run on 1x8x17");
  expect_refusal("Encoder", "--input 8x16 --input 8", "forward of Encoder takes x");
  expect_refusal("Encoder", "--input 8x16 --batch 1,1", "--batch");
}

TEST_F(ExportScript, WhatCannotBeWrittenIsOneLine) {
  const test::Said said = export_torch_graph("Encoder", "--input 8x16 -o /dev/null/graph.json");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_TRUE(has(said.text, "-o: /dev/null/graph.json: Not a directory")) << said.text;
  EXPECT_EQ(std::count(said.text.begin(), said.text.end(), '\n'), 1) << said.text;
}

}  // namespace
}  // namespace nestplan::importers
