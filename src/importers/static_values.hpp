#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace nestplan::importers {

/// Whole numbers that an ONNX model works out of shapes and constants to reshape, expand and slice
/// with: what its exporter could not know because axes were symbolic.
class StaticValues {
 public:
  /// With what the initializers of `graph` say.
  explicit StaticValues(const onnx::GraphProto& graph);

  void note_shape(const std::string& name, std::vector<std::int64_t> dims) {
    shapes_[name] = std::move(dims);
  }

  /// The result of `node`, and remembers it, if it is known.
  std::optional<onnx::TensorProto> fold(const onnx::NodeProto& node);

 private:
  struct Value {
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> items;
    std::int32_t type = onnx::TensorProto::INT64;
  };

  bool evaluate(const onnx::NodeProto& node, Value& result) const;
  bool shape_of(const onnx::NodeProto& node, Value& result) const;
  bool gather(const onnx::NodeProto& node, Value& result) const;
  bool concat(const onnx::NodeProto& node, Value& result) const;
  bool slice(const onnx::NodeProto& node, Value& result) const;
  bool range(const onnx::NodeProto& node, Value& result) const;
  bool constant_of_shape(const onnx::NodeProto& node, Value& result) const;
  bool element_wise(const onnx::NodeProto& node, Value& result) const;

  static onnx::TensorProto to_tensor(const std::string& name, const Value& value);

  const Value* input(const onnx::NodeProto& node, int index) const;

  std::map<std::string, Value> values_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;  ///< where all axes have sizes
};

}  // namespace nestplan::importers
