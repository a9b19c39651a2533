#include "support/brute_force.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "nestplan/targets/targets.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::testing {
namespace {

constexpr double kEqual = 1e-12;

using LayerMask = std::uint32_t;

using util::idx;

template <typename T>
bool allowed(const std::vector<T>& list, T value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

/// Asks the rules of the target about whole plans.
class Target {
 public:
  explicit Target(const model::Problem& problem)
      : problem_(problem), set_(targets::rule_set(problem.options.target)) {}

  bool free() const { return problem_.options.target == "any"; }

  /// The freest layout of those that the options and the framework allow.
  model::StageConstraints::Layout layout() const {
    using Layout = model::StageConstraints::Layout;
    Layout layout = problem_.options.stages.layout;
    while (!free() && layout != Layout::kEven && !set_.expresses(layout)) {
      layout = layout == Layout::kAny ? Layout::kFirstLast : Layout::kEven;
    }
    return layout;
  }

  bool runs(const cost::PlacedPlan& plan, std::int64_t devices, std::int64_t microbatches,
            bool chain) const {
    if (free()) return true;
    const model::PlanOptions& options = problem_.options;
    targets::Candidate c;
    c.model = problem_.graph.dimensions;
    if (c.model.hidden > 0) c.tied_embeddings = !problem_.graph.ties.empty();
    c.chain = chain;
    c.devices = devices;
    c.global_batch = options.global_batch;
    c.uneven_batch = options.allow_uneven_batch;
    c.dp = plan.dp;
    c.dp_inner = plan.dp_inner;
    c.microbatches = microbatches;
    c.pp = static_cast<std::int64_t>(plan.stages.size());
    c.vpp = 1;
    c.schedule = options.schedule;
    c.layout = layout();
    const cost::PlacedStage& first = plan.stages.front();
    c.per_stage_strategies = c.per_stage_recompute = c.per_stage_zero = false;
    for (const cost::PlacedStage& stage : plan.stages) {
      if (stage.strategy != first.strategy) c.per_stage_strategies = true;
      if (stage.recompute != first.recompute) c.per_stage_recompute = true;
      if (stage.zero != first.zero || stage.shard != first.shard) c.per_stage_zero = true;
    }
    return std::all_of(plan.stages.begin(), plan.stages.end(), [&](const auto& stage) {
      const model::Strategy& s =
          problem_.graph.strategies[static_cast<std::size_t>(stage.strategy)];
      targets::set_strategy(c, s);
      if (c.model.hidden > 0 && s.tp > 1) c.sequence_parallel = s.sp > 1;
      c.zero = stage.zero;
      c.shard = stage.shard;
      c.recompute = stage.recompute;
      return set_.broken(c) == nullptr;
    });
  }

 private:
  const model::Problem& problem_;
  const targets::RuleSet& set_;
};

struct StageOption {
  model::Recompute recompute;
  int zero;
  model::ShardSpan shard;
  double total_s;
  double sync_s;
  double tie_s;
};

class Enumeration {
 public:
  Enumeration(const model::Problem& problem, const network::Network& network, bool per_stage)
      : problem_(problem),
        graph_(problem.graph),
        network_(network),
        target_(problem),
        types_(problem.cluster.types_of_devices()),
        per_stage_(per_stage) {
    predecessors_.resize(graph_.layers.size());
    for (const model::Edge& edge : graph_.edges) {
      predecessors_[idx(edge.to)] |= LayerMask{1} << edge.from;
    }
    chain_ = chain();
  }

  Optima run() {
    std::set<std::int64_t> micro_batches;
    for (const model::Strategy& s : graph_.strategies) micro_batches.insert(s.micro_batch);
    for (const std::int64_t mbs : micro_batches) {
      if (allowed(problem_.options.micro_batches, mbs)) try_micro_batch(mbs);
    }
    if (!per_stage_) {
      best_.per_stage_1f1b = best_.uniform_1f1b;
      best_.per_stage_paper = best_.uniform_paper;
    }
    verify(best_.uniform_1f1b, model::Objective::k1F1B);
    verify(best_.uniform_paper, model::Objective::kPaper);
    verify(best_.per_stage_1f1b, model::Objective::k1F1B);
    verify(best_.per_stage_paper, model::Objective::kPaper);
    return best_;
  }

 private:
  void try_micro_batch(std::int64_t mbs) {
    const model::PlanOptions& options = problem_.options;
    micro_batch_ = mbs;
    for (std::int64_t dp = 1; dp <= network_.devices(); ++dp) {
      const std::int64_t step = dp * mbs;
      if (step > options.global_batch || !allowed(options.dp, dp)) continue;
      if (!options.allow_uneven_batch && options.global_batch % step != 0) continue;
      for (std::int64_t inner = 1; inner <= dp; ++inner) {
        if (dp % inner != 0 || !allowed(options.dp_inner, inner)) continue;
        plan_.dp = dp;
        plan_.dp_inner = inner;
        pod_size_ = network_.devices() / (dp / inner);
        const LayerMask all = (LayerMask{1} << graph_.layers.size()) - 1;
        add_stages(all, 0, true);
      }
    }
  }

  bool usable(const model::Strategy& s) const {
    const model::PlanOptions& options = problem_.options;
    if (s.micro_batch != micro_batch_ || !allowed(options.tp, s.tp) || !allowed(options.cp, s.cp) ||
        !allowed(options.ep, s.ep)) {
      return false;
    }
    const std::int64_t inner = s.cp * plan_.dp_inner;
    const std::int64_t outer = plan_.dp / plan_.dp_inner;
    return inner % s.ep == 0 || (s.ep % inner == 0 && outer % (s.ep / inner) == 0);
  }

  /// `rest` is the downset that is left, `end` the first device behind the stages so far.
  void add_stages(LayerMask rest, std::int64_t end, bool uniform) {
    if (rest == 0) {
      const auto p = static_cast<std::int64_t>(plan_.stages.size());
      if (allowed(problem_.options.pp, p) && admitted()) try_placement(uniform);
      return;
    }
    for (LayerMask stage = rest; stage != 0; stage = (stage - 1) & rest) {
      if (!leaves_downset(rest, stage)) continue;
      for (std::size_t s = 0; s < graph_.strategies.size(); ++s) {
        const bool same = plan_.stages.empty() ||
                          (uniform && plan_.stages.front().strategy == static_cast<int>(s));
        if ((!same && !per_stage_) || !usable(graph_.strategies[s])) continue;
        place(stage, s, rest, end, same);
      }
    }
  }

  /// Whether only one order of the layers respects the edges.
  bool chain() const {
    LayerMask done = 0;
    for (std::size_t n = 0; n < graph_.layers.size(); ++n) {
      LayerMask ready = 0;
      for (std::size_t v = 0; v < graph_.layers.size(); ++v) {
        const bool waits = (predecessors_[v] & ~done) != 0 || (done >> v & 1U) != 0;
        if (!waits) ready |= LayerMask{1} << v;
      }
      if (std::popcount(ready) != 1) return false;
      done |= ready;
    }
    return true;
  }

  bool in_their_places(std::int64_t stages) const {
    std::vector<bool> pinned(idx(stages), false);
    for (const auto& place : problem_.options.stages.places) {
      const std::int64_t stage = place.stage < 0 ? stages + place.stage : place.stage;
      if (stage >= stages || plan_.stages[idx(stage)].position != place.position) return false;
      pinned[idx(stage)] = true;
    }
    for (std::int64_t s = 0; s < stages; ++s) {
      if (pinned_only_[idx(s)] && !pinned[idx(s)]) return false;
    }
    return true;
  }

  /// Whether every group that has to stay inside a domain does, group by group.
  bool stay_inside() const {
    const std::vector<std::string> domains = network_.domains();
    for (const auto& rule : problem_.options.stages.confined) {
      const auto most = std::find(domains.begin(), domains.end(), rule.domain) - domains.begin();
      for (const std::vector<std::int64_t>& group : groups_of(rule.scope)) {
        if (network_.domain(network_.shape(group)) > most) return false;
      }
    }
    return true;
  }

  std::vector<std::vector<std::int64_t>> groups_of(model::StageConstraints::Scope scope) const {
    using Scope = model::StageConstraints::Scope;
    std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> groups;
    for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
      const cost::PlacedStage& stage = plan_.stages[i];
      const model::Strategy& s = graph_.strategies[idx(stage.strategy)];
      const std::int64_t copies = s.cp * plan_.dp_inner;
      const auto number = static_cast<std::int64_t>(i);
      for (std::int64_t pod = 0; pod < plan_.dp / plan_.dp_inner; ++pod) {
        for (std::int64_t r = 0; r < s.tp * copies; ++r) {
          const std::int64_t device = pod * pod_size_ + stage.position + r;
          const std::int64_t t = r % s.tp;
          const std::int64_t member = pod * copies + r / s.tp;  // of the data-parallel group
          switch (scope) {
            case Scope::kTensor:
              groups[{number, member}].push_back(device);
              break;
            case Scope::kContext:
              groups[{number, member / s.cp, t}].push_back(device);
              break;
            case Scope::kExpert:
              groups[{number, member / s.ep, t}].push_back(device);
              break;
            case Scope::kData:
              groups[{number, t}].push_back(device);
              break;
            case Scope::kPod:
              groups[{pod}].push_back(device);
              break;
          }
        }
      }
    }
    std::vector<std::vector<std::int64_t>> result;
    for (auto& [key, group] : groups) result.push_back(std::move(group));
    return result;
  }

  /// Whether the rules on stages admit the stages of the plan, taken literally.
  bool admitted() const {
    const model::StageConstraints& rules = problem_.options.stages;
    const auto stages = static_cast<std::int64_t>(plan_.stages.size());
    std::vector<std::int64_t> stage_of(graph_.layers.size());
    std::vector<std::int64_t> counted(idx(stages), 0);
    for (std::int64_t s = 0; s < stages; ++s) {
      for (const int layer : plan_.stages[idx(s)].layers) {
        stage_of[idx(layer)] = s;
        counted[idx(s)] += graph_.layers[idx(layer)].counted ? 1 : 0;
      }
    }
    if (!in_their_places(stages) || !stay_inside()) return false;
    for (const auto& pin : rules.pins) {
      if (stage_of[idx(pin.layer)] != (pin.stage < 0 ? stages + pin.stage : pin.stage))
        return false;
    }
    for (const auto& group : rules.together) {
      for (const int layer : group) {
        if (stage_of[idx(layer)] != stage_of[idx(group.front())]) return false;
      }
    }
    for (std::int64_t s = 0; s < stages; ++s) {
      std::int64_t sets = 0;
      for (const auto& set : rules.cuts) {
        sets += std::any_of(set.begin(), set.end(), [&](int l) { return stage_of[idx(l)] == s; });
      }
      if (sets > 1) return false;
      if (rules.least && counted[idx(s)] < *rules.least) return false;
      if (rules.most && counted[idx(s)] > *rules.most) return false;
    }
    if (rules.first && counted.front() != *rules.first) return false;
    if (rules.last && counted.back() != *rules.last) return false;
    using Layout = model::StageConstraints::Layout;
    if (target_.layout() == Layout::kAny) return true;
    const bool even = target_.layout() == Layout::kEven;
    const std::int64_t from = even ? 0 : 1;
    const std::int64_t to = even ? stages : stages - 1;
    for (std::int64_t s = from; s < to; ++s) {
      if (counted[idx(s)] != counted[idx(from)]) return false;
    }
    return true;
  }

  /// No layer that stays behind in the suffix feeds one of the stage.
  bool leaves_downset(LayerMask rest, LayerMask stage) const {
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer) {
      if ((stage >> layer & 1U) != 0 && (predecessors_[layer] & rest & ~stage) != 0) return false;
    }
    return true;
  }

  void place(LayerMask mask, std::size_t strategy, LayerMask rest, std::int64_t end, bool uniform) {
    cost::PlacedStage stage;
    stage.strategy = static_cast<int>(strategy);
    for (std::size_t layer = 0; layer < graph_.layers.size(); ++layer) {
      if ((mask >> layer & 1U) == 0) continue;
      if (!graph_.layers[layer].costs[strategy]) return;
      stage.layers.push_back(static_cast<int>(layer));
    }
    const model::Strategy& s = graph_.strategies[strategy];
    const std::int64_t unit = s.tp * s.cp * plan_.dp_inner;
    std::set<std::int64_t> open{end};
    std::set<std::int64_t> positions{end};
    // Where a rule puts a stage may be neither.
    for (const auto& place : problem_.options.stages.places) {
      if (!plan_.stages.empty() && place.position >= end) positions.insert(place.position);
    }
    if (!plan_.stages.empty()) {
      std::vector<std::int64_t> starts;
      const std::int64_t copies = plan_.dp / plan_.dp_inner;
      const network::PodLayout pods{network_.devices(), copies, network_.devices() / copies};
      network_.append_starts(pods, end, starts);
      positions.insert(starts.begin(), starts.end());
      open.insert(starts.begin(), starts.end());
    }
    for (const std::int64_t position : positions) {
      if (position + unit > pod_size_) break;
      stage.position = position;
      plan_.stages.push_back(stage);
      pinned_only_.push_back(!open.contains(position));
      add_stages(rest & ~mask, position + unit, uniform);
      pinned_only_.pop_back();
      plan_.stages.pop_back();
    }
  }

  /// What a plan may use of the smallest device that the stage has in any pod.
  double usable_bytes(const cost::PlacedStage& stage) const {
    const model::Strategy& s = graph_.strategies[idx(stage.strategy)];
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t pod = 0; pod < plan_.dp / plan_.dp_inner; ++pod) {
      for (std::int64_t r = 0; r < s.tp * s.cp * plan_.dp_inner; ++r) {
        const int type = types_.empty() ? 0 : types_[idx(pod * pod_size_ + stage.position + r)];
        const model::Device& device = problem_.cluster.type(type);
        least = std::min(least,
                         std::floor(device.usable_bytes() * (1 - problem_.options.reserve.margin)));
      }
    }
    return least;
  }

  void try_placement(bool uniform) {
    options_.assign(plan_.stages.size(), {});
    each_option(
        problem_, network_, plan_, problem_.options.recompute, problem_.options.zero,
        [&](const model::Plan& costed) {
          microbatches_ = static_cast<double>(costed.strategy.microbatches);
          for (std::size_t i = 0; i < plan_.stages.size(); ++i) {
            const model::StagePlan& stage = costed.stages[i];
            if (stage.memory.total_bytes > usable_bytes(plan_.stages[i])) continue;
            options_[i].push_back({stage.recompute, stage.zero, stage.shard, stage.time.total_s,
                                   stage.time.sync_s, stage.time.tie_s});
          }
        });
    choose(0, 0, 0, 0, uniform);
  }

  /// Every choice of recompute and ZeRO for the stages from `i` on, in canonical order.
  void choose(std::size_t i, double sum, double slowest, double ties, bool uniform) {
    if (i == plan_.stages.size()) return judge(sum, slowest, ties, uniform);
    for (const StageOption& option : options_[i]) {
      plan_.stages[i].recompute = option.recompute;
      plan_.stages[i].zero = option.zero;
      plan_.stages[i].shard = option.shard;
      if (i == 0) sync_ = option.sync_s;
      choose(i + 1, sum + option.total_s, std::max(slowest, option.total_s), ties + option.tie_s,
             uniform);
    }
  }

  void judge(double sum, double slowest, double ties, bool uniform) {
    const double m = microbatches_;
    const auto p = static_cast<double>(plan_.stages.size());
    const double value_1f1b = sum + (m - 1) * slowest + sync_ + ties;
    const double value_paper = (m + p - 1) * slowest + sync_;
    const bool taken = (uniform && (improves(best_.uniform_1f1b, value_1f1b) ||
                                    improves(best_.uniform_paper, value_paper))) ||
                       (per_stage_ && (improves(best_.per_stage_1f1b, value_1f1b) ||
                                       improves(best_.per_stage_paper, value_paper)));
    // Rules take longer to ask than sums to compare.
    if (!taken || !target_.runs(plan_, network_.devices(), static_cast<std::int64_t>(microbatches_),
                                chain_)) {
      return;
    }
    if (uniform) {
      offer(best_.uniform_1f1b, value_1f1b);
      offer(best_.uniform_paper, value_paper);
    }
    if (per_stage_) {
      offer(best_.per_stage_1f1b, value_1f1b);
      offer(best_.per_stage_paper, value_paper);
    }
  }

  /// Whether it is better or as good.
  static bool improves(const Optimum& best, double value) {
    return value <= best.value_s + kEqual * value;
  }

  void offer(Optimum& best, double value) const {
    const double margin = kEqual * value;
    if (best.feasible()) {
      if (!improves(best, value)) return;
      if (value >= best.value_s - margin &&
          !canonical_less(micro_batch_, plan_, best.micro_batch, best.plan)) {
        best.value_s = std::min(best.value_s, value);
        return;
      }
    }
    best.value_s = std::min(best.value_s, value);
    best.micro_batch = micro_batch_;
    best.plan = plan_;
  }

  void verify(const Optimum& best, model::Objective objective) const {
    if (!best.feasible()) return;
    model::Problem problem = problem_;
    problem.options.objective = objective;
    const model::Plan costed = cost::evaluate(problem, network_, best.plan);
    if (costed.status != model::Status::kOptimal) {
      throw InternalError("brute force: the best plan is infeasible: " + costed.reason);
    }
    if (std::abs(costed.iteration_time_s - best.value_s) > 10 * kEqual * best.value_s) {
      throw InternalError("brute force: the best plan does not cost what it was found for");
    }
  }

  const model::Problem& problem_;
  const model::Graph& graph_;
  const network::Network& network_;
  Target target_;
  std::vector<bool> pinned_only_;    ///< by stage: no neighbour and no boundary is there
  std::vector<std::uint8_t> types_;  ///< of the devices; empty: of one type
  bool per_stage_;
  std::vector<LayerMask> predecessors_;
  bool chain_ = false;
  Optima best_;

  std::int64_t micro_batch_ = 1;
  std::int64_t pod_size_ = 0;
  cost::PlacedPlan plan_;
  std::vector<std::vector<StageOption>> options_;
  double microbatches_ = 0;
  double sync_ = 0;
};

}  // namespace

void each_option(const model::Problem& problem, const network::Network& network,
                 cost::PlacedPlan plan, const std::vector<model::Recompute>& recomputes,
                 const std::vector<int>& zeros,
                 const std::function<void(const model::Plan& costed)>& visit) {
  const std::vector<model::ShardSpan>& spans = problem.options.shard;
  for (const model::Recompute recompute : recomputes) {
    for (const int zero : zeros) {
      for (const model::ShardSpan span : spans) {
        if (zero == 0 && span != spans.front()) continue;
        for (cost::PlacedStage& stage : plan.stages) {
          stage.recompute = recompute;
          stage.zero = zero;
          stage.shard = zero == 0 ? model::ShardSpan::kAll : span;
        }
        visit(cost::evaluate(problem, network, plan));
      }
    }
  }
}

bool canonical_less(std::int64_t micro_batch_a, const cost::PlacedPlan& a,
                    std::int64_t micro_batch_b, const cost::PlacedPlan& b) {
  const auto head = [](std::int64_t micro_batch, const cost::PlacedPlan& plan) {
    return std::make_tuple(micro_batch, plan.dp, plan.dp_inner, plan.stages.size());
  };
  if (head(micro_batch_a, a) != head(micro_batch_b, b)) {
    return head(micro_batch_a, a) < head(micro_batch_b, b);
  }
  const auto key = [](const cost::PlacedStage& s) {
    return std::tie(s.layers, s.strategy, s.position, s.recompute, s.zero, s.shard);
  };
  for (std::size_t i = 0; i < a.stages.size(); ++i) {
    if (key(a.stages[i]) != key(b.stages[i])) return key(a.stages[i]) < key(b.stages[i]);
  }
  return false;
}

Optima brute_force(const model::Problem& problem, const network::Network& network, bool per_stage) {
  return Enumeration(problem, network, per_stage).run();
}

}  // namespace nestplan::testing
