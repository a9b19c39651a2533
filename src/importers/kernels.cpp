#include "importers/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "nestplan/util/lists.hpp"

namespace nestplan::importers {
namespace {

bool is_memory_bound(Kind kind) { return kind >= Kind::kLinear && kind <= Kind::kDropout; }

bool is_view(Kind kind) { return kind == Kind::kView || kind == Kind::kPiece; }

class Fusion {
 public:
  Fusion(OperatorGraph graph, const std::vector<std::string>& blocks)
      : graph_(std::move(graph)), blocks_(blocks) {
    follow_views();
    note_readers();
  }

  KernelGraph run() {
    fuse_into_readers();
    for (int op = 0; op < size(); ++op) add_to_product(group_[at(op)]);
    for (int op = 0; op < size(); ++op) make_attention(group_[at(op)]);
    KernelGraph result;
    std::map<int, int> index;  // of groups among kernels
    for (const int group : in_order()) {
      index[group] = static_cast<int>(result.kernels.size());
      result.kernels.push_back(kernel_of(groups_[at(group)]));
    }
    result.writer.assign(graph_.tensors.size(), -1);
    for (std::size_t t = 0; t < writer_.size(); ++t) {
      if (writer_[t] >= 0) result.writer[t] = index.at(group_[at(writer_[t])]);
    }
    name_apart(result.kernels);
    result.graph = std::move(graph_);
    return result;
  }

 private:
  struct Group {
    Kind kind = Kind::kMove;
    std::vector<int> operators;
    AttentionShape attention{};
  };

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  int size() const { return static_cast<int>(graph_.operators.size()); }
  const Operator& op(int index) const { return graph_.operators[at(index)]; }
  const Tensor& tensor(int index) const { return graph_.tensors[at(index)]; }
  bool is_activation(int t) const { return !tensor(t).constant; }

  /// Of every tensor the one that it is a view of, and the operator that writes that, or what that
  /// is a piece of.
  void follow_views() {
    base_.resize(graph_.tensors.size());
    for (std::size_t t = 0; t < base_.size(); ++t) {
      const int source = graph_.tensors[t].source;
      base_[t] = source >= 0 ? source : static_cast<int>(t);
    }
    writer_.assign(base_.size(), -1);
    for (int i = 0; i < size(); ++i) {
      for (const int output : op(i).outputs) {
        if (!is_view(op(i).kind)) {
          writer_[at(output)] = i;
          continue;
        }
        const int input = base_[at(op(i).inputs.front())];
        if (op(i).kind == Kind::kView) base_[at(output)] = input;
        writer_[at(output)] = writer_[at(input)];
      }
    }
  }

  void note_readers() {
    readers_.resize(graph_.operators.size());
    escapes_.assign(graph_.operators.size(), false);
    is_read_.assign(graph_.tensors.size(), false);
    for (int i = 0; i < size(); ++i) {
      for (const int input : op(i).inputs) is_read_[at(input)] = true;
      if (is_view(op(i).kind)) continue;
      for (const int input : op(i).inputs) {
        const int from = writer_[at(base_[at(input)])];
        if (from >= 0) readers_[at(from)].push_back(i);
      }
    }
    for (const int output : graph_.outputs) {
      is_read_[at(output)] = true;
      const int from = writer_[at(base_[at(output)])];
      if (from >= 0) escapes_[at(from)] = true;
    }
  }

  void fuse_into_readers() {
    group_.assign(graph_.operators.size(), -1);
    for (int i = size(); i-- > 0;) {
      if (is_view(op(i).kind)) continue;
      int into = -1;
      if (is_memory_bound(op(i).kind) && !escapes_[at(i)] && !readers_[at(i)].empty()) {
        into = group_[at(readers_[at(i)].front())];
        for (const int reader : readers_[at(i)]) {
          const bool fits = is_memory_bound(op(reader).kind) && group_[at(reader)] == into &&
                            blocks_[at(reader)] == blocks_[at(i)];
          if (!fits) into = -1;
        }
      }
      if (into < 0) {
        into = static_cast<int>(groups_.size());
        groups_.push_back(
            {is_memory_bound(op(i).kind) ? Kind::kMove : op(i).kind, {}, op(i).attention});
      }
      group_[at(i)] = into;
      groups_[at(into)].operators.push_back(i);
    }
    for (Group& group : groups_) std::reverse(group.operators.begin(), group.operators.end());
  }

  /// Activations that the operators of a group read from outside, by the tensor that they are views
  /// of, in the order of their first reading.
  std::vector<Read> reads_of(const Group& group) const {
    std::vector<Read> reads;
    for (const int i : group.operators) {
      for (const int input : op(i).inputs) {
        const int base = base_[at(input)];
        const int from = writer_[at(base)];
        if (!is_activation(base)) continue;
        if (from >= 0 && &groups_[at(group_[at(from)])] == &group) continue;
        const double elements = std::min(tensor(input).elements(), tensor(base).elements());
        const auto known = std::find_if(reads.begin(), reads.end(),
                                        [base](const Read& read) { return read.tensor == base; });
        if (known == reads.end()) {
          reads.push_back({base, elements});
        } else {
          known->elements = std::max(known->elements, elements);
        }
      }
    }
    return reads;
  }

  std::vector<int> readers_of(const Group& group) const {
    std::vector<int> readers;
    for (const int i : group.operators) {
      for (const int reader : readers_[at(i)]) {
        const int other = group_[at(reader)];
        if (&groups_[at(other)] != &group) readers.push_back(other);
      }
    }
    util::sort_unique(readers);
    return readers;
  }

  bool escapes(const Group& group) const {
    return std::any_of(group.operators.begin(), group.operators.end(),
                       [this](int i) { return escapes_[at(i)]; });
  }

  /// Whether `reader` alone reads what `group` writes.
  bool feeds_only(int group, int reader) const {
    return !escapes(groups_[at(group)]) &&
           readers_of(groups_[at(group)]) == std::vector<int>{reader};
  }

  /// Whether the derivative of operator `i` depends on its inputs.
  bool depends_on_inputs(int i) const {
    const auto floats = std::count_if(op(i).inputs.begin(), op(i).inputs.end(), [this](int t) {
      return is_activation(t) && tensor(t).is_float();
    });
    switch (op(i).kind) {
      case Kind::kLinear:
      case Kind::kDropout:
        return false;
      case Kind::kMove:  // which element was the largest has to be known
        return op(i).type.find("Max") != std::string::npos ||
               op(i).type.find("max") != std::string::npos;
      case Kind::kMultiply:
        return floats > 1 && op(i).type != "Where" && op(i).type != "where";
      case Kind::kDivide:
        return op(i).inputs.size() > 1 && is_activation(op(i).inputs[1]);
      default:
        return true;
    }
  }

  void merge(int from, int into) {
    for (const int i : groups_[at(from)].operators) group_[at(i)] = into;
    std::vector<int>& operators = groups_[at(into)].operators;
    operators.insert(operators.end(), groups_[at(from)].operators.begin(),
                     groups_[at(from)].operators.end());
    std::sort(operators.begin(), operators.end());
    groups_[at(from)].operators.clear();
  }

  void add_to_product(int group) {
    if (group < 0 || groups_[at(group)].kind != Kind::kMove) return;
    const std::vector<int>& operators = groups_[at(group)].operators;
    if (!std::all_of(operators.begin(), operators.end(), [this](int i) {
          return is_memory_bound(op(i).kind) && !depends_on_inputs(i) &&
                 op(i).kind != Kind::kDropout;
        })) {
      return;
    }
    const std::vector<Read> reads = reads_of(groups_[at(group)]);
    if (reads.size() != 1 || writer_[at(reads.front().tensor)] < 0) return;
    const int product = group_[at(writer_[at(reads.front().tensor)])];
    const Kind kind = groups_[at(product)].kind;
    if (kind != Kind::kProduct && kind != Kind::kConvolution) return;
    if (blocks_[at(operators.front())] != block_of(product) || !feeds_only(product, group)) return;
    merge(group, product);
  }

  std::string block_of(int group) const {
    return blocks_[at(groups_[at(group)].operators.front())];
  }

  const Operator* product_in(int group) const {
    for (const int i : groups_[at(group)].operators) {
      if (op(i).kind == Kind::kProduct) return &op(i);
    }
    return nullptr;
  }

  /// The product of two activations that `group` is, if it is one.
  const Operator* activation_product(int group) const {
    if (group < 0 || groups_[at(group)].kind != Kind::kProduct) return nullptr;
    const Operator* product = product_in(group);
    return product->product.weight < 0 ? product : nullptr;
  }

  void make_attention(int group) {
    if (group < 0 || groups_[at(group)].kind != Kind::kMove) return;
    const std::vector<int>& operators = groups_[at(group)].operators;
    const auto softmax = std::find_if(operators.begin(), operators.end(),
                                      [this](int i) { return op(i).kind == Kind::kSoftmax; });
    if (softmax == operators.end() || escapes(groups_[at(group)])) return;
    const std::vector<int> readers = readers_of(groups_[at(group)]);
    const Operator* values = readers.size() == 1 ? activation_product(readers.front()) : nullptr;
    if (values == nullptr || writer_of(values->inputs[0]) != group) return;
    for (const Read& read : reads_of(groups_[at(group)])) {
      const int from = writer_[at(read.tensor)];
      const int scores_group = from >= 0 ? group_[at(from)] : -1;
      const Operator* scores = activation_product(scores_group);
      if (scores == nullptr || !feeds_only(scores_group, group)) continue;
      if (tensor(scores->outputs[0]).elements() != tensor(values->inputs[0]).elements()) continue;
      Group& whole = groups_[at(group)];
      whole.attention = shape_of(*scores, *values, whole);
      whole.kind = Kind::kAttention;
      merge(scores_group, group);
      merge(readers.front(), group);
      return;
    }
  }

  /// The group that writes tensor `t`, -1 for none.
  int writer_of(int t) const {
    const int from = writer_[at(base_[at(t)])];
    return from >= 0 ? group_[at(from)] : -1;
  }

  AttentionShape shape_of(const Operator& scores, const Operator& values,
                          const Group& softmax) const {
    AttentionShape shape;
    const std::vector<std::int64_t>& dims = tensor(scores.outputs[0]).dims;
    shape.tokens = scores.product.rows;
    shape.keys = scores.product.out;
    shape.heads = dims.size() > 3 ? static_cast<double>(dims[dims.size() - 3]) : 1;
    shape.sequences = scores.product.groups / shape.heads;
    shape.head_dim = (scores.product.in + values.product.out) / 2;
    // keys that several heads share are repeated by a view
    const double keys = tensor(base_[at(scores.inputs[1])]).elements();
    const double per_head = shape.sequences * shape.keys * scores.product.in;
    shape.kv_heads = std::clamp(keys / per_head, 1.0, shape.heads);
    if (!is_piece_free(scores.inputs[1])) shape.kv_heads = shape.heads;
    for (const int i : softmax.operators) {
      for (const int input : op(i).inputs) {
        shape.causal = shape.causal || tensor(input).causal;
        shape.masked = shape.masked || (is_from_outside(softmax, input) &&
                                        is_mask_of(tensor(input), shape.tokens, shape.keys));
      }
    }
    return shape;
  }

  /// Whether no operator of the group, and no product in front of it, writes tensor `t`.
  bool is_from_outside(const Group& group, int t) const {
    const int from = writer_[at(base_[at(t)])];
    if (from < 0) return true;
    return &groups_[at(group_[at(from)])] != &group && op(from).kind != Kind::kProduct;
  }

  /// Whether the tensor that `t` is a view of has no more elements than `t`: it was not cut.
  bool is_piece_free(int t) const {
    return tensor(base_[at(t)]).elements() <= tensor(t).elements();
  }

  /// Groups that are left, by their last operators.
  std::vector<int> in_order() const {
    std::vector<int> order;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!groups_[g].operators.empty()) order.push_back(static_cast<int>(g));
    }
    std::sort(order.begin(), order.end(), [this](int a, int b) {
      return groups_[at(a)].operators.back() < groups_[at(b)].operators.back();
    });
    return order;
  }

  Kernel kernel_of(const Group& group) const {
    Kernel kernel;
    kernel.operators = group.operators;
    kernel.block = blocks_[at(group.operators.back())];
    kernel.name = name_of(group);
    kernel.kind = group.kind;
    kernel.attention = group.attention;
    kernel.reads = reads_of(group);
    kernel.puts_out = escapes(group);
    kernel.writes = writes_of(group);
    std::set<int> parameters;
    for (const int i : group.operators) {
      if (op(i).kind == Kind::kProduct || op(i).kind == Kind::kConvolution) {
        kernel.product = op(i).product;
        if (kernel.product.weight >= 0) kernel.product.weight = base_[at(kernel.product.weight)];
      }
      if (op(i).kind == Kind::kDropout) {
        kernel.dropped_elements += tensor(op(i).outputs[0]).elements();
      }
      kernel.of_rows = kernel.of_rows || op(i).kind == Kind::kRows || op(i).kind == Kind::kSoftmax;
      // masks are no parameters, and neither are scalars
      if (group.kind == Kind::kAttention) continue;
      for (const int input : op(i).inputs) {
        const Tensor& read = tensor(input);
        if (read.constant && read.is_float() && !read.causal && read.elements() > 1 &&
            tensor(base_[at(input)]).trained) {
          parameters.insert(base_[at(input)]);
        }
      }
    }
    kernel.parameters.assign(parameters.begin(), parameters.end());
    kernel.keeps = keeps_of(group, kernel);
    return kernel;
  }

  /// Without further results, such as statistics, that nobody reads.
  std::vector<int> writes_of(const Group& group) const {
    const std::vector<int>& outputs = op(group.operators.back()).outputs;
    std::vector<int> writes{outputs.front()};
    std::copy_if(outputs.begin() + 1, outputs.end(), std::back_inserter(writes),
                 [this](int t) { return is_read_[at(t)]; });
    return writes;
  }

  std::vector<Read> keeps_of(const Group& group, const Kernel& kernel) const {
    std::vector<Read> floats = kernel.reads;
    const auto drop_others = [&](auto&& keep) {
      floats.erase(std::remove_if(floats.begin(), floats.end(),
                                  [&](const Read& read) { return !keep(read); }),
                   floats.end());
    };
    switch (kernel.kind) {
      case Kind::kLookup:
        drop_others([this](const Read& read) { return !tensor(read.tensor).is_float(); });
        return floats;
      case Kind::kProduct:
      case Kind::kConvolution: {
        // what is added to the result is not kept
        const Operator* product = nullptr;
        for (const int i : group.operators) {
          if (op(i).kind == kernel.kind) product = &op(i);
        }
        drop_others([&](const Read& read) {
          return std::any_of(product->inputs.begin(), product->inputs.end(),
                             [&](int t) { return base_[at(t)] == read.tensor; });
        });
        return floats;
      }
      case Kind::kAttention: {
        std::set<int> factors;
        for (const int i : group.operators) {
          if (op(i).kind != Kind::kProduct && op(i).kind != Kind::kAttention) continue;
          for (std::size_t j = 0; j < std::min<std::size_t>(3, op(i).inputs.size()); ++j) {
            factors.insert(base_[at(op(i).inputs[j])]);
          }
        }
        drop_others([&](const Read& read) { return factors.contains(read.tensor); });
        return floats;
      }
      default:
        return memory_bound_keeps(group);
    }
  }

  /// Inside of the group: tensors in front of the first operators that need their inputs. A linear
  /// function of one tensor of its size, and of smaller ones such as its mean, is as good as that
  /// tensor.
  std::vector<Read> memory_bound_keeps(const Group& group) const {
    std::map<int, int> as_good_as;  // by tensor of this group
    std::set<int> recomputed;       // from what is kept already
    std::map<int, double> kept;
    for (const int i : group.operators) {
      const bool needs = depends_on_inputs(i);
      bool derived = needs;
      int largest = -1;
      for (const int input : op(i).inputs) {
        int t = base_[at(input)];
        if (!is_activation(t) || !tensor(t).is_float()) continue;
        const double elements = std::min(tensor(input).elements(), tensor(t).elements());
        const auto better = as_good_as.find(t);
        if (better != as_good_as.end()) t = better->second;
        const bool known = recomputed.contains(t);
        if (needs && !known) kept[t] = std::max(kept[t], elements);
        derived = derived || known;
        if (largest < 0 || tensor(t).elements() > tensor(largest).elements()) largest = t;
      }
      for (const int output : op(i).outputs) {
        if (derived) recomputed.insert(output);
        const bool same_size =
            largest >= 0 && tensor(largest).elements() == tensor(output).elements();
        if (!derived && same_size && lone_largest(i, largest)) as_good_as[output] = largest;
      }
    }
    std::vector<Read> keeps;
    for (const auto& [t, elements] : kept) keeps.push_back({t, elements});
    return keeps;
  }

  /// Whether no other input of operator `i` is as large as `largest`.
  bool lone_largest(int i, int largest) const {
    const auto count = std::count_if(op(i).inputs.begin(), op(i).inputs.end(), [&](int t) {
      return is_activation(t) && tensor(t).is_float() &&
             tensor(t).elements() >= tensor(largest).elements();
    });
    return count <= 1;
  }

  /// The modules that all operators are in, if these are deeper than the block; else the name of
  /// the one that counts.
  std::string name_of(const Group& group) const {
    std::vector<std::string> scope = op(group.operators.front()).scope;
    for (const int i : group.operators) {
      const std::vector<std::string>& other = op(i).scope;
      const auto [end, unused] =
          std::mismatch(scope.begin(), scope.end(), other.begin(), other.end());
      scope.erase(end, scope.end());
    }
    const std::string module = fmt::format("{}", fmt::join(scope, "."));
    if (!module.empty() && module != blocks_[at(group.operators.back())]) return module;
    int main = group.operators.back();
    for (const int i : group.operators) {
      if (!is_memory_bound(op(i).kind)) main = i;
    }
    std::string name;
    for (const char c : op(main).name) name += c == '/' ? '.' : c;
    return name.starts_with('.') ? name.substr(1) : name;
  }

  static void name_apart(std::vector<Kernel>& kernels) {
    std::set<std::string> taken;
    for (Kernel& kernel : kernels) {
      const std::string name = kernel.name;
      for (int i = 2; !taken.insert(kernel.name).second; ++i) {
        kernel.name = fmt::format("{}#{}", name, i);
      }
    }
  }

  OperatorGraph graph_;
  const std::vector<std::string>& blocks_;
  std::vector<int> base_;
  std::vector<int> writer_;  ///< by tensor: operator, -1 for inputs and constants
  std::vector<std::vector<int>> readers_;
  std::vector<bool> escapes_;
  std::vector<bool> is_read_;  ///< by tensor
  std::vector<int> group_;     ///< by operator, -1 for views
  std::vector<Group> groups_;
};

}  // namespace

KernelGraph fuse(OperatorGraph graph, const std::vector<std::string>& blocks) {
  return Fusion(std::move(graph), blocks).run();
}

}  // namespace nestplan::importers
