#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nestplan/model/graph.hpp"

namespace nestplan::importers {

/// A node of an execution trace.
struct TraceNode {
  enum class Type : std::uint8_t { kOther, kCompute, kCollective };
  std::uint64_t id = 0;
  std::string name;
  Type type = Type::kOther;
  std::vector<int> sources;  ///< nodes that it waits for, by their indices
  double seconds = 0;
  bool on_accelerator = false;
  std::optional<double> output_bytes;
  /// PyTorch's number of the forward operator that it is, or of the one whose gradient it works
  /// out; negative: not told.
  std::int64_t sequence = -1;
  bool of_autograd = false;  ///< runs for a forward operator of another thread: backward
  std::optional<model::CollectiveOp> collective;  ///< empty for kinds that are not planned
  double collective_bytes = 0;
};

/// The nodes of a trace of one rank, sources before those that wait for them, in one of three
/// forms:
///
/// - protobuf: messages with their lengths in front, the metadata first (encodeMessage of
///   mlcommons/chakra, src/third_party/utils/protolib.py);
/// - the same messages as JSON, one behind the other (chakra_jsonizer);
/// - {"workload_graph": [{"Id", "Name", "NodeType", "data_deps", "runtime", …}]} of the feeder for
///   JSON (src/feeder/json_node.cpp).
///
/// The size of an output is the attribute tensor_size, or the sum over outputs.shapes and
/// outputs.types. `comm_size` is taken to be the full buffer of a collective.
///
/// Throws InvalidInput for damaged files, more than kMostOperators nodes, ids that are missing or
/// doubled, and cycles.
std::vector<TraceNode> read_trace(std::string_view content, const std::string& file);

}  // namespace nestplan::importers
