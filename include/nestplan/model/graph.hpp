#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nestplan::model {

enum class CollectiveOp : std::uint8_t { kAllReduce, kAllGather, kReduceScatter, kAllToAll };
enum class Phase : std::uint8_t { kForward, kBackward };

/// The devices that take part in a layer's collective, relative to the stage it runs in.
enum class GroupKind : std::uint8_t { kTensor, kContext, kExpert, kData };

/// A communication step inside one layer, per micro-batch.
/// `bytes` is the full buffer for all_reduce, all_gather and reduce_scatter, and what one device
/// sends for all_to_all.
struct Collective {
  Phase phase = Phase::kForward;
  CollectiveOp op = CollectiveOp::kAllReduce;
  GroupKind group = GroupKind::kTensor;
  double bytes = 0;
  bool operator==(const Collective&) const = default;
};

/// Times of a layer per micro-batch on devices of one type, without its collectives.
struct LayerTimes {
  double forward_s = 0;
  double backward_s = 0;
  double selective_s = 0;  ///< what selective recomputation computes again
  bool operator==(const LayerTimes&) const = default;
};

/// Cost of one layer under one strategy: per device, and per micro-batch where it is a time or an
/// activation.
struct LayerCost {
  double forward_s = 0;
  double backward_s = 0;
  double parameters = 0;
  double expert_parameters = 0;  ///< sharded and synchronised over dp·cp/ep devices
  double activation_bytes = 0;   ///< kept per micro-batch in flight without recomputation
  double checkpoint_bytes = 0;   ///< kept per micro-batch in flight with full recomputation
  std::vector<Collective> collectives{};

  /// Kept per micro-batch in flight with selective recomputation; empty: as without any.
  std::optional<double> selective_bytes{};
  double selective_s = 0;    ///< what selective recomputation computes again
  double working_bytes = 0;  ///< held only while the layer computes, once: logits and loss
  /// Of `parameters`: those in tables over the vocabulary. A note for accounts of memory.
  double table_parameters = 0;
  /// On devices of the cluster's further types, in their order; empty: as on the first.
  std::vector<LayerTimes> others{};

  /// On devices of a type, see Cluster::type.
  LayerTimes times(int type) const {
    if (type == 0 || others.empty()) return {forward_s, backward_s, selective_s};
    return others[static_cast<std::size_t>(type) - 1];
  }
  double selectively_kept() const { return selective_bytes.value_or(activation_bytes); }
  bool operator==(const LayerCost&) const = default;
};

/// How long the optimizer's step takes on devices of one type, whose kernels move memory.
struct UpdateRate {
  double fixed_s = 0;  ///< to launch them
  double per_byte_s = 0;

  double seconds(double bytes) const { return bytes > 0 ? fixed_s + per_byte_s * bytes : 0; }
  bool operator==(const UpdateRate&) const = default;
};

/// How attention is split along the sequence: keys and values go round a ring (Liu et al., arXiv
/// 2310.01889), or heads are traded for tokens (Jacobs et al., DeepSpeed-Ulysses, arXiv
/// 2309.14509).
enum class ContextForm : std::uint8_t { kRing, kAllToAll };

/// How a layer is split inside a stage.
struct Strategy {
  std::string id;
  std::int64_t tp = 1;   ///< tensor parallel
  std::int64_t sp = 1;   ///< sequence parallel; a note, its effect is in the costs
  std::int64_t cp = 1;   ///< context parallel
  std::int64_t ep = 1;   ///< expert parallel
  std::int64_t etp = 1;  ///< tensor parallel inside experts; a note, its effect is in the costs
  std::int64_t micro_batch = 1;
  ContextForm context = ContextForm::kRing;  ///< a note, its effect is in the costs
  bool operator==(const Strategy&) const = default;
};

struct Layer {
  std::string id;
  std::vector<std::optional<LayerCost>> costs;  ///< one per strategy; empty: cannot use it
  bool counted = true;  ///< whether rules on the number of layers in a stage count it
  bool operator==(const Layer&) const = default;
};

/// Parameters that several layers share. Every stage that holds one of them has one copy; the
/// gradients of the copies are summed once per iteration.
struct Tie {
  std::vector<int> layers;         ///< indices into Graph::layers, ascending, at least two
  std::vector<double> parameters;  ///< per strategy, per device; in the costs of each layer
  bool operator==(const Tie&) const = default;
};

/// What a model is to the programs that train it.
enum class ModelKind : std::uint8_t {
  kOther,  ///< layers of a graph
  kDecoder,
  kEncoder,         ///< BERT
  kEncoderDecoder,  ///< T5
  kMultimodal,
  kUNet,
  kDiffusionTransformer
};

/// What the rules of frameworks ask about a model. 0: not known, and rules about it say nothing.
struct Dimensions {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;         ///< of dense MLPs
  std::int64_t vocabulary = 0;  ///< unpadded
  std::int64_t sequence = 0;    ///< tokens per sample
  std::int64_t blocks = 0;      ///< transformer layers
  std::int64_t experts = 0;     ///< routed ones of a layer; 0: none, if `hidden` is known
  std::int64_t expert_ffn = 0;
  std::int64_t encoder_blocks = 0;  ///< of `blocks`: in the encoder of an encoder-decoder
  std::int64_t windows = 0;      ///< of `blocks`: whose queries look back no further than a window
  std::int64_t sinks = 0;        ///< of `blocks`: in whose softmax a learned number takes part
  std::int64_t predictions = 0;  ///< modules of multi-token prediction, beside `blocks`
  ModelKind kind = ModelKind::kOther;
  bool operator==(const Dimensions&) const = default;
};

/// A tensor from layer `from` to layer `to` (indices into Graph::layers).
struct Edge {
  int from = 0;
  int to = 0;
  std::vector<double> bytes;  ///< per strategy, per device and micro-batch
  bool operator==(const Edge&) const = default;
};

/// The model to be placed: a directed acyclic graph of layers.
///
/// Byte and parameter counts are multiples of 2^-10 (see `quantise_counts`), so that sums over
/// layers are exact in whatever order they are taken, and search and evaluator agree to the byte.
struct Graph {
  std::string name;
  std::vector<Strategy> strategies;
  std::vector<Layer> layers;
  std::vector<Edge> edges;

  /// Tokens of one sequence; empty when the graph does not say (throughput is then in samples).
  std::optional<double> tokens_per_sample;
  /// Model FLOPs of one sequence, forward and backward, without recomputation.
  std::optional<double> model_flops_per_sample;

  std::vector<Tie> ties;
  Dimensions dimensions;

  /// By type of device, see Cluster::type; one alone is for all types. Empty: the optimizer's step
  /// takes no time, as in graph files.
  std::vector<UpdateRate> updates;

  /// Seconds of the optimizer's step that moves so many bytes.
  double update_s(double bytes, int type) const {
    if (updates.empty()) return 0;
    return updates[updates.size() > 1 ? static_cast<std::size_t>(type) : 0].seconds(bytes);
  }
  bool operator==(const Graph&) const = default;
};

/// Rounds every byte and parameter count of `graph` up to a multiple of 2^-10.
void quantise_counts(Graph& graph);

/// Topological order of the layers; ties by index. Throws InvalidInput naming a layer on a cycle.
std::vector<int> topological_order(const Graph& graph);

/// Whether the edges leave one order of the layers only.
bool in_a_row(const Graph& graph);

/// How many of `layers`, or of all layers, rules on their number count.
std::int64_t counted_layers(const Graph& graph, const std::vector<int>& layers);
std::int64_t counted_layers(const Graph& graph);

const char* to_string(CollectiveOp op);
const char* to_string(Phase phase);
const char* to_string(GroupKind group);
const char* to_string(ContextForm form);
const char* to_string(ModelKind kind);

}  // namespace nestplan::model
