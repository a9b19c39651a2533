#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "baselines/inter_stage.hpp"
#include "baselines/row.hpp"
#include "baselines/search.hpp"
#include "baselines/stage_costs.hpp"
#include "nestplan/util/format.hpp"
#include "solver/ladder.hpp"

/// Mist (Zhu et al., Efficient Distributed Training of Large Language Models via Memory-Parallelism
/// Co-Optimization, EuroSys 2025, arXiv 2503.19050, section 5):
///
/// - the devices are divided evenly among the stages, whole hosts or equal parts of a host each;
/// - the intra-stage search finds, for every number of blocks, the ways to run a stage (strategy,
///   recomputation, ZeRO) that fit into memory and are not worse both in the time of a micro-batch
///   and in what the first and last micro-batch take beyond that (section 5.2);
/// - the inter-stage search chooses blocks and ways by a mixed-integer program, for every number of
///   stages and of micro-batches (section 5.3), with numbers of blocks within two of the even share
///   (`layers_offset` of the implementation);
/// - costs are those on the first devices of the cluster, transfers between stages included: where
///   in the network a stage comes to lie is not looked at.
///
/// Blocks are taken to be alike: a stage in the middle costs what it costs at its even share of the
/// model. Offloading, which plans here do not have, is left out.

namespace nestplan::baselines {
namespace {

using solver::at;

constexpr std::int64_t kBlocksOffset = 2;

/// The row of layers as blocks: those that count, each with the layers behind it that do not.
class Blocks {
 public:
  Blocks(const model::Graph& graph, const std::vector<int>& row) {
    const bool some_count = model::counted_layers(graph) > 0;
    for (int i = 0; i < static_cast<int>(row.size()); ++i) {
      if (!some_count || graph.layers[at(row[at(i)])].counted) begins_.push_back(i);
    }
    begins_.front() = 0;
    begins_.push_back(static_cast<int>(row.size()));
  }

  std::int64_t count() const { return std::ssize(begins_) - 1; }
  /// First layer of a block, or behind the last one.
  int begin(std::int64_t block) const { return begins_[at(block)]; }

 private:
  std::vector<int> begins_;
};

/// A way to run a stage, with what it means.
struct Way {
  StagePoint point;
  int choice = 0;
  StageOption option;
};

/// Whether `a` is at least as good as `b` in both respects.
bool dominates(const StagePoint& a, const StagePoint& b) {
  return a.stable_s <= b.stable_s && a.delta_s <= b.delta_s;
}

/// Adds a way unless another is as good in both respects, and drops those that it beats.
void add_to_frontier(std::vector<Way>& frontier, const Way& way) {
  if (std::any_of(frontier.begin(), frontier.end(),
                  [&](const Way& other) { return dominates(other.point, way.point); })) {
    return;
  }
  std::erase_if(frontier, [&](const Way& other) { return dominates(way.point, other.point); });
  frontier.push_back(way);
}

/// Mist's search for one configuration of copies and micro-batches and one number of stages.
class Tuning {
 public:
  Tuning(StageCosts& costs, const Blocks& blocks, std::int64_t stages, std::int64_t devices)
      : costs_(costs), blocks_(blocks), stages_(stages) {
    for (int choice = 0; choice < costs.choices(); ++choice) {
      if (costs.devices(choice) * stages == devices) choices_.push_back(choice);
    }
    const auto share = static_cast<std::int64_t>(
        std::lround(static_cast<double>(blocks.count()) / static_cast<double>(stages)));
    least_ = std::max<std::int64_t>(1, share - kBlocksOffset);
    most_ = std::min(share + kBlocksOffset, blocks.count() - stages + 1);
  }

  bool hopeless() const { return choices_.empty() || least_ > most_; }

  struct Result {
    double seconds = std::numeric_limits<double>::infinity();
    RowPlan plan;
  };

  struct Outcome {
    std::optional<Result> result;  ///< nothing: none is faster, or none was found within the limits
    bool solved = false;           ///< the program was needed
    bool at_limit = false;         ///< on its nodes
  };

  Outcome run(double better_than_s, const Task& task) {
    tune_stages();
    InterStageProgram program;
    program.microbatches = costs_.configuration().microbatches;
    program.blocks = blocks_.count();
    program.least_blocks = least_;
    for (const auto& stage : frontiers_) {
      auto& points = program.points.emplace_back();
      for (const std::vector<Way>& frontier : stage) {
        auto& ways = points.emplace_back();
        for (const Way& way : frontier) ways.push_back(way.point);
      }
    }
    if (least_time_s() >= better_than_s) return {};
    using End = InterStageAnswer::End;
    const InterStageAnswer answer =
        solve(program, better_than_s, task.clock.left_s(), task.budget.mist_nodes);
    Outcome outcome{{}, true, answer.end == End::kNodes};
    if (answer.plan) outcome.result = {answer.plan->seconds, plan_of(*answer.plan)};
    return outcome;
  }

 private:
  /// The intra-stage search, for every stage and number of blocks.
  void tune_stages() {
    for (std::int64_t stage = 0; stage < stages_; ++stage) {
      auto& by_blocks = frontiers_.emplace_back();
      for (std::int64_t blocks = least_; blocks <= most_; ++blocks) {
        by_blocks.push_back(frontier(stage, blocks));
      }
    }
  }

  /// At its even share of the model; the last stage ends with it.
  std::int64_t first_block(std::int64_t stage, std::int64_t blocks) const {
    if (stage == stages_ - 1) return blocks_.count() - blocks;
    const std::int64_t behind = stages_ - 1 - stage;
    return std::min(blocks_.count() * stage / stages_, blocks_.count() - blocks - behind);
  }

  std::vector<Way> frontier(std::int64_t stage, std::int64_t blocks) {
    std::vector<Way> best;
    const std::int64_t first = first_block(stage, blocks);
    const int begin = blocks_.begin(first);
    const int end = blocks_.begin(first + blocks);
    const std::int64_t in_flight = costs_.in_flight(stages_ - stage);
    for (const int choice : choices_) {
      const double received_s = costs_.receive_s(choice, begin) + costs_.receive_s(choice, end);
      for (const StageOption& option : costs_.options(choice, begin, end)) {
        if (option.most_in_flight < in_flight) continue;
        add_to_frontier(best, {{option.stable_s + received_s, option.once_s}, choice, option});
      }
    }
    return best;
  }

  /// No choice takes less: all blocks at the least time that one takes in any way.
  double least_time_s() const {
    double of_block_s = std::numeric_limits<double>::infinity();
    for (const auto& stage : frontiers_) {
      for (std::size_t j = 0; j < stage.size(); ++j) {
        const auto blocks = static_cast<double>(least_ + static_cast<std::int64_t>(j));
        for (const Way& way : stage[j]) {
          of_block_s = std::min(of_block_s, way.point.stable_s / blocks);
        }
      }
    }
    const double sum_s = of_block_s * static_cast<double>(blocks_.count());
    const auto rounds = static_cast<double>(costs_.configuration().microbatches - 1);
    return sum_s + rounds * sum_s / static_cast<double>(stages_);
  }

  RowPlan plan_of(const InterStagePlan& solved) const {
    RowPlan plan{costs_.configuration().dp, costs_.configuration().dp_inner, {}};
    std::int64_t block = 0;
    for (std::size_t i = 0; i < solved.stages.size(); ++i) {
      const InterStageChoice& stage = solved.stages[i];
      const Way& way = frontiers_[i][at(stage.blocks - least_)][at(stage.point)];
      plan.stages.push_back({blocks_.begin(block), blocks_.begin(block + stage.blocks),
                             costs_.strategy(way.choice), way.option.recompute,
                             way.option.shard.zero, way.option.shard.span});
      block += stage.blocks;
    }
    return plan;
  }

  StageCosts& costs_;
  const Blocks& blocks_;
  std::int64_t stages_;
  std::vector<int> choices_;  ///< of the costs: those that use all devices
  std::int64_t least_ = 1;    ///< blocks of a stage
  std::int64_t most_ = 1;
  std::vector<std::vector<std::vector<Way>>> frontiers_;  ///< by stage and blocks
};

/// Numbers of stages that share the devices out evenly, as whole hosts or parts of one.
std::vector<std::int64_t> even_partitions(const Mesh& mesh) {
  std::vector<std::int64_t> counts;
  for (std::int64_t stages = 1; stages <= mesh.devices(); ++stages) {
    const bool whole_hosts = mesh.hosts % stages == 0;
    const bool parts = stages % mesh.hosts == 0 && mesh.per_host % (stages / mesh.hosts) == 0;
    if (whole_hosts || parts) counts.push_back(stages);
  }
  return counts;
}

}  // namespace

Finding find_mist(const Task& task) {
  const solver::Instance instance(task.problem, task.network,
                                  solver::row_lattice(task.problem.graph));
  const std::vector<int> row = model::topological_order(task.problem.graph);
  const Blocks blocks(task.problem.graph, row);
  const Mesh mesh = mesh_of(task.problem.cluster);
  solver::ClassCache cache(instance);
  std::vector<Tuning::Result> improvements;
  double best_s = std::numeric_limits<double>::infinity();
  std::int64_t programs = 0;
  std::int64_t at_limit = 0;
  for (const solver::Configuration& configuration : solver::ConfigurationSpace(instance).list()) {
    if (configuration.dp_inner != configuration.dp || configuration.vpp != 1) continue;
    StageCosts costs(instance, configuration, cache);
    for (const std::int64_t stages : even_partitions(mesh)) {
      if (task.clock.over() || stages > blocks.count()) break;
      if (!allowed(task.problem.options.pp, stages)) continue;
      Tuning tuning(costs, blocks, stages, mesh.devices());
      if (tuning.hopeless()) continue;
      Tuning::Outcome outcome = tuning.run(best_s, task);
      programs += outcome.solved ? 1 : 0;
      at_limit += outcome.at_limit ? 1 : 0;
      if (!outcome.result) continue;
      best_s = outcome.result->seconds;
      improvements.push_back(std::move(*outcome.result));
    }
  }
  Finding finding{{}, "no even share of the devices holds the stages"};
  if (at_limit > 0) {
    finding.limit =
        fmt::format("{} of {} stopped at {}", at_limit, util::counted(programs, "program"),
                    util::counted(task.budget.mist_nodes, "node"));
  }
  for (auto it = improvements.rbegin(); it != improvements.rend(); ++it) {
    finding.plan = judge(task, placed(it->plan, row, task.problem.graph));
    if (finding.plan->status != model::Status::kInfeasible) break;
  }
  return finding;
}

}  // namespace nestplan::baselines
