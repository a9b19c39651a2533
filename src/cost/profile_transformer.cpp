#include "cost/profile_transformer.hpp"

#include <utility>

namespace nestplan::cost {

/// Keeps the token ids, the input of its norm and a dropout mask. The lookup writes all tokens on
/// every device of the group (rows of other shards as zeros); its gradient adds into fp32 rows.
Tensor Transformer::embedding(const std::string& layer, const std::vector<Tensor>& merged) {
  const Op op = draft_.add(layer, "", "");
  const double elements = s_.tokens * s_.hidden();
  Timer time = timer(op);
  time.memory(2 * bytes_ * elements, (bytes_ + 2 * kFp32) * elements);
  const int tables = (s_.a.learned_positions > 0 ? 1 : 0) + (s_.a.token_types > 0 ? 1 : 0);
  for (int i = 0; i < tables; ++i) time.residual(s_.rows());
  if (s_.a.embedding_norm) time.norm(s_.rows());
  for (const Tensor& states : merged) {
    time.memory(2 * states.bytes, 2 * states.bytes);
    draft_.connect(states, op);
  }
  messages(op).leave();
  model::LayerCost& cost = draft_.cost(op);
  cost.checkpoint_bytes = kTokenIdBytes * s_.tokens;
  cost.activation_bytes = cost.checkpoint_bytes + (s_.a.embedding_norm ? s_.rows() * bytes_ : 0) +
                          (s_.a.hidden_dropout ? s_.rows() : 0);
  hold(op, embedding_parameters(s_.a));
  return hidden_state(op);
}

Tensor Transformer::block(const std::string& layer, const std::string& prefix, std::int64_t index,
                          const Tensor& input, const Memory* memory) {
  const std::vector<Branch> all = branches(layer, prefix);
  time_norms(all);
  time_attention(all.front(), index);
  if (memory != nullptr) time_cross_attention(all[1], *memory);
  time_mlp(all.back());
  for (const Branch& each : all) timer(each.sum).residual(s_.rows());
  messages(all, memory);
  activations(all, memory);
  parameters(all, index);
  if (memory != nullptr) draft_.connect(memory->states, all[1].entry);
  if (s_.a.parallel_block) return connect_parallel(all, input);
  Tensor state = input;
  for (const Branch& each : all) state = connect(each, state);
  return state;
}

Transformer::Branch Transformer::branch(const std::string& layer, const std::string& prefix,
                                        const std::string& kind) {
  const bool mlp = kind == "mlp";
  const std::string block = s_.a.parallel_block ? "" : prefix + kind;
  const auto op = [&](const std::string& name) { return draft_.add(layer, block, prefix + name); };
  Branch b;
  const bool own_norm = !shared_norm();
  if (own_norm && !s_.a.post_norm) b.norm = op(kind + "_norm");
  b.entry = op(mlp ? "mlp_in" : kind == "attention" ? "qkv" : "cross_qkv");
  b.core = op(mlp ? "mlp_act" : kind == "attention" ? "attention" : "cross_attention");
  b.exit = op(kind + "_out");
  if (s_.a.output_norms > 0) b.output_norm = op(kind + "_output_norm");
  if (!s_.a.parallel_block) b.sum = op(kind + "_add");
  if (own_norm && s_.a.post_norm) b.norm = op(kind + "_norm");
  b.entry_width = mlp ? s_.mlp_in() : kind == "attention" ? s_.qkv() : s_.query() + s_.key_value();
  b.core_width = mlp ? s_.ffn() : s_.query();
  return b;
}

std::vector<Transformer::Branch> Transformer::branches(const std::string& layer,
                                                       const std::string& prefix) {
  Op norm;
  if (shared_norm()) norm = draft_.add(layer, "", prefix + "norm");
  std::vector<Branch> all{branch(layer, prefix, "attention")};
  if (s_.a.cross_width > 0) all.push_back(branch(layer, prefix, "cross"));
  all.push_back(branch(layer, prefix, "mlp"));
  if (s_.a.parallel_block) {
    const Op sum = draft_.add(layer, "", prefix + "add");
    for (Branch& each : all) each.sum = sum;
  }
  if (shared_norm()) {
    for (Branch& each : all) each.norm = norm;
  }
  return all;
}

void Transformer::time_norms(const std::vector<Branch>& branches) {
  for (const Branch& each : branches) {
    timer(each.norm).norm(s_.rows());
    if (shared_norm()) break;
  }
  if (s_.a.output_norms == 0) return;
  for (const Branch& each : branches) timer(each.output_norm).norm(s_.rows());
}

/// Unmasked windows are sequences of their own.
void Transformer::time_attention(const Branch& b, std::int64_t index) {
  Timer entry = timer(b.entry);
  entry.linear(s_.tokens, s_.hidden(), s_.qkv());
  if (s_.a.qk_norm) entry.norm(s_.tokens * s_.query_and_key());
  if (s_.a.rotary) entry.activation(s_.tokens * s_.query_and_key(), 0);
  const double pairs = attention_pairs(s_.a, s_.sequence, index);
  const double windows =
      s_.a.causal || s_.a.window(index) == 0 ? 1 : s_.sequence * s_.sequence / pairs;
  timer(b.core).attention({s_.sequences * windows, s_.sequence / windows, s_.heads(), s_.kv_heads(),
                           static_cast<double>(s_.a.head_dim), pairs / windows});
  timer(b.exit).linear(s_.tokens, s_.query(), s_.hidden());
}

void Transformer::time_cross_attention(const Branch& b, const Memory& memory) {
  Timer entry = timer(b.entry);
  entry.linear(s_.tokens, s_.hidden(), s_.query());
  entry.linear(memory.share.tokens, static_cast<double>(s_.a.cross_width), s_.key_value());
  Attention core{s_.sequences,
                 s_.sequence,
                 s_.heads(),
                 s_.kv_heads(),
                 static_cast<double>(s_.a.head_dim),
                 s_.sequence * memory.share.sequence};
  core.kv_tokens = memory.share.sequence;
  timer(b.core).attention(core);
  timer(b.exit).linear(s_.tokens, s_.query(), s_.hidden());
}

void Transformer::time_mlp(const Branch& b) {
  timer(b.entry).linear(s_.tokens, s_.hidden(), s_.mlp_in());
  timer(b.core).activation(s_.tokens * s_.mlp_in(), s_.tokens * s_.ffn());
  timer(b.exit).linear(s_.tokens, s_.ffn(), s_.hidden());
}

/// A state that two branches share is gathered once, behind the norm, and so is the sum of what
/// parallel branches put out reduced once. The states that cross-attention reads are gathered too.
void Transformer::messages(const std::vector<Branch>& branches, const Memory* memory) {
  for (const Branch& each : branches) {
    messages(shared_norm() ? each.norm : each.entry).enter();
    if (shared_norm()) break;
  }
  if (memory != nullptr) {
    Messages(memory->share, static_cast<double>(s_.a.cross_width), bytes_,
             draft_.cost(branches[1].entry))
        .enter();
  }
  for (const Branch& each : branches) {
    messages(s_.a.parallel_block ? each.sum : each.exit).leave();
    if (s_.a.parallel_block) break;
  }
}

/// What a block keeps for its backward pass, per device, each tensor at an operator that reads it.
/// `rows` = row_tokens·hidden elements.
///
///   tensor                                      elements                    bytes each
///   inputs of the norms (one if the block       rows a branch or rows       activation
///     is parallel)
///   outputs of the norms, inputs of QKV         input_norms·rows            activation
///     and of the MLP
///   inputs of the output norms                  output_norms·rows           activation
///   Q, K, V                                     tokens·qkv                  activation
///   Q, K in front of their norms                tokens·(query + key)        activation
///   attention output                            tokens·query                activation
///   log-sum-exp of the attention rows           tokens·heads                4
///   MLP: input of the activation function       tokens·mlp_in               activation
///   MLP: its output                             tokens·ffn                  activation
///   dropout masks behind attention and MLP      2·rows                      1
///   cross-attention: its norm's input and       2·rows                      activation
///     output
///   the states that it reads                    state row_tokens·width      activation
///   Q, and K and V of those states              tokens·query + state        activation
///                                               tokens·(key + value)
///   output, log-sum-exp, mask                   as above
///
/// For a GPT block this is s·b·h·34/tp (Korthikanti et al., arXiv 2205.05198, table 2, without the
/// attention matrices that fused attention does not keep), 32 without dropout, and the log-sum-exp
/// on top. Left out: row statistics of the norms, 4 to 8 bytes per token.
void Transformer::activations(const std::vector<Branch>& branches, const Memory* memory) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Branch& each = branches[i];
    const bool mlp = i + 1 == branches.size();
    const bool cross = i == 1 && memory != nullptr;
    if (i == 0 || !s_.a.parallel_block) keep(each.norm, s_.rows());
    if (i == 0 || !shared_norm()) keep(each.entry, s_.rows());
    if (s_.a.output_norms > 0) keep(each.output_norm, s_.rows());
    if (cross) {
      keep(each.entry, memory->share.row_tokens * static_cast<double>(s_.a.cross_width));
      keep(each.core, s_.tokens * s_.query() + memory->share.tokens * s_.key_value());
    } else {
      keep(each.core, s_.tokens * each.entry_width);
    }
    if (!mlp) draft_.cost(each.core).activation_bytes += kFp32 * s_.heads() * s_.tokens;
    keep(each.exit, s_.tokens * each.core_width);
    if (s_.a.hidden_dropout) draft_.cost(each.sum).activation_bytes += s_.rows();
  }
  if (s_.a.qk_norm) keep(branches.front().entry, s_.tokens * s_.query_and_key());
}

void Transformer::parameters(const std::vector<Branch>& branches, std::int64_t index) {
  const model::BlockParameters block = operator_parameters(s_.a);
  for (const Branch& each : branches) {
    hold(each.norm, block.norm);
    if (shared_norm()) break;
  }
  if (s_.a.output_norms > 0) {
    for (const Branch& each : branches) hold(each.output_norm, block.norm);
  }
  hold(branches.front().entry, block.qkv);
  hold(branches.front().exit, block.attention_out);
  if (index == 0) hold(branches.front().core, relative_bias_parameters(s_.a));
  if (s_.a.cross_width > 0) {
    hold(branches[1].entry, block.cross_qkv);
    hold(branches[1].exit, block.cross_out);
  }
  hold(branches.back().entry, block.mlp_in);
  hold(branches.back().exit, block.mlp_out);
}

void Transformer::connect_core(const Branch& b) {
  draft_.connect({b.entry, s_.tokens * b.entry_width * bytes_}, b.core);
  draft_.connect({b.core, s_.tokens * b.core_width * bytes_}, b.exit);
}

Tensor Transformer::connect(const Branch& b, const Tensor& input) {
  Tensor state = input;
  if (!s_.a.post_norm) {
    draft_.connect(state, b.norm);
    state = hidden_state(b.norm);
  }
  draft_.connect(state, b.entry);
  connect_core(b);
  state = hidden_state(b.exit);
  if (s_.a.output_norms > 0) {
    draft_.connect(state, b.output_norm);
    state = hidden_state(b.output_norm);
  }
  draft_.connect(state, b.sum);
  draft_.connect(input, b.sum);
  if (!s_.a.post_norm) return hidden_state(b.sum);
  draft_.connect(hidden_state(b.sum), b.norm);
  return hidden_state(b.norm);
}

/// What the branches put out is not reduced before it is summed.
Tensor Transformer::connect_parallel(const std::vector<Branch>& branches, const Tensor& input) {
  for (const Branch& each : branches) {
    draft_.connect(input, each.norm);
    draft_.connect(shared_norm() ? gathered_state(each.norm) : hidden_state(each.norm), each.entry);
    connect_core(each);
    draft_.connect(gathered_state(each.exit), each.sum);
  }
  draft_.connect(input, branches.front().sum);
  return hidden_state(branches.front().sum);
}

Tensor Transformer::norm(const std::string& layer, const Tensor& input) {
  const Op op = draft_.add(layer, "", "");
  timer(op).norm(s_.rows());
  keep(op, s_.rows());
  draft_.cost(op).parameters += static_cast<double>(norm_parameters(s_.a));
  draft_.connect(input, op);
  return hidden_state(op);
}

/// Keeps the input of the final norm, the input of the output layer, and per logit the softmax in
/// fp32 (overwritten by its gradient) and one copy at activation width: the logits in forward,
/// their gradient in backward. The loss reads logits, writes and rereads the softmax (14 bytes per
/// logit at 16 bits), and its backward reads and writes them once.
///
/// The dense layer, activation function and norm of a masked language model are replicated over the
/// group and run on each device's own tokens; their inputs are kept.
void Transformer::head(const std::string& layer, const Tensor& input) {
  const model::HeadParameters counts = head_operator_parameters(s_.a);
  const double rows = s_.rows();
  const double logits = s_.tokens * s_.vocab();
  Tensor state = input;
  const auto follow = [&](const char* name) {
    const Op op = draft_.add(layer, "", name);
    draft_.connect(state, op);
    state = hidden_state(op);
    return op;
  };
  if (!s_.a.post_norm) {
    const Op norm = follow("norm");
    timer(norm).norm(rows);
    keep(norm, rows);
    hold(norm, counts.norm);
  }
  if (s_.a.mlm_transform) {
    const Op transform = follow("transform");
    Timer time = timer(transform);
    time.linear(s_.row_tokens, s_.hidden(), s_.hidden());
    time.activation(rows, rows);
    time.norm(rows);
    keep(transform, 3 * rows);
    hold(transform, counts.transform);
  }
  if (s_.a.pooler) {
    const Op pooler = draft_.add(layer, "", "pooler");
    timer(pooler).linear(s_.sequences, s_.hidden(), s_.hidden());
    hold(pooler, counts.pooler);
    draft_.connect({input.producer, s_.sequences * s_.hidden() * bytes_}, pooler);
  }
  const Op output = follow("output");
  timer(output).linear(s_.tokens, s_.hidden(), s_.vocab());
  keep(output, rows);
  hold(output, counts.output);
  const Op loss = draft_.add(layer, "", "loss");
  timer(loss).memory((bytes_ + 3 * kFp32) * logits, (bytes_ + kFp32) * logits);
  draft_.cost(loss).activation_bytes += (kFp32 + bytes_) * logits;
  draft_.connect({output, logits * bytes_}, loss);
  messages(output).enter();
  messages(loss).loss();
}

}  // namespace nestplan::cost
