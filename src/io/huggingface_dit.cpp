#include <string>

#include "io/huggingface_config.hpp"

namespace nestplan::io {
namespace {

/// Source: src/diffusers/models/transformers/dit_transformer_2d.py and
/// src/diffusers/models/embeddings.py of github.com/huggingface/diffusers.
constexpr std::int64_t kTimeFrequencies = 256;
constexpr const char* kNorm = "ada_norm_zero";

model::Architecture read_blocks(const Config& config) {
  model::Architecture a;
  a.layers = config.count("num_layers", kMostLayers);
  a.heads = a.kv_heads = config.count("num_attention_heads", 1 << 14);
  a.head_dim = config.count("attention_head_dim", 1 << 14);
  a.hidden = a.heads * a.head_dim;
  a.ffn = 4 * a.hidden;
  a.causal = false;
  const auto activation = config.find("activation_fn");
  a.gated_mlp = activation && activation->text() == "geglu";
  a.norm = config.flag("norm_elementwise_affine", false) ? model::NormKind::kLayerNorm
                                                         : model::NormKind::kPlain;
  a.bias.qkv = config.flag("attention_bias", true);
  a.bias.attention_output = a.bias.mlp = true;
  const auto dropout = config.find("dropout");
  a.hidden_dropout = dropout && dropout->number(1) > 0;
  // one label stands for none
  a.modulation = model::Modulation{kTimeFrequencies, config.count("num_embeds_ada_norm") + 1};
  return a;
}

}  // namespace

model::DiffusionTransformer read_dit(const Config& config, const std::string& type,
                                     const std::string& name) {
  const auto norm = config.find("norm_type");
  // the older class has other transformers as well
  if (norm ? norm->text() != kNorm : type == "Transformer2DModel") {
    config.at("norm_type").fail("must be " + std::string(kNorm));
  }
  model::DiffusionTransformer dit;
  dit.name = name;
  dit.family = type;
  dit.blocks = read_blocks(config);
  dit.blocks.name = name;
  dit.blocks.family = type;
  dit.in_channels = config.count_or("in_channels", 4);
  dit.out_channels = config.count_or("out_channels", dit.in_channels);
  dit.patch = config.count("patch_size", 1 << 10);
  dit.sample_size = config.count("sample_size", 1 << 14);
  if (dit.sample_size % dit.patch != 0) {
    config.at("sample_size").fail("is not a multiple of patch_size");
  }
  return dit;
}

}  // namespace nestplan::io
