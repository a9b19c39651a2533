#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/cost/operators.hpp"
#include "nestplan/model/architecture.hpp"
#include "nestplan/model/cluster.hpp"
#include "nestplan/model/graph.hpp"
#include "nestplan/model/model.hpp"

namespace nestplan::cost {

/// What is one layer of the graph, from coarse to fine: a layer of the model (a transformer block
/// with attention and MLP), a residual block inside of it (attention, cross-attention or MLP, with
/// norm and sum), or an operator (norm, projection, attention core, activation function, sum …).
/// The operators and their names are listed in src/cost/profile_transformer.hpp and
/// src/cost/profile_unet.cpp.
///
/// Times, parameters, activations and collectives of a layer are the sums over what it consists of,
/// at every granularity. Checkpoints are not: a layer of any size keeps what enters it.
enum class Granularity : std::uint8_t { kLayer, kBlock, kOperator };

/// Throws InvalidConfig naming what is known for any other text.
Granularity parse_granularity(std::string_view name);
std::vector<std::string> granularity_names();
const char* to_string(Granularity granularity);

/// One column of a profiled graph: how the model is split, and for which micro-batch.
struct Degrees {
  std::int64_t tp = 1;
  std::int64_t cp = 1;
  model::ContextForm context = model::ContextForm::kRing;
  std::int64_t ep = 1;   ///< ways that the experts of a layer are dealt out
  std::int64_t etp = 1;  ///< ways that each of them is split; tp unless told otherwise
  std::int64_t micro_batch = 1;

  friend bool operator==(const Degrees&, const Degrees&) = default;
};

/// The id of the strategy: "tp8-mb2", "tp4-cp2-mb1", "tp4-cp2a2a-mb1" for all-to-all,
/// "tp2-ep8-mb1", "tp2-ep8-etp1-mb1"; what is 1, and an etp like tp, is left out.
std::string strategy_id(const Degrees& degrees);

/// The degrees that an id stands for; empty if `strategy_id` does not write such a one.
std::optional<Degrees> parse_strategy_id(std::string_view id);

/// What a model is to be profiled for.
struct ProfileOptions {
  /// Tokens per sequence, ≥ 1: of the encoder if there are two, of the language model with what
  /// towers contribute. A U-Net has none and ignores it.
  std::int64_t sequence = 0;
  /// Tokens per sample of parts with a count of their own, by the names of model::token_counts.
  std::map<std::string, std::int64_t> tokens;
  std::vector<std::int64_t> tp{1, 2, 4, 8};
  std::vector<std::int64_t> cp{1};
  std::vector<model::ContextForm> context_forms{model::ContextForm::kRing};  ///< with cp > 1
  /// Ways that the experts of a layer are dealt out, and that each of them is split. `etp` empty:
  /// as tp, which is what Megatron-LM does unless told otherwise. A model without experts takes 1.
  std::vector<std::int64_t> ep{1};
  std::vector<std::int64_t> etp;
  std::vector<std::int64_t> micro_batches{1};
  std::string precision = "bf16";
  bool sequence_parallel = true;  ///< with tp > 1
  /// Attention in one kernel, or with the scores of all pairs written out.
  bool fused_attention = true;
  AttentionKernel attention_kernel = AttentionKernel::kNative;  ///< with fused attention
  /// Bytes that are alive at once for every logit while the loss is computed; 0: those of
  /// Megatron-LM, 4 and one activation. Frameworks whose loss is an ordinary cross entropy hold
  /// logits, their copy in fp32 and the log-softmax, which is 10 (torchtitan/components/loss.py of
  /// pytorch/torchtitan).
  double logit_bytes = 0;
  /// Tokens of the fullest expert shard over those of the average one, ≥ 1. A shard that would get
  /// more than all of them gets all.
  double routing_imbalance = 1;
  /// Every expert takes exactly this many times its average of tokens, padded or dropped; 0: takes
  /// all that are sent to it.
  double capacity_factor = 0;
  /// The vocabulary is padded to a multiple of this times tp, as Megatron-LM does.
  std::int64_t vocabulary_multiple = 128;
  Granularity granularity = Granularity::kLayer;
  /// Of parts whose layers have names like "vision.layer.3": vision, audio, encoder, decoder.
  std::map<std::string, Granularity> granularity_of;

  std::int64_t tokens_of(const std::string& part, std::int64_t fallback) const {
    const auto found = tokens.find(part);
    return found == tokens.end() ? fallback : found->second;
  }
};

/// A degree that was asked for but does not fit the model, at least not together with some other
/// that the reason then names.
struct DroppedDegree {
  std::string kind;  ///< "tp", "cp", "ep" or "etp"
  std::int64_t degree = 1;
  std::string reason;
};

/// Routed experts of a layer; of several stacks the fewest, 0 if there are none.
std::int64_t routed_experts(const model::Model& model);

/// Why `architecture` cannot be split `tp` ways; empty if it can. `tp` must divide the attention
/// heads, the key-value heads, the MLP width, the hidden size and, with sequence parallelism, the
/// sequence.
std::string tensor_parallel_obstacle(const model::Architecture& architecture,
                                     const ProfileOptions& options, std::int64_t tp);

/// The same for any model: of every stack, with the tokens that it sees. A U-Net is not split.
std::string tensor_parallel_obstacle(const model::Model& model, const ProfileOptions& options,
                                     std::int64_t tp);

/// The model as a chain `embedding`, `layer.0` … `layer.L-1`, `head` (with `mtp.0` … in front of
/// the head if there are modules of multi-token prediction), with one strategy column for every
/// legal combination of the degrees, in ascending order. What does not fit is appended to
/// `dropped`, if given. At a finer granularity layers fall into parts, "layer.3.mlp" or
/// "layer.3.mlp_in", with the edges of the residual connections around them; of a layer's parts the
/// first is counted (see model::Layer).
///
/// Times are sums over operators. Splitting and collectives are those of tensor and sequence
/// parallelism in Megatron-LM (Korthikanti et al., arXiv 2205.05198): per block one all_gather in
/// front of attention and MLP and one reduce_scatter behind each; backward mirrors them and gathers
/// the saved, sharded inputs once more for the weight gradients. All are counted in full, none is
/// overlapped with compute. Without sequence parallelism they are all_reduces.
///
/// With context parallelism a device has 1/cp of the tokens and all else follows from that, but for
/// attention: see src/cost/profile_attention.hpp. Parameters are not split by it.
///
/// Experts are dealt out ep ways and each is split etp ways: see src/cost/profile_moe.hpp. Latent
/// attention is in src/cost/profile_latent.cpp.
///
/// Parameters are exact. A tied output layer counts as parameters of its own, since the first and
/// the last stage each hold a copy of the token table; that it is one table is in `ties`.
///
/// Activations are 16 bits wide (32 for fp32 and tf32); the table, and what selective recomputation
/// drops of them, is in profile_transformer.cpp. Logits and loss are `working_bytes` of the head.
/// With full recomputation a layer keeps what enters it: the bytes of its incoming edges, or the
/// token ids. Between blocks these are the hidden state, which sequence parallelism leaves sharded;
/// inside of them an edge carries what one operator hands to the next.
///
/// `tokens_per_sample` is the sequence. `model_flops_per_sample` is three times the forward matrix
/// products with weights and output layer, and the attention core over the pairs that the mask
/// admits (half of them for a causal one); unpadded vocabulary, no recomputation.
///
/// Throws InvalidConfig for non-positive options, an unknown precision, a sequence longer than
/// learned positions, or if no degree is left.
model::Graph build_graph(const model::Architecture& architecture, const CostModel& costs,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// The same with the analytical model of `device` at `options.precision`.
model::Graph build_graph(const model::Architecture& architecture, const model::Device& device,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// Any model. Layers are named in src/cost/profile_models.hpp.
///
/// - Encoder and decoder: every decoder layer reads the encoder's output; its keys and values are
///   projected by the layer that reads them. Encoder and decoder share the token table, of which
///   each has a copy. Relative position biases cost no time (they are added inside fused attention)
///   and belong to the first layer of their stack. `tokens_per_sample` counts both sides.
/// - Towers: what a tower puts out takes up tokens of the language model's sequence. Its stem and
///   projector are replicated over the tensor-parallel group.
/// - U-Net: one sample is one latent image; there is no `tokens_per_sample`, tp and cp are 1.
///   Layers on the way up read what their counterparts on the way down put out.
/// - Diffusion transformer: one sample is one latent image, too, but blocks are split like others.
///   What works out their shifts, scales and gates is on every device.
///
/// FLOPs are three times those of the forward matrix products, convolutions and attention cores.
///
/// Throws InvalidConfig as above, for tokens of a part that the model does not have, and if towers
/// put out more than the sequence holds.
model::Graph build_graph(const model::Model& model, const CostModel& costs,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);
model::Graph build_graph(const model::Model& model, const model::Device& device,
                         const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped = nullptr);

/// The layers and edges of that graph without any strategy: its shape.
model::Graph build_outline(const model::Model& model, const ProfileOptions& options);

/// FLOPs of training on one sequence, as in Graph::model_flops_per_sample.
double model_flops_per_sample(const model::Architecture& architecture, std::int64_t sequence);
double model_flops_per_sample(const model::Model& model, const ProfileOptions& options);

}  // namespace nestplan::cost
