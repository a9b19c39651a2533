#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "importers/operator_graph.hpp"

namespace nestplan::importers {

/// An ONNX model (IR up to version 8, opsets that ONNX 1.12 knows). Values of weights are not
/// needed, but where they are there, in the model or in files beside it, they tell causal masks and
/// ties.
///
/// Shapes come from ONNX's own inference, once the symbolic axes have sizes: the first axis of the
/// first input, which is the batch, has that of the micro-batch, others those of `dimensions`.
class OnnxReader {
 public:
  /// Throws InvalidInput for what is not a model, and for one with control flow, local functions,
  /// sparse tensors or operators of other domains; InvalidConfig for dimensions that no axis has.
  OnnxReader(std::string_view content, std::string file,
             std::map<std::string, std::int64_t> dimensions, bool unknown_memory_bound);
  ~OnnxReader();

  /// Samples of the first input, if the file fixes them.
  std::optional<std::int64_t> fixed_batch() const;

  /// What the file does not tell, and is assumed.
  const std::vector<std::string>& remarks() const;

  /// Throws InvalidInput naming the node whose shapes do not fit or are not known, InvalidConfig
  /// for axes without a size.
  OperatorGraph read(std::int64_t micro_batch) const;

 private:
  struct Model;
  std::unique_ptr<Model> model_;
  std::string file_;
  std::map<std::string, std::int64_t> dimensions_;
  bool unknown_memory_bound_;
};

}  // namespace nestplan::importers
