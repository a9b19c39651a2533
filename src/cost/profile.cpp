#include "nestplan/cost/profile.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::Collective;
using model::CollectiveOp;
using model::GroupKind;
using model::LayerCost;
using model::ParameterCount;
using model::Phase;

constexpr double kFp32 = 4;
constexpr double kTokenIdBytes = 8;  // int64

/// (query, key) pairs of one sequence that the mask of block `layer` admits. Conventions: a causal
/// mask counts as half of s² (not s(s+1)/2); a window of w < s as w·s - w²/2.
double attention_pairs(const Architecture& a, double tokens, std::int64_t layer) {
  if (!a.causal) return tokens * tokens;
  const double window = static_cast<double>(a.window(layer));
  const double reach = window > 0 ? std::min(window, tokens) : tokens;
  return reach * tokens - reach * reach / 2;
}

/// What one device sees of the model under one (tp, micro-batch): the widths of its share.
struct Share {
  const Architecture& a;
  double tp = 1;
  double sequences = 1;   ///< of a micro-batch
  double sequence = 0;    ///< tokens of one
  double tokens = 0;      ///< of a micro-batch
  double row_tokens = 0;  ///< those it holds outside of attention and MLP
  double padded_vocab = 0;
  bool sequence_parallel = false;

  double hidden() const { return static_cast<double>(a.hidden); }
  double qkv() const { return static_cast<double>(a.qkv_width()) / tp; }
  double query() const { return static_cast<double>(a.query_width()) / tp; }
  double query_and_key() const { return static_cast<double>(a.query_width() + a.kv_width()) / tp; }
  double ffn() const { return static_cast<double>(a.ffn) / tp; }
  double mlp_in() const { return static_cast<double>(a.mlp_in_width()) / tp; }
  double vocab() const { return padded_vocab / tp; }
  double heads() const { return static_cast<double>(a.heads) / tp; }
};

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Share make_share(const Architecture& a, const ProfileOptions& options, std::int64_t tp,
                 std::int64_t micro_batch) {
  Share share{a};
  share.tp = static_cast<double>(tp);
  share.sequences = static_cast<double>(micro_batch);
  share.sequence = static_cast<double>(options.sequence);
  share.tokens = share.sequences * share.sequence;
  share.sequence_parallel = options.sequence_parallel && tp > 1;
  share.row_tokens = share.sequence_parallel ? share.tokens / share.tp : share.tokens;
  share.padded_vocab = static_cast<double>(round_up(a.vocab, options.vocabulary_multiple * tp));
  return share;
}

/// Adds up the operators of one layer.
class Timer {
 public:
  Timer(const CostModel& costs, LayerCost& cost) : costs_(costs), cost_(cost) {}

  /// y[tokens,out] = x[tokens,in]·W; backward is dx = dy·Wᵀ and dW += xᵀ·dy, the latter
  /// accumulated in fp32 (one read and one write of the gradient).
  void linear(double tokens, double in, double out) {
    const double bytes = costs_.precision().activation_bytes;
    forward(Matmul{tokens, out, in, bytes});
    backward(Matmul{tokens, in, out, bytes});
    backward(Matmul{in, out, tokens, 2 * kFp32});
    if (costs_.precision().operand_bytes < bytes) {
      forward(MemoryBound{cast_bytes(tokens * in)});
      backward(MemoryBound{cast_bytes(tokens * out)});
    }
  }

  void attention(Attention op) {
    forward(op);
    op.backward = true;
    backward(op);
  }

  /// An element-wise or normalisation kernel, by the activations it moves in each direction.
  void elementwise(double forward_elements, double backward_elements) {
    const double bytes = costs_.precision().activation_bytes;
    forward(MemoryBound{bytes * forward_elements});
    if (backward_elements > 0) backward(MemoryBound{bytes * backward_elements});
  }

  /// Forward reads x and writes y; backward reads x and dy and writes dx.
  void norm(double elements) { elementwise(2 * elements, 3 * elements); }

  /// The sum of two branches (with bias and dropout fused in), and of their gradients.
  void residual(double elements) { elementwise(3 * elements, 3 * elements); }

  /// An activation function that reads `in` and writes `out`.
  void activation(double in, double out) { elementwise(in + out, 2 * in + out); }

  void memory(double forward_bytes, double backward_bytes) {
    forward(MemoryBound{forward_bytes});
    backward(MemoryBound{backward_bytes});
  }

 private:
  /// Operands narrower than the activations are cast, with a transposed copy for the weight
  /// gradient. Weights are cast once per iteration, which is left out.
  double cast_bytes(double elements) const {
    return elements * (costs_.precision().activation_bytes + 2 * costs_.precision().operand_bytes);
  }

  void forward(const Operator& op) { cost_.forward_s += costs_.seconds(op); }
  void backward(const Operator& op) { cost_.backward_s += costs_.seconds(op); }

  const CostModel& costs_;
  LayerCost& cost_;
};

/// Appends the collectives of tensor parallelism. A hidden state enters a split region through
/// `enter` and leaves it, as partial sums, through `leave`.
class Messages {
 public:
  Messages(const Share& share, double activation_bytes, LayerCost& cost)
      : share_(share), bytes_(share.tokens * share.hidden() * activation_bytes), cost_(cost) {}

  /// In front of a column-parallel product. With sequence parallelism its input is saved sharded
  /// and gathered again for the weight gradient.
  void enter() {
    if (share_.sequence_parallel) {
      add(Phase::kForward, CollectiveOp::kAllGather, bytes_);
      add(Phase::kBackward, CollectiveOp::kAllGather, bytes_);
      add(Phase::kBackward, CollectiveOp::kReduceScatter, bytes_);
    } else {
      add(Phase::kBackward, CollectiveOp::kAllReduce, bytes_);
    }
  }

  /// Behind a row-parallel product or a lookup in a split table.
  void leave() {
    if (share_.sequence_parallel) {
      add(Phase::kForward, CollectiveOp::kReduceScatter, bytes_);
      add(Phase::kBackward, CollectiveOp::kAllGather, bytes_);
    } else {
      add(Phase::kForward, CollectiveOp::kAllReduce, bytes_);
    }
  }

  /// Maximum, sum of exponentials and target logit of every token, in fp32.
  void loss() {
    for (int i = 0; i < 3; ++i) {
      add(Phase::kForward, CollectiveOp::kAllReduce, share_.tokens * kFp32);
    }
  }

 private:
  void add(Phase phase, CollectiveOp op, double bytes) {
    if (share_.tp > 1) cost_.collectives.push_back({phase, op, GroupKind::kTensor, bytes});
  }

  const Share& share_;
  double bytes_;
  LayerCost& cost_;
};

double hidden_state_bytes(const Share& s, double activation_bytes) {
  return s.row_tokens * s.hidden() * activation_bytes;
}

/// What a block keeps for its backward pass, per device. `rows` = row_tokens·hidden elements.
///
///   tensor                                     elements                    bytes each
///   inputs of the norms (one if the block      2·rows or rows              activation
///     is parallel)
///   outputs of the norms, inputs of QKV        input_norms·rows            activation
///     and of the MLP
///   inputs of the output norms                 output_norms·rows           activation
///   Q, K, V                                    tokens·qkv                  activation
///   Q, K in front of their norms               tokens·(query + key)        activation
///   attention output                           tokens·query                activation
///   log-sum-exp of the attention rows          tokens·heads                4
///   MLP: input of the activation function      tokens·mlp_in               activation
///   MLP: its output                            tokens·ffn                  activation
///   dropout masks behind attention and MLP     2·rows                      1
///
/// For a GPT block this is s·b·h·34/tp (Korthikanti et al., arXiv 2205.05198, table 2, without the
/// attention matrices that fused attention does not keep), 32 without dropout, and the log-sum-exp
/// on top. Left out: row statistics of the norms, 4 to 8 bytes per token.
double block_activation_bytes(const Share& s, double activation_bytes) {
  const double rows = s.row_tokens * s.hidden();
  const double residual_inputs = s.a.parallel_block ? 1 : 2;
  const double on_rows = residual_inputs + s.a.input_norms + s.a.output_norms;
  double per_token = s.qkv() + s.query() + s.mlp_in() + s.ffn();
  if (s.a.qk_norm) per_token += s.query_and_key();
  return activation_bytes * (on_rows * rows + per_token * s.tokens) + kFp32 * s.heads() * s.tokens +
         (s.a.hidden_dropout ? 2 * rows : 0);
}

void add_block_times(const Share& s, double pairs, Timer& timer) {
  const Architecture& a = s.a;
  const double rows = s.row_tokens * s.hidden();
  for (int i = 0; i < a.input_norms + a.output_norms; ++i) timer.norm(rows);
  timer.linear(s.tokens, s.hidden(), s.qkv());
  if (a.qk_norm) timer.norm(s.tokens * s.query_and_key());
  if (a.rotary) timer.activation(s.tokens * s.query_and_key(), 0);
  timer.attention({s.sequences, s.sequence, s.heads(), static_cast<double>(a.kv_heads) / s.tp,
                   static_cast<double>(a.head_dim), pairs});
  timer.linear(s.tokens, s.query(), s.hidden());
  timer.linear(s.tokens, s.hidden(), s.mlp_in());
  timer.activation(s.tokens * s.mlp_in(), s.tokens * s.ffn());
  timer.linear(s.tokens, s.ffn(), s.hidden());
  for (int i = 0; i < 2; ++i) timer.residual(rows);
}

LayerCost block_cost(const Share& s, const CostModel& costs, std::int64_t layer) {
  const double bytes = costs.precision().activation_bytes;
  LayerCost cost;
  Timer timer(costs, cost);
  add_block_times(s, attention_pairs(s.a, s.sequence, layer), timer);
  Messages messages(s, bytes, cost);
  for (int i = 0; i < s.a.input_norms; ++i) messages.enter();
  for (int i = 0; i < (s.a.parallel_block ? 1 : 2); ++i) messages.leave();
  cost.activation_bytes = block_activation_bytes(s, bytes);
  cost.checkpoint_bytes = hidden_state_bytes(s, bytes);
  return cost;
}

/// Keeps the token ids, the input of its norm and a dropout mask. The lookup writes all tokens on
/// every device of the group (rows of other shards as zeros); its gradient adds into fp32 rows.
LayerCost embedding_cost(const Share& s, const CostModel& costs) {
  const double bytes = costs.precision().activation_bytes;
  const double elements = s.tokens * s.hidden();
  const double rows = s.row_tokens * s.hidden();
  LayerCost cost;
  Timer timer(costs, cost);
  timer.memory(2 * bytes * elements, (bytes + 2 * kFp32) * elements);
  const int tables = (s.a.learned_positions > 0 ? 1 : 0) + (s.a.token_types > 0 ? 1 : 0);
  for (int i = 0; i < tables; ++i) timer.residual(rows);
  if (s.a.embedding_norm) timer.norm(rows);
  Messages(s, bytes, cost).leave();
  cost.checkpoint_bytes = kTokenIdBytes * s.tokens;
  cost.activation_bytes = cost.checkpoint_bytes +
                          (s.a.embedding_norm ? hidden_state_bytes(s, bytes) : 0) +
                          (s.a.hidden_dropout ? rows : 0);
  return cost;
}

/// Dense, activation function and norm of a masked language model head, replicated over the group
/// and run on each device's own tokens. Keeps the inputs of the three.
void add_mlm_transform(const Share& s, double activation_bytes, Timer& timer, LayerCost& cost) {
  const double rows = s.row_tokens * s.hidden();
  timer.linear(s.row_tokens, s.hidden(), s.hidden());
  timer.activation(rows, rows);
  timer.norm(rows);
  cost.activation_bytes += 3 * activation_bytes * rows;
}

/// Keeps the input of the final norm, the input of the output layer, and per logit the softmax in
/// fp32 (overwritten by its gradient) and one copy at activation width: the logits in forward,
/// their gradient in backward. The loss reads logits, writes and rereads the softmax (14 bytes per
/// logit at 16 bits), and its backward reads and writes them once.
LayerCost head_cost(const Share& s, const CostModel& costs) {
  const double bytes = costs.precision().activation_bytes;
  const double rows = s.row_tokens * s.hidden();
  const double logits = s.tokens * s.vocab();
  LayerCost cost;
  Timer timer(costs, cost);
  if (!s.a.post_norm) {
    timer.norm(rows);
    cost.activation_bytes += bytes * rows;
  }
  if (s.a.mlm_transform) add_mlm_transform(s, bytes, timer, cost);
  if (s.a.pooler) timer.linear(s.sequences, s.hidden(), s.hidden());
  timer.linear(s.tokens, s.hidden(), s.vocab());
  timer.memory((bytes + 3 * kFp32) * logits, (bytes + kFp32) * logits);
  Messages messages(s, bytes, cost);
  messages.enter();
  messages.loss();
  cost.activation_bytes += bytes * rows + (kFp32 + bytes) * logits;
  cost.checkpoint_bytes = hidden_state_bytes(s, bytes);
  return cost;
}

std::vector<std::int64_t> sorted_distinct(const std::vector<std::int64_t>& values) {
  const std::set<std::int64_t> distinct(values.begin(), values.end());
  return {distinct.begin(), distinct.end()};
}

void require_positive(const char* name, const std::vector<std::int64_t>& values) {
  if (values.empty()) throw InvalidConfig(std::string(name) + ": at least one value is needed");
  for (const std::int64_t value : values) {
    if (value < 1) {
      throw InvalidConfig(std::string(name) + ": " + std::to_string(value) + " is not positive");
    }
  }
}

void check(const Architecture& a, const ProfileOptions& options) {
  require_positive("seq", {options.sequence});
  require_positive("tp", options.tp);
  require_positive("micro-batch", options.micro_batches);
  require_positive("vocabulary multiple", {options.vocabulary_multiple});
  if (a.learned_positions > 0 && options.sequence > a.max_positions) {
    throw InvalidConfig("seq: " + std::to_string(options.sequence) + " is more than the " +
                        std::to_string(a.max_positions) + " learned positions of " + a.name);
  }
}

std::vector<std::int64_t> legal_degrees(const Architecture& a, const ProfileOptions& options,
                                        std::vector<DroppedDegree>* dropped) {
  std::vector<std::int64_t> legal;
  std::string reasons;
  for (const std::int64_t tp : sorted_distinct(options.tp)) {
    const std::string obstacle = tensor_parallel_obstacle(a, options, tp);
    if (obstacle.empty()) {
      legal.push_back(tp);
      continue;
    }
    reasons += (reasons.empty() ? "" : "; ") + obstacle;
    if (dropped != nullptr) dropped->push_back({tp, obstacle});
  }
  if (legal.empty()) throw InvalidConfig("tp: no degree fits " + a.name + ": " + reasons);
  return legal;
}

std::vector<std::string> layer_ids(const Architecture& a) {
  std::vector<std::string> ids{"embedding"};
  for (std::int64_t i = 0; i < a.layers; ++i) ids.push_back("layer." + std::to_string(i));
  ids.push_back("head");
  return ids;
}

/// Costs of all layers under one strategy, in the order of `layer_ids`.
std::vector<LayerCost> column(const Share& s, const CostModel& costs) {
  const auto finish = [&s](LayerCost cost, const ParameterCount& count) {
    cost.parameters = count.per_device(static_cast<std::int64_t>(s.tp),
                                       static_cast<std::int64_t>(s.padded_vocab));
    return cost;
  };
  std::vector<LayerCost> layers;
  layers.push_back(finish(embedding_cost(s, costs), embedding_parameters(s.a)));
  for (std::int64_t i = 0; i < s.a.layers; ++i) {
    layers.push_back(finish(block_cost(s, costs, i), block_parameters(s.a)));
  }
  layers.push_back(finish(head_cost(s, costs), head_parameters(s.a)));
  return layers;
}

void append_column(model::Graph& graph, const Share& s, const CostModel& costs) {
  std::vector<LayerCost> layers = column(s, costs);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    graph.layers[i].costs.emplace_back(std::move(layers[i]));
  }
  const double edge = hidden_state_bytes(s, costs.precision().activation_bytes);
  for (model::Edge& each : graph.edges) each.bytes.push_back(edge);
}

model::Graph chain(const Architecture& a) {
  model::Graph graph;
  graph.name = a.name;
  for (std::string& id : layer_ids(a)) graph.layers.push_back({std::move(id), {}});
  for (int i = 0; i + 1 < static_cast<int>(graph.layers.size()); ++i) {
    graph.edges.push_back({i, i + 1, {}});
  }
  return graph;
}

}  // namespace

std::string tensor_parallel_obstacle(const Architecture& a, const ProfileOptions& options,
                                     std::int64_t tp) {
  std::vector<std::pair<const char*, std::int64_t>> dimensions{{"attention heads", a.heads},
                                                               {"key-value heads", a.kv_heads},
                                                               {"MLP width", a.ffn},
                                                               {"hidden size", a.hidden}};
  if (options.sequence_parallel) dimensions.emplace_back("sequence length", options.sequence);
  for (const auto& [name, size] : dimensions) {
    if (size % tp == 0) continue;
    return "tp " + std::to_string(tp) + " does not divide the " + name + " (" +
           std::to_string(size) + ")";
  }
  return {};
}

double model_flops_per_sample(const Architecture& a, std::int64_t sequence) {
  const double tokens = static_cast<double>(sequence);
  const double hidden = static_cast<double>(a.hidden);
  const double block_weights =
      hidden * static_cast<double>(a.qkv_width() + a.query_width() + a.mlp_in_width() + a.ffn);
  const double head_weights =
      hidden * static_cast<double>(a.vocab) + (a.mlm_transform ? hidden * hidden : 0);
  double forward = 2 * tokens * (static_cast<double>(a.layers) * block_weights + head_weights);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    forward += 4 * attention_pairs(a, tokens, i) * static_cast<double>(a.query_width());
  }
  return 3 * forward;
}

model::Graph build_graph(const Architecture& a, const CostModel& costs,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  check(a, options);
  model::Graph graph = chain(a);
  for (const std::int64_t tp : legal_degrees(a, options, dropped)) {
    for (const std::int64_t micro_batch : sorted_distinct(options.micro_batches)) {
      const Share share = make_share(a, options, tp, micro_batch);
      model::Strategy strategy;
      strategy.id = "tp" + std::to_string(tp) + "-mb" + std::to_string(micro_batch);
      strategy.tp = tp;
      strategy.sp = share.sequence_parallel ? tp : 1;
      strategy.micro_batch = micro_batch;
      graph.strategies.push_back(std::move(strategy));
      append_column(graph, share, costs);
    }
  }
  graph.tokens_per_sample = static_cast<double>(options.sequence);
  graph.model_flops_per_sample = model_flops_per_sample(a, options.sequence);
  quantise_counts(graph);
  return graph;
}

model::Graph build_graph(const Architecture& a, const model::Device& device,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  return build_graph(a, AnalyticalCostModel(device, precision_of(options.precision)), options,
                     dropped);
}

}  // namespace nestplan::cost
