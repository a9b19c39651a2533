#include "importers/onnx_reader.hpp"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "importers/causal_mask.hpp"
#include "importers/onnx_attributes.hpp"
#include "importers/onnx_shapes.hpp"
#include "importers/onnx_values.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

/// Initializers with no more bytes keep their values: shapes, axes, bounds.
constexpr std::int64_t kSmallInitializer = 4096;

using Dimensions = std::map<std::string, std::int64_t>;

[[noreturn]] void fail(const std::string& file, std::string_view problem) {
  throw InvalidInput(fmt::format("{}: {}", file, problem));
}

/// Bytes of an element, 0 for floating point.
double width_of(std::int32_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::FLOAT16:
    case onnx::TensorProto::BFLOAT16:
    case onnx::TensorProto::DOUBLE:
      return 0;
    case onnx::TensorProto::INT64:
    case onnx::TensorProto::UINT64:
      return 8;
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::UINT32:
      return 4;
    case onnx::TensorProto::INT16:
    case onnx::TensorProto::UINT16:
      return 2;
    default:
      return 1;
  }
}

bool is_causal(const onnx::TensorProto& tensor, OnnxValues& values) {
  const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  if (!is_square(dims)) return false;
  const OnnxValues::Items items = values.of(tensor);
  return is_triangle(dims, items.bytes, items.width);
}

bool has_transposed_shape(const onnx::TensorProto& a, const onnx::TensorProto& b) {
  return a.dims_size() == 2 && b.dims_size() == 2 && a.data_type() == b.data_type() &&
         a.dims(0) == b.dims(1) && a.dims(1) == b.dims(0) && a.dims(0) > 0 && a.dims(1) > 0;
}

/// Whether `b` has the values of the matrix `a` of so many rows and columns, with these exchanged:
/// exporters fold the transposition of a weight that is tied to a table.
bool is_transposed(const OnnxValues::Items& a, const OnnxValues::Items& b, std::size_t rows,
                   std::size_t columns) {
  const std::string_view x = a.bytes, y = b.bytes;
  const std::size_t width = a.width;
  if (width != b.width || x.size() != y.size() || x.size() / width / rows != columns) return false;
  for (std::size_t i = 0; i < rows * columns; ++i) {
    const std::size_t j = i % columns * rows + i / columns;
    if (x.substr(i * width, width) != y.substr(j * width, width)) return false;
  }
  return x.find_first_not_of(x.front()) != std::string_view::npos;
}

/// Puts values that are beside the model into it. Returns whether it holds them.
bool take_in(onnx::TensorProto& tensor, OnnxValues& values) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return true;
  const std::string_view bytes = values.of(tensor).bytes;
  if (bytes.empty()) return false;
  tensor.set_raw_data(bytes.data(), bytes.size());
  tensor.clear_data_location();
  tensor.clear_external_data();
  return true;
}

double product_of(std::span<const std::int64_t> dims) {
  double product = 1;
  for (const std::int64_t dim : dims) product *= static_cast<double>(dim);
  return product;
}

Kind kind_of(const onnx::NodeProto& node, int index, const std::string& file,
             bool unknown_memory_bound) {
  try {
    if (is_standard(node)) return onnx_kind(node.op_type());
    throw InvalidConfig(fmt::format("unknown operator {} of the domain {}",
                                    util::quoted(node.op_type()), util::quoted(node.domain())));
  } catch (const InvalidConfig& error) {
    if (unknown_memory_bound) return Kind::kMove;
    fail(file, fmt::format("node {}: {}; --unknown memory-bound counts its inputs and outputs",
                           util::quoted(node_name(node, index)), error.what()));
  }
}

/// Reads nodes and tensors of a model whose shapes are known.
class GraphBuilder {
 public:
  GraphBuilder(const onnx::GraphProto& source, const std::string& file, bool unknown_memory_bound)
      : source_(source), file_(file), unknown_memory_bound_(unknown_memory_bound) {}

  OperatorGraph build(const std::set<std::string>& constants, const std::set<std::string>& causal,
                      const std::map<std::string, std::string>& tied) {
    for (const onnx::TensorProto& tensor : source_.initializer()) {
      Tensor read{tensor.name(), {tensor.dims().begin(), tensor.dims().end()}};
      read.width = width_of(tensor.data_type());
      read.constant = true;
      insert(std::move(read));
    }
    for (const auto& info : source_.input()) add_tensor(info, constants.contains(info.name()));
    for (const auto& info : source_.value_info()) add_tensor(info, false);
    for (const auto& info : source_.output()) add_tensor(info, false);
    for (const std::string& name : causal) {
      const auto found = ids_.find(name);
      if (found != ids_.end())
        graph_.tensors[static_cast<std::size_t>(found->second)].causal = true;
    }
    for (const auto& [weight, table] : tied) {
      const auto from = ids_.find(table), to = ids_.find(weight);
      if (from == ids_.end() || to == ids_.end()) continue;
      graph_.tensors[static_cast<std::size_t>(to->second)].source = from->second;
    }
    for (int i = 0; i < source_.node_size(); ++i) add_operator(source_.node(i), i);
    for (const auto& info : source_.output()) {
      const auto found = ids_.find(info.name());
      if (found == ids_.end()) {
        fail(file_,
             fmt::format("output {}: its shape cannot be worked out", util::quoted(info.name())));
      }
      graph_.outputs.push_back(found->second);
    }
    drop_constant_operators(graph_);
    mark_tables_of_angles();
    return std::move(graph_);
  }

 private:
  /// Scales are vectors: what multiplies with more axes are the angles of rotary positions or the
  /// like, which a file does not tell from parameters.
  void mark_tables_of_angles() {
    for (const Operator& op : graph_.operators) {
      if (op.kind != Kind::kMultiply) continue;
      for (const int input : op.inputs) {
        const std::vector<std::int64_t>& dims = tensor(input).dims;
        if (std::count_if(dims.begin(), dims.end(), [](auto dim) { return dim > 1; }) < 2) continue;
        const int source = tensor(input).source;
        graph_.tensors[static_cast<std::size_t>(source >= 0 ? source : input)].trained = false;
      }
    }
  }

  void insert(Tensor tensor) {
    const auto [entry, added] = ids_.emplace(tensor.name, static_cast<int>(graph_.tensors.size()));
    if (added) graph_.tensors.push_back(std::move(tensor));
  }

  void add_tensor(const onnx::ValueInfoProto& info, bool constant) {
    if (!info.type().has_tensor_type()) return;
    const auto& type = info.type().tensor_type();
    if (!type.has_shape()) return;
    Tensor tensor{info.name(), {}};
    tensor.width = width_of(type.elem_type());
    tensor.constant = constant;
    double elements = 1;
    for (const auto& dim : type.shape().dim()) {
      if (!dim.has_dim_value()) return;
      if (dim.dim_value() < 0) fail(file_, too_large(info.name()));
      tensor.dims.push_back(dim.dim_value());
      elements *= static_cast<double>(dim.dim_value());
    }
    if (elements > static_cast<double>(kMostElements)) fail(file_, too_large(info.name()));
    insert(std::move(tensor));
  }

  static std::string too_large(const std::string& name) {
    return fmt::format("tensor {}: has a negative axis or more than 2^50 elements",
                       util::quoted(name));
  }

  int tensor_of(const onnx::NodeProto& node, int index, const std::string& name) const {
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    fail(file_, fmt::format("{}: the shape of {} cannot be worked out", titled(node, index),
                            util::quoted(name)));
  }

  void add_operator(const onnx::NodeProto& node, int index) {
    Operator op;
    op.name = node_name(node, index);
    op.type = node.op_type();
    op.scope = scope_of(op.name);
    op.kind = kind_of(node, index, file_, unknown_memory_bound_);
    for (const std::string& name : node.input()) {
      if (!name.empty()) op.inputs.push_back(tensor_of(node, index, name));
    }
    for (const std::string& name : node.output()) {
      // optional outputs, such as the mask of a dropout, may be without a shape
      if (name.empty() || (!op.outputs.empty() && !ids_.contains(name))) continue;
      op.outputs.push_back(tensor_of(node, index, name));
    }
    if (op.outputs.empty()) return;
    complete(op, node, index);
    graph_.operators.push_back(std::move(op));
  }

  const Tensor& tensor(int id) const { return graph_.tensors[static_cast<std::size_t>(id)]; }

  /// Checks what the reading of `op` relies on and inference may let pass.
  void check_inputs(const Operator& op, const onnx::NodeProto& node, int index) const {
    const auto rank = [&](std::size_t input) { return tensor(op.inputs[input]).dims.size(); };
    bool right = op.kind == Kind::kConstant || !op.inputs.empty();
    if (op.kind == Kind::kProduct || op.kind == Kind::kConvolution || op.kind == Kind::kLookup) {
      right = op.inputs.size() >= 2;
    }
    if (right && op.type == "Gemm") {
      right = rank(0) == 2 && rank(1) == 2 && tensor(op.outputs[0]).dims.size() == 2;
    }
    if (right && op.kind == Kind::kConvolution) {
      right = rank(0) >= 2 && rank(1) >= 2 && tensor(op.outputs[0]).dims.size() >= 2;
    }
    if (!right) fail(file_, fmt::format("{}: has too few inputs, or axes", titled(node, index)));
  }

  void complete(Operator& op, const onnx::NodeProto& node, int index) {
    check_inputs(op, node, index);
    switch (op.kind) {
      case Kind::kProduct:
        op.product = node.op_type() == "Gemm" ? gemm(op, node) : matmul(op);
        break;
      case Kind::kConvolution:
        op.product = convolution(op, node);
        break;
      case Kind::kLookup:
        if (!tensor(op.inputs[0]).constant) {
          op.kind = tensor(op.inputs[1]).constant ? Kind::kPiece : Kind::kMove;
        }
        break;
      case Kind::kRows:
        // running means and variances are not trained
        if (op.type == "BatchNormalization" && op.inputs.size() > 3) op.inputs.resize(3);
        break;
      case Kind::kMove:
        if (op.type != "Concat") op.inputs.resize(std::min<std::size_t>(op.inputs.size(), 1));
        break;
      default:
        break;
    }
  }

  /// The last axis of the left factor goes with the last but one of the right; a vector is a matrix
  /// of one row or one column.
  Product matmul(const Operator& op) const {
    const Tensor& a = tensor(op.inputs[0]);
    const Tensor& b = tensor(op.inputs[1]);
    const Tensor& c = tensor(op.outputs[0]);
    Product product;
    product.in = a.dims.empty() ? 1 : static_cast<double>(a.dims.back());
    product.out = b.dims.size() < 2 ? 1 : static_cast<double>(b.dims.back());
    find_rows(product, op, a, b, c);
    return product;
  }

  Product gemm(const Operator& op, const onnx::NodeProto& node) const {
    const Tensor& a = tensor(op.inputs[0]);
    const Tensor& c = tensor(op.outputs[0]);
    const bool flipped = number(node, "transA", 0) != 0;
    Product product;
    product.in = static_cast<double>(a.dims[flipped ? 0 : 1]);
    product.rows = static_cast<double>(c.dims[0]);
    product.out = static_cast<double>(c.dims[1]);
    if (tensor(op.inputs[1]).constant) product.weight = op.inputs[1];
    return product;
  }

  /// Every output pixel is a row, unless the convolution is a transposed one: then every input
  /// pixel is.
  Product convolution(const Operator& op, const onnx::NodeProto& node) const {
    const Tensor& x = tensor(op.inputs[0]);
    const Tensor& w = tensor(op.inputs[1]);
    const Tensor& y = tensor(op.outputs[0]);
    const bool transposed = node.op_type() == "ConvTranspose";
    Product product;
    product.groups = static_cast<double>(std::max<std::int64_t>(1, number(node, "group", 1)));
    const std::span<const std::int64_t> kernel = std::span(w.dims).subspan(2);
    const double first = static_cast<double>(w.dims[0]) / product.groups;
    const double second = static_cast<double>(w.dims[1]);
    product.in = transposed ? first : second * product_of(kernel);
    product.out = transposed ? second * product_of(kernel) : first;
    const Tensor& pixels = transposed ? x : y;
    product.rows = pixels.elements() / std::max<double>(1, static_cast<double>(pixels.dims[1]));
    if (w.constant) product.weight = op.inputs[1];
    return product;
  }

  const onnx::GraphProto& source_;
  const std::string& file_;
  bool unknown_memory_bound_;
  OperatorGraph graph_;
  std::map<std::string, int> ids_;
};

/// Forgets symbols of the exporter among the shapes of outputs.
void forget_symbols(onnx::GraphProto& graph) {
  for (onnx::ValueInfoProto& info : *graph.mutable_output()) {
    if (!info.type().tensor_type().has_shape()) continue;
    for (auto& dim : *info.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (dim.has_dim_param()) dim.clear_value();
    }
  }
}

}  // namespace

struct OnnxReader::Model {
  onnx::ModelProto proto;
  std::set<std::string> constants;  ///< inputs that were initializers
  std::set<std::string> causal;
  std::map<std::string, std::string> tied;  ///< weights that are tables, to the table

  const onnx::GraphProto& graph() const { return proto.graph(); }

  /// The first input that is not a weight.
  const onnx::ValueInfoProto* data_input() const {
    for (const auto& info : graph().input()) {
      if (!constants.contains(info.name())) return &info;
    }
    return nullptr;
  }

  /// The batch, if the data has axes.
  const onnx::TensorShapeProto::Dimension* batch_axis() const {
    const onnx::ValueInfoProto* input = data_input();
    if (input == nullptr || input->type().tensor_type().shape().dim_size() == 0) return nullptr;
    return &input->type().tensor_type().shape().dim(0);
  }

  std::vector<std::string> remarks;

  void find_tied_weights(OnnxValues& values);
  void tie(const onnx::TensorProto& weight, const onnx::TensorProto& table, OnnxValues& values);
  void turn_weights_into_inputs(const std::string& file, OnnxValues& values);
  /// Of constants that were folded.
  void find_causal_masks(OnnxValues& values);
  void check_dimensions(const std::string& file, const Dimensions& sizes) const;
  void bind(const std::string& file, const Dimensions& sizes, std::int64_t micro_batch);
};

void OnnxReader::Model::find_tied_weights(OnnxValues& values) {
  std::map<std::string, const onnx::TensorProto*> tensors;
  for (const onnx::TensorProto& tensor : graph().initializer()) tensors[tensor.name()] = &tensor;
  const auto named = [&](const onnx::NodeProto& node, int input) -> const onnx::TensorProto* {
    const auto found = node.input_size() > input ? tensors.find(node.input(input)) : tensors.end();
    return found == tensors.end() ? nullptr : found->second;
  };
  std::vector<const onnx::TensorProto*> tables;
  for (const onnx::NodeProto& node : graph().node()) {
    if (node.op_type() == "Gather" && named(node, 0) != nullptr) tables.push_back(named(node, 0));
  }
  for (const onnx::NodeProto& node : graph().node()) {
    const onnx::TensorProto* weight = node.op_type() == "MatMul" ? named(node, 1) : nullptr;
    if (weight == nullptr) continue;
    for (const onnx::TensorProto* table : tables) tie(*weight, *table, values);
  }
}

void OnnxReader::Model::tie(const onnx::TensorProto& weight, const onnx::TensorProto& table,
                            OnnxValues& values) {
  if (!has_transposed_shape(table, weight)) return;
  const OnnxValues::Items from = values.of(table), to = values.of(weight);
  if (from.bytes.empty() || to.bytes.empty()) {
    remarks.push_back(
        fmt::format("{} is taken not to be tied to {}: the file does not hold their values",
                    util::quoted(weight.name()), util::quoted(table.name())));
  } else if (is_transposed(from, to, static_cast<std::size_t>(table.dims(0)),
                           static_cast<std::size_t>(table.dims(1)))) {
    tied[weight.name()] = table.name();
  }
}

/// Weights become inputs of their shape, so that neither checks nor inference ask for their values.
void OnnxReader::Model::turn_weights_into_inputs(const std::string& file, OnnxValues& values) {
  onnx::GraphProto& graph = *proto.mutable_graph();
  std::set<std::string> inputs;
  for (const auto& info : graph.input()) inputs.insert(info.name());
  google::protobuf::RepeatedPtrField<onnx::TensorProto> kept;
  for (onnx::TensorProto& tensor : *graph.mutable_initializer()) {
    const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    const bool negative =
        std::any_of(dims.begin(), dims.end(), [](std::int64_t dim) { return dim < 0; });
    if (negative || product_of(dims) > static_cast<double>(kMostElements)) {
      fail(file, fmt::format("initializer {}: has a negative axis or more than 2^50 elements",
                             util::quoted(tensor.name())));
    }
    if (is_causal(tensor, values)) causal.insert(tensor.name());
    const bool small =
        width_of(tensor.data_type()) > 0 && product_of(dims) * 8 <= kSmallInitializer;
    if (small && take_in(tensor, values)) {
      kept.Add()->Swap(&tensor);
      continue;
    }
    constants.insert(tensor.name());
    if (inputs.contains(tensor.name())) continue;
    onnx::ValueInfoProto* info = graph.add_input();
    info->set_name(tensor.name());
    auto* type = info->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    type->mutable_shape();
    for (const std::int64_t dim : dims) type->mutable_shape()->add_dim()->set_dim_value(dim);
  }
  graph.mutable_initializer()->Swap(&kept);
  for (const onnx::NodeProto& node : graph.node()) {
    const onnx::AttributeProto* value =
        node.op_type() == "Constant" ? attribute(node, "value") : nullptr;
    if (value != nullptr && node.output_size() == 1 && is_causal(value->t(), values)) {
      causal.insert(node.output(0));
    }
  }
}

void OnnxReader::Model::find_causal_masks(OnnxValues& values) {
  for (const onnx::TensorProto& tensor : graph().initializer()) {
    if (is_causal(tensor, values)) causal.insert(tensor.name());
  }
}

/// That every size is of an axis that needs one.
void OnnxReader::Model::check_dimensions(const std::string& file, const Dimensions& sizes) const {
  const auto* batch = batch_axis();
  const std::string batch_name = batch != nullptr ? batch->dim_param() : "";
  std::set<std::string> names;
  for (const onnx::ValueInfoProto& info : graph().input()) {
    for (const auto& dim : info.type().tensor_type().shape().dim()) names.insert(dim.dim_param());
  }
  names.erase("");
  names.erase(batch_name);
  for (const auto& [name, size] : sizes) {
    if (names.contains(name)) continue;
    if (name == batch_name) {
      throw InvalidConfig(fmt::format("--dim: {} is the batch of {} (--micro-batch {})",
                                      util::quoted(name), file, size));
    }
    const std::string known = names.empty()
                                  ? " (none of its axes needs a size)"
                                  : util::hint(name, std::vector(names.begin(), names.end()));
    throw InvalidConfig(
        fmt::format("--dim: {} has no symbolic axis {}{}", file, util::quoted(name), known));
  }
}

/// Gives all axes of the inputs their sizes.
void OnnxReader::Model::bind(const std::string& file, const Dimensions& sizes,
                             std::int64_t micro_batch) {
  const auto* batch = batch_axis();
  const std::string batch_name = batch != nullptr ? batch->dim_param() : "";
  for (onnx::ValueInfoProto& info : *proto.mutable_graph()->mutable_input()) {
    if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) {
      fail(file, fmt::format("input {}: is no tensor with a shape", util::quoted(info.name())));
    }
    auto* shape = info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int axis = 0; axis < shape->dim_size(); ++axis) {
      auto* dim = shape->mutable_dim(axis);
      if (dim->has_dim_value()) continue;
      const std::string name = dim->dim_param();
      if (dim == batch || (!name.empty() && name == batch_name)) {
        dim->set_dim_value(micro_batch);
        continue;
      }
      const auto size = sizes.find(name);
      if (name.empty() || size == sizes.end()) {
        throw InvalidConfig(fmt::format(
            "--dim: axis {} of input {} of {} has no size{}", axis, util::quoted(info.name()), file,
            name.empty() ? ", and no name to give it one by" : fmt::format(" (--dim {}=N)", name)));
      }
      dim->set_dim_value(size->second);
    }
  }
}

OnnxReader::OnnxReader(std::string_view content, std::string file, Dimensions dimensions,
                       bool unknown_memory_bound)
    : model_(std::make_unique<Model>()),
      file_(std::move(file)),
      dimensions_(std::move(dimensions)),
      unknown_memory_bound_(unknown_memory_bound) {
  const google::protobuf::LogSilencer silence;
  onnx::ModelProto& proto = model_->proto;
  if (content.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(content.data(), static_cast<int>(content.size())) ||
      !proto.has_graph()) {
    fail(file_, "is not an ONNX model: it is damaged, cut short or something else");
  }
  if (proto.graph().node_size() == 0) fail(file_, "the graph has no nodes");
  if (static_cast<std::size_t>(proto.graph().node_size()) > kMostOperators) {
    fail(file_, fmt::format("the graph has more than {} nodes", kMostOperators));
  }
  if (proto.functions_size() > 0) {
    fail(file_, fmt::format("function {}: local functions are not read (inline them when "
                            "exporting)",
                            util::quoted(proto.functions(0).name())));
  }
  if (proto.graph().sparse_initializer_size() > 0) fail(file_, "sparse tensors are not read");
  for (int i = 0; i < proto.graph().node_size(); ++i) {
    const onnx::NodeProto& node = proto.graph().node(i);
    for (const onnx::AttributeProto& each : node.attribute()) {
      if (each.has_g() || each.graphs_size() > 0) {
        fail(file_, fmt::format("{}: control flow cannot be costed", titled(node, i)));
      }
    }
    kind_of(node, i, file_, unknown_memory_bound_);
  }
  OnnxValues values(file_);
  model_->find_tied_weights(values);
  model_->turn_weights_into_inputs(file_, values);
  model_->check_dimensions(file_, dimensions_);
}

OnnxReader::~OnnxReader() = default;

const std::vector<std::string>& OnnxReader::remarks() const { return model_->remarks; }

std::optional<std::int64_t> OnnxReader::fixed_batch() const {
  const auto* batch = model_->batch_axis();
  if (batch == nullptr) return 1;
  if (!batch->has_dim_value()) return std::nullopt;
  return std::max<std::int64_t>(1, batch->dim_value());
}

OperatorGraph OnnxReader::read(std::int64_t micro_batch) const {
  const google::protobuf::LogSilencer silence;
  Model bound{model_->proto, model_->constants, model_->causal, model_->tied, {}};
  bound.bind(file_, dimensions_, micro_batch);
  forget_symbols(*bound.proto.mutable_graph());
  infer_shapes(bound.proto, file_);
  OnnxValues values(file_);
  bound.find_causal_masks(values);
  OperatorGraph graph = GraphBuilder(bound.graph(), file_, unknown_memory_bound_)
                            .build(bound.constants, bound.causal, bound.tied);
  graph.name = std::filesystem::path(file_).stem().string();  // exporters name all alike
  graph.micro_batch = micro_batch;
  if (const onnx::ValueInfoProto* input = bound.data_input()) {
    const auto& type = input->type().tensor_type();
    const bool ids = width_of(type.elem_type()) > 1 && type.shape().dim_size() == 2;
    if (ids) graph.tokens_per_sample = static_cast<double>(type.shape().dim(1).dim_value());
  }
  return graph;
}

}  // namespace nestplan::importers
