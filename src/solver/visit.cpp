#include "solver/visit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace nestplan::solver {
namespace {

constexpr double kLargestExact = 9007199254740992.0;  // 2^53

/// Refinements of one depth after which it is worth a table to know its least bottleneck.
constexpr std::int64_t kNarrowAfter = 2;

/// Totals are whole, so a cap is rounded down; beyond 2^53 it is no cap at all.
Ticks to_cap(Total total) {
  if (total < 0) return -1;
  const auto ticks = static_cast<double>(total);
  return ticks < kLargestExact ? ticks : kNever;
}

}  // namespace

void drop_hopeless(const Visit::Subject& subject, const Incumbent& incumbent,
                   std::vector<std::int64_t>& depths) {
  std::erase_if(depths, [&](std::int64_t p) {
    return incumbent.beaten(subject.bounds.at_depth(p).total,
                            key_of(subject.placement.configuration(), p));
  });
}

namespace {

/// Parameters of a layer that another one may hold already.
double tied_parameters(const model::Graph& graph, int layer, int k) {
  double sum = 0;
  for (const model::Tie& tie : graph.ties) {
    const bool member = std::find(tie.layers.begin(), tie.layers.end(), layer) != tie.layers.end();
    if (member && layer != tie.layers.front()) sum += tie.parameters[at(k)];
  }
  return sum;
}

/// Bytes per device that the stages need together at least: every layer at the cheapest of its
/// strategies and options, with one micro-batch in flight.
double least_bytes(const Visit::Subject& subject) {
  const Instance& instance = subject.instance;
  const model::Graph& graph = instance.problem().graph;
  const Configuration& configuration = subject.placement.configuration();
  std::vector<StagePricer> pricers;
  for (std::size_t choice = 0; choice < configuration.strategies.size(); ++choice) {
    pricers.emplace_back(instance, subject.placement, static_cast<int>(choice));
  }
  double total = 0;
  for (std::size_t v = 0; v < graph.layers.size(); ++v) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t choice = 0; choice < pricers.size(); ++choice) {
      const int k = configuration.strategies[choice];
      const auto& cost = graph.layers[v].costs[at(k)];
      if (!cost) continue;
      const double tied = tied_parameters(graph, static_cast<int>(v), k);
      least = std::min(least, pricers[choice].share_of_layer(*cost, tied));
    }
    total += least;
  }
  return total;
}

}  // namespace

void drop_unreachable(const Visit::Subject& subject, Ticks cap, std::vector<std::int64_t>& depths) {
  if (depths.empty()) return;
  if (!subject.instance.lattice().totally_ordered()) {
    constexpr double kNearly = 1 - 1e-9;
    const double bytes = least_bytes(subject) * kNearly;
    std::erase_if(depths, [&](std::int64_t p) {
      return bytes > static_cast<double>(p) * subject.instance.usable_bytes();
    });
    return;
  }
  const auto suffix = longest_suffixes(subject.instance, subject.placement, depths.back(), cap);
  std::erase_if(depths,
                [&](std::int64_t p) { return suffix[at(p)] < subject.instance.lattice().whole(); });
}

Visit::Visit(const Subject& subject, Incumbent& incumbent, std::vector<std::int64_t> depths)
    : subject_(subject), incumbent_(incumbent) {
  if (depths.empty()) return;
  if (incumbent.value() == kNoTotal && subject.prune) {
    state_.depths = std::move(depths);
    seed(1);
  } else {
    scan(std::move(depths));
  }
}

Visit::Visit(const Subject& subject, Incumbent& incumbent, VisitState state)
    : subject_(subject), incumbent_(incumbent), state_(std::move(state)) {}

/// No stage of a plan of this depth that matters takes longer.
Ticks Visit::stage_cap(std::int64_t depth) const {
  const Total best = incumbent_.value();
  if (best == kNoTotal || !subject_.prune) return kNever;
  const std::int64_t m = configuration().microbatches;
  if (paper()) return to_cap(best / (m + depth - 1));
  const Total room = best - to_total(subject_.bounds.at_depth(depth).sum);
  return room < 0 ? -1 : m == 1 ? to_cap(best) : to_cap(room / (m - 1));
}

/// The stages of a plan of this depth that matters, whose slowest takes `slowest` at least, take no
/// longer together.
Ticks Visit::sum_limit(Ticks slowest) const {
  const Total best = incumbent_.value();
  if (best == kNoTotal || !subject_.prune) return kNever;
  return to_cap(best - to_total(subject_.bounds.first_extra()) -
                (configuration().microbatches - 1) * to_total(slowest));
}

void Visit::offer(std::int64_t depth, Total total, Ticks cap) {
  incumbent_.offer({total, key_of(configuration(), depth), subject_.index, cap});
}

void Visit::absorb(Table& table) {
  switch (state_.step) {
    case Step::kSeed:
      return absorb_seed(table);
    case Step::kScan:
      return absorb_scan(table);
    case Step::kRefine:
      return absorb_refined(table);
    case Step::kNarrow:
      return absorb_narrowed(table);
    case Step::kDone:
      return;
  }
}

/// Looks for a first plan: at the depth that promises most, with stages of up to `factor` times
/// what its slowest takes at least; in the end at all depths, without a cap.
void Visit::seed(double factor) {
  constexpr double kMore = 1.4;
  constexpr double kMost = 6;
  state_.step = Step::kSeed;
  state_.factor = factor * kMore;
  if (state_.factor > kMost) {
    state_.request = {Combine::kBottleneck, state_.depths, {kNever, kNever, true}};
    return;
  }
  const auto total = [&](std::int64_t p) { return subject_.bounds.at_depth(p).total; };
  const std::int64_t depth =
      *std::min_element(state_.depths.begin(), state_.depths.end(),
                        [&](std::int64_t a, std::int64_t b) { return total(a) < total(b); });
  const Ticks cap = std::floor(subject_.bounds.at_depth(depth).bottleneck * state_.factor);
  std::vector<std::int64_t> reachable{depth};
  drop_unreachable(subject_, cap, reachable);
  if (reachable.empty()) return seed(state_.factor);
  state_.request = {Combine::kBottleneck, {depth}, {cap, kNever, true}};
}

void Visit::absorb_seed(Table& table) {
  const std::int64_t m = configuration().microbatches;
  for (const std::int64_t p : state_.request.depths) {
    if (incumbent_.beaten(subject_.bounds.at_depth(p).total, key_of(configuration(), p))) continue;
    if (table.best(p) == kNoTotal) continue;
    if (paper()) {
      offer(p, table.best(p), kNever);
    } else {
      const Walk walk = table.walk(p);
      offer(p, walk.sum + (m - 1) * to_total(walk.bottleneck), walk.bottleneck);
    }
  }
  if (incumbent_.value() == kNoTotal && state_.request.limits.stage < kNever) {
    return seed(state_.factor);
  }
  std::vector<std::int64_t> depths = std::exchange(state_.depths, {});
  drop_hopeless(subject_, incumbent_, depths);
  scan(std::move(depths));
}

void Visit::scan(std::vector<std::int64_t> depths) {
  state_.step = Step::kDone;
  Ticks cap = -1;
  for (const std::int64_t p : depths) cap = std::max(cap, stage_cap(p));
  drop_unreachable(subject_, cap, depths);
  if (depths.empty()) return;
  if (paper()) {
    state_.step = Step::kScan;
    state_.request = {Combine::kBottleneck, std::move(depths), {cap, kNever, subject_.prune}};
    return;
  }
  if (depths.size() == 1) return refine_first(depths.front(), cap);
  Ticks sum = -1;
  for (const std::int64_t p : depths)
    sum = std::max(sum, sum_limit(subject_.bounds.at_depth(p).bottleneck));
  state_.step = Step::kScan;
  state_.request = {Combine::kSum, std::move(depths), {cap, sum, subject_.prune}};
}

void Visit::absorb_scan(Table& table) {
  const std::vector<std::int64_t> depths = state_.request.depths;
  if (paper()) {
    for (const std::int64_t p : depths) offer(p, table.best(p), kNever);
    state_.step = Step::kDone;
    return;
  }
  // The depth that promises most goes first, so that the others are cut by what it finds.
  for (const std::int64_t p : depths) {
    const Total least = table.best(p);
    if (least == kNoTotal) continue;
    const Ticks bottleneck = subject_.bounds.at_depth(p).bottleneck;
    state_.promising.emplace_back(least + (configuration().microbatches - 1) * to_total(bottleneck),
                                  p);
  }
  std::sort(state_.promising.rbegin(), state_.promising.rend());
  refine_next();
}

void Visit::refine_next() {
  state_.step = Step::kDone;
  while (state_.step == Step::kDone && !state_.promising.empty()) {
    const auto [total, depth] = state_.promising.back();
    state_.promising.pop_back();
    if (incumbent_.beaten(total, key_of(configuration(), depth))) continue;
    refine_first(depth, stage_cap(depth));
  }
}

void Visit::refine_first(std::int64_t depth, Ticks cap) {
  state_.refined = 0;
  state_.slowest = subject_.bounds.at_depth(depth).bottleneck;
  refine(depth, cap);
}

void Visit::refine(std::int64_t depth, Ticks cap) {
  state_.step = Step::kDone;
  if (cap < state_.slowest) return;
  state_.step = state_.refined == kNarrowAfter && subject_.prune ? Step::kNarrow : Step::kRefine;
  ++state_.refined;
  if (state_.step == Step::kNarrow) {
    state_.request = {Combine::kBottleneck, {depth}, {cap, kNever, true}};
  } else {
    state_.request = {Combine::kSum, {depth}, {cap, sum_limit(state_.slowest), subject_.prune}};
  }
}

void Visit::absorb_refined(Table& table) {
  const std::int64_t depth = state_.request.depths.front();
  const std::int64_t m = configuration().microbatches;
  const Total sum = table.best(depth);
  const Total slowest = (m - 1) * to_total(state_.slowest);
  if (sum == kNoTotal || incumbent_.beaten(sum + slowest, key_of(configuration(), depth))) {
    return refine_next();
  }
  const Walk walk = table.walk(depth);
  offer(depth, sum + (m - 1) * to_total(walk.bottleneck), walk.bottleneck);
  if (m == 1) return refine_next();  // the bottleneck does not count
  state_.sum = sum;
  refine(depth, std::min(just_below(walk.bottleneck), stage_cap(depth)));
  if (state_.step == Step::kDone) refine_next();
}

/// The sums that are still to come are no less than the last one.
void Visit::absorb_narrowed(Table& table) {
  const std::int64_t depth = state_.request.depths.front();
  const Ticks slowest = table.least_bottleneck(depth);
  const Total total = slowest == kNever
                          ? kNoTotal
                          : state_.sum + (configuration().microbatches - 1) * to_total(slowest);
  if (incumbent_.beaten(total, key_of(configuration(), depth))) return refine_next();
  state_.slowest = std::max(state_.slowest, slowest);
  refine(depth, state_.request.limits.stage);
  if (state_.step == Step::kDone) refine_next();
}

}  // namespace nestplan::solver
