#include <string>

#include "io/huggingface_config.hpp"

namespace nestplan::io {
namespace {

using model::Architecture;

/// Source: configuration_t5.py, configuration_mt5.py and modeling_t5.py of
/// github.com/huggingface/transformers.
constexpr std::int64_t kDefaultBuckets = 32;
constexpr double kDefaultDropout = 0.1;

Architecture read_stack(const Config& config, const std::string& type, const std::string& name) {
  const bool first_version = type == "t5";
  Architecture a;
  a.name = name;
  a.family = type;
  a.norm = model::NormKind::kRmsNorm;
  a.hidden = config.count("d_model");
  a.heads = a.kv_heads = config.count("num_heads");
  a.head_dim = config.count("d_kv");
  a.ffn = config.count("d_ff");
  a.vocab = config.count("vocab_size");
  a.max_positions = config.count_or("n_positions", 0);
  a.relative_buckets = config.count_or("relative_attention_num_buckets", kDefaultBuckets);
  const auto projection = config.find("feed_forward_proj");
  a.gated_mlp = projection ? projection->text().starts_with("gated-") : !first_version;
  const auto dropout = config.find("dropout_rate");
  a.hidden_dropout = (dropout ? dropout->number(1) : kDefaultDropout) > 0;
  a.tied_embeddings = config.flag("tie_word_embeddings", first_version);
  return a;
}

}  // namespace

model::EncoderDecoder read_t5(const Config& config, const std::string& type,
                              const std::string& name) {
  model::EncoderDecoder model;
  model.name = name;
  model.family = type;
  model.encoder = read_stack(config, type, name);
  model.encoder.layers = config.count("num_layers", kMostLayers);
  model.encoder.causal = false;
  model.decoder = read_stack(config, type, name);
  model.decoder.layers = config.find("num_decoder_layers")
                             ? config.count("num_decoder_layers", kMostLayers)
                             : model.encoder.layers;
  model.decoder.cross_width = model.encoder.hidden;
  return model;
}

}  // namespace nestplan::io
