#include "importers/fx_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>

#include "nestplan/io/keys.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

using io::Field;

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;  ///< of an axis
constexpr std::size_t kMostAxes = 16;

double width_of(const Field& field) {
  const std::map<std::string, double> widths{
      {"float32", 0}, {"float64", 0}, {"float16", 0}, {"bfloat16", 0}, {"int64", 8},
      {"int32", 4},   {"int16", 2},   {"int8", 1},    {"uint8", 1},    {"bool", 1}};
  const std::string name = field.text();
  const auto found = widths.find(name);
  if (found != widths.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [each, width] : widths) known.push_back(each);
  field.fail(fmt::format("unknown dtype {}{}", util::quoted(name), util::hint(name, known)));
}

std::vector<std::int64_t> shape_of(const Field& field) {
  std::vector<std::int64_t> dims;
  double elements = 1;
  for (const Field& item : field.items()) {
    dims.push_back(item.integer(0, kMostSize));
    elements *= static_cast<double>(dims.back());
  }
  if (dims.size() > kMostAxes) field.fail(fmt::format("has more than {} axes", kMostAxes));
  if (elements > static_cast<double>(kMostElements)) field.fail("has more than 2^50 elements");
  return dims;
}

class Builder {
 public:
  Builder(const Field& root, std::size_t index, bool unknown_memory_bound)
      : root_(root), index_(index), unknown_memory_bound_(unknown_memory_bound) {}

  OperatorGraph build() {
    graph_.name = root_.at("name").identifier();
    for (const Field& field : root_.at("constants").items()) add_constant(field);
    const std::vector<Field> nodes = root_.at("nodes").items();
    if (nodes.size() > kMostOperators) {
      root_.at("nodes").fail(fmt::format("has more than {} nodes", kMostOperators));
    }
    for (const Field& field : nodes) add_node(field);
    for (const Field& field : root_.at("outputs").items()) graph_.outputs.push_back(id_of(field));
    drop_constant_operators(graph_);
    return std::move(graph_);
  }

 private:
  const Tensor& tensor(int id) const { return graph_.tensors[static_cast<std::size_t>(id)]; }

  int insert(Tensor tensor, const Field* name = nullptr) {
    const int id = static_cast<int>(graph_.tensors.size());
    if (name != nullptr && !ids_.emplace(tensor.name, id).second) {
      name->fail(fmt::format("{} is the name of two", util::quoted(tensor.name)));
    }
    graph_.tensors.push_back(std::move(tensor));
    return id;
  }

  void add_constant(const Field& field) {
    field.expect(io::fx_keys::kConstant);
    const Field name = field.at("name");
    Tensor tensor{name.identifier(), shape_of(field.at("shape"))};
    tensor.width = width_of(field.at("dtype"));
    tensor.constant = true;
    const auto causal = field.find("causal");
    tensor.causal = causal && causal->boolean();
    const auto trained = field.find("trained");
    tensor.trained = !trained || trained->boolean();
    insert(std::move(tensor), &name);
  }

  int id_of(const Field& field) const {
    const std::string name = field.identifier();
    const auto found = ids_.find(name);
    if (found != ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [each, id] : ids_) known.push_back(each);
    const auto near = util::nearest(name, known);
    field.fail(fmt::format("no node or constant before this one is called {}{}", util::quoted(name),
                           near ? fmt::format(" (did you mean {}?)", util::quoted(*near)) : ""));
  }

  void add_node(const Field& field) {
    field.expect(io::fx_keys::kNode);
    const Field name = field.at("name");
    const std::vector<Field> shapes = field.at("shapes").items();
    if (shapes.size() <= index_) field.at("shapes").fail("needs one shape for each micro-batch");
    Operator op;
    op.name = name.identifier();
    op.type = field.at("type").identifier();
    for (const Field& input : field.at("inputs").items()) op.inputs.push_back(id_of(input));
    Tensor result{op.name, shape_of(shapes[index_])};
    result.width = width_of(field.at("dtype"));
    if (op.type == "placeholder") {
      if (!has_input_ && result.width > 1 && result.dims.size() == 2) {
        graph_.tokens_per_sample = static_cast<double>(result.dims[1]);
      }
      has_input_ = true;
      insert(std::move(result), &name);
      return;
    }
    const std::string module = field.at("module").text();
    for (const std::string_view part : util::split(module, '.')) {
      if (!part.empty()) op.scope.emplace_back(part);
    }
    op.kind = kind_of(field, op.type);
    op.outputs.push_back(insert(std::move(result), &name));
    complete(field, std::move(op));
  }

  Kind kind_of(const Field& field, const std::string& type) const {
    try {
      return torch_kind(type);
    } catch (const InvalidConfig& error) {
      if (unknown_memory_bound_) return Kind::kMove;
      field.at("type").fail(
          fmt::format("{}; --unknown memory-bound counts its inputs and outputs", error.what()));
    }
  }

  [[noreturn]] static void fail_inputs(const Field& field, std::string_view wanted) {
    field.at("inputs").fail(fmt::format("must be {}", wanted));
  }

  void complete(const Field& field, Operator op) {
    if (op.kind != Kind::kConstant && op.inputs.empty()) fail_inputs(field, "one at least");
    switch (op.kind) {
      case Kind::kProduct:
        op.product = product_of(field, op);
        break;
      case Kind::kConvolution:
        op.product = convolution_of(field, op);
        break;
      case Kind::kLookup:
        if (op.inputs.size() < 2) fail_inputs(field, "indices and a table");
        op.inputs = {op.inputs[1], op.inputs[0]};
        break;
      case Kind::kAttention:
        if (op.type == "MultiheadAttention") return add_multihead(field, std::move(op));
        op.attention = attention_of(field, op);
        break;
      case Kind::kMove:
        if (op.type != "cat" && op.type != "concat" && op.type != "stack")
          op.inputs.erase(op.inputs.begin() + 1, op.inputs.end());
        break;
      default:
        break;
    }
    graph_.operators.push_back(std::move(op));
  }

  Product product_of(const Field& field, Operator& op) const {
    Product product;
    if (op.type == "addmm" && op.inputs.size() == 3) {
      std::rotate(op.inputs.begin(), op.inputs.begin() + 1, op.inputs.end());
    }
    if (op.inputs.size() < 2) fail_inputs(field, "two factors");
    const Tensor& a = tensor(op.inputs[0]);
    const Tensor& b = tensor(op.inputs[1]);
    const Tensor& c = tensor(op.outputs[0]);
    if (a.dims.empty() || b.dims.empty()) fail_inputs(field, "two factors with axes");
    const bool transposed = op.type == "Linear" || op.type == "linear";
    if (transposed && b.dims.size() != 2) fail_inputs(field, "an activation and a matrix");
    product.in = static_cast<double>(a.dims.back());
    product.out = static_cast<double>(transposed ? b.dims[0] : b.dims.back());
    const double depth = static_cast<double>(
        transposed || b.dims.size() == 1 ? b.dims.back() : b.dims[b.dims.size() - 2]);
    if (depth != product.in) {
      fail_inputs(field, fmt::format("factors of one depth, but are {} and {}", product.in, depth));
    }
    if (b.dims.size() == 1) product.out = 1;
    find_rows(product, op, a, b, c);
    return product;
  }

  Product convolution_of(const Field& field, const Operator& op) const {
    if (op.inputs.size() < 2) fail_inputs(field, "an image and a kernel");
    const Tensor& x = tensor(op.inputs[0]);
    const Tensor& w = tensor(op.inputs[1]);
    const Tensor& y = tensor(op.outputs[0]);
    if (x.dims.size() < 3 || w.dims.size() < 3 || y.dims.size() < 3 || w.elements() == 0) {
      fail_inputs(field, "an image and a kernel with three axes or more");
    }
    Product product;
    product.groups = std::max(1.0, static_cast<double>(x.dims[1]) / static_cast<double>(w.dims[1]));
    product.in = w.elements() / static_cast<double>(w.dims[0]);
    product.out = static_cast<double>(w.dims[0]) / product.groups;
    product.rows = y.elements() / std::max(1.0, static_cast<double>(y.dims[1]));
    if (w.constant) product.weight = op.inputs[1];
    return product;
  }

  static std::optional<Field> attribute(const Field& field, const char* name) {
    const auto attributes = field.find("attributes");
    if (!attributes) return std::nullopt;
    attributes->expect(io::fx_keys::kAttributes);
    return attributes->find(name);
  }

  /// Of [sequences…, heads, tokens, width] each.
  AttentionShape attention_of(const Field& field, const Operator& op) const {
    if (op.inputs.size() < 3) fail_inputs(field, "queries, keys and values");
    const Tensor& q = tensor(op.inputs[0]);
    const Tensor& k = tensor(op.inputs[1]);
    const std::size_t rank = q.dims.size();
    if (rank < 3 || k.dims.size() != rank || q.elements() == 0 || k.elements() == 0) {
      fail_inputs(field, "queries, keys and values with heads, tokens and widths");
    }
    AttentionShape shape;
    shape.head_dim = static_cast<double>(q.dims[rank - 1]);
    shape.tokens = static_cast<double>(q.dims[rank - 2]);
    shape.keys = static_cast<double>(k.dims[rank - 2]);
    shape.heads = static_cast<double>(q.dims[rank - 3]);
    shape.kv_heads = static_cast<double>(k.dims[rank - 3]);
    shape.sequences = q.elements() / (shape.head_dim * shape.tokens * shape.heads);
    mask(shape, field, std::span(op.inputs).subspan(3));
    return shape;
  }

  void mask(AttentionShape& shape, const Field& field, std::span<const int> masks) const {
    const auto causal = attribute(field, "is_causal");
    shape.causal =
        (causal && causal->boolean()) ||
        std::any_of(masks.begin(), masks.end(), [this](int t) { return tensor(t).causal; });
    shape.masked = std::any_of(masks.begin(), masks.end(), [&](int t) {
      return is_mask_of(tensor(t), shape.tokens, shape.keys);
    });
  }

  int add_part(std::string name, std::vector<std::int64_t> dims, bool constant) {
    Tensor part{std::move(name), std::move(dims)};
    part.constant = constant;
    return insert(std::move(part));
  }

  /// Products of Q, K and V with their parts of the weight, the core, and the output product. The
  /// parameters are those of torch.nn.MultiheadAttention with one width, in its order:
  /// in_proj_weight, in_proj_bias, out_proj.weight, out_proj.bias; or without any bias.
  void add_multihead(const Field& field, Operator op) {
    const auto heads = attribute(field, "num_heads");
    if (!heads) field.fail("a MultiheadAttention needs the attribute \"num_heads\"");
    const auto batch_first = attribute(field, "batch_first");
    const bool batch_leads = batch_first && batch_first->boolean();
    if (op.inputs.size() < 5) fail_inputs(field, "queries, keys, values and two weights");
    const auto weights = std::find_if(op.inputs.begin() + 3, op.inputs.end(), [this](int t) {
      return tensor(t).constant && tensor(t).is_float() && tensor(t).dims.size() == 2 &&
             tensor(t).dims[0] == 3 * tensor(t).dims[1];
    });
    const Tensor query = tensor(op.inputs[0]);
    if (weights == op.inputs.end() || query.dims.size() != 3 ||
        tensor(*weights).dims[1] != query.dims[2] || query.elements() == 0 ||
        tensor(op.inputs[1]).dims.size() != 3) {
      fail_inputs(field, "batches of tokens, and weights of three times their width");
    }
    const std::vector<int> parameters(weights, op.inputs.end());
    const std::vector<int> masks(op.inputs.begin() + 3, weights);
    const std::int64_t width = query.dims[2];
    const bool biased = parameters.size() == 4;
    if (!biased && parameters.size() != 2) fail_inputs(field, "two weights, or with their biases");
    Operator core{op.name + "/core", op.type, op.scope, Kind::kAttention, {}, {}};
    for (std::size_t i = 0; i < 3; ++i) {
      constexpr std::array<const char*, 3> kParts{"q", "k", "v"};
      Operator product{fmt::format("{}/{}", op.name, kParts[i]),
                       op.type,
                       op.scope,
                       Kind::kProduct,
                       {op.inputs[i]},
                       {}};
      const std::vector<std::int64_t> dims = tensor(op.inputs[i]).dims;
      product.inputs.push_back(add_part(product.name + ".weight", {width, width}, true));
      if (biased) product.inputs.push_back(add_part(product.name + ".bias", {width}, true));
      product.outputs = {add_part(product.name, dims, false)};
      product.product = linear(product);
      core.inputs.push_back(product.outputs.front());
      graph_.operators.push_back(std::move(product));
    }
    core.inputs.insert(core.inputs.end(), masks.begin(), masks.end());
    core.outputs = {add_part(core.name, query.dims, false)};
    AttentionShape& shape = core.attention;
    shape.heads = shape.kv_heads = static_cast<double>(heads->integer(1, width));
    shape.head_dim = static_cast<double>(width) / shape.heads;
    shape.sequences = static_cast<double>(query.dims[batch_leads ? 0 : 1]);
    shape.tokens = static_cast<double>(query.dims[batch_leads ? 1 : 0]);
    shape.keys = static_cast<double>(tensor(op.inputs[1]).dims[batch_leads ? 1 : 0]);
    mask(shape, field, masks);
    Operator exit{op.name + "/out", op.type, op.scope, Kind::kProduct, core.outputs, op.outputs};
    exit.inputs.push_back(parameters[biased ? 2 : 1]);
    if (biased) exit.inputs.push_back(parameters.back());
    exit.product = linear(exit);
    graph_.operators.push_back(std::move(core));
    graph_.operators.push_back(std::move(exit));
  }

  /// Of an activation and a square matrix.
  Product linear(const Operator& op) const {
    const Tensor& x = tensor(op.inputs[0]);
    Product product;
    product.in = product.out = static_cast<double>(x.dims.back());
    product.rows = x.elements() / std::max(1.0, product.in);
    product.weight = op.inputs[1];
    return product;
  }

  Field root_;
  std::size_t index_;
  bool unknown_memory_bound_;
  OperatorGraph graph_;
  std::map<std::string, int> ids_;
  bool has_input_ = false;
};

}  // namespace

FxReader::FxReader(std::string_view content, const std::string& file, bool unknown_memory_bound)
    : document_(content, file), unknown_memory_bound_(unknown_memory_bound) {
  const Field root = document_.root_of(io::kFxFormat);
  root.expect(io::fx_keys::kFx);
  for (const Field& item : root.at("micro_batches").items()) {
    micro_batches_.push_back(item.integer(1, io::kMostDegree));
    const auto before = micro_batches_.end() - 1;
    if (std::find(micro_batches_.begin(), before, *before) != before) item.fail("is given twice");
  }
  if (micro_batches_.empty()) root.at("micro_batches").fail("must not be empty");
}

OperatorGraph FxReader::read(std::size_t index) const {
  OperatorGraph graph = Builder(document_.root(), index, unknown_memory_bound_).build();
  graph.micro_batch = micro_batches_[index];
  return graph;
}

}  // namespace nestplan::importers
