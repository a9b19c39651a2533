#include "importers/chakra_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "importers/blocks.hpp"
#include "importers/operator_graph.hpp"
#include "nestplan/cost/profile.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/letters.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::importers {
namespace {

/// What is in front of "_FWD" or "_BWD", without the converter's prefix; the whole name if neither
/// is in it.
std::string stem(const std::string& name) {
  constexpr std::string_view kPrefix = "COMP_NODE_";
  std::string_view rest = name;
  if (rest.starts_with(kPrefix)) rest.remove_prefix(kPrefix.size());
  const std::string small = util::lower(rest);
  const std::size_t end = std::min(small.rfind("_fwd"), small.rfind("_bwd"));
  return std::string(rest.substr(0, end));
}

/// "layers.3/mlp" and "layers.3.mlp" are in the block "layers.3".
std::string block_of_name(const std::string& name) {
  std::vector<std::string> scope = scope_of(name);
  if (scope.empty()) {
    for (const std::string_view part : util::split(name, '.')) scope.emplace_back(part);
    scope.pop_back();
  }
  const std::string block = block_of(scope);
  return block.empty() ? name : block;
}

class TraceGraph {
 public:
  TraceGraph(std::vector<TraceNode> nodes, const std::string& file, double gradient_bytes,
             const Options& options)
      : nodes_(std::move(nodes)),
        file_(file),
        gradient_bytes_(gradient_bytes),
        options_(options),
        layer_(nodes_.size(), -1),
        backward_(nodes_.size(), false) {}

  Imported run() {
    find_computations();
    find_layers();
    assign_backward();
    connect();
    add_collectives();
    return finish();
  }

 private:
  using Node = TraceNode;

  const Node& node(int i) const { return nodes_[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  bool computes(int i) const { return computes_[static_cast<std::size_t>(i)]; }
  bool is_backward(int i) const { return backward_[static_cast<std::size_t>(i)]; }
  model::LayerCost& cost(int layer) {
    return *result_.graph.layers[static_cast<std::size_t>(layer)].costs.front();
  }

  std::string titled(int i) const {
    return fmt::format("node {} ({})", node(i).id, util::quoted(node(i).name));
  }

  [[noreturn]] void fail(std::string_view problem) const {
    throw InvalidInput(fmt::format("{}: {}", file_, problem));
  }

  /// Kernels on an accelerator carry no numbers of their own: those of what launched them count.
  void find_computations() {
    const bool accelerated = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& each) {
      return each.on_accelerator && each.type == Node::Type::kCompute && each.seconds > 0;
    });
    computes_.resize(nodes_.size());
    for (int i = 0; i < size(); ++i) {
      Node& each = nodes_[static_cast<std::size_t>(i)];
      const bool here = !accelerated || each.on_accelerator;
      computes_[static_cast<std::size_t>(i)] =
          here && each.type == Node::Type::kCompute && each.seconds > 0;
      if (!each.sources.empty() && each.sequence < 0 && each.on_accelerator) {
        const Node& launcher = node(each.sources.back());
        each.sequence = launcher.sequence;
        each.of_autograd = each.of_autograd || launcher.of_autograd;
      }
      const std::string name = util::lower(each.name);
      backward_[static_cast<std::size_t>(i)] = each.of_autograd ||
                                               name.find("bwd") != std::string::npos ||
                                               name.find("backward") != std::string::npos;
    }
  }

  void find_layers() {
    std::map<std::string, int> index;
    std::set<std::string> stems;
    for (int i = 0; i < size(); ++i) {
      if (!computes(i) || is_backward(i)) continue;
      std::string name = stem(node(i).name);
      const bool told = name != node(i).name;
      if (!stems.insert(name).second) {
        if (told) {
          fail(
              fmt::format("{}: its layer has run before: a trace of one forward and backward pass "
                          "is needed",
                          titled(i)));
        }
        name += fmt::format("#{}", node(i).id);
      }
      const std::string id =
          options_.granularity == Granularity::kBlock ? block_of_name(name) : name;
      const auto [entry, added] = index.emplace(id, static_cast<int>(result_.graph.layers.size()));
      if (added) result_.graph.layers.push_back({id, {model::LayerCost{}}});
      layer_[static_cast<std::size_t>(i)] = entry->second;
      by_stem_[stem(node(i).name)] = entry->second;
      if (node(i).sequence >= 0) by_sequence_[node(i).sequence] = entry->second;
      cost(entry->second).forward_s += node(i).seconds;
      cost(entry->second).activation_bytes += output_bytes(i);
    }
    if (result_.graph.layers.empty()) fail("the trace has no forward computation that takes time");
  }

  double output_bytes(int i) const {
    if (node(i).output_bytes) return *node(i).output_bytes;
    if (options_.tensor_bytes) return *options_.tensor_bytes;
    fail(
        fmt::format("{}: tells neither the attribute tensor_size nor outputs.shapes "
                    "(--tensor-bytes SIZE is for all that do not)",
                    titled(i)));
  }

  void assign_backward() {
    bool any = false;
    for (int i = 0; i < size(); ++i) {
      if (!computes(i) || !is_backward(i)) continue;
      any = true;
      const auto same = by_sequence_.find(node(i).sequence);
      const auto named = by_stem_.find(stem(node(i).name));
      if (same == by_sequence_.end() && named == by_stem_.end()) {
        fail(fmt::format("{}: no forward computation has its seq_id or its name", titled(i)));
      }
      const int layer = same != by_sequence_.end() ? same->second : named->second;
      layer_[static_cast<std::size_t>(i)] = layer;
      cost(layer).backward_s += node(i).seconds;
    }
    if (any) return;
    for (model::Layer& layer : result_.graph.layers) {
      layer.costs.front()->backward_s = 2 * layer.costs.front()->forward_s;
    }
    result_.remarks.emplace_back(
        "the trace has no backward pass, which is taken to be twice as long as the forward one");
  }

  /// The computations that node `i` waits for, through all that are none.
  const std::set<int>& computations_before(int i) { return before_[static_cast<std::size_t>(i)]; }

  void connect() {
    before_.resize(nodes_.size());
    std::map<std::pair<int, int>, std::map<int, double>> edges;  // by producer
    for (int i = 0; i < size(); ++i) {
      std::set<int>& before = before_[static_cast<std::size_t>(i)];
      for (const int from : node(i).sources) {
        if (computes(from)) {
          before.insert(from);
        } else {
          const std::set<int>& further = before_[static_cast<std::size_t>(from)];
          before.insert(further.begin(), further.end());
        }
      }
      if (before.size() > kMostSources) {
        fail(fmt::format("{}: waits for more than {} computations", titled(i), kMostSources));
      }
      if (!computes(i) || is_backward(i)) continue;
      for (const int from : before) {
        const int a = layer_[static_cast<std::size_t>(from)];
        const int b = layer_[static_cast<std::size_t>(i)];
        if (!is_backward(from) && a != b) edges[{a, b}][from] = output_bytes(from);
      }
    }
    for (const auto& [ends, tensors] : edges) {
      double bytes = 0;
      for (const auto& [from, size_of] : tensors) bytes += size_of;
      result_.graph.edges.push_back({ends.first, ends.second, {bytes}});
      cost(ends.second).checkpoint_bytes += bytes;
    }
  }

  void add_collectives() {
    std::vector<bool> awaited(nodes_.size(), false);  // by a backward computation
    for (int i = size(); i-- > 0;) {
      const bool waits = computes(i) ? is_backward(i) : awaited[static_cast<std::size_t>(i)];
      if (!waits) continue;
      for (const int from : node(i).sources) awaited[static_cast<std::size_t>(from)] = true;
    }
    int unplanned = 0, lone = 0;
    for (int i = 0; i < size(); ++i) {
      if (node(i).type != Node::Type::kCollective) continue;
      const std::set<int>& before = computations_before(i);
      if (!node(i).collective || before.empty()) {
        ++unplanned;
        continue;
      }
      const int source = *before.rbegin();
      model::LayerCost& owner = cost(layer_[static_cast<std::size_t>(source)]);
      if (is_backward(source) && !awaited[static_cast<std::size_t>(i)]) {
        owner.parameters += node(i).collective_bytes / gradient_bytes_;
      } else if (options_.tp.front() == 1) {
        ++lone;
      } else {
        const auto phase = is_backward(source) ? model::Phase::kBackward : model::Phase::kForward;
        owner.collectives.push_back(
            {phase, *node(i).collective, model::GroupKind::kTensor, node(i).collective_bytes});
      }
    }
    if (unplanned > 0) {
      result_.remarks.push_back(
          fmt::format("left out: {} that {} no computation, or {} of a kind that is not planned",
                      util::counted(unplanned, "collective"), unplanned == 1 ? "follows" : "follow",
                      unplanned == 1 ? "is" : "are"));
    }
    if (lone > 0) {
      result_.remarks.push_back(
          fmt::format("left out: {} within layers; --tp tells among how many devices",
                      util::counted(lone, "collective")));
    }
  }

  Imported finish() {
    cost::Degrees degrees;
    degrees.tp = degrees.etp = options_.tp.front();
    degrees.micro_batch = options_.micro_batches.empty() ? 1 : options_.micro_batches.front();
    model::Strategy strategy;
    strategy.id = cost::strategy_id(degrees);
    strategy.tp = degrees.tp;
    strategy.micro_batch = degrees.micro_batch;
    result_.graph.name = std::filesystem::path(file_).stem().string();
    result_.graph.strategies = {strategy};
    quantise_counts(result_.graph);
    topological_order_of_layers();
    return std::move(result_);
  }

  void topological_order_of_layers() const {
    try {
      model::topological_order(result_.graph);
    } catch (const InvalidInput& error) {
      fail(
          fmt::format("blocks depend on each other in a circle: {} (--granularity operator keeps "
                      "them apart)",
                      error.what()));
    }
  }

  static constexpr std::size_t kMostSources = 4096;

  std::vector<TraceNode> nodes_;
  const std::string& file_;
  double gradient_bytes_;
  const Options& options_;
  Imported result_;
  std::vector<bool> computes_;
  std::vector<int> layer_;  ///< by node
  std::vector<bool> backward_;
  std::vector<std::set<int>> before_;
  std::map<std::string, int> by_stem_;
  std::map<std::int64_t, int> by_sequence_;
};

}  // namespace

Imported layers_of_trace(std::vector<TraceNode> nodes, const std::string& file,
                         double gradient_bytes, const Options& options) {
  if (options.tp.size() != 1) {
    throw InvalidConfig("--tp: a trace was taken with one tensor-parallel degree");
  }
  if (options.micro_batches.size() > 1) {
    throw InvalidConfig("--micro-batch: a trace was taken with one micro-batch");
  }
  return TraceGraph(std::move(nodes), file, gradient_bytes, options).run();
}

}  // namespace nestplan::importers
