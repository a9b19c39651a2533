#include <algorithm>
#include <set>
#include <tuple>

#include "nestplan/util/errors.hpp"
#include "solver/interleaved.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {
namespace {

using StageKey = std::tuple<std::vector<int>, int, std::int64_t, model::Recompute, ShardChoice>;

/// Takes the canonical plan out of one candidate's table, stage by stage: of all stages that some
/// optimal pipeline could have here it keeps those with the least key, and goes on from every
/// place that they lead to.
class CanonicalWalk {
 public:
  /// In a table that holds every pipeline that costs no more than the candidate.
  CanonicalWalk(const Instance& instance, const Candidate& candidate, const FilledTable& filled,
                Team& team)
      : instance_(instance),
        configuration_(filled.placement.configuration()),
        candidate_(candidate),
        paper_(instance.options().objective == model::Objective::kPaper),
        depth_(candidate.key.depth),
        placement_(filled.placement),
        layers_(filled.layers),
        table_(filled.table),
        team_(team) {}

  std::vector<StageKey> stages() {
    std::vector<StageKey> result;
    DownsetId outer = instance_.lattice().whole();
    std::set<Place> places;
    for (std::int64_t s = depth_; s >= 1; --s) {
      best_.reset();
      next_.clear();
      if (s == depth_) {
        table_.first_stages(s, [&](const Transition& t) { consider_first(outer, t); });
      } else {
        for (const Place& place : places) {
          const std::int64_t position =
              placement_.position(layers_.layer(s).position[at(place.port)]);
          table_.stages(outer, s, place.port, true, [&](const Transition& t) {
            consider(outer, s, position, place.budget, t);
          });
        }
      }
      agree(outer);
      if (!best_) throw InternalError("no pipeline has the value of its table");
      result.push_back(*best_);
      outer = inner_;
      places = std::move(next_);
    }
    return result;
  }

 private:
  /// A stage that some rank could put next, by numbers only.
  struct Offer {
    DownsetId inner = 0;
    int strategy = 0;
    std::int64_t position = 0;
    model::Recompute recompute = model::Recompute::kNone;
    ShardChoice shard;
    std::int32_t port = 0;
    Ticks budget = 0;
  };

  /// Of what the ranks found, keeps the least for all of them, with all places it leads to.
  void agree(DownsetId outer) {
    if (team_.size() == 1) return;
    std::vector<Offer> mine;
    if (best_) {
      const auto& [layers, strategy, position, recompute, shard] = *best_;
      for (const Place& place : next_) {
        mine.push_back({inner_, strategy, position, recompute, shard, place.port, place.budget});
      }
    }
    best_.reset();
    next_.clear();
    for (const auto& of_rank : team_.all_gather_items(mine)) {
      for (const Offer& offer : of_rank) {
        take(outer, offer);
      }
    }
  }

  void take(DownsetId outer, const Offer& offer) {
    StageKey key{instance_.lattice().difference(outer, offer.inner), offer.strategy, offer.position,
                 offer.recompute, offer.shard};
    if (best_ && *best_ < key) return;
    if (!best_ || key < *best_) {
      best_ = std::move(key);
      inner_ = offer.inner;
      next_.clear();
    }
    next_.insert({offer.port, offer.budget});
  }

  /// A port, and what the stages from there on may cost: together (1f1b) or each (paper).
  struct Place {
    std::int32_t port = 0;
    Ticks budget = 0;
    auto operator<=>(const Place&) const = default;
  };

  void consider_first(DownsetId outer, const Transition& t) {
    const std::int64_t position = placement_.position(placement_.origin());
    const Total room = candidate_.total - to_total(t.option.sync);
    if (room < 0) return;
    if (!paper_) {
      const std::int64_t m = configuration_.microbatches;
      const Total sum = m == 1 ? room : room - (m - 1) * to_total(candidate_.cap);
      if (sum >= 0) consider(outer, depth_, position, static_cast<Ticks>(sum), t);
      return;
    }
    const auto each = static_cast<Ticks>(room / (configuration_.microbatches + depth_ - 1));
    consider(outer, depth_, position, each, t);
  }

  void consider(DownsetId outer, std::int64_t s, std::int64_t position, Ticks budget,
                const Transition& t) {
    const Ticks rest = table_.rest(t, s);
    const bool within =
        paper_ ? std::max(t.time(), rest) <= budget : t.time() + t.tie + rest <= budget;
    if (!within) return;
    take(outer, {t.inner, configuration_.strategies[at(t.choice)], position, t.option.recompute,
                 t.option.shard, t.next, paper_ ? budget : budget - t.time() - t.tie});
  }

  const Instance& instance_;
  const Configuration& configuration_;
  const Candidate& candidate_;
  const bool paper_;
  const std::int64_t depth_;
  const Placement& placement_;
  const PortLayers& layers_;
  Table& table_;
  Team& team_;
  std::optional<StageKey> best_;
  DownsetId inner_ = 0;
  std::set<Place> next_;
};

/// The table that is to be looked at for a candidate.
TableRequest request_for(const Instance& instance, const Configuration& configuration,
                         const Candidate& candidate) {
  const std::int64_t m = configuration.microbatches;
  const std::int64_t depth = candidate.key.depth;
  if (instance.options().objective == model::Objective::kPaper) {
    const Total cap = candidate.total / (m + depth - 1);
    return {Combine::kBottleneck, {depth}, {static_cast<Ticks>(cap), kNever, true}};
  }
  const Total sum = m == 1 ? candidate.total : candidate.total - (m - 1) * to_total(candidate.cap);
  return {Combine::kSum, {depth}, {m == 1 ? kNever : candidate.cap, static_cast<Ticks>(sum), true}};
}

/// Whether a table that was filled for `had` does for `wanted`. A sum does not tell whether a stage
/// behind it is beyond the cap, so there the caps have to be the same.
bool covers(const TableRequest& had, const TableRequest& wanted) {
  const bool same_cap =
      had.limits.prune ? had.limits.stage == wanted.limits.stage : wanted.limits.stage == kNever;
  const bool no_tighter = !had.limits.prune || (had.limits.stage >= wanted.limits.stage &&
                                                had.limits.sum >= wanted.limits.sum);
  return had.combine == wanted.combine && no_tighter &&
         (had.combine == Combine::kBottleneck || same_cap) &&
         std::find(had.depths.begin(), had.depths.end(), wanted.depths.front()) != had.depths.end();
}

std::vector<StageKey> canonical_stages(const Instance& instance, const Configuration& configuration,
                                       const Candidate& candidate, const FilledTable* last,
                                       ClassCache& classes, Team& team) {
  const TableRequest request = request_for(instance, configuration, candidate);
  if (last != nullptr && &last->placement.configuration() == &configuration &&
      covers(last->request, request)) {
    return CanonicalWalk(instance, candidate, *last, team).stages();
  }
  const Placement placement(instance, configuration, classes);
  const PortLayers layers(instance, placement, request.depths);
  Table table(instance, placement, layers, request.depths, request.combine, request.limits, team);
  // No larger than the table that the candidate came from, which fitted.
  table.fill({});
  return CanonicalWalk(instance, candidate, {placement, layers, table, request}, team).stages();
}

/// Of candidates of equal key, the first plan in canonical order.
cost::PlacedPlan interleaved_plan(const Instance& instance,
                                  const std::vector<Configuration>& configurations,
                                  const std::vector<Candidate>& candidates, ClassCache& classes) {
  std::optional<cost::PlacedPlan> best;
  for (const Candidate& candidate : candidates) {
    const Placement placement(instance, configurations[at(candidate.configuration)], classes);
    cost::PlacedPlan plan = Interleaved(instance, placement).plan(candidate.key.depth);
    if (!best || canonically_before(plan, *best)) best = std::move(plan);
  }
  return *best;
}

}  // namespace

bool canonically_before(const cost::PlacedPlan& a, const cost::PlacedPlan& b) {
  const auto key = [](const cost::PlacedStage& stage) {
    return std::tie(stage.layers, stage.strategy, stage.position, stage.recompute, stage.zero,
                    stage.shard);
  };
  return std::lexicographical_compare(
      a.stages.begin(), a.stages.end(), b.stages.begin(), b.stages.end(),
      [&](const auto& x, const auto& y) { return key(x) < key(y); });
}

cost::PlacedPlan canonical_plan(const Instance& instance,
                                const std::vector<Configuration>& configurations,
                                const std::vector<Candidate>& candidates, const FilledTable* last,
                                ClassCache& classes, Team& team) {
  if (candidates.front().key.vpp > 1)
    return interleaved_plan(instance, configurations, candidates, classes);
  std::vector<StageKey> best;
  for (const Candidate& candidate : candidates) {
    std::vector<StageKey> stages = canonical_stages(
        instance, configurations[at(candidate.configuration)], candidate, last, classes, team);
    if (best.empty() || stages < best) best = std::move(stages);
  }
  cost::PlacedPlan plan;
  plan.dp = candidates.front().key.dp;
  plan.dp_inner = candidates.front().key.dp_inner;
  for (auto& [layers, strategy, position, recompute, shard] : best) {
    plan.stages.push_back({layers, strategy, position, recompute, shard.zero, shard.span, {}});
  }
  return plan;
}

}  // namespace nestplan::solver
