#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>

namespace nestplan::importers {

/// Null where the node has no such attribute.
inline const onnx::AttributeProto* attribute(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

inline std::int64_t number(const onnx::NodeProto& node, const char* name, std::int64_t fallback) {
  const onnx::AttributeProto* found = attribute(node, name);
  return found != nullptr ? found->i() : fallback;
}

}  // namespace nestplan::importers
