#include "nestplan/cost/operators.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "nestplan/cost/device_models.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cost {
namespace {

/// FlashAttention reaches half of what FlashAttention-2 does (Dao, arXiv 2307.08691, section 4),
/// which is 0.70 of the peak of an A100 where 0.60 is assumed in training.
constexpr double kFirstFlash = 0.5 * 0.70 / 0.60;

/// Heads of fused attention are padded to a multiple of this.
constexpr double kHeadPadding = 32;

/// Tensor cores want the rows of their operands in units of this many bytes (NVIDIA, "Matrix
/// Multiplication Background User's Guide", section 3).
constexpr double kAlignment = 16;

constexpr double kScaleBlock = 32;  // elements that share a scale in MX formats (OCP MX 1.0)
constexpr double kMx = 1 + 1 / kScaleBlock;

/// Casts are one pass, whether scales come from the steps before or from blocks (DelayedScaling and
/// MXFP8BlockScaling in NVIDIA/TransformerEngine, transformer_engine/common/recipe).
const std::array<Precision, 6> kPrecisions{{
    {"bf16", "bf16", "bf16", 2, 2},
    {"fp16", "fp16", "fp16", 2, 2},
    {"fp8", "fp8", "bf16", 2, 1, 2 + 2 * 1},
    {"mxfp8", "fp8", "bf16", 2, kMx, 2 + 2 * kMx},
    {"tf32", "tf32", "tf32", 4, 4},
    {"fp32", "fp32", "fp32", 4, 4},
}};

double saturation(double size, double ramp) { return size / (size + ramp); }

double round_up(double size, double multiple) { return std::ceil(size / multiple) * multiple; }

/// Of the device's own fused attention.
double share_of(AttentionKernel kernel, const model::DeviceModel& model) {
  switch (kernel) {
    case AttentionKernel::kNative:
      return 1;
    case AttentionKernel::kFlash1:
      return kFirstFlash * model.ampere_attention_efficiency;
    case AttentionKernel::kFlash2:
      return model.ampere_attention_efficiency;
  }
  throw InternalError("an attention kernel without a share");
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

std::vector<std::string> peak_names() {
  std::vector<std::string> names;
  for (const Precision& precision : kPrecisions) names.push_back(precision.peak_name);
  return util::sorted_unique(std::move(names));
}

AttentionKernel attention_kernel_of(std::string_view name) {
  if (name == "flash1") return AttentionKernel::kFlash1;
  return name == "flash2" ? AttentionKernel::kFlash2 : AttentionKernel::kNative;
}

AnalyticalCostModel::AnalyticalCostModel(const model::Device& device, Precision precision,
                                         AttentionKernel kernel)
    : precision_(std::move(precision)), model_(model_of(device)) {
  if (!(device.memory_bandwidth > 0)) {
    throw InvalidInput("device " + device.name +
                       ": memory_bandwidth: missing (the times of a model depend on it)");
  }
  const double attention_peak = peak_of(device, precision_.attention_name);
  matmul_flops_ =
      peak_of(device, precision_.peak_name) *
      (precision_.narrow() ? model_.narrow_matmul_efficiency : model_.matmul_efficiency);
  score_flops_ = attention_peak * model_.matmul_efficiency;
  const double attention = attention_peak * share_of(kernel, model_);
  attention_forward_ = attention * model_.attention_forward_efficiency;
  attention_backward_ = attention * model_.attention_backward_efficiency;
  bandwidth_ = device.memory_bandwidth * model_.memory_efficiency;
}

double AnalyticalCostModel::seconds(const Operator& op) const {
  return model_.kernel_s + std::visit([this](const auto& some) { return time(some); }, op);
}

double AnalyticalCostModel::time(const Matmul& op) const {
  return product_time(op, matmul_flops_, precision_.operand_bytes);
}

double AnalyticalCostModel::product_time(const Matmul& op, double flops,
                                         double operand_bytes) const {
  const double tile = model_.tile;
  const auto tiles_along = [&op, tile](double size) {
    return op.groups > 1 ? std::max(1.0, size / tile + 0.5) : std::ceil(size / tile);
  };
  const double tiles = op.groups * tiles_along(op.m) * tiles_along(op.n);
  const double padded_flops =
      2 * tile * tile * (tiles + model_.compute_units / 2) * (op.k + model_.depth_ramp);
  const double bytes =
      op.groups * (operand_bytes * (op.m * op.k + op.k * op.n) + op.output_bytes * op.m * op.n);
  return std::max(padded_flops / flops, bytes / bandwidth_);
}

double AnalyticalCostModel::time(const Attention& op) const {
  if (!op.fused) return unfused_time(op);
  const double head = round_up(op.head_dim, kHeadPadding);
  const double rate = (op.backward ? attention_backward_ : attention_forward_) *
                      saturation(std::min(op.tokens, op.keys()), model_.attention_token_ramp) *
                      saturation(head, model_.attention_head_ramp);
  const double padding = head / op.head_dim;
  const double q_elements = op.sequences * op.tokens * op.heads * op.head_dim;
  const double kv_elements = op.sequences * op.keys() * op.kv_heads * op.head_dim;
  // Forward reads Q, K, V and writes O; backward reads those, O and dO, and writes dQ, dK, dV.
  const double elements =
      op.backward ? 4 * q_elements + 4 * kv_elements : 2 * q_elements + 2 * kv_elements;
  return std::max(padding * op.flops() / rate, precision_.activation_bytes * elements / bandwidth_);
}

/// Batched products in 16 bits (32 where nothing is narrower): forward the scores and the output,
/// backward the gradients of V, of the probabilities, of Q and of K. In between softmax reads the
/// scores and writes the probabilities, and dropout reads those, writes them again and a mask of
/// one byte each; backward they read the same and the gradient, and write one.
double AnalyticalCostModel::unfused_time(const Attention& op) const {
  const double bytes = precision_.activation_bytes;
  const double rows = op.sequences * op.heads * op.tokens;
  const bool aligned = std::fmod(op.head_dim * bytes, kAlignment) == 0;
  const double rate = score_flops_ * (aligned ? 1 : model_.unaligned_matmul_efficiency);
  const double into_scores = product_time({rows, op.keys(), op.head_dim, bytes}, rate, bytes);
  const double from_scores = product_time({rows, op.head_dim, op.keys(), bytes}, rate, bytes);
  const double softmax = op.backward ? 3 * bytes : 2 * bytes;
  const double dropout = op.dropout ? 2 * bytes + 1 : 0;
  const double products = op.backward ? into_scores + 3 * from_scores : into_scores + from_scores;
  const int kernels = (op.backward ? 5 : 3) + (op.dropout ? 1 : 0);
  return products + rows * op.keys() * (softmax + dropout) / bandwidth_ +
         (kernels - 1) * model_.kernel_s;
}

double AnalyticalCostModel::time(const MemoryBound& op) const { return op.bytes / bandwidth_; }

}  // namespace nestplan::cost
