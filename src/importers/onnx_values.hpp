#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace nestplan::importers {

/// Values of the tensors of an ONNX model: in the model, or in files beside it, which are mapped
/// when they are asked for (ONNX, docs/ExternalData.md).
class OnnxValues {
 public:
  /// `model`: the file, next to which the others are.
  explicit OnnxValues(const std::string& model);
  ~OnnxValues();
  OnnxValues(const OnnxValues&) = delete;
  OnnxValues& operator=(const OnnxValues&) = delete;

  struct Items {
    std::string_view bytes;  ///< empty: not there
    std::size_t width = 0;   ///< of each
  };
  /// Valid as long as `tensor` and this are. Throws InvalidInput for values in a file that is not
  /// in the folder of the model.
  Items of(const onnx::TensorProto& tensor);

 private:
  class Mapping;

  std::string_view external(const onnx::TensorProto& tensor);

  std::string model_;
  std::filesystem::path folder_;
  std::map<std::string, std::unique_ptr<Mapping>> files_;
};

}  // namespace nestplan::importers
