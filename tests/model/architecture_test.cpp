#include "nestplan/model/architecture.hpp"

#include <gtest/gtest.h>

#include "nestplan/model/diffusion_transformer.hpp"

namespace nestplan::model {
namespace {

Architecture small() {
  Architecture a;
  a.layers = 4;
  a.hidden = 8;
  a.heads = a.kv_heads = 2;
  a.head_dim = 4;
  a.ffn = 32;
  a.vocab = 100;
  a.norm = NormKind::kRmsNorm;
  return a;
}

Architecture with_experts() {
  Architecture a = small();
  a.moe = MixtureOfExperts{};
  a.moe->experts = 4;
  a.moe->top_k = 2;
  a.moe->expert_ffn = 16;
  a.moe->dense_blocks = {0, 2};
  return a;
}

TEST(Architecture, BlocksHaveExpertsOrAPlainMlp) {
  const Architecture a = with_experts();
  EXPECT_FALSE(a.routed(0));
  EXPECT_TRUE(a.routed(1));
  EXPECT_FALSE(a.routed(2));
  EXPECT_TRUE(a.routed(3));
  EXPECT_TRUE(a.routed(4));  // like the last
  EXPECT_TRUE(a.has_plain_mlp());
  EXPECT_EQ(expert_parameters(a, 0), 0);
  EXPECT_EQ(expert_parameters(a, 1), 4 * 2 * 8 * 16);
  EXPECT_EQ(operator_parameters(a, 1).mlp_in.split, 0);
  EXPECT_EQ(operator_parameters(a, 1).router.replicated, 8 * 4);
  EXPECT_EQ(operator_parameters(a, 0).router.replicated, 0);
}

TEST(Architecture, CountsExpertsOnceAndActiveOnesApart) {
  const Architecture a = with_experts();
  const std::int64_t attention = 4 * 8 * 8 + 2 * 8;
  const std::int64_t tables = 2 * 100 * 8 + 8;
  const std::int64_t plain = attention + 2 * 8 * 32;
  const std::int64_t routed = attention + 8 * 4 + 4 * 2 * 8 * 16;
  EXPECT_EQ(total_parameters(a), tables + 2 * plain + 2 * routed);
  EXPECT_EQ(active_parameters(a), total_parameters(a) - 2 * 2 * (2 * 8 * 16));
  EXPECT_EQ(active_parameters(small()), total_parameters(small()));
}

TEST(Architecture, BiasesOfExpertsAreEachTheirOwn) {
  Architecture a = with_experts();
  a.moe->expert_bias = a.moe->router_bias = a.moe->shared_gate = true;
  a.moe->shared_ffn = 8;
  const BlockParameters block = operator_parameters(a, 1);
  EXPECT_EQ(block.expert_in.split, 4 * (8 * 16 + 16));
  EXPECT_EQ(block.expert_out.split, 4 * 16 * 8);
  EXPECT_EQ(block.expert_out.replicated, 4 * 8);
  EXPECT_EQ(block.router.replicated, 8 * 4 + 4 + 8);
  EXPECT_EQ(block.shared_in.split + block.shared_out.split, 2 * 8 * 8);
}

TEST(Architecture, PredictionModulesAreNotInTheTotal) {
  Architecture a = with_experts();
  const std::int64_t without = total_parameters(a);
  a.mtp_layers = 2;
  EXPECT_EQ(total_parameters(a), without);
  const std::int64_t block = block_parameters(a, 3).total(100) + expert_parameters(a, 3);
  EXPECT_EQ(mtp_parameters(a), 2 * (block + 3 * 8 + 2 * 8 * 8));
}

TEST(Architecture, WindowsOfPredictionModulesAreThoseOfTheLastBlock) {
  Architecture a = small();
  a.windows = {0, 16, 0, 32};
  EXPECT_EQ(a.window(1), 16);
  EXPECT_EQ(a.window(4), 32);
}

// DiT-XL/2 has 675,129,632 (github.com/facebookresearch/DiT), with one embedding of time and label
// for all blocks, and a frozen table of positions.
TEST(DiffusionTransformer, CountsParametersAsPublished) {
  DiffusionTransformer dit;
  dit.in_channels = 4;
  dit.out_channels = 8;
  dit.sample_size = 32;
  dit.patch = 2;
  Architecture& a = dit.blocks;
  a.layers = 28;
  a.hidden = 1152;
  a.heads = a.kv_heads = 16;
  a.head_dim = 72;
  a.ffn = 4608;
  a.norm = NormKind::kPlain;
  a.bias.qkv = a.bias.attention_output = a.bias.mlp = true;
  a.modulation = Modulation{256, 1001};
  EXPECT_EQ(dit.tokens(), 256);
  EXPECT_EQ(total_parameters(dit) - 27 * conditioning_parameters(a) + dit.tokens() * 1152,
            675'129'632);
}

}  // namespace
}  // namespace nestplan::model
