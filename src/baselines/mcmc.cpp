#include <algorithm>
#include <cmath>
#include <random>

#include "baselines/row.hpp"
#include "baselines/search.hpp"
#include "nestplan/util/index.hpp"

/// Markov chain Monte Carlo over plans, as FlexFlow (Jia et al., Beyond Data and Model Parallelism
/// for Deep Neural Networks, MLSys 2019, arXiv 1807.05358, section 6) searches strategies and as
/// TopoOpt (Wang et al., NSDI 2023, section 4) takes it over:
///
/// - a proposal changes one random thing in the plan to a random value (section 6.2);
/// - it is accepted with probability min(1, exp(β·(cost - cost*))) (equation 2);
/// - chains start from data parallelism and from random plans; each ends when its share of the
///   budget is spent, or when half of the share brought nothing better (section 6.2);
/// - what exceeds the memory costs 1 ms for every MB and micro-batch (`Simulator::simulate_runtime`
///   in src/runtime/simulator.cc of flexflow/flexflow-train, whose iterations are one micro-batch).
///
/// β is relative to the cost, so that it does not depend on the unit of time. Stages are put side
/// by side; proposals that are illegal by their form are refused.

namespace nestplan::baselines {
namespace {

constexpr double kBeta = 50;  ///< a plan that is 2 % slower is accepted with probability 1/e
constexpr std::int64_t kChains = 4;
constexpr double kSecondsPerByte = 1e-3 / 1e6;

using util::idx;

/// The same numbers from the same seed on every platform, which the distributions of the standard
/// library do not promise.
class Chance {
 public:
  explicit Chance(std::uint64_t seed) : random_(seed) {}

  /// In `[0, size)`.
  std::size_t below(std::size_t size) { return static_cast<std::size_t>(random_() % size); }
  /// In `[low, high]`.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(idx(high - low + 1)));
  }
  /// In `[0, 1)`.
  double real() { return static_cast<double>(random_() >> 11) * 0x1.0p-53; }
  bool coin() { return below(2) == 0; }
  template <typename Value>
  const Value& pick(const std::vector<Value>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 random_;
};

struct State {
  RowPlan plan;
  model::Plan judged;
  double cost = std::numeric_limits<double>::infinity();
};

class Chains {
 public:
  explicit Chains(const Task& task)
      : task_(task),
        graph_(task.problem.graph),
        options_(task.problem.options),
        row_(model::topological_order(graph_)),
        layers_(static_cast<int>(row_.size())),
        strategies_(usable_strategies()),
        chance_(task.budget.seed) {}

  Finding run() {
    if (strategies_.empty()) return {{}, "no strategy has costs for all layers"};
    const std::int64_t share = std::max<std::int64_t>(1, task_.budget.mcmc_steps / kChains);
    run_chain(data_parallel(), share);
    for (std::int64_t chain = 1; chain < kChains && !task_.clock.over(); ++chain) {
      run_chain(random_start(share), share);
    }
    if (best_.cost < std::numeric_limits<double>::infinity()) return {std::move(best_.judged), ""};
    if (nearest_.cost < std::numeric_limits<double>::infinity()) {
      return {std::move(nearest_.judged), ""};
    }
    return {{}, "no proposal was legal"};
  }

 private:
  std::vector<int> usable_strategies() const {
    std::vector<int> usable = offered_strategies(task_.problem);
    std::erase_if(usable, [&](int k) {
      return std::any_of(graph_.layers.begin(), graph_.layers.end(),
                         [k](const auto& layer) { return !layer.costs[idx(k)].has_value(); });
    });
    return usable;
  }

  const model::Strategy& strategy(int k) const { return graph_.strategies[idx(k)]; }

  std::vector<int> strategies_for(std::int64_t micro_batch) const {
    std::vector<int> same = strategies_;
    std::erase_if(same, [&](int k) { return strategy(k).micro_batch != micro_batch; });
    return same;
  }

  std::vector<std::int64_t> copies(const model::Strategy& s) const {
    std::vector<std::int64_t> counts =
        copy_counts(task_.problem, s.micro_batch, task_.network.devices() / model_parallel_size(s));
    std::erase_if(counts, [this](std::int64_t dp) { return inner_copies(dp).empty(); });
    return counts;
  }

  std::vector<std::int64_t> inner_copies(std::int64_t dp) const {
    std::vector<std::int64_t> inner;
    for (std::int64_t d = 1; d <= dp; ++d) {
      if (dp % d == 0 && allowed(options_.dp_inner, d)) inner.push_back(d);
    }
    return inner;
  }

  RowStage whole_model(int k) const {
    return {
        0, layers_, k, options_.recompute.front(), options_.zero.front(), options_.shard.front()};
  }

  /// As many copies of the model as there can be, each on as few devices as there can be.
  RowPlan data_parallel() const {
    const int k = *std::min_element(strategies_.begin(), strategies_.end(), [&](int a, int b) {
      return model_parallel_size(strategy(a)) < model_parallel_size(strategy(b));
    });
    RowPlan plan{1, 1, {whole_model(k)}};
    if (const auto counts = copies(strategy(k)); !counts.empty()) plan.dp = counts.back();
    if (const auto inner = inner_copies(plan.dp); !inner.empty()) plan.dp_inner = inner.back();
    return plan;
  }

  RowPlan random_plan() {
    RowPlan plan{1, 1, {whole_model(chance_.pick(strategies_))}};
    change_memory(plan);
    change_degrees(plan);
    return plan;
  }

  /// A legal plan, if so many attempts come upon one.
  RowPlan random_start(std::int64_t attempts) {
    RowPlan plan = random_plan();
    for (; attempts > 0 && std::isinf(weigh(plan).cost) && !task_.clock.over(); --attempts) {
      plan = random_plan();
    }
    return plan;
  }

  void run_chain(RowPlan start, std::int64_t steps) {
    State current = weigh(std::move(start));
    double least = current.cost;
    std::int64_t last_gain = 0;
    for (std::int64_t step = 1; step <= steps && !task_.clock.over(); ++step) {
      State next = weigh(proposal(current.plan));
      const double change = (next.cost - current.cost) / current.cost;
      const bool accepted = next.cost <= current.cost || chance_.real() < std::exp(-kBeta * change);
      if (accepted) current = std::move(next);
      if (current.cost < least) {
        least = current.cost;
        last_gain = step;
      }
      if (step - last_gain > steps / 2) break;
    }
  }

  /// Judges a plan, and remembers it if it is the best so far.
  State weigh(RowPlan plan) {
    State state;
    const cost::PlacedPlan whole = placed(plan, row_, graph_);
    state.plan = std::move(plan);
    if (!deals_out_batch(state.plan)) return state;
    state.judged = cost::evaluate(task_.problem, task_.network, whole);
    const bool fits = state.judged.status != model::Status::kInfeasible;
    const double excess = excess_bytes(state.judged);
    if (!fits && (excess <= 0 || state.judged.iteration_time_s == 0)) return state;
    const auto rounds = static_cast<double>(state.judged.strategy.microbatches);
    state.cost = state.judged.iteration_time_s + rounds * kSecondsPerByte * excess;
    State& record = fits ? best_ : nearest_;
    if (state.cost < record.cost && (!fits || admitted(task_, whole))) record = state;
    return state;
  }

  bool deals_out_batch(const RowPlan& plan) const {
    const std::int64_t step = plan.dp * strategy(plan.stages.front().strategy).micro_batch;
    if (step > options_.global_batch) return false;
    return options_.allow_uneven_batch || options_.global_batch % step == 0;
  }

  /// By how much the fullest stage exceeds its devices; 0 if all fit.
  static double excess_bytes(const model::Plan& plan) {
    double most = 0;
    for (const model::StagePlan& stage : plan.stages) {
      most = std::max(most, stage.memory.total_bytes - stage.memory.limit_bytes);
    }
    return most;
  }

  RowPlan proposal(RowPlan plan) {
    switch (chance_.below(8)) {
      case 0:
        change_strategy(plan);
        break;
      case 1:
        change_micro_batch(plan);
        break;
      case 2:
        change_copies(plan);
        break;
      case 3:
        split(plan);
        break;
      case 4:
        merge(plan);
        break;
      case 5:
        move_boundary(plan);
        break;
      case 6:
        change_degrees(plan);
        break;
      default:
        change_memory(plan);
    }
    return plan;
  }

  void change_strategy(RowPlan& plan) {
    const int k = chance_.pick(strategies_for(strategy(plan.stages.front().strategy).micro_batch));
    if (options_.per_stage_strategies && chance_.coin()) {
      plan.stages[chance_.below(plan.stages.size())].strategy = k;
    } else {
      for (RowStage& stage : plan.stages) stage.strategy = k;
    }
  }

  void change_micro_batch(RowPlan& plan) {
    const int k = chance_.pick(strategies_);
    for (RowStage& stage : plan.stages) stage.strategy = k;
  }

  void change_copies(RowPlan& plan) {
    if (chance_.coin()) {
      const auto counts = copies(strategy(plan.stages.front().strategy));
      if (counts.empty()) return;
      plan.dp = chance_.pick(counts);
    }
    if (const auto inner = inner_copies(plan.dp); !inner.empty()) {
      plan.dp_inner = chance_.pick(inner);
    }
  }

  /// Copies and stages together, with layers dealt out evenly: more of one takes less of the other.
  void change_degrees(RowPlan& plan) {
    const RowStage first = plan.stages.front();
    const std::int64_t size = model_parallel_size(strategy(first.strategy));
    const auto counts = copies(strategy(first.strategy));
    if (counts.empty()) return;
    plan.dp = chance_.pick(counts);
    plan.dp_inner = chance_.pick(inner_copies(plan.dp));
    const std::int64_t pod = task_.network.devices() / (plan.dp / plan.dp_inner);
    const std::int64_t most = std::min<std::int64_t>(layers_, pod / (size * plan.dp_inner));
    const auto stages = static_cast<int>(chance_.between(1, std::max<std::int64_t>(1, most)));
    plan.stages.assign(idx(stages), first);
    for (int s = 0; s < stages; ++s) {
      plan.stages[idx(s)].begin = layers_ * s / stages;
      plan.stages[idx(s)].end = layers_ * (s + 1) / stages;
    }
  }

  void split(RowPlan& plan) {
    const std::size_t s = chance_.below(plan.stages.size());
    RowStage& first = plan.stages[s];
    if (first.end - first.begin < 2) return;
    RowStage second = first;
    first.end = second.begin = static_cast<int>(chance_.between(first.begin + 1, first.end - 1));
    plan.stages.insert(plan.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1, second);
  }

  void merge(RowPlan& plan) {
    if (plan.stages.size() < 2) return;
    const std::size_t s = chance_.below(plan.stages.size() - 1);
    plan.stages[s].end = plan.stages[s + 1].end;
    plan.stages.erase(plan.stages.begin() + static_cast<std::ptrdiff_t>(s) + 1);
  }

  void move_boundary(RowPlan& plan) {
    if (plan.stages.size() < 2) return;
    const std::size_t s = chance_.below(plan.stages.size() - 1);
    RowStage& before = plan.stages[s];
    RowStage& behind = plan.stages[s + 1];
    before.end = behind.begin = static_cast<int>(chance_.between(before.begin + 1, behind.end - 1));
  }

  /// Recomputation and sharing of state, of one stage or of all.
  void change_memory(RowPlan& plan) {
    const model::Recompute recompute = chance_.pick(options_.recompute);
    const int zero = chance_.pick(options_.zero);
    const model::ShardSpan shard = chance_.pick(options_.shard);
    const bool all = chance_.coin();
    const std::size_t one = chance_.below(plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      if (!all && s != one) continue;
      plan.stages[s].recompute = recompute;
      plan.stages[s].zero = zero;
      plan.stages[s].shard = shard;
    }
  }

  const Task& task_;
  const model::Graph& graph_;
  const model::PlanOptions& options_;
  std::vector<int> row_;
  int layers_;
  std::vector<int> strategies_;
  Chance chance_;
  State best_;     ///< of those that fit and are admitted
  State nearest_;  ///< of the others
};

}  // namespace

Finding find_mcmc(const Task& task) { return Chains(task).run(); }

}  // namespace nestplan::baselines
