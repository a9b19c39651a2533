#include "nestplan/cost/restart.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/model/blocks.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::cost {
namespace {

using util::idx;

/// Parameters per device of a stage, those of ties once.
struct Parameters {
  double dense = 0;
  double expert = 0;
};

Parameters parameters_of(const model::Graph& graph, const model::StagePlan& stage) {
  const auto strategy = idx(stage.strategy);
  Parameters sum;
  for (const int layer : stage.layers) {
    const model::LayerCost& cost = *graph.layers[idx(layer)].costs[strategy];
    sum.dense += cost.parameters;
    sum.expert += cost.expert_parameters;
  }
  for (const model::Tie& tie : graph.ties) {
    const auto members = std::count_if(tie.layers.begin(), tie.layers.end(), [&](int layer) {
      return std::find(stage.layers.begin(), stage.layers.end(), layer) != stage.layers.end();
    });
    if (members > 1) sum.dense -= static_cast<double>(members - 1) * tie.parameters[strategy];
  }
  return sum;
}

/// What the ranks of one node have, by what it is a part of: a stage's dense parameters of one
/// tensor-parallel rank, or the experts of one such rank at one index of the expert groups.
class Node {
 public:
  void add_rank(double whole) {
    ++ranks_;
    whole_ += whole;
  }
  void add_part(std::size_t stage, std::int64_t tensor_rank, std::int64_t expert_index,
                double whole, double kept) {
    Part& part = parts_[{stage, tensor_rank, expert_index}];
    part.whole = whole;
    part.kept += kept;
  }
  std::int64_t ranks() const { return ranks_; }
  double whole_bytes() const { return whole_; }
  double shard_bytes() const {
    double bytes = 0;
    for (const auto& [key, part] : parts_) bytes += std::min(part.whole, part.kept);
    return bytes;
  }

 private:
  struct Part {
    double whole = 0;
    double kept = 0;  ///< by all ranks of the node together
  };
  std::int64_t ranks_ = 0;
  double whole_ = 0;
  std::map<std::tuple<std::size_t, std::int64_t, std::int64_t>, Part> parts_;
};

}  // namespace

Restart restart(const model::Problem& problem, const model::Plan& plan) {
  constexpr std::int64_t kDense = -1;
  const model::Graph& graph = problem.graph;
  const model::PlanStrategy& degrees = plan.strategy;
  const std::int64_t pod_size = problem.cluster.devices() / degrees.dp_outer;
  const std::vector<std::int64_t> host_of = model::hosts_of_places(problem.cluster);
  const std::vector<std::int64_t> place_of = problem.cluster.places_of_devices();
  const double optimizer = problem.options.state_bytes.optimizer;

  Restart result;
  std::map<std::int64_t, Node> nodes;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const model::StagePlan& stage = plan.stages[s];
    const model::Strategy& strategy = graph.strategies[idx(stage.strategy)];
    const Parameters parameters = parameters_of(graph, stage);
    const double dense = optimizer * parameters.dense;
    const double expert = optimizer * parameters.expert;
    result.whole_bytes_per_rank = std::max(result.whole_bytes_per_rank, dense + expert);
    const ShardGroups groups =
        shard_groups(stage.shard, degrees.dp, degrees.dp_inner, strategy.cp, strategy.ep);
    const double dense_kept = stage.zero > 0 ? dense / static_cast<double>(groups.dense) : dense;
    const double expert_kept =
        stage.zero > 0 ? expert / static_cast<double>(groups.expert) : expert;
    const std::int64_t members = stage.devices / strategy.tp;  // of the data-parallel group, a pod
    for (std::int64_t pod = 0; pod < degrees.dp_outer; ++pod) {
      for (std::int64_t r = 0; r < stage.devices; ++r) {
        const std::int64_t device = pod * pod_size + stage.position + r;
        Node& node = nodes[host_of[idx(place_of[idx(device)])]];
        const std::int64_t tensor_rank = r % strategy.tp;
        const std::int64_t member = pod * members + r / strategy.tp;
        node.add_rank(dense + expert);
        node.add_part(s, tensor_rank, kDense, dense, dense_kept);
        if (expert > 0) {
          node.add_part(s, tensor_rank, member % strategy.ep, expert, expert_kept);
        }
      }
    }
  }
  for (const auto& [index, node] : nodes) {
    result.ranks_per_node = std::max(result.ranks_per_node, node.ranks());
    result.whole_bytes_per_node = std::max(result.whole_bytes_per_node, node.whole_bytes());
    result.shard_bytes_per_node = std::max(result.shard_bytes_per_node, node.shard_bytes());
  }
  return result;
}

}  // namespace nestplan::cost
