#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nestplan::model {

enum class NormKind : std::uint8_t { kLayerNorm, kRmsNorm };

/// Which of a block's linear maps carry a bias vector.
struct Biases {
  bool qkv = false;
  bool key = true;  ///< false: of QKV, the keys have none (Whisper)
  bool attention_output = false;
  bool mlp = false;
  bool head = false;  ///< one per vocabulary entry, in the output layer
};

/// A dense transformer with equal blocks: decoder-only, encoder-only with a masked language model
/// head, or one stack of a larger model. Widths are counts of elements; nothing here depends on how
/// the model is split.
struct Architecture {
  std::string name;
  std::string family;  ///< Hugging Face `model_type`

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides `heads`
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  ///< 0: not given

  bool causal = true;           ///< false: every token attends to every token
  bool gated_mlp = false;       ///< act(gate)·up, two matrices into the MLP
  bool parallel_block = false;  ///< attention and MLP read the same input and are summed once
  bool post_norm = false;       ///< norms follow the residual sum and there is no final one (BERT)
  bool rotary = false;
  bool qk_norm = false;  ///< a norm over `head_dim`, shared by the heads, on queries and on keys
  NormKind norm = NormKind::kLayerNorm;
  int input_norms = 2;   ///< per block: in front of attention and MLP, or one that both share
  int output_norms = 0;  ///< per block: behind attention and MLP, in front of the residual sum
  Biases bias;
  bool hidden_dropout = false;  ///< dropout behind attention, MLP and embedding

  /// Width of the states that a second attention of every block reads, between self-attention and
  /// MLP and with a norm of its own; 0: there is none.
  std::int64_t cross_width = 0;
  /// Rows of a table of relative position biases, one column per head, which the first block holds
  /// for all (T5); 0: none.
  std::int64_t relative_buckets = 0;

  std::int64_t learned_positions = 0;  ///< rows of the position table; 0: none
  std::int64_t token_types = 0;        ///< rows of the token type table; 0: none
  bool embedding_norm = false;
  bool tied_embeddings = false;  ///< the output layer is the token table
  bool mlm_transform = false;    ///< dense + activation + norm in front of the output layer
  bool pooler = false;           ///< dense on the first token, with a two-way classifier

  /// Per block, the tokens a query may look back at or, where nothing is masked, the size of the
  /// windows that the sequence is cut into; 0: all. Empty: all, in every block.
  std::vector<std::int64_t> windows;

  std::int64_t window(std::int64_t layer) const {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(layer)];
  }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }
  std::int64_t qkv_width() const { return query_width() + 2 * kv_width(); }
  /// Width of the MLP's first product: gate and up side by side if gated.
  std::int64_t mlp_in_width() const { return gated_mlp ? 2 * ffn : ffn; }
};

/// An encoder and a decoder that attends to what the encoder put out (T5).
struct EncoderDecoder {
  std::string name;
  std::string family;
  Architecture encoder;
  Architecture decoder;  ///< `cross_width` is the encoder's hidden size
};

/// A matrix product in front of a tower's blocks or behind them.
struct Projection {
  std::int64_t rows = 1;    ///< per token of the tower, as a fraction: `rows` for every `tokens`
  std::int64_t tokens = 1;  ///< see `rows`
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kept = 0;  ///< elements of its input per row; less than `in` where kernels overlap
  bool bias = true;
  bool activation = false;  ///< followed by an activation function
};

/// An encoder of images or sound whose outputs stand among the tokens of a language model.
struct Tower {
  std::string id;           ///< "vision", "audio"
  Architecture blocks;      ///< without vocabulary
  std::int64_t tokens = 0;  ///< per sample, unless told otherwise
  std::vector<Projection> stem;
  bool positions = false;  ///< a table is added behind the stem; sinusoids, not parameters
  std::int64_t merge = 1;  ///< tokens that become one of the language model
  bool averaged = false;   ///< they are averaged in front of the last norm; else concatenated
  std::vector<Projection> projector;  ///< behind the last norm
  std::int64_t markers = 0;  ///< learned vectors that mark start and end, as wide as the output
};

/// A language model with towers side by side in front of it.
struct Multimodal {
  std::string name;
  std::string family;
  std::vector<Tower> towers;
  Architecture text;
};

/// Parameters of one layer by how tensor parallelism treats them.
struct ParameterCount {
  std::int64_t split = 0;       ///< each device of the group holds its share
  std::int64_t replicated = 0;  ///< each device holds all of them
  std::int64_t vocab_rows = 0;  ///< width of one row of a table that is split along the vocabulary

  /// Per device of a group of `tp`, with a vocabulary of `padded_vocab` entries.
  double per_device(std::int64_t tp, std::int64_t padded_vocab) const {
    return static_cast<double>(split) / static_cast<double>(tp) +
           static_cast<double>(vocab_rows) * static_cast<double>(padded_vocab) /
               static_cast<double>(tp) +
           static_cast<double>(replicated);
  }
  std::int64_t total(std::int64_t vocab) const { return split + replicated + vocab_rows * vocab; }

  friend ParameterCount operator+(const ParameterCount& a, const ParameterCount& b) {
    return {a.split + b.split, a.replicated + b.replicated, a.vocab_rows + b.vocab_rows};
  }
};

/// Parameters of one block, operator by operator.
struct BlockParameters {
  ParameterCount norm;  ///< of each of its norms over the hidden state
  ParameterCount qkv;   ///< with the norms of queries and keys
  ParameterCount attention_out;
  ParameterCount cross_qkv;
  ParameterCount cross_out;
  ParameterCount mlp_in;
  ParameterCount mlp_out;
};

/// Token, position and token type tables, with their norm.
ParameterCount embedding_parameters(const Architecture& architecture);

/// One block. Column-parallel biases (QKV, first MLP product) are split; the biases of the output
/// projections, and all norms, are replicated, as in Megatron-LM.
ParameterCount block_parameters(const Architecture& architecture);
BlockParameters operator_parameters(const Architecture& architecture);

/// The table that the first block holds for all.
ParameterCount relative_bias_parameters(const Architecture& architecture);

/// Parameters of a norm over the hidden state.
std::int64_t norm_parameters(const Architecture& architecture);

/// The parts of the head: see `head_parameters`.
struct HeadParameters {
  ParameterCount norm;
  ParameterCount transform;
  ParameterCount pooler;
  ParameterCount output;
};
HeadParameters head_operator_parameters(const Architecture& architecture);

/// Final norm and output layer, and what an encoder has in front of it. A tied output layer is
/// counted like an untied one: see `cost::build_graph`.
ParameterCount head_parameters(const Architecture& architecture);

/// Distinct parameters of the whole model, as published: tied weights once, vocabulary unpadded.
std::int64_t total_parameters(const Architecture& architecture);
std::int64_t total_parameters(const EncoderDecoder& model);
std::int64_t total_parameters(const Multimodal& model);

/// What stands in front of a tower's blocks, and behind them.
std::int64_t stem_parameters(const Tower& tower);
std::int64_t projector_parameters(const Tower& tower);
std::int64_t total_parameters(const Tower& tower);

}  // namespace nestplan::model
