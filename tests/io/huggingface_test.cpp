#include "nestplan/io/huggingface.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "io/config_fixture.hpp"
#include "nestplan/util/errors.hpp"

namespace nestplan::io {
namespace {

using model::Architecture;
using test::Json;
using test::set;
using test::without;

using HuggingFace = test::ConfigFixture;

Json modern(const std::string& type) {
  return {{"model_type", type},       {"num_hidden_layers", 4},
          {"hidden_size", 64},        {"num_attention_heads", 8},
          {"num_key_value_heads", 2}, {"head_dim", 16},
          {"intermediate_size", 256}, {"vocab_size", 1000},
          {"sliding_window", 32},     {"max_position_embeddings", 128}};
}

Json gpt2(const std::string& type = "gpt2") {
  return {{"model_type", type}, {"n_layer", 12},       {"n_embd", 768},
          {"n_head", 12},       {"vocab_size", 50257}, {"n_positions", 1024}};
}

Json t5(std::int64_t layers = 6, std::int64_t width = 512, std::int64_t heads = 8,
        std::int64_t ffn = 2048, std::int64_t head_dim = 64) {
  return {{"model_type", "t5"}, {"num_layers", layers}, {"d_model", width},   {"num_heads", heads},
          {"d_kv", head_dim},   {"d_ff", ffn},          {"vocab_size", 32128}};
}

Json vision() {
  return {{"depth", 9},       {"hidden_size", 64},       {"num_heads", 4},
          {"patch_size", 14}, {"intermediate_size", 96}, {"out_hidden_size", 64}};
}

Json audio() {
  return {{"encoder_layers", 2},
          {"d_model", 32},
          {"encoder_attention_heads", 4},
          {"encoder_ffn_dim", 128},
          {"output_dim", 64}};
}

Json omni() {
  Json text = modern("qwen2");
  text.erase("model_type");
  text.erase("head_dim");
  return {{"model_type", "qwen2_5_omni_thinker"},
          {"vision_config", vision()},
          {"audio_config", audio()},
          {"text_config", text}};
}

/// Stable Diffusion 1.5.
Json unet() {
  return {{"_class_name", "UNet2DConditionModel"},
          {"sample_size", 64},
          {"block_out_channels", {320, 640, 1280, 1280}},
          {"down_block_types",
           {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"}},
          {"up_block_types",
           {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"}},
          {"attention_head_dim", 8},
          {"cross_attention_dim", 768}};
}

TEST_F(HuggingFace, ReadsLlama) {
  const Architecture a = read(without(modern("llama"), "head_dim"));
  EXPECT_EQ(a.name, "tiny");
  EXPECT_EQ(a.layers, 4);
  EXPECT_EQ(a.kv_heads, 2);
  EXPECT_EQ(a.head_dim, 8);
  EXPECT_TRUE(a.gated_mlp);
  EXPECT_TRUE(a.windows.empty());
  EXPECT_FALSE(a.tied_embeddings);
  EXPECT_EQ(read(without(modern("llama"), "num_key_value_heads")).kv_heads, 8);
  EXPECT_TRUE(read(set(modern("llama"), "attention_bias", true)).bias.attention_output);
}

TEST_F(HuggingFace, TakesADirectoryAndIgnoresForeignKeys) {
  read(set(modern("llama"), "rope_scaling", {{"factor", 8.0}}));
  EXPECT_EQ(read_architecture(file().parent_path()).hidden, 64);
}

TEST_F(HuggingFace, FamiliesDifferWhereTheyShould) {
  EXPECT_EQ(read(modern("mistral")).window(3), 32);
  EXPECT_TRUE(read(set(modern("mistral"), "sliding_window", nullptr)).windows.empty());
  const Architecture qwen2 = read(modern("qwen2"));
  EXPECT_TRUE(qwen2.bias.qkv);
  EXPECT_FALSE(qwen2.bias.attention_output);
  EXPECT_TRUE(qwen2.windows.empty());
  Json windowed = set(modern("qwen2"), "use_sliding_window", true);
  windowed["max_window_layers"] = 3;
  EXPECT_EQ(read(windowed).windows, (std::vector<std::int64_t>{0, 0, 0, 32}));
  const Architecture qwen3 = read(modern("qwen3"));
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.bias.qkv);
  EXPECT_EQ(qwen3.query_width(), 128);
  EXPECT_TRUE(read(modern("gemma")).tied_embeddings);
  const Architecture gemma2 = read(modern("gemma2"));
  EXPECT_EQ(gemma2.output_norms, 2);
  EXPECT_EQ(gemma2.windows, (std::vector<std::int64_t>{32, 0, 32, 0}));
}

// Sizes of the checkpoints on the Hugging Face hub.
TEST_F(HuggingFace, CountsParametersAsPublished) {
  EXPECT_EQ(total_parameters(read(gpt2())), 124'439'808);
  const Json gptj = {{"model_type", "gptj"}, {"n_layer", 28},       {"n_embd", 4096},
                     {"n_head", 16},         {"vocab_size", 50400}, {"n_positions", 2048}};
  EXPECT_EQ(total_parameters(read(gptj)), 6'050'882'784);
  Json neo = {{"model_type", "gpt_neo"}, {"num_layers", 12},
              {"hidden_size", 768},      {"num_heads", 12},
              {"vocab_size", 50257},     {"max_position_embeddings", 2048},
              {"window_size", 256},      {"attention_types", {{{"global", "local"}, 6}}}};
  EXPECT_EQ(total_parameters(read(neo)), 125'198'592);
  EXPECT_EQ(read(neo).window(1), 256);
  EXPECT_EQ(read(neo).window(2), 0);
  const Json opt = {{"model_type", "opt"},
                    {"num_hidden_layers", 12},
                    {"hidden_size", 768},
                    {"num_attention_heads", 12},
                    {"ffn_dim", 3072},
                    {"vocab_size", 50272},
                    {"word_embed_proj_dim", 768},
                    {"max_position_embeddings", 2048}};
  EXPECT_EQ(total_parameters(read(opt)), 125'239'296);
  const Json pythia = {{"model_type", "gpt_neox"}, {"num_hidden_layers", 12},
                       {"hidden_size", 768},       {"num_attention_heads", 12},
                       {"vocab_size", 50304},      {"intermediate_size", 3072}};
  EXPECT_EQ(total_parameters(read(pythia)), 162'322'944);
  const Json falcon = {{"model_type", "falcon"}, {"num_hidden_layers", 32},
                       {"hidden_size", 4544},    {"num_attention_heads", 71},
                       {"vocab_size", 65024},    {"multi_query", true},
                       {"parallel_attn", true}};
  EXPECT_EQ(total_parameters(read(falcon)), 6'921'720'704);
  const Json bloom = {{"model_type", "bloom"},
                      {"n_layer", 24},
                      {"hidden_size", 1024},
                      {"n_head", 16},
                      {"vocab_size", 250880}};
  EXPECT_EQ(total_parameters(read(bloom)), 559'214'592);
  const Json phi3 = {{"model_type", "phi3"},      {"num_hidden_layers", 32},
                     {"hidden_size", 3072},       {"num_attention_heads", 32},
                     {"intermediate_size", 8192}, {"vocab_size", 32064}};
  EXPECT_EQ(total_parameters(read(phi3)), 3'821'079'552);
  Json santacoder = gpt2("gpt_bigcode");
  santacoder.update({{"n_layer", 24},
                     {"n_embd", 2048},
                     {"n_head", 16},
                     {"n_inner", 8192},
                     {"n_positions", 2048},
                     {"vocab_size", 49280}});
  EXPECT_EQ(read(santacoder).kv_heads, 1);
  EXPECT_NEAR(static_cast<double>(total_parameters(read(santacoder))), 1.1e9, 0.05e9);
}

TEST_F(HuggingFace, ReadsEncoders) {
  Json bert = {{"model_type", "bert"},      {"num_hidden_layers", 12},       {"hidden_size", 768},
               {"num_attention_heads", 12}, {"intermediate_size", 3072},     {"vocab_size", 30522},
               {"type_vocab_size", 2},      {"max_position_embeddings", 512}};
  const Architecture a = read(bert);
  EXPECT_FALSE(a.causal);
  EXPECT_FALSE(a.pooler);
  EXPECT_EQ(total_parameters(a), 109'514'298);  // BertForMaskedLM
  EXPECT_TRUE(a.hidden_dropout);
  bert["architectures"] = {"BertForPreTraining"};
  EXPECT_EQ(total_parameters(read(bert)), 110'106'428);
  Json roberta = bert;
  roberta.update({{"model_type", "roberta"},
                  {"vocab_size", 50265},
                  {"type_vocab_size", 1},
                  {"max_position_embeddings", 514},
                  {"architectures", {"RobertaForMaskedLM"}}});
  EXPECT_EQ(total_parameters(read(roberta)), 124'697'433);
  EXPECT_EQ(read(roberta).max_positions, 512);
}

// Sizes of the checkpoints.
TEST_F(HuggingFace, ReadsEncoderDecoders) {
  const auto size = [this](const Json& config) {
    return total_parameters(read_as<model::EncoderDecoder>(config));
  };
  EXPECT_EQ(size(t5()), 60'506'624);
  EXPECT_EQ(size(t5(12, 768, 12, 3072)), 222'903'552);
  EXPECT_EQ(size(t5(24, 1024, 16, 4096)), 737'668'096);
  EXPECT_EQ(size(t5(24, 1024, 32, 16384, 128)), 2'851'598'336);
  Json flan = t5(8, 512, 6, 1024);
  flan.update({{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}});
  EXPECT_EQ(size(flan), 76'961'152);
  Json mt5 = flan;
  mt5.update({{"model_type", "mt5"}, {"vocab_size", 250112}});
  mt5.erase("feed_forward_proj");
  mt5.erase("tie_word_embeddings");
  EXPECT_EQ(size(mt5), 300'176'768);
}

TEST_F(HuggingFace, EncoderAndDecoderMayDifferInDepth) {
  const auto model = read_as<model::EncoderDecoder>(set(t5(), "num_decoder_layers", 2));
  EXPECT_EQ(model.encoder.layers, 6);
  EXPECT_EQ(model.decoder.layers, 2);
  EXPECT_FALSE(model.encoder.causal);
  EXPECT_EQ(model.encoder.cross_width, 0);
  EXPECT_EQ(model.decoder.cross_width, 512);
  EXPECT_EQ(model.decoder.relative_buckets, 32);
  EXPECT_TRUE(model.decoder.hidden_dropout);
  EXPECT_THROW(read(t5()), InvalidInput);  // not a single stack
  for (const char* key : {"num_layers", "d_model", "num_heads", "d_kv", "d_ff", "vocab_size"}) {
    EXPECT_NE(failure(without(t5(), key)).find(key), std::string::npos) << key;
  }
}

TEST_F(HuggingFace, ReadsTowers) {
  const auto model = read_as<model::Multimodal>(omni());
  ASSERT_EQ(model.towers.size(), 2U);
  const model::Tower& eye = model.towers[0];
  EXPECT_EQ(eye.id, "vision");
  EXPECT_EQ(eye.tokens, 4096);
  EXPECT_EQ(eye.merge, 4);
  EXPECT_EQ(eye.blocks.window(6), 64);
  EXPECT_EQ(eye.blocks.window(7), 0);
  EXPECT_EQ(eye.stem.front().in, 3 * 2 * 14 * 14);
  const model::Tower& ear = model.towers[1];
  EXPECT_EQ(ear.tokens, 1500);
  EXPECT_EQ(ear.blocks.window(0), 100);
  EXPECT_FALSE(ear.blocks.bias.key);
  EXPECT_EQ(model.text.hidden, 64);
  EXPECT_TRUE(model.text.bias.qkv);
  EXPECT_FALSE(model.text.tied_embeddings);
  // a whole model has its thinker beside others
  const Json whole = {{"model_type", "qwen2_5_omni"}, {"thinker_config", omni()}};
  EXPECT_EQ(total_parameters(read_as<model::Multimodal>(whole)), total_parameters(model));
}

TEST_F(HuggingFace, TowersTellTheirTokens) {
  Json config = omni();
  config["vision_config"]["image_size"] = 448;
  config["vision_config"]["fullatt_block_indexes"] = {0, 8};
  config["audio_config"]["max_source_positions"] = 750;
  const auto model = read_as<model::Multimodal>(config);
  EXPECT_EQ(model.towers[0].tokens, 32 * 32);
  EXPECT_EQ(model.towers[0].blocks.window(7), 64);
  EXPECT_EQ(model.towers[0].blocks.window(8), 0);
  EXPECT_EQ(model.towers[1].tokens, 750);
}

TEST_F(HuggingFace, TowersMissingSomethingAreRefused) {
  for (const char* part : {"vision_config", "audio_config", "text_config"}) {
    EXPECT_NE(failure(without(omni(), part)).find(part), std::string::npos) << part;
    const Json complete = omni()[part];
    for (const auto& [key, value] : complete.items()) {
      if (key == "sliding_window" || key == "max_position_embeddings") continue;
      Json config = omni();
      config[part].erase(key);
      EXPECT_NE(failure(config).find(std::string(part) + ": missing key \"" + key),
                std::string::npos)
          << failure(config);
    }
  }
  Json config = omni();
  config["audio_config"]["output_dim"] = 32;
  EXPECT_EQ(failure(config),
            "audio_config.output_dim: must be the language model's hidden_size (64)");
  config = omni();
  config["vision_config"]["fullatt_block_indexes"] = {9};
  EXPECT_EQ(failure(config).substr(0, 38), "vision_config.fullatt_block_indexes[0]");
}

TEST_F(HuggingFace, ReadsUNets) {
  const auto model = read_as<model::UNet>(unet());
  EXPECT_EQ(total_parameters(model), 859'520'964);  // of the checkpoint
  EXPECT_EQ(model.levels[2].depth, 1);
  EXPECT_EQ(model.levels[3].depth, 0);
  EXPECT_EQ(model.middle.depth, 1);
  EXPECT_EQ(model.context_tokens, 77);
}

TEST_F(HuggingFace, UNetsMissingSomethingAreRefused) {
  for (const char* key : {"sample_size", "block_out_channels", "down_block_types", "up_block_types",
                          "cross_attention_dim"}) {
    EXPECT_NE(failure(without(unet(), key)).find(key), std::string::npos) << key;
  }
  EXPECT_EQ(failure(set(unet(), "attention_head_dim", {8, 8})),
            "attention_head_dim: has 2 entries, not the 4 of block_out_channels");
  EXPECT_EQ(failure(set(unet(), "sample_size", 60)), "sample_size: is not a multiple of 8");
  EXPECT_EQ(failure(set(unet(), "attention_head_dim", 7)),
            "attention_head_dim: 7 does not divide block_out_channels (320)");
  Json turned = unet();
  turned["up_block_types"] = {"CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D",
                              "UpBlock2D"};
  EXPECT_EQ(failure(turned), "up_block_types: must mirror down_block_types");
  EXPECT_NE(failure(set(unet(), "addition_embed_type", "text_time"))
                .find("projection_class_embeddings_input_dim"),
            std::string::npos);
  EXPECT_EQ(failure(set(unet(), "mid_block_type", "UNetMidBlock2D")),
            "mid_block_type: must be UNetMidBlock2DCrossAttn or null");
}

Json dit() {
  return {{"_class_name", "DiTTransformer2DModel"},
          {"num_layers", 28},
          {"num_attention_heads", 16},
          {"attention_head_dim", 72},
          {"out_channels", 8},
          {"patch_size", 2},
          {"sample_size", 32},
          {"num_embeds_ada_norm", 1000}};
}

TEST_F(HuggingFace, ReadsDiffusionTransformers) {
  const auto model = read_as<model::DiffusionTransformer>(dit());
  EXPECT_EQ(model.blocks.hidden, 1152);
  EXPECT_EQ(model.tokens(), 256);
  EXPECT_EQ(model.in_channels, 4);
  EXPECT_EQ(total_parameters(model), 749'826'464);
  Json older = set(dit(), "_class_name", "Transformer2DModel");
  EXPECT_NE(failure(older).find("norm_type"), std::string::npos);
  older["norm_type"] = "ada_norm_zero";
  EXPECT_EQ(total_parameters(read_as<model::DiffusionTransformer>(older)), 749'826'464);
  EXPECT_EQ(failure(set(dit(), "norm_type", "layer_norm")), "norm_type: must be ada_norm_zero");
  EXPECT_EQ(failure(set(dit(), "sample_size", 33)), "sample_size: is not a multiple of patch_size");
  for (const char* key : {"num_layers", "num_attention_heads", "attention_head_dim", "patch_size",
                          "sample_size", "num_embeds_ada_norm"}) {
    EXPECT_NE(failure(without(dit(), key)).find(key), std::string::npos) << key;
  }
}

TEST_F(HuggingFace, DropoutComesFromTheFile) {
  EXPECT_TRUE(read(gpt2()).hidden_dropout);
  EXPECT_FALSE(read(set(gpt2(), "resid_pdrop", 0.0)).hidden_dropout);
}

TEST_F(HuggingFace, MissingAndImpossibleFieldsAreNamed) {
  for (const char* key : {"num_hidden_layers", "hidden_size", "num_attention_heads",
                          "intermediate_size", "vocab_size", "model_type"}) {
    EXPECT_NE(failure(without(modern("llama"), key)).find(key), std::string::npos) << key;
  }
  EXPECT_NE(failure(without(modern("qwen3"), "head_dim")).find("head_dim"), std::string::npos);
  EXPECT_NE(failure(without(modern("mistral"), "num_key_value_heads")).find("num_key_value_heads"),
            std::string::npos);
  EXPECT_NE(failure(without(gpt2(), "n_positions")).find("n_positions"), std::string::npos);
  for (const Json& value : {Json(0), Json(-64), Json(64.5), Json("64"), Json(1e18)}) {
    EXPECT_EQ(failure(set(modern("llama"), "hidden_size", value)).substr(0, 12), "hidden_size:")
        << value;
  }
}

TEST_F(HuggingFace, HeadsMustDivide) {
  Json config = set(without(modern("llama"), "head_dim"), "num_attention_heads", 6);
  config["num_key_value_heads"] = 6;
  EXPECT_EQ(failure(config), "num_attention_heads: 6 does not divide hidden_size (64)");
  config["head_dim"] = 16;
  EXPECT_EQ(read(config).query_width(), 96);
  EXPECT_EQ(failure(set(modern("llama"), "num_key_value_heads", 3)),
            "num_key_value_heads: 3 does not divide num_attention_heads (8)");
}

TEST_F(HuggingFace, OtherModelsAreRefusedByName) {
  EXPECT_NE(failure(set(modern("llama"), "model_type", "lama")).find("did you mean \"llama\"?"),
            std::string::npos);
  EXPECT_NE(failure(set(modern("llama"), "model_type", "dbrx")).find("a mixture of experts"),
            std::string::npos);
  EXPECT_NE(failure(set(modern("llama"), "model_type", "bart")).find("an encoder-decoder"),
            std::string::npos);
  EXPECT_NE(failure(Json{{"_class_name", "UNet2DModel"}}).find("_class_name: unknown"),
            std::string::npos);
  EXPECT_EQ(failure(set(modern("qwen2"), "num_experts", 60)).substr(0, 12), "num_experts:");
}

TEST_F(HuggingFace, FilesThatCannotBeReadAreRefused) {
  EXPECT_THROW(read_architecture(directory_ / "none.json"), InvalidInput);
  std::ofstream(file()) << "{";
  EXPECT_THROW(read_architecture(file()), InvalidInput);
}

}  // namespace
}  // namespace nestplan::io
