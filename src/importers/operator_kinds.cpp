#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "importers/causal_mask.hpp"
#include "importers/operator_graph.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

struct Types {
  Kind kind;
  std::string_view names;  ///< separated by blanks
};

/// Operators of ai.onnx up to opset 17.
constexpr std::array<Types, 14> kOnnxTypes{{
    {Kind::kView, "Cast CastLike Expand Flatten Identity Reshape Squeeze Transpose Unsqueeze"},
    {Kind::kPiece, "Slice Split"},
    {Kind::kLinear, "Add Mean Neg ReduceMean ReduceSum Sub Sum"},
    {Kind::kMultiply, "Mul Where"},
    {Kind::kDivide, "Div"},
    {Kind::kPointwise,
     "Abs Acos And Asin Atan BitShift Ceil Celu Clip Cos Cosh Elu Equal Erf Exp Floor Greater "
     "GreaterOrEqual HardSigmoid HardSwish IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Min Mod "
     "Not Or PRelu Pow Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign "
     "Sqrt Tan Tanh ThresholdedRelu Xor"},
    {Kind::kRows,
     "BatchNormalization InstanceNormalization LRN LayerNormalization LpNormalization "
     "MeanVarianceNormalization ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMin "
     "ReduceProd ReduceSumSquare"},
    {Kind::kSoftmax, "LogSoftmax Softmax"},
    {Kind::kDropout, "Dropout"},
    {Kind::kMove,
     "ArgMax ArgMin AveragePool Concat CumSum DepthToSpace GatherElements GatherND "
     "GlobalAveragePool GlobalMaxPool LpPool MaxPool OneHot Pad Resize ReverseSequence "
     "ScatterElements ScatterND SpaceToDepth Tile TopK Trilu Upsample"},
    {Kind::kLookup, "Gather"},
    {Kind::kProduct, "Gemm MatMul"},
    {Kind::kConvolution, "Conv ConvTranspose"},
    {Kind::kConstant, "Constant ConstantOfShape EyeLike Range Shape Size"},
}};

/// Modules (in capitals), functions and methods of torch, torch.nn and torch.nn.functional, and
/// those of `operator`.
constexpr std::array<Types, 14> kTorchTypes{{
    {Kind::kView,
     "Flatten Identity Unflatten bfloat16 bool chunk clone contiguous cpu cuda detach double "
     "expand "
     "expand_as flatten float half int long permute repeat_interleave reshape reshape_as split "
     "split_with_sizes squeeze swapaxes t to transpose type type_as unbind unflatten unsqueeze "
     "view "
     "view_as"},
    {Kind::kPiece, "getitem narrow select slice"},
    {Kind::kLinear, "add iadd isub mean neg rsub sub sum"},
    {Kind::kMultiply, "imul masked_fill mul where"},
    {Kind::kDivide, "div itruediv truediv"},
    {Kind::kPointwise,
     "CELU ELU GELU Hardsigmoid Hardswish Hardtanh LeakyReLU Mish PReLU ReLU ReLU6 SELU SiLU "
     "Sigmoid Softplus Tanh abs clamp cos elu eq erf exp floordiv ge gelu gt hardswish invert le "
     "leaky_relu log lt max maximum min minimum mish ne pow relu relu6 rsqrt sigmoid silu sin "
     "softplus sqrt square tanh"},
    {Kind::kRows,
     "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm2d LayerNorm amax batch_norm "
     "group_norm layer_norm norm normalize std var"},
    {Kind::kSoftmax, "LogSoftmax Softmax log_softmax softmax"},
    {Kind::kDropout, "AlphaDropout Dropout Dropout1d Dropout2d dropout"},
    {Kind::kMove,
     "AdaptiveAvgPool1d AdaptiveAvgPool2d AvgPool1d AvgPool2d ConstantPad2d MaxPool1d MaxPool2d "
     "PixelShuffle Upsample ZeroPad2d adaptive_avg_pool2d argmax avg_pool2d cat concat cumsum "
     "flip gather index_select interpolate max_pool2d pad repeat roll stack topk tril triu"},
    {Kind::kLookup, "Embedding embedding"},
    {Kind::kProduct, "Linear addmm bmm linear matmul mm"},
    {Kind::kConvolution, "Conv1d Conv2d Conv3d conv1d conv2d conv3d"},
    {Kind::kConstant, "arange dim empty full getattr numel ones size tensor zeros"},
}};

template <std::size_t N>
Kind kind_in(const std::array<Types, N>& table, std::string_view type) {
  std::vector<std::string> known;
  for (const Types& types : table) {
    for (const std::string_view name : util::split(types.names, ' ')) {
      if (name == type) return types.kind;
      known.emplace_back(name);
    }
  }
  const auto near = util::nearest(type, known);
  throw InvalidConfig(
      fmt::format("unknown operator {}{}", util::quoted(type),
                  near ? fmt::format(" (did you mean {}?)", util::quoted(*near)) : ""));
}

}  // namespace

double Tensor::elements() const {
  double product = 1;
  for (const std::int64_t dim : dims) product *= static_cast<double>(dim);
  return product;
}

Kind onnx_kind(std::string_view type) { return kind_in(kOnnxTypes, type); }

Kind torch_kind(std::string_view type) {
  if (type == "scaled_dot_product_attention" || type == "MultiheadAttention") {
    return Kind::kAttention;
  }
  return kind_in(kTorchTypes, type);
}

std::vector<std::string> scope_of(std::string_view path) {
  std::vector<std::string> scope;
  for (const std::string_view part : util::split(path, '/')) {
    if (!part.empty()) scope.emplace_back(part);
  }
  if (!scope.empty()) scope.pop_back();
  return scope;
}

namespace {

bool is_comparison(std::string_view type) {
  constexpr std::array<std::string_view, 8> kTypes{
      "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "lt", "le", "gt", "ge"};
  return std::find(kTypes.begin(), kTypes.end(), type) != kTypes.end();
}

bool is_triangle(std::string_view type) {
  return type == "Trilu" || type == "tril" || type == "triu";
}

/// A table of embeddings is looked up for its gradient, even where what is looked up never changes.
bool is_constant(const OperatorGraph& graph, const Operator& op) {
  if (op.kind == Kind::kConstant) return true;
  const auto tensor = [&](int t) -> const Tensor& {
    return graph.tensors[static_cast<std::size_t>(t)];
  };
  if (op.kind == Kind::kLookup) {
    const Tensor& table = tensor(op.inputs.front());
    if (table.constant && table.is_float() && table.dims.size() == 2) return false;
  }
  return std::all_of(op.inputs.begin(), op.inputs.end(), [&](int t) { return tensor(t).constant; });
}

/// Masks go through views and element-wise operators, not through products and softmax.
bool hands_masks_on(Kind kind) { return kind < Kind::kRows || kind == Kind::kMove; }

}  // namespace

bool is_mask_of(const Tensor& tensor, double tokens, double keys) {
  const std::size_t rank = tensor.dims.size();
  return rank >= 2 && static_cast<double>(tensor.dims[rank - 1]) == keys &&
         static_cast<double>(tensor.dims[rank - 2]) == tokens;
}

void find_rows(Product& product, const Operator& op, const Tensor& a, const Tensor& b,
               const Tensor& c) {
  if (b.constant && b.dims.size() <= 2) {
    product.weight = op.inputs[1];
    product.rows = c.elements() / std::max(1.0, product.out);
    return;
  }
  product.rows = a.dims.size() < 2 ? 1 : static_cast<double>(a.dims[a.dims.size() - 2]);
  product.groups = c.elements() / std::max(1.0, product.rows * product.out);
  if (b.constant) product.weight = op.inputs[1];
  if (a.constant) product.weight = op.inputs[0];
}

void drop_constant_operators(OperatorGraph& graph) {
  std::vector<Operator> kept;
  for (Operator& op : graph.operators) {
    const bool constant = is_constant(graph, op);
    const bool causal =
        hands_masks_on(op.kind) && std::any_of(op.inputs.begin(), op.inputs.end(), [&](int t) {
          return graph.tensors[static_cast<std::size_t>(t)].causal;
        });
    for (const int output : op.outputs) {
      Tensor& tensor = graph.tensors[static_cast<std::size_t>(output)];
      tensor.constant = constant;
      const bool made_here = is_triangle(op.type) || (constant && is_comparison(op.type));
      tensor.causal = causal || (made_here && is_square(tensor.dims));
      // what exporters write as Identity are parameters that are equal only to begin with
      if (constant && op.kind == Kind::kView && op.type != "Identity" && !op.inputs.empty()) {
        const Tensor& input = graph.tensors[static_cast<std::size_t>(op.inputs.front())];
        tensor.source = input.source >= 0 ? input.source : op.inputs.front();
      }
    }
    if (!constant) kept.push_back(std::move(op));
  }
  graph.operators = std::move(kept);
}

}  // namespace nestplan::importers
