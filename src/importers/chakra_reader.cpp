#include "importers/chakra_reader.hpp"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>

#include "chakra.pb.h"
#include "importers/file_kinds.hpp"
#include "importers/operator_graph.hpp"
#include "io/json.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

constexpr double kMicrosecond = 1e-6;

[[noreturn]] void fail(const std::string& file, std::string_view problem) {
  throw InvalidInput(fmt::format("{}: {}", file, problem));
}

void append(std::vector<chakra::Node>& nodes, chakra::Node node, const std::string& file) {
  if (nodes.size() == kMostOperators) {
    fail(file, fmt::format("the trace has more than {} nodes", kMostOperators));
  }
  nodes.push_back(std::move(node));
}

std::vector<chakra::Node> read_protobuf(std::string_view content, const std::string& file) {
  std::vector<chakra::Node> nodes;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(content.data());
  google::protobuf::io::CodedInputStream stream(bytes, static_cast<int>(content.size()));
  const auto end = static_cast<int>(content.size());
  for (int index = 0; stream.CurrentPosition() < end; ++index) {
    const int start = stream.CurrentPosition();
    std::uint32_t size = 0;
    const bool whole = stream.ReadVarint32(&size) &&
                       size <= static_cast<std::uint32_t>(end - stream.CurrentPosition());
    const auto message = [&](auto&& into) {
      return whole && into.ParseFromArray(bytes + stream.CurrentPosition(), static_cast<int>(size));
    };
    chakra::Node node;
    chakra::Metadata metadata;
    if (!(index == 0 ? message(metadata) : message(node))) {
      fail(file, fmt::format("byte {}: message {} is damaged or cut short (is it a Chakra trace?)",
                             start, index));
    }
    stream.Skip(static_cast<int>(size));
    if (index > 0) append(nodes, std::move(node), file);
  }
  return nodes;
}

std::vector<chakra::Node> read_messages(std::string_view text, const std::string& file) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  std::vector<chakra::Node> nodes;
  int index = 0;
  for (std::size_t at = text.find_first_not_of(" \t\r\n"); at < text.size(); ++index) {
    const std::size_t end = text[at] == '{' ? end_of_object(text, at) : std::string_view::npos;
    if (end == std::string_view::npos) {
      fail(file, fmt::format("byte {}: object {} does not end or is none", at, index));
    }
    chakra::Node node;
    const std::string_view object = text.substr(at, end - at);
    const auto status = google::protobuf::util::JsonStringToMessage(
        google::protobuf::StringPiece(object.data(), object.size()), &node, options);
    if (!status.ok()) {
      fail(file, fmt::format("byte {}: object {} is no node: {}", at, index,
                             util::quoted(status.message().ToString(), 120)));
    }
    if (index > 0) append(nodes, std::move(node), file);
    at = text.find_first_not_of(" \t\r\n", end);
  }
  return nodes;
}

/// Of io::chakra_keys::kNode, among which other keys may be.
chakra::Node node_of(const io::Field& field) {
  constexpr std::int64_t kMost = std::int64_t{1} << 52;
  const auto whole = [&](const char* key) -> std::optional<std::int64_t> {
    const auto value = field.find(key);
    return value ? std::optional(value->integer(0, kMost)) : std::nullopt;
  };
  chakra::Node node;
  node.set_id(static_cast<std::uint64_t>(field.at("Id").integer(0, kMost)));
  node.set_name(field.at("Name").text());
  node.set_type(static_cast<chakra::NodeType>(field.at("NodeType").integer(0, 10)));
  node.set_duration_micros(static_cast<std::uint64_t>(whole("runtime").value_or(0)));
  for (const char* key : {"data_deps", "ctrl_deps"}) {
    const auto dependencies = field.find(key);
    if (!dependencies) continue;
    for (const io::Field& item : dependencies->items()) {
      node.add_data_deps(static_cast<std::uint64_t>(item.integer(0, kMost)));
    }
  }
  for (const char* key : {"tensor_size", "comm_type", "comm_size"}) {
    const auto value = whole(key);
    if (!value) continue;
    chakra::Attribute* attribute = node.add_attr();
    attribute->set_name(key);
    attribute->set_int64_val(*value);
  }
  if (const auto on_cpu = field.find("is_cpu_op")) {
    chakra::Attribute* attribute = node.add_attr();
    attribute->set_name("is_cpu_op");
    attribute->set_bool_val(on_cpu->json().is_boolean() ? on_cpu->boolean()
                                                        : on_cpu->integer(0, 1) != 0);
  }
  return node;
}

std::vector<chakra::Node> read_json(std::string_view text, const std::string& file) {
  if (holds_several_objects(text)) return read_messages(text, file);
  const io::Document document(text, file);
  std::vector<chakra::Node> nodes;
  for (const io::Field& field : document.root().at("workload_graph").items()) {
    append(nodes, node_of(field), file);
  }
  return nodes;
}

const chakra::Attribute* attribute(const chakra::Node& node, std::string_view name) {
  for (const chakra::Attribute& each : node.attr()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

/// Whole numbers come as any of the integer types.
std::optional<double> number(const chakra::Node& node, std::string_view name) {
  const chakra::Attribute* found = attribute(node, name);
  if (found == nullptr) return std::nullopt;
  switch (found->value_case()) {
    case chakra::Attribute::kInt32Val:
      return found->int32_val();
    case chakra::Attribute::kInt64Val:
      return static_cast<double>(found->int64_val());
    case chakra::Attribute::kUint32Val:
      return found->uint32_val();
    case chakra::Attribute::kUint64Val:
      return static_cast<double>(found->uint64_val());
    default:
      return std::nullopt;
  }
}

/// Bytes of an element by the type as PyTorch writes it, such as "Tensor(c10::BFloat16)".
double width_of(std::string_view type) {
  const auto has = [type](std::string_view word) {
    return type.find(word) != std::string_view::npos;
  };
  if (has("BFloat16") || has("Half") || has("short")) return 2;
  if (has("double") || has("long")) return 8;
  if (has("bool") || has("char") || has("Float8") || has("byte")) return 1;
  return 4;
}

/// Elements of the innermost lists of numbers; `depth` more levels are looked into.
void collect_shapes(const nlohmann::json& value, int depth, std::vector<double>& elements) {
  if (!value.is_array() || depth == 0) return;
  double product = value.empty() ? 0 : 1;
  bool numbers = !value.empty();
  for (const nlohmann::json& item : value) {
    numbers = numbers && item.is_number_unsigned();
    if (numbers) product *= item.get<double>();
  }
  if (numbers) {
    elements.push_back(product);
  } else {
    for (const nlohmann::json& item : value) collect_shapes(item, depth - 1, elements);
  }
}

/// Of "[[8, 1024], [8]]" and "['Tensor(float)', 'Tensor(long int)']".
std::optional<double> bytes_of(const chakra::Values& values) {
  const auto parsed = nlohmann::json::parse(values.shapes(), nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  std::vector<double> elements;
  constexpr int kDeepest = 8;
  collect_shapes(parsed, kDeepest, elements);
  if (elements.empty()) return std::nullopt;
  std::vector<std::string_view> types;
  for (const std::string_view type : util::split(values.types(), ',')) {
    if (type.find("Tensor") != std::string_view::npos) types.push_back(type);
  }
  double bytes = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    bytes += elements[i] * (i < types.size() ? width_of(types[i]) : width_of(""));
  }
  return bytes;
}

/// CollectiveCommType of the schema.
std::optional<model::CollectiveOp> collective_of(double type) {
  using model::CollectiveOp;
  switch (static_cast<int>(std::clamp(type, -1.0, 100.0))) {
    case 0:
      return CollectiveOp::kAllReduce;
    case 2:
      return CollectiveOp::kAllGather;
    case 6:
      return CollectiveOp::kAllToAll;
    case 7:
    case 8:
      return CollectiveOp::kReduceScatter;
    default:
      return std::nullopt;
  }
}

TraceNode trace_node(const chakra::Node& node, const std::string& file) {
  const auto checked = [&](const char* what, double value) {
    if (value >= 0 && value <= io::kMostCount) return value;
    fail(file, fmt::format("node {} ({}): {}: must be between 0 and {:g}", node.id(),
                           util::quoted(node.name()), what, io::kMostCount));
  };
  TraceNode result;
  result.id = node.id();
  result.name = node.name().empty() ? fmt::format("node {}", node.id()) : node.name();
  if (node.type() == chakra::COMP_NODE) result.type = TraceNode::Type::kCompute;
  if (node.type() == chakra::COMM_COLL_NODE) result.type = TraceNode::Type::kCollective;
  result.seconds =
      checked("duration_micros", static_cast<double>(node.duration_micros())) * kMicrosecond;
  if (result.seconds > io::kMostSeconds)
    fail(file, fmt::format("node {}: runs for years", node.id()));
  const chakra::Attribute* on_cpu = attribute(node, "is_cpu_op");
  result.on_accelerator = on_cpu != nullptr && !on_cpu->bool_val();
  result.output_bytes = number(node, "tensor_size");
  if (!result.output_bytes) result.output_bytes = bytes_of(node.outputs());
  if (result.output_bytes) checked("tensor_size", *result.output_bytes);
  result.sequence =
      static_cast<std::int64_t>(std::clamp(number(node, "seq_id").value_or(-1), -1.0, 1e15));
  result.of_autograd = number(node, "fw_tid").value_or(0) > 0;
  result.collective = collective_of(number(node, "comm_type").value_or(0));
  result.collective_bytes = checked("comm_size", number(node, "comm_size").value_or(0));
  return result;
}

/// Sources first; among those that are free the one that comes first in the file.
std::vector<TraceNode> sorted(std::vector<TraceNode> nodes, const std::string& file) {
  std::vector<std::vector<int>> readers(nodes.size());
  std::vector<std::size_t> waits(nodes.size());
  std::priority_queue<int, std::vector<int>, std::greater<>> free;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    waits[i] = nodes[i].sources.size();
    for (const int from : nodes[i].sources) {
      readers[static_cast<std::size_t>(from)].push_back(static_cast<int>(i));
    }
    if (waits[i] == 0) free.push(static_cast<int>(i));
  }
  std::vector<int> place(nodes.size(), -1);
  std::vector<TraceNode> order;
  while (!free.empty()) {
    const auto i = static_cast<std::size_t>(free.top());
    free.pop();
    place[i] = static_cast<int>(order.size());
    order.push_back(std::move(nodes[i]));
    for (const int reader : readers[i]) {
      if (--waits[static_cast<std::size_t>(reader)] == 0) free.push(reader);
    }
  }
  if (order.size() < nodes.size()) {
    const auto stuck =
        static_cast<std::size_t>(std::find(place.begin(), place.end(), -1) - place.begin());
    fail(file, fmt::format("node {} ({}): is on a cycle of dependencies, or behind one",
                           nodes[stuck].id, util::quoted(nodes[stuck].name)));
  }
  for (TraceNode& node : order) {
    for (int& from : node.sources) from = place[static_cast<std::size_t>(from)];
  }
  return order;
}

}  // namespace

std::vector<TraceNode> read_trace(std::string_view content, const std::string& file) {
  const google::protobuf::LogSilencer silence;
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) fail(file, "is empty");
  if (content.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    fail(file, "is larger than 2 GiB");
  }
  const std::vector<chakra::Node> read =
      content[first] == '{' ? read_json(content, file) : read_protobuf(content, file);
  if (read.empty()) fail(file, "the trace has no nodes");
  std::unordered_map<std::uint64_t, int> index;
  std::vector<TraceNode> nodes;
  for (const chakra::Node& node : read) {
    if (!index.emplace(node.id(), static_cast<int>(nodes.size())).second) {
      fail(file, fmt::format("node {} ({}): another node has its id", node.id(),
                             util::quoted(node.name())));
    }
    nodes.push_back(trace_node(node, file));
  }
  for (std::size_t i = 0; i < read.size(); ++i) {
    const auto add = [&](const char* kind, const auto& ids) {
      for (const std::uint64_t id : ids) {
        const auto found = index.find(id);
        if (found == index.end()) {
          fail(file, fmt::format("node {} ({}): {}: no node has the id {}", read[i].id(),
                                 util::quoted(read[i].name()), kind, id));
        }
        nodes[i].sources.push_back(found->second);
      }
    };
    add("data_deps", read[i].data_deps());
    add("ctrl_deps", read[i].ctrl_deps());
  }
  return sorted(std::move(nodes), file);
}

}  // namespace nestplan::importers
