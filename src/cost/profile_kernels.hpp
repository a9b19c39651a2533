#pragma once

#include <cstdint>

#include "cost/profile_degrees.hpp"
#include "cost/profile_draft.hpp"
#include "nestplan/cost/operators.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/model/architecture.hpp"

namespace nestplan::cost {

inline constexpr double kFp32 = 4;
inline constexpr double kTokenIdBytes = 8;  // int64

/// What one device sees of a stack of blocks in one column: the widths of its share.
struct Share {
  const model::Architecture& a;
  Degrees degrees;
  double tp = 1;
  double cp = 1;
  double sequences = 1;   ///< of a micro-batch
  double sequence = 0;    ///< tokens of one, those of all context-parallel devices
  double tokens = 0;      ///< of a micro-batch, those of one context-parallel device
  double row_tokens = 0;  ///< those it holds outside of attention and MLP
  double padded_vocab = 0;
  bool sequence_parallel = false;
  bool fused_attention = true;
  double logit_bytes = 0;        ///< see ProfileOptions
  double routing_imbalance = 1;  ///< see ProfileOptions
  double capacity_factor = 0;

  double hidden() const { return static_cast<double>(a.hidden); }
  double qkv() const { return static_cast<double>(a.qkv_width()) / tp; }
  double query() const { return static_cast<double>(a.query_width()) / tp; }
  double key_value() const { return static_cast<double>(2 * a.kv_width()) / tp; }
  double attention() const { return static_cast<double>(a.attention_width()) / tp; }
  double query_and_key() const { return static_cast<double>(a.query_width() + a.kv_width()) / tp; }
  double ffn() const { return static_cast<double>(a.ffn) / tp; }
  double mlp_in() const { return static_cast<double>(a.mlp_in_width()) / tp; }
  double vocab() const { return padded_vocab / tp; }
  double heads() const { return static_cast<double>(a.heads) / tp; }
  double kv_heads() const { return static_cast<double>(a.kv_heads) / tp; }
  double rows() const { return row_tokens * hidden(); }

  double parameters(const model::ParameterCount& count) const {
    return count.per_device(static_cast<std::int64_t>(tp), static_cast<std::int64_t>(padded_vocab));
  }
};

/// `sequence` tokens a sequence, through the stack `a`.
Share make_share(const model::Architecture& a, const ProfileOptions& options, std::int64_t sequence,
                 const Degrees& degrees);

/// (query, key) pairs of one sequence that the mask of block `layer` admits. Conventions: a causal
/// mask counts as half of s² (not s(s+1)/2); a window of w < s as w·s - w²/2, or as w·s where
/// nothing is masked.
double attention_pairs(const model::Architecture& a, double tokens, std::int64_t layer);

/// Adds the operators of a layer up.
class Timer {
 public:
  Timer(const CostModel& costs, model::LayerCost& cost) : costs_(costs), cost_(cost) {}

  /// The same for operators whose forward runs once more with selective recomputation.
  Timer again_if(bool recomputed) const {
    Timer timer = *this;
    timer.again_ = recomputed;
    return timer;
  }

  /// y[tokens,out] = x[tokens,in]·W; backward is dx = dy·Wᵀ and dW += xᵀ·dy, the latter
  /// accumulated in fp32 (one read and one write of the gradient).
  void linear(double tokens, double in, double out) {
    linear(tokens, in, out, costs_.precision().activation_bytes);
  }

  /// The same with results of `output_bytes`.
  void linear(double tokens, double in, double out, double output_bytes) {
    product({tokens, out, in, output_bytes}, tokens * in);
  }

  /// `groups` products with weights of their own, of `tokens` each, in one kernel.
  void grouped_linear(double groups, double tokens, double in, double out) {
    product({tokens, out, in, costs_.precision().activation_bytes, groups}, groups * tokens * in);
  }

  /// A convolution as the product it is computed as: `in` is kernel size times input channels, of
  /// which only `input_elements` differ.
  void convolution(double pixels, double in, double out, double input_elements) {
    product({pixels, out, in, costs_.precision().activation_bytes}, input_elements);
  }

  /// In `steps` steps, of which `op` is one.
  void attention(Attention op, double steps = 1) {
    forward(op, steps);
    op.backward = true;
    backward(op, steps);
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
  void product(const Matmul& op, double input_elements) {
    const Precision& precision = costs_.precision();
    forward(op);
    backward(Matmul{op.m, op.k, op.n, precision.activation_bytes, op.groups});
    backward(Matmul{op.k, op.n, op.m, 2 * kFp32, op.groups});
    if (precision.cast_bytes == 0) return;
    // Weights are cast once per iteration, which is left out.
    forward(MemoryBound{precision.cast_bytes * input_elements});
    backward(MemoryBound{precision.cast_bytes * op.groups * op.m * op.n});
  }

  void forward(const Operator& op, double times = 1) {
    const double seconds = times * costs_.seconds(op);
    cost_.forward_s += seconds;
    if (again_) cost_.selective_s += seconds;
  }
  void backward(const Operator& op, double times = 1) {
    cost_.backward_s += times * costs_.seconds(op);
  }

  const CostModel& costs_;
  model::LayerCost& cost_;
  bool again_ = false;
};

/// Appends the collectives of tensor parallelism. A hidden state enters a split region through
/// `enter` and leaves it, as partial sums, through `leave`.
class Messages {
 public:
  /// For states of `share`, `width` elements a token.
  Messages(const Share& share, double width, double activation_bytes, model::LayerCost& cost)
      : share_(share), bytes_(share.tokens * width * activation_bytes), cost_(cost) {}

  /// In front of a column-parallel product. With sequence parallelism its input is saved sharded
  /// and gathered again for the weight gradient. Gathered input and its whole gradient
  /// are alive at once in backward (LinearWithGradAccumulationAndAsyncCommunication in
  /// NVIDIA/Megatron-LM, megatron/core/tensor_parallel/layers.py).
  void enter();

  /// Behind a row-parallel product or a lookup in a split table.
  void leave();

  /// Behind a column-parallel product whose whole output every device goes on with.
  void collect();

  /// Maximum, sum of exponentials and target logit of every token, in fp32.
  void loss();

 private:
  void add(model::Phase phase, model::CollectiveOp op, double bytes);

  const Share& share_;
  double bytes_;
  model::LayerCost& cost_;
};

}  // namespace nestplan::cost
