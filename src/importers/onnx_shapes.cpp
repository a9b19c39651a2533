#include "importers/onnx_shapes.hpp"

#include <fmt/format.h>
#include <onnx/checker.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "importers/static_values.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

constexpr std::int64_t kLatestOpset = 1'000;

/// What a library says, as part of one line.
std::string in_one_line(std::string_view message) {
  std::string line;
  for (const char c : message.substr(0, 240)) {
    const bool blank = static_cast<unsigned char>(c) <= ' ';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

bool is_known(const onnx::TypeProto& type) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return false;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value()) return false;
  }
  return true;
}

/// Sizes that ONNX's inference divides by without a look.
void check_sizes(const onnx::NodeProto& node, int index, const std::string& file) {
  constexpr std::array<std::string_view, 5> kSizes{"blocksize", "dilations", "group",
                                                   "kernel_shape", "strides"};
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (std::find(kSizes.begin(), kSizes.end(), attribute.name()) == kSizes.end()) continue;
    std::vector<std::int64_t> values(attribute.ints().begin(), attribute.ints().end());
    if (attribute.has_i()) values.push_back(attribute.i());
    for (const std::int64_t value : values) {
      if (value >= 1 && value <= kMost) continue;
      throw InvalidInput(fmt::format("{}: {}: {}: {} is not between 1 and 2^31", file,
                                     titled(node, index), attribute.name(), value));
    }
  }
}

class ShapeInference {
 public:
  ShapeInference(onnx::ModelProto& model, const std::string& file)
      : graph_(*model.mutable_graph()), file_(file), values_(graph_) {
    for (const auto& opset : model.opset_import()) {
      if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
      opset_ = static_cast<int>(std::clamp<std::int64_t>(opset.version(), 1, kLatestOpset));
    }
    for (const auto& info : graph_.input()) add_type(info.name(), info.type());
    for (const onnx::TensorProto& tensor : graph_.initializer()) add_constant(tensor);
    for (const auto& info : graph_.value_info()) {
      if (is_known(info.type())) declared_[info.name()] = info.type();
    }
  }

  void run() {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> kept;
    std::deque<onnx::TensorProto> folded;
    for (int i = 0; i < graph_.node_size(); ++i) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      if (auto constant = is_standard(node) ? values_.fold(node) : std::nullopt) {
        folded.push_back(*std::move(constant));
        add_constant(folded.back());
        continue;
      }
      infer(node, i);
      kept.Add()->Swap(&node);
    }
    graph_.mutable_node()->Swap(&kept);
    for (onnx::TensorProto& tensor : folded) graph_.add_initializer()->Swap(&tensor);
    note_types();
  }

 private:
  void add_type(const std::string& name, onnx::TypeProto type) {
    if (name.empty()) return;
    if (is_known(type)) {
      std::vector<std::int64_t> dims;
      for (const auto& dim : type.tensor_type().shape().dim()) dims.push_back(dim.dim_value());
      values_.note_shape(name, std::move(dims));
    }
    storage_.push_back(std::move(type));
    types_[name] = &storage_.back();
  }

  void add_constant(const onnx::TensorProto& tensor) {
    onnx::TypeProto type;
    type.mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto* shape = type.mutable_tensor_type()->mutable_shape();
    for (const std::int64_t dim : tensor.dims()) shape->add_dim()->set_dim_value(dim);
    add_type(tensor.name(), std::move(type));
    constants_[tensor.name()] = &tensor;
  }

  /// What inference does not know may be declared.
  void infer(onnx::NodeProto& node, int index) {
    check_sizes(node, index, file_);
    onnx::shape_inference::InferenceContextImpl context(node, types_, constants_, {});
    const onnx::OpSchema* schema =
        is_standard(node) ? onnx::OpSchemaRegistry::Schema(node.op_type(), opset_, "") : nullptr;
    try {
      if (schema != nullptr && schema->has_type_and_shape_inference_function()) {
        schema->GetTypeAndShapeInferenceFunction()(context);
      } else if (schema != nullptr && schema->HasFunction()) {
        onnx::shape_inference::InferShapeForFunctionNode(
            *schema->GetFunction(), onnx::OpSchemaRegistry::Instance(), context);
      }
    } catch (const std::exception& error) {
      throw InvalidInput(
          fmt::format("{}: {}: {}", file_, titled(node, index), in_one_line(error.what())));
    }
    for (int i = 0; i < node.output_size(); ++i) {
      onnx::TypeProto& type = context.allOutputTypes_[static_cast<std::size_t>(i)];
      const auto declared = declared_.find(node.output(i));
      if (!is_known(type) && declared != declared_.end()) type = declared->second;
      add_type(node.output(i), std::move(type));
    }
  }

  void note_types() {
    graph_.clear_value_info();
    for (const onnx::NodeProto& node : graph_.node()) {
      for (const std::string& name : node.output()) {
        if (name.empty()) continue;
        onnx::ValueInfoProto& info = *graph_.add_value_info();
        info.set_name(name);
        *info.mutable_type() = *types_.at(name);
      }
    }
  }

  onnx::GraphProto& graph_;
  const std::string& file_;
  StaticValues values_;
  int opset_ = 1;
  std::deque<onnx::TypeProto> storage_;
  std::unordered_map<std::string, onnx::TypeProto*> types_;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
  std::unordered_map<std::string, onnx::TypeProto> declared_;
};

}  // namespace

bool is_standard(const onnx::NodeProto& node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

std::string node_name(const onnx::NodeProto& node, int index) {
  return node.name().empty() ? fmt::format("{}_{}", node.op_type(), index) : node.name();
}

std::string titled(const onnx::NodeProto& node, int index) {
  return fmt::format("node {} ({})", util::quoted(node_name(node, index)),
                     util::quoted(node.op_type()));
}

void infer_shapes(onnx::ModelProto& model, const std::string& file) {
  try {
    onnx::checker::check_model(model);
  } catch (const std::exception& error) {
    throw InvalidInput(fmt::format("{}: {}", file, in_one_line(error.what())));
  }
  ShapeInference(model, file).run();
}

}  // namespace nestplan::importers
