#pragma once

#include <onnx/onnx_pb.h>

#include <string>

namespace nestplan::importers {

/// Works out the shapes of all tensors of `model`, whose inputs have sizes along all axes, in one
/// pass over its nodes: shapes by the functions of ONNX's own operator schemas, and whole numbers
/// that shapes depend on by StaticValues. Afterwards `value_info` has the shapes that are known,
/// and nodes whose results are known whole numbers are initializers.
///
/// Throws InvalidInput with `file` for what ONNX's checker refuses, and naming the node whose
/// inputs do not fit.
void infer_shapes(onnx::ModelProto& model, const std::string& file);

/// "node "/up/MatMul" ("MatMul")".
std::string titled(const onnx::NodeProto& node, int index);

/// The name of a node, or its type and its index.
std::string node_name(const onnx::NodeProto& node, int index);

/// Whether the operator is one of ONNX itself.
bool is_standard(const onnx::NodeProto& node);

}  // namespace nestplan::importers
