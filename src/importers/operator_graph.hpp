#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nestplan::importers {

/// What an operator does, as far as costs are concerned.
enum class Kind : std::uint8_t {
  kView,         ///< same elements in the same memory: reshape, transpose, cast, expand
  kPiece,        ///< some of the elements: slice, split
  kLinear,       ///< element-wise or a reduction, with a derivative that depends on no input
  kMultiply,     ///< element-wise, linear in each input
  kDivide,       ///< element-wise, linear in the first input
  kPointwise,    ///< any other element-wise function
  kRows,         ///< a norm, or another function of whole rows
  kSoftmax,      ///< of rows
  kDropout,      ///< keeps a mask
  kMove,         ///< moves elements: concatenation, padding, pooling
  kLookup,       ///< rows of a table
  kProduct,      ///< matrix product
  kConvolution,  ///< as the product it is computed as
  kAttention,    ///< softmax(Q·Kᵀ)·V in one operator
  kConstant      ///< depends on no values, only on shapes
};

/// Largest values of a file, which keep all products finite and all ids in 32 bits.
inline constexpr std::size_t kMostOperators = 200'000;
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 50;  ///< of a tensor

struct Tensor {
  std::string name;
  std::vector<std::int64_t> dims;
  double width = 0;       ///< bytes per element; 0: floating point
  bool constant = false;  ///< known before the model runs: parameters, masks, shapes
  bool trained = true;    ///< of a floating-point constant: a parameter, as far as is known
  bool causal = false;    ///< one value in one triangle of its last two dimensions, or made of such
  int source = -1;        ///< of a constant: the one that it is another view of

  double elements() const;
  bool is_float() const { return width == 0; }
};

/// `groups` products [rows, in]·[in, out].
struct Product {
  double groups = 1;
  double rows = 0;
  double in = 0;
  double out = 0;
  int weight = -1;  ///< constant tensor, -1: both factors are activations
};

/// Sizes of an attention core, see cost::Attention.
struct AttentionShape {
  double sequences = 0;
  double tokens = 0;
  double keys = 0;
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  bool causal = false;
  bool masked = false;  ///< by something that tells for every query and key
};

struct Operator {
  std::string name;
  std::string type;                ///< as the file calls it
  std::vector<std::string> scope;  ///< names of the modules it is in, outermost first
  Kind kind = Kind::kMove;
  std::vector<int> inputs;  ///< tensors; of a product the left factor comes first
  std::vector<int> outputs;
  Product product{};           ///< of a product or convolution
  AttentionShape attention{};  ///< of an attention operator: its inputs are Q, K, V, and a mask
};

/// A model for one micro-batch, read and checked: operators in topological order, every tensor with
/// its shape.
struct OperatorGraph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Operator> operators;
  std::vector<int> outputs;
  std::int64_t micro_batch = 1;
  double tokens_per_sample = 0;  ///< 0: not known
};

/// Whether the last two axes of `tensor` are `tokens` and `keys`.
bool is_mask_of(const Tensor& tensor, double tokens, double keys);

/// Views of constants, and what else is worked out of constants alone, are constants: removes these
/// operators. Marks what is made of causal masks.
void drop_constant_operators(OperatorGraph& graph);

/// Completes the product `a`·`b` = `c` of `op`, of which `in` and `out` are known: its rows and
/// groups, and which factor is a weight. Products with one weight are one product.
void find_rows(Product& product, const Operator& op, const Tensor& a, const Tensor& b,
               const Tensor& c);

/// The kind of the ONNX operator `type`; throws InvalidConfig naming the nearest for an unknown
/// one.
Kind onnx_kind(std::string_view type);

/// The same for modules, functions and methods of PyTorch.
Kind torch_kind(std::string_view type);

/// "/model/layers.0/mlp/Add_1" is in the scope model, layers.0, mlp.
std::vector<std::string> scope_of(std::string_view path);

}  // namespace nestplan::importers
