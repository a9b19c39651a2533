#include "cost/profile_transformer.hpp"

#include <utility>

namespace nestplan::cost {
namespace {

constexpr const char* kTokenTable = "tokens";
constexpr const char* kOutputTable = "output";
constexpr const char* kConditioning = "conditioning";

}  // namespace

/// Keeps the token ids, the input of its norm and a dropout mask, also with full recomputation,
/// which is of blocks (Korthikanti et al., arXiv 2205.05198, section 4.3). The lookup writes all
/// tokens on every device of the group (rows of other shards as zeros); its gradient adds into fp32
/// rows.
Tensor Transformer::embedding(const std::string& layer, const std::vector<Tensor>& merged) {
  const Op op = draft_.add(layer, "", "");
  Timer time = timer(op);
  look_up(op);
  const int tables = (s_.a.learned_positions > 0 ? 1 : 0) + (s_.a.token_types > 0 ? 1 : 0);
  for (int i = 0; i < tables; ++i) time.residual(s_.rows());
  if (s_.a.embedding_norm) time.norm(s_.rows());
  for (const Tensor& states : merged) {
    time.memory(2 * states.bytes, 2 * states.bytes);
    draft_.connect(states, op);
  }
  messages(op).leave();
  draft_.cost(op).activation_bytes +=
      (s_.a.embedding_norm ? s_.rows() * bytes_ : 0) + (s_.a.hidden_dropout ? s_.rows() : 0);
  draft_.cost(op).checkpoint_bytes = draft_.cost(op).activation_bytes;
  hold(op, embedding_parameters(s_.a));
  return hidden_state(op);
}

/// Times of a look-up in the token table, which `op` holds, and the token ids that it keeps.
void Transformer::look_up(Op op) {
  const double elements = s_.tokens * s_.hidden();
  timer(op).memory(2 * bytes_ * elements, (bytes_ + 2 * kFp32) * elements);
  const double ids = kTokenIdBytes * s_.tokens;
  draft_.cost(op).checkpoint_bytes += ids;
  draft_.cost(op).activation_bytes += ids;
  draft_.share(kTokenTable, op, s_.vocab() * s_.hidden());
}

Tensor Transformer::block(const std::string& layer, const std::string& prefix, std::int64_t index,
                          const Tensor& input, const Memory* memory) {
  std::optional<Op> modulation;
  if (s_.a.modulation) {
    modulation = draft_.add(layer, "modulation", prefix + "modulation");
    hand_on_labels(*modulation);
  }
  const std::vector<Branch> all = branches(layer, prefix, index);
  time_norms(all);
  draw_attention(all.front(), index);
  if (memory != nullptr) draw_cross_attention(all[1], *memory);
  if (!all.back().experts) time_mlp(all.back());
  for (const Branch& each : all) timer(each.sum).residual(s_.rows());
  messages(all, memory);
  activations(all, memory);
  parameters(all, index);
  if (modulation) {
    modulate(*modulation, all);
    if (index == 0) share_conditioning(*modulation);
  }
  if (memory != nullptr) draft_.connect(memory->states, all[1].entry);
  if (s_.a.parallel_block) return connect_parallel(all, input);
  Tensor state = input;
  for (const Branch& each : all) state = connect(each, state);
  if (const Branch& last = all.back(); last.experts) {
    const Op behind = s_.a.output_norms > 0 ? last.output_norm : last.sum;
    draw_experts(*last.experts, index, s_, costs_, draft_, hidden_state(last.norm), behind);
  }
  return state;
}

Transformer::Branch Transformer::branch(const std::string& layer, const std::string& prefix,
                                        const std::string& kind, std::int64_t index) {
  const bool mlp = kind == "mlp";
  const std::string block = s_.a.parallel_block ? "" : prefix + kind;
  const auto op = [&](const std::string& name) { return draft_.add(layer, block, prefix + name); };
  Branch b;
  const bool own_norm = !shared_norm();
  if (own_norm && !s_.a.post_norm) b.norm = op(kind + "_norm");
  if (mlp && s_.a.routed(index)) {
    b.experts = add_expert_ops(draft_, s_.a, layer, block, prefix);
  } else {
    if (kind == "attention" && s_.a.latent) b.down = op("qkv_down");
    b.entry = op(mlp ? "mlp_in" : kind == "attention" ? "qkv" : "cross_qkv");
    b.core = op(mlp ? "mlp_act" : kind == "attention" ? "attention" : "cross_attention");
    b.exit = op(kind + "_out");
  }
  if (s_.a.output_norms > 0) b.output_norm = op(kind + "_output_norm");
  if (!s_.a.parallel_block) b.sum = op(kind + "_add");
  if (own_norm && s_.a.post_norm) b.norm = op(kind + "_norm");
  b.entry_width = mlp ? s_.mlp_in() : kind == "attention" ? s_.qkv() : s_.query() + s_.key_value();
  b.core_width = mlp ? s_.ffn() : s_.attention();
  return b;
}

std::vector<Transformer::Branch> Transformer::branches(const std::string& layer,
                                                       const std::string& prefix,
                                                       std::int64_t index) {
  Op norm;
  if (shared_norm()) norm = draft_.add(layer, "", prefix + "norm");
  std::vector<Branch> all{branch(layer, prefix, "attention", index)};
  if (s_.a.cross_width > 0) all.push_back(branch(layer, prefix, "cross", index));
  all.push_back(branch(layer, prefix, "mlp", index));
  if (s_.a.parallel_block) {
    const Op sum = draft_.add(layer, "", prefix + "add");
    for (Branch& each : all) each.sum = sum;
  }
  if (shared_norm()) {
    for (Branch& each : all) each.norm = norm;
  }
  return all;
}

/// A norm behind the last sum feeds the next layer, which keeps what it gets.
void Transformer::time_norms(const std::vector<Branch>& branches) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const bool feeds_next = s_.a.post_norm && i + 1 == branches.size();
    timer(branches[i].norm).again_if(s_.fused_attention && !feeds_next).norm(s_.rows());
    if (shared_norm()) break;
  }
  if (s_.a.output_norms == 0) return;
  for (const Branch& each : branches) timer(each.output_norm).norm(s_.rows());
}

/// Unmasked windows are sequences of their own.
void Transformer::draw_attention(const Branch& b, std::int64_t index) {
  Timer entry = timer(b.entry);
  if (b.down) {
    time_latent_states(b);
  } else {
    entry.linear(s_.tokens, s_.hidden(), s_.qkv());
    if (s_.a.qk_norm) entry.norm(s_.tokens * s_.query_and_key());
    if (s_.a.rotary) entry.activation(s_.tokens * s_.query_and_key(), 0);
  }
  AttentionCore core = core_of(s_.sequence);
  core.pairs = attention_pairs(s_.a, s_.sequence, index);
  if (!s_.a.causal && s_.a.window(index) > 0) {
    core.windows = s_.sequence * s_.sequence / core.pairs;
  }
  draw_attention_core(core, s_, costs_, draft_, b.core);
  timer(b.exit).linear(s_.tokens, s_.attention(), s_.hidden());
}

void Transformer::draw_cross_attention(const Branch& b, const Memory& memory) {
  Timer entry = timer(b.entry);
  entry.linear(s_.tokens, s_.hidden(), s_.query());
  entry.linear(memory.share.tokens, static_cast<double>(s_.a.cross_width), s_.key_value());
  draw_attention_core(core_of(memory.share.sequence), s_, costs_, draft_, b.core);
  timer(b.exit).linear(s_.tokens, s_.query(), s_.hidden());
}

/// Every query attends to all keys.
AttentionCore Transformer::core_of(double keys) const {
  AttentionCore core;
  core.tokens = s_.sequence;
  core.keys = keys;
  core.pairs = s_.sequence * keys;
  core.heads = s_.heads();
  core.kv_heads = s_.kv_heads();
  core.key_dim = static_cast<double>(s_.a.head_dim);
  core.value_dim = static_cast<double>(s_.a.value_dim());
  return core;
}

void Transformer::time_mlp(const Branch& b) {
  timer(b.entry).linear(s_.tokens, s_.hidden(), s_.mlp_in());
  timer(b.core)
      .again_if(s_.fused_attention)
      .activation(s_.tokens * s_.mlp_in(), s_.tokens * s_.ffn());
  timer(b.exit).linear(s_.tokens, s_.ffn(), s_.hidden());
}

/// A state that two branches share is gathered once, behind the norm, and so is the sum of what
/// parallel branches put out reduced once. The states that cross-attention reads are gathered too.
void Transformer::messages(const std::vector<Branch>& branches, const Memory* memory) {
  for (const Branch& each : branches) {
    if (each.experts) continue;
    if (each.down) {
      enter_latent_states(each);
    } else {
      messages(shared_norm() ? each.norm : each.entry).enter();
    }
    if (shared_norm()) break;
  }
  if (memory != nullptr) {
    Messages(memory->share, static_cast<double>(s_.a.cross_width), bytes_,
             draft_.cost(branches[1].entry))
        .enter();
  }
  for (const Branch& each : branches) {
    if (each.experts) continue;
    messages(s_.a.parallel_block ? each.sum : each.exit).leave();
    if (s_.a.parallel_block) break;
  }
}

/// What a block keeps for its backward pass, per device, each tensor at an operator that reads it;
/// Q, K, V and what belongs to the scores are kept by `draw_attention_core`.
/// `rows` = row_tokens·hidden elements.
///
///   tensor                                      elements                    bytes each
///   inputs of the norms (one if the block       rows a branch or rows       activation
///     is parallel)
///   outputs of the norms, inputs of QKV         input_norms·rows            activation   *
///     and of the MLP
///   inputs of the output norms                  output_norms·rows           activation
///   Q, K, V                                     tokens·qkv                  activation   * if
///                                                                             latent
///   Q, K in front of their norms                tokens·(query + key)        activation
///   attention output                            tokens·query                activation
///   log-sum-exp of the attention rows           tokens·heads                4
///   MLP: input of the activation function       tokens·mlp_in               activation
///   MLP: its output                             tokens·ffn                  activation   *
///   dropout masks behind attention and MLP      2·rows                      1
///   cross-attention: its norm's input and       2·rows                      activation   *
///   (output)
///     output
///   the states that it reads                    state row_tokens·width      activation
///   Q, and K and V of those states              tokens·query + state        activation
///                                               tokens·(key + value)
///   output, log-sum-exp, mask                   as above
///   latent attention: its narrow states         row_tokens·down_width       activation
///   these behind their norms                    row_tokens·(query_rank +    activation   *
///                                               kv_rank)
///   experts                                     see profile_moe.hpp
///   what branches put out that a gate weighs    rows a branch               activation
///
/// For a GPT block this is s·b·h·34/tp (Korthikanti et al., arXiv 2205.05198, table 2, without the
/// attention matrices that fused attention does not keep): 24 of it inside of attention and MLP (Q,
/// K, V 6, attention output 2, MLP 8 + 8), 10 outside (inputs and outputs of the norms 8, masks 2),
/// which without sequence parallelism every device holds. The log-sum-exp comes on top; without
/// dropout it is 32. Left out: row statistics of the norms, 4 to 8 bytes per token.
///
/// With fused attention selective recomputation drops what is marked *: outputs of norms and
/// activation functions, which come back from what is kept, and of latent attention the wide
/// queries, keys and values, which come back from the narrow states. These are the modules
/// layernorm, moe_act and mla_up_proj of recompute_modules in NVIDIA/Megatron-LM (which has none
/// for the activation function of a plain MLP; megatron/core/transformer/transformer_config.py),
/// and, but for latent attention, what is not on the list of products and attention to save in
/// pytorch/torchtitan (torchtitan/distributed/activation_checkpoint.py). A norm behind the sum of
/// the block before is not its own to run again. Without fusion the scores go instead, as they do
/// in that paper (module core_attn).
void Transformer::activations(const std::vector<Branch>& branches, const Memory* memory) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const Branch& each = branches[i];
    const bool mlp = i + 1 == branches.size();
    const bool own_norm = !s_.a.post_norm || i > 0;
    if (i == 0 || !s_.a.parallel_block) keep(each.norm, s_.rows());
    if (s_.a.output_norms > 0) keep(each.output_norm, s_.rows());
    if (each.experts) continue;
    const Op reader = each.down.value_or(each.entry);
    if (i == 0 || !shared_norm()) keep_output(reader, s_.rows(), own_norm);
    if (each.down) keep_latent_states(each);
    if (i == 1 && memory != nullptr) {
      keep(each.entry, memory->share.row_tokens * static_cast<double>(s_.a.cross_width));
    }
    if (mlp) keep(each.core, s_.tokens * each.entry_width);
    keep_output(each.exit, s_.tokens * each.core_width, mlp);
    if (s_.a.hidden_dropout) draft_.cost(each.sum).activation_bytes += s_.rows();
    if (s_.a.modulation) keep(each.sum, s_.rows());
  }
  if (s_.a.qk_norm) keep(branches.front().entry, s_.tokens * s_.query_and_key());
}

void Transformer::parameters(const std::vector<Branch>& branches, std::int64_t index) {
  const model::BlockParameters block = operator_parameters(s_.a, index);
  for (const Branch& each : branches) {
    hold(each.norm, block.norm);
    if (shared_norm()) break;
  }
  if (s_.a.output_norms > 0) {
    for (const Branch& each : branches) hold(each.output_norm, block.norm);
  }
  if (branches.front().down) hold(*branches.front().down, block.down);
  hold(branches.front().entry, block.qkv);
  hold(branches.front().exit, block.attention_out);
  if (index == 0) hold(branches.front().core, relative_bias_parameters(s_.a));
  if (s_.a.cross_width > 0) {
    hold(branches[1].entry, block.cross_qkv);
    hold(branches[1].exit, block.cross_out);
  }
  if (branches.back().experts) return;
  hold(branches.back().entry, block.mlp_in);
  hold(branches.back().exit, block.mlp_out);
}

void Transformer::connect_core(const Branch& b, const Tensor& input) {
  if (b.down) {
    const double width = static_cast<double>(s_.a.latent->down_width());
    draft_.connect(input, *b.down);
    draft_.connect({*b.down, s_.row_tokens * width * bytes_}, b.entry);
  }
  if (!b.down || s_.a.latent->query_rank == 0) draft_.connect(input, b.entry);
  draft_.connect({b.entry, s_.tokens * b.entry_width * bytes_}, b.core);
  draft_.connect({b.core, s_.tokens * b.core_width * bytes_}, b.exit);
}

Tensor Transformer::connect(const Branch& b, const Tensor& input) {
  Tensor state = input;
  if (!s_.a.post_norm) {
    draft_.connect(state, b.norm);
    state = hidden_state(b.norm);
  }
  if (!b.experts) {
    connect_core(b, state);
    state = hidden_state(b.exit);
    draft_.connect(state, s_.a.output_norms > 0 ? b.output_norm : b.sum);
  }
  if (s_.a.output_norms > 0) draft_.connect(hidden_state(b.output_norm), b.sum);
  draft_.connect(input, b.sum);
  if (!s_.a.post_norm) return hidden_state(b.sum);
  draft_.connect(hidden_state(b.sum), b.norm);
  return hidden_state(b.norm);
}

/// What the branches put out is not reduced before it is summed.
Tensor Transformer::connect_parallel(const std::vector<Branch>& branches, const Tensor& input) {
  for (const Branch& each : branches) {
    draft_.connect(input, each.norm);
    connect_core(each, shared_norm() ? gathered_state(each.norm) : hidden_state(each.norm));
    draft_.connect(gathered_state(each.exit), each.sum);
  }
  draft_.connect(input, branches.front().sum);
  return hidden_state(branches.front().sum);
}

void Transformer::share_conditioning(Op op) {
  draft_.share(kConditioning, op, static_cast<double>(conditioning_parameters(s_.a)));
}

Tensor Transformer::norm(const std::string& layer, const Tensor& input) {
  const Op op = draft_.add(layer, "", "");
  timer(op).norm(s_.rows());
  keep(op, s_.rows());
  draft_.cost(op).parameters += static_cast<double>(norm_parameters(s_.a));
  draft_.connect(input, op);
  return hidden_state(op);
}

/// Keeps the input of the final norm and that of the output layer. Logits and loss live only while
/// the head works: per logit the softmax in fp32, which its gradient overwrites, and one copy at
/// activation width, forward the logits, backward their gradient. These are the six bytes of
/// vocab_parallel_cross_entropy, and of its fused form, in NVIDIA/Megatron-LM
/// (megatron/core/tensor_parallel/cross_entropy.py, megatron/core/fusions/fused_cross_entropy.py).
/// The loss reads logits, writes and rereads the softmax (14 bytes per logit at 16 bits), and its
/// backward reads and writes them once.
///
/// The dense layer, activation function and norm of a masked language model are replicated over the
/// group and run on each device's own tokens; their inputs are kept.
void Transformer::head(const std::string& layer, const Tensor& input,
                       const std::vector<Tensor>& predictions) {
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
  for (const Tensor& each : predictions) draft_.connect(each, output);
  const std::size_t times = 1 + predictions.size();
  for (std::size_t i = 0; i < times; ++i) {
    timer(output).linear(s_.tokens, s_.hidden(), s_.vocab());
    keep(output, rows);
    messages(output).enter();
  }
  hold(output, counts.output);
  draft_.share(s_.a.tied_embeddings ? kTokenTable : kOutputTable, output, s_.vocab() * s_.hidden());
  const Op loss = draft_.add(layer, "", "loss");
  if (s_.sequence_parallel) draft_.cost(loss).working_bytes = 2 * s_.tokens * s_.hidden() * bytes_;
  for (std::size_t i = 0; i < times; ++i) {
    timer(loss).memory((bytes_ + 3 * kFp32) * logits, (bytes_ + kFp32) * logits);
    draft_.cost(loss).working_bytes +=
        (s_.logit_bytes > 0 ? s_.logit_bytes : kFp32 + bytes_) * logits;
    messages(loss).loss();
  }
  draft_.connect({output, static_cast<double>(times) * logits * bytes_}, loss);
}

}  // namespace nestplan::cost
