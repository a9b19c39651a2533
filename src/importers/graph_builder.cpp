#include "importers/graph_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cost/flop_counter.hpp"
#include "cost/profile_draft.hpp"
#include "cost/profile_kernels.hpp"
#include "importers/blocks.hpp"
#include "importers/kernels.hpp"
#include "importers/layers.hpp"
#include "importers/tensor_parallel.hpp"
#include "io/json.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

using cost::kFp32;
using Role = Sharding::Role;

/// The costs of one column, kernel by kernel.
class Column {
 public:
  Column(const KernelGraph& graph, const Layers& layers, const Sharding& sharding, double tp,
         const cost::CostModel& costs, bool fused_attention)
      : graph_(graph),
        sharding_(sharding),
        tp_(tp),
        costs_(costs),
        fused_attention_(fused_attention),
        bytes_(costs.precision().activation_bytes) {
    for (const Layers::Layer& layer : layers.layers) draft_.add(layer.name, "", "");
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
      ops_.push_back(
          draft_.add(layers.layers[static_cast<std::size_t>(layers.of[k])].name, "", ""));
    }
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) add(k);
    draft_.finish();
  }

  const cost::Draft& draft() const { return draft_; }

 private:
  const Tensor& tensor(int t) const { return graph_.graph.tensors[static_cast<std::size_t>(t)]; }

  double share(int t) const { return sharding_.is_split(t) ? 1 / tp_ : 1; }

  double size(const Read& read) const {
    const double width = tensor(read.tensor).is_float() ? bytes_ : tensor(read.tensor).width;
    return width * read.elements * share(read.tensor);
  }
  double size(int t) const { return size({t, tensor(t).elements()}); }

  int writer(int t) const { return graph_.writer[static_cast<std::size_t>(t)]; }

  void add(std::size_t k) {
    const Kernel& kernel = graph_.kernels[k];
    const cost::Op op = ops_[k];
    time(kernel, sharding_.roles[k], op);
    keep(kernel, sharding_.roles[k], op);
    hold(kernel, op);
    send(k, op);
    for (const Read& read : kernel.reads) {
      const int from = writer(read.tensor);
      if (from >= 0) {
        draft_.connect({{read.tensor, ops_[static_cast<std::size_t>(from)].layer}, size(read)}, op);
      } else if (inputs_.emplace(op.layer, read.tensor).second) {
        draft_.cost(op).checkpoint_bytes += size(read);
      }
    }
    if (kernel.puts_out) add_loss(kernel, op);
  }

  /// A cross entropy over what the graph puts out, as at the end of a language model: see
  /// Transformer::head in cost/profile_transformer.cpp.
  void add_loss(const Kernel& kernel, cost::Op op) {
    for (const int t : kernel.writes) {
      if (!tensor(t).is_float()) continue;
      const double elements = tensor(t).elements();
      timer(op).memory((bytes_ + 3 * kFp32) * elements, (bytes_ + kFp32) * elements);
      draft_.cost(op).working_bytes += (kFp32 + bytes_) * elements;
    }
  }

  void time(const Kernel& kernel, Role role, cost::Op op) {
    switch (kernel.kind) {
      case Kind::kProduct:
      case Kind::kConvolution:
        return time_product(kernel, role, op);
      case Kind::kAttention:
        return timer(op).attention(core(kernel, role));
      case Kind::kLookup: {
        const double elements = tensor(kernel.writes.front()).elements();
        return timer(op).memory(2 * bytes_ * elements, (bytes_ + 2 * kFp32) * elements);
      }
      default:
        return time_memory(kernel, op);
    }
  }

  void time_product(const Kernel& kernel, Role role, cost::Op op) {
    const Product& p = kernel.product;
    const double in = role == Role::kRows ? p.in / tp_ : p.in;
    const double out = role == Role::kColumns ? p.out / tp_ : p.out;
    if (p.weight < 0) return time_activation_product(p, op);
    if (p.groups > 1) return timer(op).grouped_linear(p.groups, p.rows, in, out);
    if (kernel.kind == Kind::kProduct) return timer(op).linear(p.rows, in, out);
    timer(op).convolution(p.rows, in, out, tensor(kernel.reads.front().tensor).elements());
  }

  /// Backward both factors get a gradient, as wide as they are.
  void time_activation_product(const Product& p, cost::Op op) {
    model::LayerCost& cost = draft_.cost(op);
    cost.forward_s += costs_.seconds(cost::Matmul{p.rows, p.out, p.in, bytes_, p.groups});
    cost.backward_s += costs_.seconds(cost::Matmul{p.rows, p.in, p.out, bytes_, p.groups}) +
                       costs_.seconds(cost::Matmul{p.in, p.out, p.rows, bytes_, p.groups});
  }

  cost::Attention core(const Kernel& kernel, Role role) const {
    const AttentionShape& shape = kernel.attention;
    const double split = role == Role::kInside ? tp_ : 1;
    const double pairs = shape.tokens * shape.keys * (shape.causal ? 0.5 : 1);
    cost::Attention core{shape.sequences,        shape.tokens,   shape.heads / split,
                         shape.kv_heads / split, shape.head_dim, pairs};
    core.kv_tokens = shape.keys;
    core.fused = fused_attention_;
    core.dropout = kernel.dropped_elements > 0;
    return core;
  }

  void time_memory(const Kernel& kernel, cost::Op op) {
    double forward = dropped(kernel), backward = dropped(kernel);
    for (const Read& read : kernel.reads) {
      forward += size(read);
      const bool has_gradient = tensor(read.tensor).is_float() && writer(read.tensor) >= 0;
      if (has_gradient) backward += size(read);
    }
    for (const Read& read : kernel.keeps) backward += size(read);
    for (const int t : kernel.writes) {
      forward += size(t);
      if (tensor(t).is_float()) backward += size(t);
    }
    timer(op).memory(forward, backward);
  }

  double dropped(const Kernel& kernel) const {
    return kernel.dropped_elements * share(kernel.writes.front());
  }

  void keep(const Kernel& kernel, Role role, cost::Op op) {
    model::LayerCost& cost = draft_.cost(op);
    for (const Read& read : kernel.keeps) {
      if (kept_.emplace(kernel.block, read.tensor).second) cost.activation_bytes += size(read);
    }
    if (kernel.kind != Kind::kAttention) {
      cost.activation_bytes += dropped(kernel);
      return;
    }
    const cost::Attention shape = core(kernel, role);
    const double rows = shape.sequences * shape.heads * shape.tokens;
    if (fused_attention_) {
      cost.activation_bytes += kFp32 * rows;
    } else {
      // as cost/profile_attention.hpp has it
      cost.activation_bytes += rows * shape.keys() * (shape.dropout ? 2 * bytes_ + 1 : bytes_);
    }
  }

  void hold(const Kernel& kernel, cost::Op op) {
    for (const int parameter : kernel.parameters) {
      const double count = tensor(parameter).elements() * share(parameter);
      draft_.share(fmt::format("{}", parameter), op, count);
      if (held_.emplace(op.layer, parameter).second) draft_.cost(op).parameters += count;
    }
  }

  void send(std::size_t k, cost::Op op) {
    const auto all_reduce = [&](model::Phase phase, double elements) {
      if (elements == 0 || tp_ == 1) return;
      draft_.cost(op).collectives.push_back(
          {phase, model::CollectiveOp::kAllReduce, model::GroupKind::kTensor, elements * bytes_});
    };
    all_reduce(model::Phase::kForward, sharding_.sent_forward[k]);
    all_reduce(model::Phase::kBackward, sharding_.sent_backward[k]);
  }

  cost::Timer timer(cost::Op op) { return {costs_, draft_.cost(op)}; }

  const KernelGraph& graph_;
  const Sharding& sharding_;
  double tp_;
  const cost::CostModel& costs_;
  bool fused_attention_;
  double bytes_;
  cost::Draft draft_{cost::Granularity::kLayer};
  std::vector<cost::Op> ops_;                    ///< by kernel
  std::set<std::pair<std::string, int>> kept_;   ///< block, tensor
  std::set<std::pair<int, int>> held_, inputs_;  ///< layer, tensor
};

double flops_per_sample(const KernelGraph& graph, const Layers& layers) {
  const cost::FlopCounter counter;
  double forward = 0;
  const Column column(graph, layers, shard(graph, 1), 1, counter, true);
  for (const cost::Draft::Layer& layer : column.draft().layers()) forward += layer.cost.forward_s;
  return 3 * forward / static_cast<double>(graph.graph.micro_batch);
}

/// Layers, edges and ties, without costs.
model::Graph outline(const Column& column, const Layers& layers, const KernelGraph& source) {
  model::Graph graph;
  graph.name = source.graph.name;
  for (const Layers::Layer& layer : layers.layers) {
    graph.layers.push_back({layer.name, {}, layer.counted});
  }
  for (const auto& edge : column.draft().edges()) graph.edges.push_back({edge.from, edge.to, {}});
  for (const auto& tie : column.draft().ties()) {
    graph.ties.push_back({{tie.layers.begin(), tie.layers.end()}, {}});
  }
  const double tokens = source.graph.tokens_per_sample;
  if (tokens > 0) graph.tokens_per_sample = tokens;
  const double flops = flops_per_sample(source, layers);
  if (flops > 0) graph.model_flops_per_sample = flops;
  return graph;
}

bool same_shape(const model::Graph& a, const model::Graph& b) {
  return std::equal(a.layers.begin(), a.layers.end(), b.layers.begin(), b.layers.end(),
                    [](const auto& x, const auto& y) { return x.id == y.id; }) &&
         std::equal(
             a.edges.begin(), a.edges.end(), b.edges.begin(), b.edges.end(),
             [](const auto& x, const auto& y) { return x.from == y.from && x.to == y.to; }) &&
         a.ties.size() == b.ties.size();
}

void append(model::Graph& graph, const cost::Draft& draft) {
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    graph.layers[i].costs.emplace_back(draft.layers()[i].cost);
  }
  const auto edges = draft.edges();
  for (std::size_t i = 0; i < edges.size(); ++i) graph.edges[i].bytes.push_back(edges[i].bytes);
  const auto ties = draft.ties();
  for (std::size_t i = 0; i < ties.size(); ++i)
    graph.ties[i].parameters.push_back(ties[i].parameters);
}

/// Operators on nothing cost nothing, and what follows from them is no number.
void check_elements(const OperatorGraph& graph, const std::string& file) {
  const auto empty = [&](int t) {
    const Tensor& tensor = graph.tensors[static_cast<std::size_t>(t)];
    return !tensor.constant && tensor.elements() == 0;
  };
  for (const Operator& op : graph.operators) {
    for (const auto* tensors : {&op.inputs, &op.outputs}) {
      const auto found = std::find_if(tensors->begin(), tensors->end(), empty);
      if (found == tensors->end()) continue;
      throw InvalidInput(
          fmt::format("{}: node {}: the tensor {} has no elements", file, util::quoted(op.name),
                      util::quoted(graph.tensors[static_cast<std::size_t>(*found)].name)));
    }
  }
}

/// Sizes beyond those that a graph file may hold.
void check_costs(const model::Graph& graph, const std::string& file) {
  for (const model::Layer& layer : graph.layers) {
    for (const auto& cost : layer.costs) {
      const bool fits = cost->forward_s + cost->backward_s <= io::kMostSeconds &&
                        cost->parameters + cost->activation_bytes + cost->checkpoint_bytes +
                                cost->working_bytes <=
                            io::kMostCount;
      if (fits) continue;
      throw InvalidInput(fmt::format("{}: layer {}: takes years, or more than {:g} bytes", file,
                                     util::quoted(layer.id), io::kMostCount));
    }
  }
}

/// Degrees that split nothing, with those next to them that do, and what else degrees leave whole.
class SplitRemarks {
 public:
  void note_unsplit(const KernelGraph& graph, std::int64_t tp) {
    if (!unsplit_.contains(tp)) unsplit_[tp] = nearest_degrees(graph, tp);
  }

  void note_attention(const KernelGraph& graph, const Sharding& sharding, std::int64_t tp) {
    std::int64_t all = 0, whole = 0;
    for (std::size_t k = 0; k < graph.kernels.size(); ++k) {
      if (graph.kernels[k].kind != Kind::kAttention) continue;
      ++all;
      if (sharding.roles[k] == Role::kWhole) ++whole;
    }
    if (tp > 1 && whole > 0) {
      whole_[tp] = fmt::format("tp {} leaves {} of {} on every device as a whole", tp, whole,
                               util::counted(all, "attention"));
    }
  }

  /// Throws InvalidConfig if all degrees are left out.
  void add_to(Imported& result, const std::string& file) const {
    for (const auto& [tp, nearest] : unsplit_) {
      const std::string instead =
          nearest.empty() ? "" : fmt::format(" (nearest: {})", fmt::join(nearest, ", "));
      if (result.graph.strategies.empty()) {
        throw InvalidConfig(fmt::format("--tp: no pair of products of {} can be split {} ways{}",
                                        file, tp, instead));
      }
      result.remarks.push_back(fmt::format(
          "tp {} is left out: no pair of products can be split so many ways{}", tp, instead));
    }
    for (const auto& [tp, remark] : whole_) result.remarks.push_back(remark);
  }

 private:
  std::map<std::int64_t, std::vector<std::int64_t>> unsplit_;
  std::map<std::int64_t, std::string> whole_;
};

/// Of attention whose mask may be a causal one, which the file does not tell.
void remark_on_masks(const KernelGraph& graph, std::vector<std::string>& remarks) {
  const auto unknown =
      std::count_if(graph.kernels.begin(), graph.kernels.end(), [](const Kernel& kernel) {
        return kernel.kind == Kind::kAttention && kernel.attention.masked &&
               !kernel.attention.causal;
      });
  if (unknown == 0) return;
  remarks.push_back(
      fmt::format("{} counted with all pairs: the file does not tell whether the mask is a causal "
                  "triangle",
                  unknown == 1 ? "1 attention is" : fmt::format("{} attentions are", unknown)));
}

}  // namespace

Imported build_graph(std::vector<OperatorGraph> readings, const std::string& file,
                     const cost::CostModel& costs, const Options& options) {
  Imported result;
  SplitRemarks remarks;
  for (OperatorGraph& reading : readings) {
    check_elements(reading, file);
    const std::vector<std::string> blocks = blocks_of(reading);
    const KernelGraph kernels = fuse(std::move(reading), blocks);
    if (kernels.kernels.empty())
      throw InvalidInput(file + ": nothing in it computes on its inputs");
    if (&reading == &readings.front()) remark_on_masks(kernels, result.remarks);
    const Layers layers = layers_of(kernels, options.granularity);
    for (const std::int64_t tp : util::sorted_unique(options.tp)) {
      const Sharding sharding = shard(kernels, tp);
      if (tp > 1 && sharding.regions == 0) {
        remarks.note_unsplit(kernels, tp);
        continue;
      }
      remarks.note_attention(kernels, sharding, tp);
      const Column column(kernels, layers, sharding, static_cast<double>(tp), costs,
                          options.fused_attention);
      const model::Graph shape = outline(column, layers, kernels);
      if (result.graph.layers.empty()) {
        result.graph = shape;
      } else if (!same_shape(result.graph, shape)) {
        throw InvalidInput(fmt::format(
            "{}: the operators differ with the micro-batch; import one at a time", file));
      }
      cost::Degrees degrees;
      degrees.tp = degrees.etp = tp;
      degrees.micro_batch = kernels.graph.micro_batch;
      model::Strategy strategy;
      strategy.id = cost::strategy_id(degrees);
      strategy.tp = tp;
      strategy.micro_batch = degrees.micro_batch;
      result.graph.strategies.push_back(std::move(strategy));
      append(result.graph, column.draft());
    }
  }
  remarks.add_to(result, file);
  check_costs(result.graph, file);
  quantise_counts(result.graph);
  return result;
}

}  // namespace nestplan::importers
