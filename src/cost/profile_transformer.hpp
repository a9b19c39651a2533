#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost/profile_attention.hpp"
#include "cost/profile_draft.hpp"
#include "cost/profile_kernels.hpp"
#include "cost/profile_moe.hpp"

namespace nestplan::cost {

/// Draws the parts of transformers into a draft.
///
/// A block is one layer; its blocks, at that granularity, are the residual branches: attention,
/// attention to other states, and MLP, each with its norms and its sum. Where branches share their
/// input and their sum (parallel blocks) they stay together. The operators of a branch:
///
///   attention_norm, qkv (with norms and rotation of queries and keys), attention, attention_out,
///   attention_output_norm, attention_add
///   cross_norm, cross_qkv (also of the other states), cross_attention, cross_out, cross_add
///   mlp_norm, mlp_in (gate and up are one product), mlp_act, mlp_out, mlp_output_norm, mlp_add
///
/// Latent attention has a qkv_down in front of qkv, which then consists of the products out of the
/// narrow states; experts take the place of mlp_in, mlp_act and mlp_out: see profile_moe.hpp.
///
/// A block with modulation begins with the operator, and block, `modulation`, which every norm and
/// every sum reads.
///
/// in this order, with the skip edges from the input to the sums. Behind the sums are the norms of
/// a block with norms behind them. A parallel block has one sum, `add`, and one `norm` if its
/// branches share it.
class Transformer {
 public:
  Transformer(Draft& draft, const CostModel& costs, const Share& share)
      : draft_(draft), costs_(costs), s_(share), bytes_(costs.precision().activation_bytes) {}

  /// The lookup in the token table, and the states of `merged` put in place of some tokens.
  Tensor embedding(const std::string& layer, const std::vector<Tensor>& merged = {});

  /// States that the cross-attention of a block reads.
  struct Memory {
    Tensor states;
    const Share& share;  ///< its `tokens` and `sequence` count the states
  };

  /// Block `index` of the stack; its operators' names begin with `prefix`.
  Tensor block(const std::string& layer, const std::string& prefix, std::int64_t index,
               const Tensor& input, const Memory* memory = nullptr);

  /// Adds to `op` the embedding of every sample's time and label, and a product that makes
  /// `vectors` vectors as wide as the hidden state of it. All devices of the group do the same.
  void condition(Op op, double vectors);

  /// Marks the embeddings in `op` as those that the first block holds.
  void share_conditioning(Op op);

  /// `op` reads what a sample is conditioned on, its time and its label, from the last operator
  /// that did, and hands it on.
  void hand_on_labels(Op op);

  /// A norm that is a layer of its own.
  Tensor norm(const std::string& layer, const Tensor& input);

  /// A module of multi-token prediction behind `state`; its block is block `index` of the stack.
  /// Returns the state that the output layer takes.
  ///
  /// It looks the next tokens up in a copy of the token table, norms their embeddings and the
  /// state, projects both side by side to the hidden size, and goes through a block and a norm
  /// (MultiTokenPredictionLayer in megatron/core/transformer/multi_token_prediction.py of
  /// NVIDIA/Megatron-LM). At the granularity of blocks it falls into `input`, those of the block,
  /// and `output`; its operators are token_embedding, embedding_norm, state_norm, projection, those
  /// of the block, and norm.
  Tensor prediction(const std::string& layer, std::int64_t index, const Tensor& state);

  /// Final norm, output layer and loss. Output layer and loss run once more on each of
  /// `predictions`.
  void head(const std::string& layer, const Tensor& input,
            const std::vector<Tensor>& predictions = {});

  /// The hidden state, as it leaves `op`.
  Tensor hidden_state(Op op) const { return {op, s_.rows() * bytes_}; }

 private:
  /// A branch around which the hidden state is carried: what is summed onto it is
  /// exit(core(entry(x))), with norms in front of the entry and behind the exit.
  struct Branch {
    std::optional<Op> down;            ///< product into the narrow states of latent attention
    std::optional<ExpertOps> experts;  ///< in place of entry, core and exit
    Op entry;                          ///< column-parallel product
    Op core;                           ///< attention or activation function
    Op exit;                           ///< row-parallel product
    Op norm;
    Op output_norm;
    Op sum;
    double entry_width = 0;  ///< elements per token, from entry to core
    double core_width = 0;   ///< from core to exit
  };

  Branch branch(const std::string& layer, const std::string& prefix, const std::string& kind,
                std::int64_t index);
  std::vector<Branch> branches(const std::string& layer, const std::string& prefix,
                               std::int64_t index);

  void time_norms(const std::vector<Branch>& branches);
  void draw_attention(const Branch& branch, std::int64_t index);
  void time_latent_states(const Branch& branch);
  void keep_latent_states(const Branch& branch);
  void enter_latent_states(const Branch& branch);
  void draw_cross_attention(const Branch& branch, const Memory& memory);
  AttentionCore core_of(double keys) const;
  void time_mlp(const Branch& branch);
  void messages(const std::vector<Branch>& branches, const Memory* memory);
  void activations(const std::vector<Branch>& branches, const Memory* memory);
  void parameters(const std::vector<Branch>& branches, std::int64_t index);
  Tensor connect_parallel(const std::vector<Branch>& branches, const Tensor& input);
  Tensor connect(const Branch& branch, const Tensor& input);
  void connect_core(const Branch& branch, const Tensor& input);
  void look_up(Op op);
  void modulate(Op modulation, const std::vector<Branch>& branches);

  bool shared_norm() const { return s_.a.parallel_block && s_.a.input_norms == 1; }
  /// The hidden state of all tokens on every device.
  Tensor gathered_state(Op op) const { return {op, s_.tokens * s_.hidden() * bytes_}; }
  Timer timer(Op op) { return Timer(costs_, draft_.cost(op)); }
  Messages messages(Op op) { return Messages(s_, s_.hidden(), bytes_, draft_.cost(op)); }
  void keep(Op op, double elements) { draft_.cost(op).activation_bytes += bytes_ * elements; }
  /// The input of a product, which is kept as the product takes it (TransformerEngine's fp8
  /// layers, transformer_engine/pytorch/module/linear.py); if `recomputed`, for want of selective
  /// recomputation only.
  void keep_output(Op op, double elements, bool recomputed) {
    if (recomputed && s_.fused_attention) {
      draft_.keep_unless_selective(op, costs_.precision().operand_bytes * elements);
    } else {
      keep(op, elements);
    }
  }
  void hold(Op op, const model::ParameterCount& count) {
    draft_.cost(op).parameters += s_.parameters(count);
    draft_.cost(op).table_parameters += static_cast<double>(count.vocab_rows) * s_.vocab();
  }

  std::optional<Tensor> labels_;
  Draft& draft_;
  const CostModel& costs_;
  const Share& s_;
  double bytes_;
};

}  // namespace nestplan::cost
