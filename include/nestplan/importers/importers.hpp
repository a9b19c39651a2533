#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/cost/operators.hpp"
#include "nestplan/model/graph.hpp"

namespace nestplan::importers {

/// What a file is: an ONNX model, the list of operators that inputs/export_torch_graph.py writes
/// (`nestplan.fx/1`), or an execution trace of MLCommons Chakra, as protobuf or as JSON.
enum class Format : std::uint8_t { kOnnx, kFx, kChakra };

std::vector<std::string> format_names();
/// Throws InvalidConfig naming what is known for any other text.
Format parse_format(std::string_view name);
const char* to_string(Format format);

/// The format of a file by its content and, for the two kinds of protobuf, its name. Throws
/// InvalidInput if it is none of them.
Format detect_format(std::string_view content, const std::string& file);

/// What is one layer of the graph: a kernel with what is fused into it, or a block: what has the
/// same module path up to the first numbered part ("decoder.layers.3"), or to the first part where
/// none is numbered. Files without module paths fall apart where a single tensor crosses.
enum class Granularity : std::uint8_t { kOperator, kBlock };

std::vector<std::string> granularity_names();
Granularity parse_granularity(std::string_view name);

struct Options {
  Granularity granularity = Granularity::kBlock;
  std::vector<std::int64_t> tp{1};
  /// Empty: those of the file, or 1 where it leaves the batch open.
  std::vector<std::int64_t> micro_batches;
  /// Of the symbolic axes of an ONNX model, but for its batch, which is the micro-batch.
  std::map<std::string, std::int64_t> dimensions;
  /// Operators that are not known move their inputs and outputs through memory, and that is all;
  /// otherwise they are errors.
  bool unknown_memory_bound = false;
  /// Attention in one kernel, or with the scores of all pairs written out.
  bool fused_attention = true;
  /// Of a trace: bytes of an output whose size it does not tell.
  std::optional<double> tensor_bytes;
};

struct Imported {
  model::Graph graph;
  std::vector<std::string> remarks;
};

/// The graph in `content`, a file of the name `file`, with one strategy for every combination of tp
/// and micro-batch that it can be split for.
///
/// Of a model (ONNX, torch.fx) times come from `costs`, and:
///
/// - Kernels. Element-wise operators, reductions and norms are one kernel with the only one that
///   reads them; a bias or a scale belongs to the product in front of it. Product, softmax (with
///   scale and mask) and product are attention, fused unless told otherwise. Reshapes and other
///   views take no time. A memory-bound kernel moves its inputs and outputs; backward it moves what
///   is kept and the gradients of both.
/// - FLOPs. 2·m·n·k for a product, twice that backward; attention as in cost::Attention, with half
///   of the pairs where the mask is a triangle. `model_flops_per_sample` is three times the forward
///   ones over the micro-batch.
/// - Parameters. Every floating-point constant that a kernel reads but scalars and masks; shared
///   ones are ties.
/// - Activations. Inputs of products, of norms and of what else has a derivative that depends on
///   them, each once in a block; Q, K, V and the log-sum-exp of attention; one byte per element of
///   dropout. Floating-point tensors are as wide as the precision's activations, whatever the file
///   says.
/// - Loss, which such files do not hold: a cross entropy over the outputs of the graph, with its
///   time and memory.
/// - Tensor parallelism. Column-parallel products are followed by a row-parallel one, as in
///   Megatron-LM (Shoeybi et al., arXiv 1909.08053): MLPs, and attention by heads, each with an
///   all_reduce of the output forward and one of the input's gradient backward. All else is whole
///   on every device; there is no sequence parallelism.
///
/// Of a trace times are measured; see src/importers/chakra_layers.hpp.
///
/// Throws InvalidInput with "file: node …: what is wrong (what would be right)", InvalidConfig for
/// options that do not fit the file.
Imported import_graph(std::string_view content, const std::string& file, Format format,
                      const cost::CostModel& costs, const Options& options);

}  // namespace nestplan::importers
