#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "cli/workspace.hpp"

namespace nestplan::test {
namespace {

const std::filesystem::path kInputs = NESTPLAN_SOURCE_DIR "/inputs";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A framework that a plan is for, which is also the format of its settings.
class EveryTarget : public Workspace, public testing::WithParamInterface<std::string> {
 protected:
  const std::string cluster_ = (kInputs / "clusters/single-node-8xh100.json").string();

  Outcome plan(const std::string& model, const Words& more = {}) const {
    Words words{"plan",           "--model",        model, "--cluster", cluster_, "--target",
                GetParam(),       "--global-batch", "64",  "-q",        "--json", "-o",
                path("plan.json")};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }

  Outcome settings(const std::string& model, const Words& more = {}) const {
    Words words{"export", path("plan.json"), "--cluster", cluster_, "-q", "--model", model,
                "--to",   GetParam()};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
};

/// Rules are the planner's and the exporter's alike: what is planned for a framework has settings.
TEST_P(EveryTarget, PlansOfShippedModelsAreExportedOrRefusedWithAReason) {
  std::set<std::string> exported;
  for (const auto& entry : std::filesystem::directory_iterator(kInputs / "models")) {
    if (!entry.is_directory()) continue;
    const std::string model = entry.path().string();
    const Outcome planned = plan(model);
    ASSERT_TRUE(planned.exit_code == 0 || planned.exit_code == 3) << model << planned.err;
    if (planned.exit_code == 3) {
      EXPECT_NE(Json::parse(planned.out).at("reason"), "") << model;
      continue;
    }
    const Outcome written = settings(model);
    EXPECT_EQ(written.exit_code, 0) << written.err;
    exported.insert(entry.path().filename());
  }
  for (const char* name : {"llama-2-7b", "mistral-7b", "mixtral-790m", "deepseek-v2-lite"}) {
    EXPECT_TRUE(exported.contains(name)) << name;
  }
  EXPECT_EQ(exported.contains("flan-t5-xxl"), GetParam() != "torchtitan");
  EXPECT_EQ(exported.contains("sdxl-unet"), GetParam() == "deepspeed");
}

TEST_P(EveryTarget, KindsOfModelsThatItLacksAreNamed) {
  const Outcome outcome = plan((kInputs / "models/dit-xl-2-256").string());
  if (GetParam() == "deepspeed") {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return;
  }
  ASSERT_EQ(outcome.exit_code, 3);
  const std::string reason = Json::parse(outcome.out).at("reason");
  EXPECT_TRUE(has(reason, GetParam() + " rule model")) << reason;
  EXPECT_TRUE(has(reason, "a diffusion transformer")) << reason;
  EXPECT_TRUE(has(reason, "nearest: --target any")) << reason;
}

/// Modules of multi-token prediction are left out where a framework has none.
TEST_P(EveryTarget, PredictionsAreLeftOutOnRequest) {
  Json model = Json::parse(R"({"model_type": "deepseek_v3", "num_hidden_layers": 4,
    "hidden_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 8, "q_lora_rank": 256,
    "kv_lora_rank": 128, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
    "intermediate_size": 2048, "moe_intermediate_size": 512, "n_routed_experts": 8,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "first_k_dense_replace": 0,
    "moe_layer_freq": 1, "num_nextn_predict_layers": 2, "vocab_size": 32000,
    "max_position_embeddings": 4096, "tie_word_embeddings": false})");
  const std::string file = write_json("config.json", model);
  const Words two_stages{"--pp", "2", "--dp", "4"};
  const Outcome whole = plan(file, two_stages);
  if (GetParam() == "megatron") {
    ASSERT_EQ(whole.exit_code, 0) << whole.err;
    EXPECT_TRUE(has(settings(file).out, "--mtp-num-layers 2")) << settings(file).err;
  } else {
    ASSERT_EQ(whole.exit_code, 3);
    const std::string reason = Json::parse(whole.out).at("reason");
    EXPECT_TRUE(has(reason, GetParam() + " rule predictions")) << reason;
    EXPECT_TRUE(has(reason, "--no-mtp")) << reason;
  }
  const bool staged = GetParam() != "deepspeed";  // which has no experts in pipelines
  const Outcome without =
      plan(file, staged ? Words{"--no-mtp", "--pp", "2", "--dp", "4"} : Words{"--no-mtp"});
  ASSERT_EQ(without.exit_code, 0) << without.err << without.out;
  const Outcome written = settings(file, {"--no-mtp"});
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_FALSE(has(written.out, "mtp")) << written.out;

  model["num_nextn_predict_layers"] = 0;
  const Outcome none = plan(write_json("config.json", model), {"--no-mtp"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(has(none.err, "has no modules of multi-token prediction")) << none.err;
}

INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget,
                         testing::Values("megatron", "deepspeed", "torchtitan"),
                         [](const auto& target) { return target.param; });

/// NVIDIA/Megatron-LM, validate_layer_layout: modules of multi-token prediction are in one stage.
TEST_F(Workspace, MegatronKeepsPredictionsTogether) {
  Json model = Json::parse(std::ifstream(kInputs / "models/deepseek-v3/config.json"));
  model.update({{"num_hidden_layers", 2},
                {"hidden_size", 1024},
                {"n_routed_experts", 8},
                {"first_k_dense_replace", 0},
                {"num_nextn_predict_layers", 2}});
  const Words common{"--model",        write_json("config.json", model),
                     "--cluster",      (kInputs / "clusters/single-node-8xh100.json").string(),
                     "--global-batch", "16",
                     "--json",         "-q",
                     "--target",       "megatron"};
  Words words{"plan", "--pp", "4", "--dp", "2", "--tp", "1", "-o", path("plan.json")};
  words.insert(words.end(), common.begin(), common.end());
  const Outcome planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.err << planned.out;
  Json plan = Json::parse(planned.out);
  for (const Json& stage : plan["stages"]) {
    const std::string layers = stage["layers"].dump();
    EXPECT_EQ(has(layers, "mtp.0"), has(layers, "mtp.1")) << layers;
  }
  const Json apart{{"embedding", "layer.0"}, {"layer.1"}, {"mtp.0"}, {"mtp.1", "head"}};
  for (std::size_t s = 0; s < 4; ++s) plan["stages"][s]["layers"] = apart[s];
  words = {"evaluate", write_json("apart.json", plan)};
  words.insert(words.end(), common.begin(), common.end());
  const Outcome evaluated = run(words);
  ASSERT_EQ(evaluated.exit_code, 3) << evaluated.err;
  EXPECT_TRUE(has(Json::parse(evaluated.out).at("reason"), "megatron rule predictions-together"))
      << evaluated.out;
}

/// NVIDIA/TransformerEngine refuses rings with windows and sinks.
TEST_F(Workspace, MegatronTradesHeadsOfModelsWithWindows) {
  for (const char* name : {"gpt-oss-20b", "mistral-7b"}) {
    Words words{"plan",
                "--model",
                (kInputs / "models" / name).string(),
                "--target",
                "megatron",
                "--cluster",
                (kInputs / "clusters/single-node-8xh100.json").string(),
                "--cp",
                "2",
                "--global-batch",
                "64",
                "--json",
                "-q"};
    const Outcome ring = run(words);
    ASSERT_EQ(ring.exit_code, 3) << name;
    EXPECT_TRUE(has(Json::parse(ring.out).at("reason"), "megatron rule context-ring")) << ring.out;
    words.insert(words.end(), {"--context-form", "all_to_all"});
    EXPECT_EQ(run(words).exit_code, 0) << name;
  }
}

}  // namespace
}  // namespace nestplan::test
