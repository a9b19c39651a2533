#include "importers/static_values.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "importers/onnx_attributes.hpp"

namespace nestplan::importers {
namespace {

constexpr std::size_t kMostItems = std::size_t{1} << 20;

template <typename Stored>
void append_raw(const std::string& raw, std::vector<std::int64_t>& items) {
  for (std::size_t at = 0; at + sizeof(Stored) <= raw.size(); at += sizeof(Stored)) {
    Stored item;
    std::memcpy(&item, raw.data() + at, sizeof(Stored));
    items.push_back(static_cast<std::int64_t>(item));
  }
}

/// The items of a tensor of whole numbers or truth values; nothing for others.
std::optional<std::vector<std::int64_t>> whole_numbers(const onnx::TensorProto& tensor) {
  std::vector<std::int64_t> items;
  switch (tensor.data_type()) {
    case onnx::TensorProto::INT64:
      items.assign(tensor.int64_data().begin(), tensor.int64_data().end());
      append_raw<std::int64_t>(tensor.raw_data(), items);
      break;
    case onnx::TensorProto::INT32:
      items.assign(tensor.int32_data().begin(), tensor.int32_data().end());
      append_raw<std::int32_t>(tensor.raw_data(), items);
      break;
    case onnx::TensorProto::BOOL:
      items.assign(tensor.int32_data().begin(), tensor.int32_data().end());
      append_raw<std::uint8_t>(tensor.raw_data(), items);
      break;
    default:
      return std::nullopt;
  }
  return items;
}

std::int64_t count(const std::vector<std::int64_t>& dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0 || dim > static_cast<std::int64_t>(kMostItems)) return -1;
    product *= dim;
    if (product > static_cast<std::int64_t>(kMostItems)) return -1;
  }
  return product;
}

/// The shape that both broadcast to, if they do.
std::optional<std::vector<std::int64_t>> broadcast(const std::vector<std::int64_t>& a,
                                                   const std::vector<std::int64_t>& b) {
  std::vector<std::int64_t> dims(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return std::nullopt;
    dims[dims.size() - 1 - i] = x == 1 ? y : x;
  }
  return dims;
}

/// The item of a tensor of shape `from` that stands at `flat` once it is broadcast to `to`.
std::size_t broadcast_index(std::size_t flat, const std::vector<std::int64_t>& to,
                            const std::vector<std::int64_t>& from) {
  std::size_t index = 0, stride = 1;
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto size = static_cast<std::size_t>(to[to.size() - 1 - i]);
    const std::size_t at = flat % size;
    flat /= size;
    if (i >= from.size()) continue;
    const auto own = static_cast<std::size_t>(from[from.size() - 1 - i]);
    if (own > 1) index += at * stride;
    stride *= own;
  }
  return index;
}

/// Of two whole numbers, as ONNX defines it for integers; nothing for other operators and where it
/// is not defined.
std::optional<std::int64_t> combined(const std::string& type, std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (std::max(a, b) > kMost || std::min(a, b) < -kMost) return std::nullopt;
  if (type == "Add") return a + b;
  if (type == "Sub") return a - b;
  if (type == "Mul") return a * b;
  if (type == "Div" && b != 0) return a / b;
  if (type == "Mod" && b > 0) return (a % b + b) % b;
  if (type == "Equal") return a == b ? 1 : 0;
  if (type == "Less") return a < b ? 1 : 0;
  if (type == "Greater") return a > b ? 1 : 0;
  if (type == "Min") return std::min(a, b);
  if (type == "Max") return std::max(a, b);
  return std::nullopt;
}

bool is_comparison(const std::string& type) {
  return type == "Equal" || type == "Less" || type == "Greater";
}

}  // namespace

StaticValues::StaticValues(const onnx::GraphProto& graph) {
  for (const onnx::TensorProto& tensor : graph.initializer()) {
    const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
    auto items = whole_numbers(tensor);
    if (items && count(dims) == static_cast<std::int64_t>(items->size())) {
      values_[tensor.name()] = {dims, *std::move(items), tensor.data_type()};
    }
  }
}

const StaticValues::Value* StaticValues::input(const onnx::NodeProto& node, int index) const {
  if (index >= node.input_size()) return nullptr;
  const auto found = values_.find(node.input(index));
  return found == values_.end() ? nullptr : &found->second;
}

bool StaticValues::shape_of(const onnx::NodeProto& node, Value& result) const {
  const auto found = node.input_size() == 1 ? shapes_.find(node.input(0)) : shapes_.end();
  if (found == shapes_.end()) return false;
  const auto rank = static_cast<std::int64_t>(found->second.size());
  const auto clamped = [rank](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamped(number(node, "start", 0));
  const std::int64_t end = std::max(start, clamped(number(node, "end", rank)));
  result.items.assign(found->second.begin() + start, found->second.begin() + end);
  result.dims = {end - start};
  return true;
}

/// Along the only axis.
bool StaticValues::gather(const onnx::NodeProto& node, Value& result) const {
  const Value* data = input(node, 0);
  const Value* indices = input(node, 1);
  if (data == nullptr || indices == nullptr || data->dims.size() != 1) return false;
  result.dims = indices->dims;
  result.type = data->type;
  for (std::int64_t at : indices->items) {
    if (at < 0) at += data->dims[0];
    if (at < 0 || at >= data->dims[0]) return false;
    result.items.push_back(data->items[static_cast<std::size_t>(at)]);
  }
  return true;
}

/// Of lists.
bool StaticValues::concat(const onnx::NodeProto& node, Value& result) const {
  for (int i = 0; i < node.input_size(); ++i) {
    const Value* part = input(node, i);
    if (part == nullptr || part->dims.size() != 1) return false;
    result.items.insert(result.items.end(), part->items.begin(), part->items.end());
    result.type = part->type;
  }
  result.dims = {static_cast<std::int64_t>(result.items.size())};
  return true;
}

/// Of a list, forwards.
bool StaticValues::slice(const onnx::NodeProto& node, Value& result) const {
  const Value* data = input(node, 0);
  const Value* starts = input(node, 1);
  const Value* ends = input(node, 2);
  const Value* steps = input(node, 4);
  if (data == nullptr || starts == nullptr || ends == nullptr) return false;
  if (data->dims.size() != 1 || starts->items.size() != 1 || ends->items.size() != 1) return false;
  if (node.input_size() > 4 && (steps == nullptr || steps->items != std::vector<std::int64_t>{1})) {
    return false;
  }
  const std::int64_t size = data->dims[0];
  const auto clamped = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t start = clamped(std::max(starts->items[0], -size));
  const std::int64_t end = std::max(start, clamped(std::max(ends->items[0], -size - 1)));
  result.items.assign(data->items.begin() + start, data->items.begin() + end);
  result.dims = {end - start};
  result.type = data->type;
  return true;
}

bool StaticValues::range(const onnx::NodeProto& node, Value& result) const {
  std::vector<std::int64_t> bounds;
  for (int i = 0; i < 3; ++i) {
    const Value* value = input(node, i);
    if (value == nullptr || value->items.size() != 1) return false;
    bounds.push_back(value->items[0]);
    result.type = value->type;
  }
  constexpr auto kMost = static_cast<std::int64_t>(kMostItems);
  const auto [least, most] = std::minmax_element(bounds.begin(), bounds.end());
  if (*least < -kMost || *most > kMost || bounds[2] <= 0) return false;
  for (std::int64_t at = bounds[0]; at < bounds[1]; at += bounds[2]) result.items.push_back(at);
  result.dims = {static_cast<std::int64_t>(result.items.size())};
  return true;
}

bool StaticValues::constant_of_shape(const onnx::NodeProto& node, Value& result) const {
  const Value* shape = input(node, 0);
  const onnx::AttributeProto* value = attribute(node, "value");
  if (shape == nullptr || value == nullptr || count(shape->items) < 0) return false;
  const auto items = whole_numbers(value->t());
  if (!items || items->size() != 1) return false;
  result.dims = shape->items;
  result.type = value->t().data_type();
  result.items.assign(static_cast<std::size_t>(count(shape->items)), items->front());
  return true;
}

bool StaticValues::element_wise(const onnx::NodeProto& node, Value& result) const {
  const bool where = node.op_type() == "Where";
  const Value* a = input(node, where ? 1 : 0);
  const Value* b = input(node, where ? 2 : 1);
  const Value* condition = where ? input(node, 0) : a;
  if (a == nullptr || b == nullptr || condition == nullptr) return false;
  if (node.input_size() != (where ? 3 : 2)) return false;
  auto dims = broadcast(a->dims, b->dims);
  if (dims) dims = broadcast(*dims, condition->dims);
  if (!dims || count(*dims) < 0) return false;
  result.dims = *dims;
  result.type = is_comparison(node.op_type()) ? onnx::TensorProto::BOOL : a->type;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count(*dims)); ++i) {
    const std::int64_t x = a->items[broadcast_index(i, *dims, a->dims)];
    const std::int64_t y = b->items[broadcast_index(i, *dims, b->dims)];
    const auto item =
        where ? std::optional(condition->items[broadcast_index(i, *dims, condition->dims)] != 0 ? x
                                                                                                : y)
              : combined(node.op_type(), x, y);
    if (!item) return false;
    result.items.push_back(*item);
  }
  return true;
}

bool StaticValues::evaluate(const onnx::NodeProto& node, Value& result) const {
  const std::string& type = node.op_type();
  if (type == "Shape") return shape_of(node, result);
  if (type == "Gather") return gather(node, result);
  if (type == "Concat") return concat(node, result);
  if (type == "Slice") return slice(node, result);
  if (type == "Range") return range(node, result);
  if (type == "ConstantOfShape") return constant_of_shape(node, result);
  if (type == "Constant") {
    const onnx::AttributeProto* value = attribute(node, "value");
    const auto items = value != nullptr ? whole_numbers(value->t()) : std::nullopt;
    if (!items) return false;
    result.dims.assign(value->t().dims().begin(), value->t().dims().end());
    result.items = *items;
    result.type = value->t().data_type();
    return count(result.dims) == static_cast<std::int64_t>(items->size());
  }
  const Value* data = input(node, 0);
  if (type == "Cast") {
    const std::int64_t to = number(node, "to", 0);
    if (data == nullptr || (to != onnx::TensorProto::INT64 && to != onnx::TensorProto::INT32)) {
      return false;
    }
    result = *data;
    result.type = static_cast<std::int32_t>(to);
    return true;
  }
  if (type == "Identity" && data != nullptr) {
    result = *data;
    return true;
  }
  if (type == "Unsqueeze" || type == "Squeeze" || type == "Reshape") {
    // between a number and a list of one; or a list, reshaped to one
    if (data == nullptr || data->dims.size() > 1) return false;
    if (type == "Unsqueeze" && !data->dims.empty()) return false;
    if (type == "Squeeze" && data->items.size() != 1) return false;
    if (type == "Reshape") {
      const Value* shape = input(node, 1);
      if (shape == nullptr || shape->items.size() != 1) return false;
    }
    result = *data;
    result.dims.clear();
    if (type != "Squeeze") result.dims = {static_cast<std::int64_t>(data->items.size())};
    return true;
  }
  return element_wise(node, result);
}

onnx::TensorProto StaticValues::to_tensor(const std::string& name, const Value& value) {
  onnx::TensorProto tensor;
  tensor.set_name(name);
  tensor.set_data_type(value.type);
  tensor.mutable_dims()->Assign(value.dims.begin(), value.dims.end());
  if (value.type == onnx::TensorProto::INT64) {
    tensor.mutable_int64_data()->Assign(value.items.begin(), value.items.end());
  } else {
    tensor.mutable_int32_data()->Assign(value.items.begin(), value.items.end());
  }
  return tensor;
}

std::optional<onnx::TensorProto> StaticValues::fold(const onnx::NodeProto& node) {
  Value result;
  if (node.output_size() != 1 || !evaluate(node, result)) return std::nullopt;
  onnx::TensorProto tensor = to_tensor(node.output(0), result);
  values_[node.output(0)] = std::move(result);
  return tensor;
}

}  // namespace nestplan::importers
