#include "cli/plan_remarks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/plan_placement.hpp"
#include "nestplan/cost/memory.hpp"
#include "nestplan/cost/restart.hpp"
#include "nestplan/cost/shards.hpp"
#include "nestplan/targets/targets.hpp"
#include "nestplan/util/format.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

/// A layer takes notice from this many others on; below that, sizes merely differ.
constexpr double kHeavy = 2;

using util::idx;

const model::LayerCost& cost_of(const model::Graph& graph, int layer, int strategy) {
  return *graph.layers[idx(layer)].costs[idx(strategy)];
}

double seconds_of(const model::LayerCost& cost) { return cost.forward_s + cost.backward_s; }

/// The slowest layer, in layers that the rules on their number count.
struct HeavyLayer {
  std::size_t stage = 0;
  int layer = 0;
  double seconds = 0;
  double worth = 0;  ///< in counted layers, by their median
  double share = 0;  ///< counted layers of a stage, on average
  std::int64_t counted = 0;
};

std::optional<HeavyLayer> heavy_layer(const model::Plan& plan, const model::Graph& graph) {
  HeavyLayer heavy;
  std::vector<double> counted;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const int layer : plan.stages[s].layers) {
      const double seconds = seconds_of(cost_of(graph, layer, plan.stages[s].strategy));
      if (graph.layers[idx(layer)].counted) counted.push_back(seconds);
      if (seconds <= heavy.seconds) continue;
      heavy.stage = s;
      heavy.layer = layer;
      heavy.seconds = seconds;
    }
  }
  if (counted.empty()) return {};
  const auto middle = counted.begin() + std::ssize(counted) / 2;
  std::nth_element(counted.begin(), middle, counted.end());
  if (*middle <= 0) return {};
  heavy.worth = heavy.seconds / *middle;
  heavy.counted = std::ssize(counted);
  heavy.share = static_cast<double>(heavy.counted) / static_cast<double>(plan.stages.size());
  return heavy;
}

/// Whether the stage of `heavy` holds nothing that another stage could take over, and is the
/// slowest.
bool binds(const model::Plan& plan, const model::Graph& graph, const HeavyLayer& heavy) {
  double most = 0;
  for (const model::StagePlan& stage : plan.stages) {
    double seconds = 0;
    for (const int layer : stage.layers)
      seconds += seconds_of(cost_of(graph, layer, stage.strategy));
    most = std::max(most, seconds);
  }
  return most <= heavy.seconds * (1 + 1e-9);
}

void remark_on_heavy_layer(const model::Plan& plan, const Setup& setup,
                           std::vector<std::string>& remarks) {
  const model::Graph& graph = setup.problem.graph;
  if (plan.stages.size() < 2) return;
  const auto heavy = heavy_layer(plan, graph);
  if (!heavy || heavy->worth < kHeavy || heavy->worth <= heavy->share) return;
  std::string text = fmt::format(
      "layer {} takes as long as {:.1f} others, more than the {:.1f} of a stage's share ({} over "
      "{} stages)",
      util::quoted(graph.layers[idx(heavy->layer)].id), heavy->worth, heavy->share,
      util::counted(heavy->counted, "layer"), plan.stages.size());
  if (binds(plan, graph, *heavy)) {
    text += fmt::format(
        ": no split over {} stages is faster than this layer alone; fewer stages, or a higher tp, "
        "which also splits tables over the vocabulary, would be better balanced",
        plan.stages.size());
  }
  remarks.push_back(std::move(text));
}

void remark_on_gathers(const model::Plan& plan, const Setup& setup,
                       std::vector<std::string>& remarks) {
  const double weight = setup.problem.options.state_bytes.weight;
  double most = 0;
  bool any = false;
  for (const model::StagePlan& stage : plan.stages) {
    if (stage.zero != 3) continue;
    any = true;
    double parameters = 0;
    for (const int layer : stage.layers) {
      const model::LayerCost& cost = cost_of(setup.problem.graph, layer, stage.strategy);
      parameters += cost.parameters + cost.expert_parameters;
    }
    most = std::max(most, weight * parameters);
  }
  if (!any) return;
  remarks.push_back(fmt::format(
      "ZeRO 3 gathers the weights for every forward and backward pass, {} times an iteration; kept "
      "between them (ZeRO 2) they are gathered once and take {} on a device",
      2 * plan.strategy.microbatches, util::format_bytes_binary(most)));
}

/// FSDP deals out whole rows of what is split over `ranks`.
void remark_on_rows(const model::Plan& plan, const Setup& setup,
                    std::vector<std::string>& remarks) {
  if (setup.problem.options.target != "torchtitan") return;
  const model::Dimensions& dimensions = setup.problem.graph.dimensions;
  std::int64_t ranks = 1;
  std::int64_t tp = 1;
  for (const model::StagePlan& stage : plan.stages) {
    if (stage.zero == 0) continue;
    const model::Strategy& strategy = setup.problem.graph.strategies[idx(stage.strategy)];
    ranks = std::max(ranks, cost::shard_groups(stage.shard, plan.strategy.dp,
                                               plan.strategy.dp_inner, strategy.cp, strategy.ep)
                                .dense);
    tp = strategy.tp;
  }
  const std::pair<const char*, std::int64_t> matrices[] = {
      {"routers", dimensions.experts},
      {"MLPs", dimensions.ffn / tp},
      {"the vocabulary's table", dimensions.vocabulary / tp}};
  for (const auto& [what, rows] : matrices) {
    if (rows == 0 || rows >= ranks) continue;
    const cost::RowShards shards = cost::shard_rows(rows, 1, ranks);
    remarks.push_back(
        fmt::format("FSDP deals out whole rows: of the {} rows of {} a rank holds up to {:.0f} "
                    "instead of {:.3g}, "
                    "and {} of {} ranks none",
                    rows, what, shards.largest,
                    static_cast<double>(rows) / static_cast<double>(ranks), ranks - rows, ranks));
  }
}

/// The objective counts the synchronisation of the first stage, which is the last to begin with it;
/// others begin earlier by the backward passes of the stages before them, and may end later.
void remark_on_synchronisation(const model::Plan& plan, std::vector<std::string>& remarks) {
  constexpr double kWorthSaying = 0.01;  // of the iteration
  double head_start = 0;
  double latest = 0;
  std::size_t slowest = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const model::StageTime& time = plan.stages[s].time;
    const double end = time.sync_s - head_start;
    if (end > latest) {
      latest = end;
      slowest = s;
    }
    head_start += time.backward_s + time.recompute_s;
  }
  const double beyond = latest - plan.stages.front().time.sync_s;
  if (beyond <= kWorthSaying * plan.iteration_time_s) return;
  remarks.push_back(fmt::format(
      "the objective counts the synchronisation of stage 1 alone, {}; that of stage {} takes {} "
      "and "
      "ends about {} later: nestplan simulate tells",
      util::format_seconds(plan.stages.front().time.sync_s), slowest + 1,
      util::format_seconds(plan.stages[slowest].time.sync_s), util::format_seconds(beyond)));
}

void remark_on_hosts(const cost::Restart& load, const Setup& setup,
                     std::vector<std::string>& remarks) {
  const double host = setup.problem.cluster.host_memory_bytes;
  if (host <= 0 || load.whole_bytes_per_node <= host) return;
  const bool shards_fit = load.shard_bytes_per_node <= host;
  remarks.push_back(fmt::format(
      "loading the run to go on takes {} of host memory on a node if each of its {} ranks reads "
      "all "
      "optimizer state of its stage, which is more than the {} that there is; in shards it takes "
      "{}{}",
      util::format_bytes(load.whole_bytes_per_node), load.ranks_per_node, util::format_bytes(host),
      util::format_bytes(load.shard_bytes_per_node),
      shards_fit ? "" : ", which is too much as well"));
}

/// Nothing if it is not known, or stages pad their tables differently.
std::optional<io::PlanNotes::Vocabulary> vocabulary_of(const model::Plan& plan,
                                                       const Setup& setup) {
  const std::int64_t rows = setup.problem.graph.dimensions.vocabulary;
  if (rows == 0 || setup.vocabulary_multiple == 0) return {};
  const auto padded = [&](const model::StagePlan& stage) {
    const std::int64_t tp = setup.problem.graph.strategies[idx(stage.strategy)].tp;
    return targets::padded_vocabulary(rows, setup.vocabulary_multiple, tp);
  };
  if (padded(plan.stages.front()) != padded(plan.stages.back())) return {};
  return io::PlanNotes::Vocabulary{rows, padded(plan.stages.front())};
}

}  // namespace

io::PlanNotes plan_notes(const model::Plan& plan, const Setup& setup) {
  io::PlanNotes notes;
  // a plan that is too broken to have places has none of this
  const bool placed = !plan.stages.empty() && plan.iteration_time_s > 0;
  if (!placed) return notes;
  notes.vocabulary = vocabulary_of(plan, setup);
  notes.restart = cost::restart(setup.problem, plan);
  notes.placement = placement_of(plan, setup);
  remark_on_heavy_layer(plan, setup, notes.remarks);
  remark_on_gathers(plan, setup, notes.remarks);
  remark_on_rows(plan, setup, notes.remarks);
  remark_on_hosts(*notes.restart, setup, notes.remarks);
  remark_on_synchronisation(plan, notes.remarks);
  return notes;
}

}  // namespace nestplan::cli
