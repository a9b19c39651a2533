#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nestplan/model/cluster.hpp"

namespace nestplan::cost {

/// Bytes of a number, and which of a device's peaks applies, in mixed-precision training.
struct Precision {
  std::string name;
  std::string peak_name;       ///< key into Device::peak_flops for matrix products
  std::string attention_name;  ///< key for the attention core, which stays in 16 bits under fp8
  double activation_bytes = 2;
  double operand_bytes = 2;  ///< of a matrix product's inputs, scales included
  /// Read and written to cast an activation for the products that take it, a copy with rows and
  /// columns exchanged for the weight gradient included; 0: products take it as it is.
  double cast_bytes = 0;

  bool narrow() const { return operand_bytes < activation_bytes; }
};

/// "bf16", "fp16", "fp8" (one scale for a tensor), "mxfp8" (one for 32 elements), "tf32" or "fp32".
/// Throws InvalidConfig with the list for anything else.
Precision precision_of(const std::string& name);

/// The keys that Device::peak_flops may have: what some precision computes with.
std::vector<std::string> peak_names();

/// Kernels of fused attention, by what they were written for.
enum class AttentionKernel : std::uint8_t {
  kNative,  ///< the device's own generation: FlashAttention-2 on Ampere, -3 on Hopper, cuDNN
  kFlash1,  ///< FlashAttention (Dao et al., arXiv 2205.14135), also in Triton
  kFlash2   ///< FlashAttention-2 (Dao, arXiv 2307.08691), written for Ampere
};

/// "flash1", "flash2"; for any other name the native one.
AttentionKernel attention_kernel_of(std::string_view name);

/// C[m,n] (+)= A[m,k]·B[k,n] on one device. Dimensions are element counts.
struct Matmul {
  double m = 0;
  double n = 0;
  double k = 0;
  double output_bytes = 2;  ///< bytes moved per element of C
  double groups = 1;        ///< products of this shape in one kernel
  double flops() const { return 2 * groups * m * n * k; }
};

/// The core of attention, softmax(Q·Kᵀ)·V, for `sequences` sequences on one device.
struct Attention {
  double sequences = 0;
  double tokens = 0;  ///< per sequence
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double pairs = 0;  ///< (query, key) pairs of one sequence that the mask admits
  bool backward = false;
  double kv_tokens = 0;  ///< keys of one sequence; 0: as many as there are queries
  /// One (flash) kernel. Otherwise products, softmax and dropout one by one, which compute and move
  /// the scores of all pairs, masked or not.
  bool fused = true;
  bool dropout = false;

  double keys() const { return kv_tokens > 0 ? kv_tokens : tokens; }

  /// Of the pairs that count: two products forward, five backward, one of them again the scores
  /// (Dao et al., FlashAttention, arXiv 2205.14135).
  double flops() const { return (backward ? 10 : 4) * sequences * pairs * heads * head_dim; }
};

/// An operator whose time is that of its memory traffic.
struct MemoryBound {
  double bytes = 0;
};

using Operator = std::variant<Matmul, Attention, MemoryBound>;

/// How long an operator takes on one device. Implementations may be analytical, interpolate
/// measurements, or scale another model by measured factors.
class CostModel {
 public:
  virtual ~CostModel() = default;

  /// Seconds, > 0. Never falls when a dimension grows, but for heads of unfused attention whose
  /// rows become whole multiples of 16 bytes.
  virtual double seconds(const Operator& op) const = 0;

  virtual const Precision& precision() const = 0;
};

/// A roofline with shape-dependent efficiency: max(flops / (peak·e), bytes / (bandwidth·e_m)) plus
/// a fixed cost per kernel, by the parameters of model::DeviceModel.
///
/// - Matrix products run in output tiles of tile², of which `compute_units` at once. On average the
///   last wave is half empty (NVIDIA, "Matrix Multiplication Background User's Guide", wave
///   quantisation), and filling the pipeline along k and writing the tile cost `depth_ramp` steps.
///   Groups of a product, such as experts, differ in size about their mean, so that each has half a
///   tile more than it fills.
/// - Fused attention saturates with tokens and head width, s/(s + ramp), and pads heads to a
///   multiple of 32 (kernels of FlashAttention-2, Dao, arXiv 2307.08691, section 3.3).
/// - All else moves bytes.
class AnalyticalCostModel final : public CostModel {
 public:
  /// Throws InvalidInput if `device` lacks the peak of `precision` or its memory bandwidth.
  AnalyticalCostModel(const model::Device& device, Precision precision,
                      AttentionKernel kernel = AttentionKernel::kNative);

  double seconds(const Operator& op) const override;
  const Precision& precision() const override { return precision_; }

 private:
  double time(const Matmul& op) const;
  double time(const Attention& op) const;
  double unfused_time(const Attention& op) const;
  double product_time(const Matmul& op, double flops, double operand_bytes) const;
  double time(const MemoryBound& op) const;

  Precision precision_;
  model::DeviceModel model_;
  double matmul_flops_ = 0;       ///< FLOP/s
  double score_flops_ = 0;        ///< of the products of unfused attention
  double attention_forward_ = 0;  ///< of fused attention
  double attention_backward_ = 0;
  double bandwidth_ = 0;  ///< bytes/s
};

}  // namespace nestplan::cost
