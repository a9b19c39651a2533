#include "importers/tensor_parallel.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

namespace nestplan::importers {
namespace {

using Role = Sharding::Role;

class Sharder {
 public:
  Sharder(const KernelGraph& graph, std::int64_t tp)
      : graph_(graph), tp_(static_cast<double>(tp)), readers_(graph.kernels.size()) {
    const std::size_t kernels = graph.kernels.size();
    sharding_.roles.assign(kernels, Role::kWhole);
    sharding_.split_tensors.assign(graph.graph.tensors.size(), false);
    sharding_.sent_forward.assign(kernels, 0);
    sharding_.sent_backward.assign(kernels, 0);
    holders_.assign(graph.graph.tensors.size(), 0);
    results_.resize(kernels);
    for (std::size_t t = 0; t < graph.writer.size(); ++t) {
      if (writer(static_cast<int>(t)) < 0) continue;
      results_[static_cast<std::size_t>(graph.writer[t])].push_back(static_cast<int>(t));
    }
    for (std::size_t k = 0; k < kernels; ++k) {
      for (const Read& read : graph.kernels[k].reads) {
        const int from = writer(read.tensor);
        if (from >= 0) readers_[static_cast<std::size_t>(from)].insert(static_cast<int>(k));
      }
      for (const int parameter : graph.kernels[k].parameters) {
        ++holders_[static_cast<std::size_t>(parameter)];
      }
    }
  }

  Sharding run() {
    for (std::size_t k = 0; k < graph_.kernels.size(); ++k) {
      Region region;
      if (gather(static_cast<int>(k), region)) apply(static_cast<int>(k), region);
    }
    return std::move(sharding_);
  }

 private:
  struct Region {
    std::set<int> columns;
    std::set<int> inside;
    double heads = 0;  ///< of attention; 0: an MLP
  };

  const Kernel& kernel(int k) const { return graph_.kernels[static_cast<std::size_t>(k)]; }
  const Tensor& tensor(int t) const { return graph_.graph.tensors[static_cast<std::size_t>(t)]; }
  int writer(int t) const { return graph_.writer[static_cast<std::size_t>(t)]; }

  bool divides(double size) const { return std::fmod(size, tp_) == 0; }

  bool is_linear(int k) const {
    return kernel(k).kind == Kind::kProduct && kernel(k).product.weight >= 0 &&
           kernel(k).product.groups == 1 &&
           sharding_.roles[static_cast<std::size_t>(k)] == Role::kWhole &&
           std::all_of(kernel(k).parameters.begin(), kernel(k).parameters.end(),
                       [this](int p) { return holders_[static_cast<std::size_t>(p)] == 1; });
  }

  /// The region that ends in kernel `row`, if there is one.
  bool gather(int row, Region& region) const {
    if (!is_linear(row) || kernel(row).keeps.size() != 1 || !divides(kernel(row).product.in)) {
      return false;
    }
    const int input = kernel(row).keeps.front().tensor;
    if (writer(input) < 0 || tensor(input).elements() > kernel(row).keeps.front().elements) {
      return false;
    }
    if (!extend(writer(input), region) || region.columns.empty()) return false;
    if (region.heads == 0 && !has_width(region, kernel(row).product.in)) return false;
    return is_closed(region, row);
  }

  /// Takes kernel `k`, and what is in front of it, into the region.
  bool extend(int k, Region& region) const {
    if (region.columns.contains(k) || region.inside.contains(k)) return true;
    const Kernel& each = kernel(k);
    if (is_linear(k) && divides(each.product.out)) {
      region.columns.insert(k);
      return true;
    }
    const bool core = each.kind == Kind::kAttention;
    if (core) {
      if (region.heads > 0 || !divides(each.attention.heads)) return false;
      if (!divides(each.attention.kv_heads)) return false;
      region.heads = each.attention.heads;
    } else if (!keeps_apart(each, region.heads > 0)) {
      return false;
    }
    region.inside.insert(k);
    for (const Read& read : each.reads) {
      if (is_for_all_heads(each, read, region)) continue;
      if (writer(read.tensor) < 0 || !extend(writer(read.tensor), region)) return false;
    }
    return true;
  }

  /// Masks, and angles that queries and keys are turned by.
  bool is_for_all_heads(const Kernel& each, const Read& read, const Region& region) const {
    if (region.heads == 0) return false;
    if (each.kind == Kind::kAttention) return !is_kept(each, read.tensor);
    return read.elements * region.heads <= tensor(each.writes.front()).elements();
  }

  /// Whether what is on one device only depends on what is there: every column by itself, or every
  /// head, where heads have an axis of their own.
  bool keeps_apart(const Kernel& each, bool heads) const {
    if (each.kind != Kind::kMove) return false;
    return std::all_of(each.operators.begin(), each.operators.end(), [&](int i) {
      const Operator& op = graph_.graph.operators[static_cast<std::size_t>(i)];
      if (heads && tensor(op.outputs.front()).dims.size() >= 4) return joins_rows(op);
      return keeps_columns(op);
    });
  }

  /// Whether all results have the axes of the inputs, the last one aside.
  bool joins_rows(const Operator& op) const {
    const auto& dims = tensor(op.outputs.front()).dims;
    return std::all_of(op.inputs.begin(), op.inputs.end(), [&](int t) {
      const auto& own = tensor(t).dims;
      if (tensor(t).constant || own.size() != dims.size()) return tensor(t).constant;
      return std::equal(own.begin(), own.end() - 1, dims.begin(),
                        [](auto a, auto b) { return a == b || a == 1; });
    });
  }

  static bool is_kept(const Kernel& each, int t) {
    return std::any_of(each.keeps.begin(), each.keeps.end(),
                       [t](const Read& read) { return read.tensor == t; });
  }

  /// Whether every result of the operator comes from the same column of its inputs.
  bool keeps_columns(const Operator& op) const {
    const bool element_wise = op.kind == Kind::kLinear || op.kind == Kind::kMultiply ||
                              op.kind == Kind::kDivide || op.kind == Kind::kPointwise ||
                              op.kind == Kind::kDropout;
    return element_wise && std::none_of(op.inputs.begin(), op.inputs.end(), [&](int t) {
             return tensor(t).elements() > tensor(op.outputs.front()).elements();
           });
  }

  /// Whether what is computed inside is as wide as what the last product takes.
  bool has_width(const Region& region, double width) const {
    return std::all_of(region.inside.begin(), region.inside.end(), [&](int k) {
      const Tensor& result = tensor(kernel(k).writes.front());
      const bool whole = !result.dims.empty() && static_cast<double>(result.dims.back()) == width;
      return whole && std::all_of(kernel(k).parameters.begin(), kernel(k).parameters.end(),
                                  [&](int p) { return tensor(p).elements() == width; });
    });
  }

  bool is_closed(const Region& region, int row) const {
    const auto known = [&](int k) {
      return k == row || region.inside.contains(k) || region.columns.contains(k);
    };
    const auto leaks = [&](int k) {
      const auto& readers = readers_[static_cast<std::size_t>(k)];
      return kernel(k).puts_out || !std::all_of(readers.begin(), readers.end(), known);
    };
    return std::none_of(region.columns.begin(), region.columns.end(), leaks) &&
           std::none_of(region.inside.begin(), region.inside.end(), leaks);
  }

  void split(int t) { sharding_.split_tensors[static_cast<std::size_t>(t)] = true; }

  /// What kernel `k` writes, and the pieces of it.
  void split_results(int k) {
    for (const int t : results_[static_cast<std::size_t>(k)]) split(t);
  }

  void apply(int row, const Region& region) {
    ++sharding_.regions;
    std::set<int> inputs;
    for (const int k : region.columns) {
      sharding_.roles[static_cast<std::size_t>(k)] = Role::kColumns;
      for (const int parameter : kernel(k).parameters) split(parameter);
      split_results(k);
      for (const Read& read : kernel(k).keeps) {
        if (writer(read.tensor) < 0 || !inputs.insert(read.tensor).second) continue;
        sharding_.sent_backward[static_cast<std::size_t>(k)] += read.elements;
      }
    }
    for (const int k : region.inside) {
      sharding_.roles[static_cast<std::size_t>(k)] = Role::kInside;
      // of what is as wide as a head every device has the whole
      for (const int parameter : kernel(k).parameters) {
        if (region.heads == 0) split(parameter);
      }
      split_results(k);
    }
    sharding_.roles[static_cast<std::size_t>(row)] = Role::kRows;
    split(kernel(row).product.weight);
    sharding_.sent_forward[static_cast<std::size_t>(row)] =
        tensor(kernel(row).writes.front()).elements();
  }

  const KernelGraph& graph_;
  double tp_;
  std::vector<std::set<int>> readers_;
  std::vector<std::vector<int>> results_;  ///< by kernel: tensors, pieces included
  std::vector<int> holders_;               ///< by constant: kernels that read it
  Sharding sharding_;
};

}  // namespace

Sharding shard(const KernelGraph& graph, std::int64_t tp) { return Sharder(graph, tp).run(); }

std::vector<std::int64_t> nearest_degrees(const KernelGraph& graph, std::int64_t tp) {
  std::set<std::int64_t> depths, divisors;
  for (const Kernel& kernel : graph.kernels) {
    if (kernel.kind == Kind::kProduct) depths.insert(std::llround(kernel.product.in));
  }
  for (const std::int64_t depth : depths) {
    for (std::int64_t d = 1; d * d <= depth; ++d) {
      if (depth % d == 0) divisors.insert({d, depth / d});
    }
  }
  divisors.erase(1);
  const auto splits = [&](std::int64_t degree) { return shard(graph, degree).regions > 0; };
  const auto above = std::find_if(divisors.upper_bound(tp), divisors.end(), splits);
  const auto below =
      std::find_if(std::make_reverse_iterator(divisors.lower_bound(tp)), divisors.rend(), splits);
  std::vector<std::int64_t> degrees;
  if (below != divisors.rend()) degrees.push_back(*below);
  if (above != divisors.end()) degrees.push_back(*above);
  return degrees;
}

}  // namespace nestplan::importers
