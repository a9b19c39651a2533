#include "nestplan/cost/operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nestplan/util/errors.hpp"

namespace nestplan::cost {
namespace {

/// Share of the peak that large matrix products sustain in training: kMatmulCeiling of devices up
/// to kReferencePeak, (kReferencePeak / peak)^kPeakDecay of that beyond. Peaks have grown faster
/// than what feeds them and than the power they may draw: the best shapes of a sweep reach 0.87 on
/// A100, 0.80 on H100 and 0.78 on B200, in fp8 0.71 and 0.76 (maximum achievable matmul FLOPS,
/// github.com/stas00/ml-engineering, compute/accelerator). In training it is about a tenth less.
/// Fitted together with kMemoryEfficiency to measured iterations of seven sources in 16 and 8 bits,
/// A100 to GB300; without any one of them the fit is 0.80 to 0.84, 0.07 to 0.10 and 0.50 to 0.55.
constexpr double kMatmulCeiling = 0.80;
constexpr double kReferencePeak = 312e12;  // FLOP/s, of an A100
constexpr double kPeakDecay = 0.10;

/// Output tile of one thread block, the usual one of CUTLASS and cuBLAS for 16-bit products.
constexpr double kTile = 128;

/// Tiles that run at once: the multiprocessors of the device (A100 108, H100 132, B200 148). On
/// average the last wave is half empty, whatever the exact number (NVIDIA, "Matrix Multiplication
/// Background User's Guide", wave quantisation).
constexpr double kComputeUnits = 128;

/// Steps along k that filling the pipeline and writing the tile cost: two k-slices of 64.
constexpr double kDepthRamp = 128;

/// The same for fused attention at long sequences, forward and backward. Isolated kernels reach
/// 0.70 and 0.60 on A100 (Dao, FlashAttention-2, arXiv 2307.08691, figs. 4-6), 0.65 and 0.55 on
/// H100 (Shah et al., FlashAttention-3, arXiv 2407.08608, figs. 5-6).
constexpr double kAttentionForward = 0.60;
constexpr double kAttentionBackward = 0.50;

/// Half-saturation points of the same curves in sequence length and head_dim.
constexpr double kAttentionTokenRamp = 512;
constexpr double kAttentionDimRamp = 16;

/// Share of the memory bandwidth that element-wise and normalisation kernels sustain, each tensor
/// counted once. Frameworks also copy, cast and reduce, and move up to a quarter more than they
/// need to (Ivanov et al., "Data Movement Is All You Need", arXiv 2007.00072), which is in here.
constexpr double kMemoryEfficiency = 0.55;

/// Launch, ramp-up and drain of a kernel in a busy stream: 3 to 4 us per step of short kernels
/// (NVIDIA, "Getting Started with CUDA Graphs", 2019).
constexpr double kKernelSeconds = 3e-6;

const std::array<Precision, 5> kPrecisions{{
    {"bf16", "bf16", 2, 2},
    {"fp16", "fp16", 2, 2},
    {"fp8", "bf16", 2, 1},
    {"tf32", "tf32", 4, 4},
    {"fp32", "fp32", 4, 4},
}};

double saturation(double size, double ramp) { return size / (size + ramp); }

/// FLOP/s of large matrix products on a device of this peak.
double sustained(double peak) {
  return kMatmulCeiling * std::pow(std::min(1.0, kReferencePeak / peak), kPeakDecay) * peak;
}

std::string known_peaks(const model::Device& device) {
  std::string list;
  for (const auto& [name, flops] : device.peak_flops) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

double peak_of(const model::Device& device, const std::string& precision) {
  const auto found = device.peak_flops.find(precision);
  if (found == device.peak_flops.end()) {
    throw InvalidInput("device " + device.name + ": peak: no rate for " + precision +
                       " (given: " + known_peaks(device) + ")");
  }
  return found->second;
}

}  // namespace

Precision precision_of(const std::string& name) {
  std::string list;
  for (const Precision& precision : kPrecisions) {
    if (precision.name == name) return precision;
    list += (list.empty() ? "" : ", ") + precision.name;
  }
  throw InvalidConfig("precision: unknown \"" + name + "\" (known: " + list + ")");
}

AnalyticalCostModel::AnalyticalCostModel(const model::Device& device, Precision precision)
    : precision_(std::move(precision)) {
  if (!(device.memory_bandwidth > 0)) {
    throw InvalidInput("device " + device.name +
                       ": memory_bandwidth: missing (the times of a model depend on it)");
  }
  matmul_flops_ = sustained(peak_of(device, precision_.name));
  attention_flops_ = peak_of(device, precision_.attention_name);
  bandwidth_ = kMemoryEfficiency * device.memory_bandwidth;
}

double AnalyticalCostModel::seconds(const Operator& op) const {
  return kKernelSeconds + std::visit([this](const auto& some) { return time(some); }, op);
}

double AnalyticalCostModel::time(const Matmul& op) const {
  return product_time(op, matmul_flops_, precision_.operand_bytes);
}

double AnalyticalCostModel::product_time(const Matmul& op, double flops,
                                         double operand_bytes) const {
  const double tiles = op.groups * std::ceil(op.m / kTile) * std::ceil(op.n / kTile);
  const double padded_flops = 2 * kTile * kTile * (tiles + kComputeUnits / 2) * (op.k + kDepthRamp);
  const double bytes =
      op.groups * (operand_bytes * (op.m * op.k + op.k * op.n) + op.output_bytes * op.m * op.n);
  return std::max(padded_flops / flops, bytes / bandwidth_);
}

double AnalyticalCostModel::time(const Attention& op) const {
  if (!op.fused) return unfused_time(op);
  const double ceiling = op.backward ? kAttentionBackward : kAttentionForward;
  const double efficiency = ceiling *
                            saturation(std::min(op.tokens, op.keys()), kAttentionTokenRamp) *
                            saturation(op.head_dim, kAttentionDimRamp);
  const double q_elements = op.sequences * op.tokens * op.heads * op.head_dim;
  const double kv_elements = op.sequences * op.keys() * op.kv_heads * op.head_dim;
  // Forward reads Q, K, V and writes O; backward reads those, O and dO, and writes dQ, dK, dV.
  const double elements =
      op.backward ? 4 * q_elements + 4 * kv_elements : 2 * q_elements + 2 * kv_elements;
  return std::max(op.flops() / (attention_flops_ * efficiency),
                  precision_.activation_bytes * elements / bandwidth_);
}

/// Batched products in 16 bits (32 where nothing is narrower): forward the scores and the output,
/// backward the gradients of V, of the probabilities, of Q and of K. In between softmax reads the
/// scores and writes the probabilities, and dropout reads those, writes them again and a mask of
/// one byte each; backward they read the same and the gradient, and write one.
double AnalyticalCostModel::unfused_time(const Attention& op) const {
  const double bytes = precision_.activation_bytes;
  const double rows = op.sequences * op.heads * op.tokens;
  const double rate = sustained(attention_flops_);
  const double into_scores = product_time({rows, op.keys(), op.head_dim, bytes}, rate, bytes);
  const double from_scores = product_time({rows, op.head_dim, op.keys(), bytes}, rate, bytes);
  const double softmax = op.backward ? 3 * bytes : 2 * bytes;
  const double dropout = op.dropout ? 2 * bytes + 1 : 0;
  const double products = op.backward ? into_scores + 3 * from_scores : into_scores + from_scores;
  const int kernels = (op.backward ? 5 : 3) + (op.dropout ? 1 : 0);
  return products + rows * op.keys() * (softmax + dropout) / bandwidth_ +
         (kernels - 1) * kKernelSeconds;
}

double AnalyticalCostModel::time(const MemoryBound& op) const { return op.bytes / bandwidth_; }

}  // namespace nestplan::cost
