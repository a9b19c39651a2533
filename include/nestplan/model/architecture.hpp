#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nestplan::model {

enum class NormKind : std::uint8_t {
  kLayerNorm,
  kRmsNorm,
  kPlain  ///< without learned weights
};

/// Which of a block's linear maps carry a bias vector.
struct Biases {
  bool qkv = false;
  bool key = true;  ///< false: of QKV, the keys have none (Whisper)
  bool attention_output = false;
  bool mlp = false;
  bool head = false;  ///< one per vocabulary entry, in the output layer
};

/// MLPs, the experts, of which a router picks a few for every token (Shazeer et al., arXiv
/// 1701.06538). They are shaped as the stack's plain MLPs are, with a width of their own.
struct MixtureOfExperts {
  std::int64_t experts = 0;     ///< routed ones of a block
  std::int64_t top_k = 0;       ///< of them that a token goes through
  std::int64_t expert_ffn = 0;  ///< width of each
  /// Width of the MLP beside them that all tokens go through, shared experts side by side (Dai et
  /// al., DeepSeekMoE, arXiv 2401.06066); 0: none.
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;  ///< what it puts out is weighted by a learned number per token
  bool router_bias = false;  ///< of the router's logits
  bool expert_bias = false;  ///< of both products of every routed expert
  std::vector<std::int64_t> dense_blocks;  ///< ascending; have a plain MLP instead
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values, and queries if
/// `query_rank` says so, pass through a narrow state with a norm; the position is a part of its
/// own of queries and keys, and that of the keys is shared by all heads.
struct LatentAttention {
  std::int64_t query_rank = 0;   ///< width of the queries' narrow state; 0: straight from the input
  std::int64_t kv_rank = 0;      ///< width of that of keys and values
  std::int64_t content_dim = 0;  ///< of a query's or key's head, without position
  std::int64_t position_dim = 0;  ///< of a query's or key's head, rotated
  std::int64_t value_dim = 0;     ///< of a value's head

  /// What the products into the narrow states put out, side by side.
  std::int64_t down_width() const { return query_rank + kv_rank + position_dim; }
};

/// Shifts, scales and gates of a block's attention and MLP, which it works out from the sample's
/// time and label (adaLN-Zero of DiT, arXiv 2212.09748, section 3.2). Every block embeds time and
/// label by itself (AdaLayerNormZero in src/diffusers/models/normalization.py of
/// huggingface/diffusers).
struct Modulation {
  std::int64_t frequencies = 0;  ///< width of the sinusoids of the time
  std::int64_t labels = 0;       ///< rows of the table of labels
};

/// A transformer: decoder-only, encoder-only with a masked language model head, or one stack of a
/// larger model. Its blocks are equal, but for windows and for those that have experts. Widths are
/// counts of elements; nothing here depends on how the model is split.
struct Architecture {
  std::string name;
  std::string family;  ///< Hugging Face `model_type`

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< divides `heads`
  std::int64_t head_dim = 0;  ///< of queries and keys; and of values, but for latent attention
  std::int64_t ffn = 0;       ///< of plain MLPs
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;  ///< 0: not given

  bool causal = true;           ///< false: every token attends to every token
  bool gated_mlp = false;       ///< act(gate)·up, two matrices into the MLP
  bool parallel_block = false;  ///< attention and MLP read the same input and are summed once
  bool post_norm = false;       ///< norms follow the residual sum and there is no final one (BERT)
  bool rotary = false;
  bool qk_norm = false;  ///< a norm over `head_dim`, shared by the heads, on queries and on keys
  bool sinks = false;    ///< a learned number per head takes part in the softmax (gpt-oss)
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

  std::optional<MixtureOfExperts> moe;
  std::optional<Modulation> modulation;
  std::optional<LatentAttention> latent;  ///< then `kv_heads` is `heads`

  /// Modules behind the last block, each of which predicts one token further ahead (multi-token
  /// prediction of DeepSeek-V3, arXiv 2412.19437, section 2.2): a product of state and embedding of
  /// the next token, one more block, and the output layer. They share token table and output layer
  /// with the model.
  std::int64_t mtp_layers = 0;

  /// Per block, the tokens a query may look back at or, where nothing is masked, the size of the
  /// windows that the sequence is cut into; 0: all. Empty: all, in every block.
  std::vector<std::int64_t> windows;

  /// Blocks from `layers` on are those of `mtp_layers`; they are like the last.
  std::int64_t window(std::int64_t layer) const {
    return windows.empty() ? 0 : windows[static_cast<std::size_t>(std::min(layer, layers - 1))];
  }
  /// Whether block `layer` has experts.
  bool routed(std::int64_t layer) const {
    return moe && !std::binary_search(moe->dense_blocks.begin(), moe->dense_blocks.end(),
                                      std::min(layer, layers - 1));
  }
  /// Whether any block has a plain MLP.
  bool has_plain_mlp() const { return !moe || !moe->dense_blocks.empty(); }
  std::int64_t value_dim() const { return latent ? latent->value_dim : head_dim; }
  std::int64_t query_width() const { return heads * head_dim; }
  std::int64_t kv_width() const { return kv_heads * head_dim; }  ///< of the keys
  std::int64_t value_width() const { return kv_heads * value_dim(); }
  /// What attention puts out.
  std::int64_t attention_width() const { return heads * value_dim(); }
  /// What attention reads.
  std::int64_t qkv_width() const { return query_width() + kv_width() + value_width(); }
  /// Width of the first product of an MLP of width `width`: gate and up side by side if gated.
  std::int64_t mlp_in_width(std::int64_t width) const { return gated_mlp ? 2 * width : width; }
  std::int64_t mlp_in_width() const { return mlp_in_width(ffn); }
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
  ParameterCount modulation;
  ParameterCount norm;  ///< of each of its norms over the hidden state
  ParameterCount down;  ///< of latent attention: into the narrow states, with their norms
  ParameterCount qkv;   ///< with the norms of queries and keys; behind `down`, if there is one
  ParameterCount attention_out;
  ParameterCount cross_qkv;
  ParameterCount cross_out;
  ParameterCount mlp_in;
  ParameterCount mlp_out;
  ParameterCount router;  ///< with the gate of the shared MLP
  ParameterCount shared_in;
  ParameterCount shared_out;
  /// All routed experts. What is split, expert and tensor parallelism inside of experts divide;
  /// what is replicated, expert parallelism alone.
  ParameterCount expert_in;
  ParameterCount expert_out;
};

/// Token, position and token type tables, with their norm.
ParameterCount embedding_parameters(const Architecture& architecture);

/// Block `layer`, without its routed experts. Column-parallel biases (QKV, first MLP product) are
/// split; the biases of the output projections, and all norms, are replicated, as in Megatron-LM.
/// So are the router and the products into the narrow states of latent attention.
ParameterCount block_parameters(const Architecture& architecture, std::int64_t layer = 0);
BlockParameters operator_parameters(const Architecture& architecture, std::int64_t layer = 0);

/// Of the embeddings of time and label, in every block with modulation.
std::int64_t conditioning_parameters(const Architecture& architecture);

/// Of all routed experts of block `layer`; 0 if it has none.
std::int64_t expert_parameters(const Architecture& architecture, std::int64_t layer);

/// One module of multi-token prediction, beside its block.
struct MtpParameters {
  ParameterCount norm;        ///< of each of three: of state, of embedding, in front of the output
  ParameterCount projection;  ///< of state and embedding side by side
};
MtpParameters mtp_operator_parameters(const Architecture& architecture);

/// All modules of multi-token prediction, without what they share with the model.
std::int64_t mtp_parameters(const Architecture& architecture);

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

/// Distinct parameters of the whole model, as published: tied weights once, vocabulary unpadded,
/// without modules of multi-token prediction.
std::int64_t total_parameters(const Architecture& architecture);
std::int64_t total_parameters(const EncoderDecoder& model);
std::int64_t total_parameters(const Multimodal& model);

/// Of `total_parameters`, those that take part in one token: `top_k` routed experts a block.
std::int64_t active_parameters(const Architecture& architecture);

/// What stands in front of a tower's blocks, and behind them.
std::int64_t stem_parameters(const Tower& tower);
std::int64_t projector_parameters(const Tower& tower);
std::int64_t total_parameters(const Tower& tower);

}  // namespace nestplan::model
