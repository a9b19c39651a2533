#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/config_fixture.hpp"

namespace nestplan::io {
namespace {

using model::Architecture;
using test::Json;
using test::set;
using test::without;

using Experts = test::ConfigFixture;
using Blocks = std::vector<std::int64_t>;

Json widths(const std::string& type) {
  return {{"model_type", type},       {"num_hidden_layers", 6},
          {"hidden_size", 64},        {"num_attention_heads", 8},
          {"num_key_value_heads", 2}, {"head_dim", 16},
          {"intermediate_size", 256}, {"vocab_size", 1000},
          {"num_experts_per_tok", 2}, {"max_position_embeddings", 128}};
}

Json mixtral() { return set(widths("mixtral"), "num_local_experts", 8); }

Json qwen(const std::string& type) {
  Json config = widths(type);
  config.update({{"num_experts", 8}, {"moe_intermediate_size", 32}});
  return config;
}

Json deepseek(const std::string& type) {
  Json config = widths(type);
  config.update({{"n_routed_experts", 8},
                 {"n_shared_experts", 2},
                 {"moe_intermediate_size", 32},
                 {"first_k_dense_replace", 2}});
  return config;
}

Json latent() {
  Json config = without(deepseek("deepseek_v3"), "head_dim");
  config.update({{"q_lora_rank", 48},
                 {"kv_lora_rank", 24},
                 {"qk_nope_head_dim", 16},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 12}});
  return config;
}

TEST_F(Experts, Mixtral) {
  const Architecture a = read(mixtral());
  ASSERT_TRUE(a.moe);
  EXPECT_EQ(a.moe->experts, 8);
  EXPECT_EQ(a.moe->top_k, 2);
  EXPECT_EQ(a.moe->expert_ffn, 256);
  EXPECT_EQ(a.moe->shared_ffn, 0);
  EXPECT_FALSE(a.has_plain_mlp());
  EXPECT_TRUE(a.windows.empty());
  EXPECT_EQ(read(set(mixtral(), "sliding_window", 32)).window(5), 32);
}

TEST_F(Experts, QwenSaysWhichBlocksArePlain) {
  EXPECT_FALSE(read(qwen("qwen3_moe")).has_plain_mlp());
  Json config = set(qwen("qwen3_moe"), "decoder_sparse_step", 2);
  config["mlp_only_layers"] = {3};
  const Architecture a = read(config);
  EXPECT_EQ(a.moe->dense_blocks, (Blocks{0, 2, 3, 4}));
  EXPECT_FALSE(a.routed(0));
  EXPECT_TRUE(a.routed(1));
  EXPECT_FALSE(a.routed(3));
  EXPECT_TRUE(a.qk_norm);
  EXPECT_FALSE(a.bias.qkv);
}

TEST_F(Experts, QwenSharedExpertHasAGate) {
  const Architecture a = read(set(qwen("qwen2_moe"), "shared_expert_intermediate_size", 96));
  EXPECT_EQ(a.moe->shared_ffn, 96);
  EXPECT_TRUE(a.moe->shared_gate);
  EXPECT_TRUE(a.bias.qkv);
  EXPECT_FALSE(a.bias.attention_output);
}

TEST_F(Experts, DeepSeek) {
  const Architecture a = read(deepseek("deepseek"));
  EXPECT_EQ(a.moe->dense_blocks, (Blocks{0, 1}));
  EXPECT_EQ(a.moe->shared_ffn, 64);
  EXPECT_FALSE(a.latent);
  EXPECT_EQ(a.mtp_layers, 0);
  EXPECT_EQ(read(set(deepseek("deepseek"), "moe_layer_freq", 3)).moe->dense_blocks,
            (Blocks{0, 1, 2, 4, 5}));
  EXPECT_EQ(read(set(deepseek("deepseek"), "n_shared_experts", nullptr)).moe->shared_ffn, 0);
}

TEST_F(Experts, LatentAttention) {
  const Architecture a = read(set(latent(), "num_nextn_predict_layers", 1));
  ASSERT_TRUE(a.latent);
  EXPECT_EQ(a.head_dim, 24);
  EXPECT_EQ(a.value_dim(), 12);
  EXPECT_EQ(a.kv_heads, 8);
  EXPECT_EQ(a.qkv_width(), 8 * (24 + 24 + 12));
  EXPECT_EQ(a.attention_width(), 8 * 12);
  EXPECT_EQ(a.latent->down_width(), 48 + 24 + 8);
  EXPECT_EQ(a.mtp_layers, 1);
  EXPECT_TRUE(a.routed(a.layers));  // the block of the module
  EXPECT_EQ(read(set(latent(), "q_lora_rank", nullptr)).latent->query_rank, 0);
}

TEST_F(Experts, GptOss) {
  Json config = set(widths("gpt_oss"), "num_local_experts", 8);
  config["sliding_window"] = 32;
  const Architecture a = read(config);
  EXPECT_TRUE(a.sinks && a.moe->router_bias && a.moe->expert_bias && a.bias.attention_output);
  EXPECT_EQ(a.windows, (Blocks{32, 0, 32, 0, 32, 0}));
  const std::string full = "full_attention";
  config["layer_types"] = {full, full, full, full, full, "sliding_attention"};
  EXPECT_EQ(read(config).windows, (Blocks{0, 0, 0, 0, 0, 32}));
  config["layer_types"] = {full};
  EXPECT_EQ(failure(config), "layer_types: has 1 entries, not the 6 of num_hidden_layers");
  config["layer_types"] = {"windowed"};
  EXPECT_EQ(failure(config).substr(0, 14), "layer_types[0]");
}

TEST_F(Experts, Glm) {
  Json config = deepseek("glm4_moe");
  config.update({{"attention_bias", true}, {"use_qk_norm", true}, {"num_nextn_predict_layers", 1}});
  const Architecture a = read(config);
  EXPECT_TRUE(a.bias.qkv && a.qk_norm);
  EXPECT_FALSE(a.bias.attention_output);
  EXPECT_EQ(a.mtp_layers, 1);
}

// Sizes of checkpoints whose configs are not among the inputs.
TEST_F(Experts, CountParametersAsPublished) {
  Json moe16 = without(deepseek("deepseek"), "head_dim");
  moe16.update({{"num_hidden_layers", 28},
                {"hidden_size", 2048},
                {"num_attention_heads", 16},
                {"num_key_value_heads", 16},
                {"intermediate_size", 10944},
                {"moe_intermediate_size", 1408},
                {"n_routed_experts", 64},
                {"num_experts_per_tok", 6},
                {"first_k_dense_replace", 1},
                {"vocab_size", 102400}});
  EXPECT_EQ(total_parameters(read(moe16)), 16'375'728'128);
  Json v2 = latent();
  v2.update({{"model_type", "deepseek_v2"},
             {"num_hidden_layers", 60},
             {"hidden_size", 5120},
             {"num_attention_heads", 128},
             {"q_lora_rank", 1536},
             {"kv_lora_rank", 512},
             {"qk_nope_head_dim", 128},
             {"qk_rope_head_dim", 64},
             {"v_head_dim", 128},
             {"intermediate_size", 12288},
             {"moe_intermediate_size", 1536},
             {"n_routed_experts", 160},
             {"num_experts_per_tok", 6},
             {"first_k_dense_replace", 1},
             {"vocab_size", 102400}});
  EXPECT_EQ(total_parameters(read(v2)), 235'741'434'880);
  EXPECT_NEAR(static_cast<double>(active_parameters(read(v2))), 21e9, 0.5e9);
}

TEST_F(Experts, MissingAndImpossibleFieldsAreNamed) {
  for (const char* key : {"num_local_experts", "num_experts_per_tok", "intermediate_size"}) {
    EXPECT_NE(failure(without(mixtral(), key)).find(key), std::string::npos) << key;
  }
  for (const char* key : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim",
                          "n_routed_experts", "moe_intermediate_size"}) {
    EXPECT_NE(failure(without(latent(), key)).find(key), std::string::npos) << key;
  }
  EXPECT_EQ(failure(set(mixtral(), "num_experts_per_tok", 9)),
            "num_experts_per_tok: 9 is more than num_local_experts (8)");
  EXPECT_EQ(failure(set(latent(), "first_k_dense_replace", 6)),
            "first_k_dense_replace: leaves no layer with experts");
  Json plain = set(qwen("qwen3_moe"), "mlp_only_layers", {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(failure(plain), "mlp_only_layers: leaves no layer with experts");
  plain["mlp_only_layers"] = {6};
  EXPECT_EQ(failure(plain).substr(0, 18), "mlp_only_layers[0]");
}

}  // namespace
}  // namespace nestplan::io
