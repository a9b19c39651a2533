#pragma once

#include <string>
#include <vector>

#include "importers/operator_graph.hpp"

namespace nestplan::importers {

/// A tensor as a kernel reads it: the one that views are of, but no more elements than the view.
struct Read {
  int tensor = -1;
  double elements = 0;
};

/// Operators that run as one: what is written between them never goes through memory. The last of
/// them is the only one that others read from.
struct Kernel {
  std::string name;
  std::string block;
  /// kProduct, kConvolution, kAttention, kLookup; or kMove: bound by memory.
  Kind kind = Kind::kMove;
  std::vector<int> operators;   ///< indices into OperatorGraph::operators, ascending
  Product product{};            ///< of a product or convolution
  AttentionShape attention{};   ///< of attention
  std::vector<Read> reads;      ///< activations and inputs of the graph, each once
  std::vector<Read> keeps;      ///< for the backward pass, the statistics of attention aside
  std::vector<int> parameters;  ///< constant tensors
  std::vector<int> writes;      ///< that others read, or that the graph puts out
  double dropped_elements = 0;  ///< of dropout masks
  bool of_rows = false;         ///< norms or softmax are among the operators
  bool puts_out = false;        ///< writes an output of the graph
};

struct KernelGraph {
  OperatorGraph graph;
  std::vector<Kernel> kernels;  ///< in topological order
  /// By tensor: the kernel that writes it or what it is a piece of; -1 for inputs and constants.
  std::vector<int> writer;
};

/// Fuses the operators of `graph`:
///
/// - An element-wise operator, a reduction, a norm or a softmax goes into the kernel of its readers
///   if they are all in one such kernel, of the same block.
/// - What only adds constants to the result of a product, or multiplies by them, and alone reads
///   it, goes into the product.
/// - A product of activations, the kernel with the softmax that alone reads it, and the product
/// that
///   alone reads that are attention. Scores have the shape [sequences…, heads, queries, keys], or
///   [sequences·heads, queries, keys] with three axes.
///
/// `blocks` has the block of every operator. What an element-wise kernel keeps are the tensors in
/// front of the first operators whose derivatives depend on their inputs; the rest is worked out
/// again from them, as fused kernels do.
KernelGraph fuse(OperatorGraph graph, const std::vector<std::string>& blocks);

}  // namespace nestplan::importers
