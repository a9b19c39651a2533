#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "importers/operator_graph.hpp"
#include "io/json.hpp"

namespace nestplan::importers {

/// A `nestplan.fx/1` file, which inputs/export_torch_graph.py writes: the operators of a PyTorch
/// module in the order in which they run, as torch.fx traces them.
///
///   format         "nestplan.fx/1"
///   name           of the model
///   micro_batches  the batches that it was traced with
///   constants      name, shape, dtype of parameters and buffers; trained: false for a buffer;
///                  causal: true for a mask that is a triangle
///   nodes          name; type: the name of the module's class, the function or the method, or
///                  "placeholder" for an input; module: path of the module that it is in; inputs:
///                  names of nodes and constants, in the order of the arguments, of a module its
///                  parameters last; dtype; shapes: one for each micro-batch; attributes: numbers
///   outputs        names of nodes
///
/// A node with several results has the shape of what they are parts of, and `getitem` takes one.
class FxReader {
 public:
  /// Throws InvalidInput naming the field.
  FxReader(std::string_view content, const std::string& file, bool unknown_memory_bound);

  const std::vector<std::int64_t>& micro_batches() const { return micro_batches_; }

  /// For `micro_batches()[index]`.
  OperatorGraph read(std::size_t index) const;

 private:
  io::Document document_;
  bool unknown_memory_bound_;
  std::vector<std::int64_t> micro_batches_;
};

}  // namespace nestplan::importers
