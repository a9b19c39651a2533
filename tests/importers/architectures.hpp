#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "importers/samples.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/io/huggingface.hpp"

namespace nestplan::importers::test {

/// The architectures of tests/importers/torch_models.py.
inline model::Model architecture(const nlohmann::json& config) {
  return io::parse_model(config.dump(), "config.json");
}

inline model::Model gpt() {
  return architecture({{"model_type", "gpt2"},
                       {"n_embd", 16},
                       {"n_layer", 2},
                       {"n_head", 4},
                       {"n_positions", 8},
                       {"vocab_size", 96},
                       {"resid_pdrop", 0.0},
                       {"embd_pdrop", 0.0},
                       {"attn_pdrop", 0.0}});
}

inline nlohmann::json llama_config() {
  return {{"model_type", "llama"},        {"hidden_size", 16},
          {"num_hidden_layers", 2},       {"num_attention_heads", 4},
          {"num_key_value_heads", 2},     {"intermediate_size", 48},
          {"max_position_embeddings", 8}, {"vocab_size", 96},
          {"hidden_act", "silu"},         {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false}};
}

inline model::Model llama() { return architecture(llama_config()); }

inline model::Model mixtral() {
  nlohmann::json config = llama_config();
  config["model_type"] = "mixtral";
  config["num_local_experts"] = 4;
  config["num_experts_per_tok"] = 2;
  config["sliding_window"] = nullptr;
  return architecture(config);
}

inline model::Model t5() {
  return architecture({{"model_type", "t5"},
                       {"d_model", 16},
                       {"d_kv", 4},
                       {"num_heads", 4},
                       {"d_ff", 48},
                       {"num_layers", 2},
                       {"vocab_size", 96},
                       {"feed_forward_proj", "gated-gelu"},
                       {"dropout_rate", 0.0},
                       {"tie_word_embeddings", false}});
}

inline model::Graph profiled(const model::Model& model, std::vector<std::int64_t> tp = {1, 2}) {
  cost::ProfileOptions options;
  options.sequence = 8;
  options.tp = std::move(tp);
  options.micro_batches = {1, 2};
  options.sequence_parallel = false;
  options.vocabulary_multiple = 1;
  return cost::build_graph(model, device(), options);
}

/// Column of the strategy `id` in a profiled graph.
inline std::size_t column_of(const std::string& id, const model::Graph& profiled) {
  const auto& known = profiled.strategies;
  const auto found = std::find_if(known.begin(), known.end(),
                                  [&](const auto& strategy) { return strategy.id == id; });
  EXPECT_NE(found, known.end()) << id;
  return static_cast<std::size_t>(found - known.begin());
}

}  // namespace nestplan::importers::test
