#include <gtest/gtest.h>

#include <string>

#include "frameworks/plans.hpp"
#include "nestplan/frameworks/model_details.hpp"
#include "util/expect_error.hpp"

namespace nestplan::testing {
namespace {

using test::expect_contains;

/// A decoder of four layers, as Llama's are, on one device.
Case decoder() {
  Case out;
  out.plan = plan_of({}, {4});
  out.cluster = cluster_of(1, 1);
  out.job.devices = 1;
  out.job.kind = frameworks::ModelKind::kDecoder;
  model::Architecture a;
  a.family = "llama";
  a.layers = 4;
  a.hidden = 64;
  a.heads = a.kv_heads = 4;
  a.head_dim = 16;
  a.ffn = 256;
  a.vocab = 128;
  a.max_positions = 8192;
  a.rotary = a.gated_mlp = true;
  a.norm = model::NormKind::kRmsNorm;
  out.job.architecture = a;
  return out;
}

std::string megatron(const Case& from) { return from.settings("megatron").text; }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ModelArguments, TellBiasesApart) {
  const auto flags = [](bool qkv, bool output, bool mlp) {
    Case from = decoder();
    from.job.architecture->bias = {.qkv = qkv, .attention_output = output, .mlp = mlp};
    const std::string text = megatron(from);
    return std::string(has(text, "--disable-bias-linear\n") ? "d" : "") +
           (has(text, "--add-qkv-bias\n") ? "q" : "") + (has(text, "no argument here") ? "!" : "");
  };
  EXPECT_EQ(flags(false, false, false), "d");
  EXPECT_EQ(flags(true, false, false), "dq");
  EXPECT_EQ(flags(true, true, true), "");
  EXPECT_EQ(flags(true, true, false), "dq!");
  EXPECT_EQ(flags(true, false, true), "dq!");
  EXPECT_EQ(flags(false, true, true), "!");
}

TEST(ModelArguments, TellWhatTheConfigTells) {
  Case from = decoder();
  expect_contains(megatron(from), "defaults hold: --rotary-base, --norm-epsilon, silu of --swiglu");
  from.job.details = frameworks::details_of(R"({
      "rope_theta": 500000.0, "rms_norm_eps": 1e-05, "hidden_act": "silu", "attention_dropout": 0.0,
      "hidden_dropout": 0.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
      "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  const std::string text = megatron(from);
  for (const char* line :
       {"--rotary-base 500000\n", "--norm-epsilon 1e-05\n", "--swiglu\n", "--use-rope-scaling\n",
        "--rope-scaling-factor 8\n", "--attention-dropout 0\n", "--hidden-dropout 0\n",
        "--untie-embeddings-and-output-weights\n"}) {
    EXPECT_TRUE(has(text, line)) << line << text;
  }
  EXPECT_FALSE(has(text, "defaults hold")) << text;
  EXPECT_FALSE(has(text, "no argument here")) << text;
  from.job.architecture->tied_embeddings = true;
  EXPECT_FALSE(has(megatron(from), "--untie-embeddings-and-output-weights"));
  from.job.details.rope_scaling = "yarn";
  from.job.details.activation = "gelu_pytorch_tanh";
  expect_contains(megatron(from), "no argument here says: scaling of rotary positions.");
  expect_contains(megatron(from), "no argument here says: the activation gelu_pytorch_tanh.");
}

TEST(ModelArguments, OfNewerConfigs) {
  const auto details = frameworks::details_of(
      R"({"rope_parameters": {"rope_theta": 10000, "rope_type": "default"}, "hidden_act": 3})");
  EXPECT_EQ(details.rotary_base, 10000);
  EXPECT_EQ(details.rope_scaling, "");
  EXPECT_EQ(details.activation, "");
  EXPECT_FALSE(frameworks::details_of("no JSON").rotary_base);
}

TEST(ModelArguments, OfExpertsForMegatronDeepSpeed) {
  Case from = decoder();
  from.plan = plan_of({.ep = 2, .dp_inner = 2, .zero = 1}, {4});
  from.cluster = cluster_of(1, 2);
  from.job.devices = 2;
  from.job.dimensions.experts = 8;
  from.job.architecture->moe =
      model::MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 128, .dense_blocks = {0, 2}};
  const frameworks::Settings settings = from.settings("deepspeed");
  for (const char* words : {"\"--num-experts\",\n      \"8\"", "\"--topk\",\n      \"2\"",
                            "\"--expert-interval\",\n      \"2\"", "\"--create-moe-param-group\"",
                            "\"--hidden-size\",\n      \"64\""}) {
    expect_contains(settings.text, words);
  }
  expect_contains(settings.text, "no argument here says: experts of width 128 beside MLPs of 256.");
  from.job.architecture->moe->dense_blocks = {1};
  from.job.architecture->moe->shared_ffn = 64;
  const std::string other = from.settings("deepspeed").text;
  EXPECT_FALSE(has(other, "--expert-interval")) << other;
  expect_contains(other, "no argument here says: which blocks have experts.");
  expect_contains(other, "no argument here says: shared experts.");
}

TEST(ModelArguments, OfMegatronDeepSpeedHoldTheSequenceAndTellWhatTheyLose) {
  Case from = decoder();
  from.plan.tokens = from.job.sequence = 16384;
  from.job.details = frameworks::details_of(R"({"hidden_act": "gelu_pytorch_tanh",
      "norm_topk_prob": false, "routed_scaling_factor": 2.5})");
  from.job.dimensions.experts = 8;
  from.job.architecture->moe =
      model::MixtureOfExperts{.experts = 8, .top_k = 2, .expert_ffn = 256, .dense_blocks = {}};
  const std::string text = from.settings("deepspeed").text;
  expect_contains(text, "\"--max-position-embeddings\",\n      \"16384\"");
  expect_contains(text, "no argument here says: the activation gelu_pytorch_tanh.");
  expect_contains(text, "no argument here says: weights of the chosen experts that do not add up");
  from.job.architecture->learned_positions = 8192;
  from.job.architecture->rotary = false;
  expect_contains(from.settings("deepspeed").text,
                  "\"--max-position-embeddings\",\n      \"8192\"");
}

TEST(ModelArguments, FamiliesThatFrameworksDoNotBring) {
  Case from = decoder();
  EXPECT_TRUE(from.settings("torchtitan").remarks.empty());
  from.job.architecture->family = "gpt2";
  expect_contains(from.settings("torchtitan").remarks.front(), "no model of the family gpt2");
}

}  // namespace
}  // namespace nestplan::testing
