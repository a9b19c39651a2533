#include "solver/search.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace nestplan::solver {
namespace {

constexpr double kLargestExact = 9007199254740992.0;  // 2^53
constexpr auto kReportEvery = std::chrono::milliseconds(200);

/// Totals are whole, so a cap is rounded down; beyond 2^53 it is no cap at all.
Ticks to_cap(Total total) {
  if (total < 0) return -1;
  const auto ticks = static_cast<double>(total);
  return ticks < kLargestExact ? ticks : kNever;
}

}  // namespace

Search::Search(const Instance& instance, const SearchSettings& settings)
    : instance_(instance),
      settings_(settings),
      paper_(instance.options().objective == model::Objective::kPaper),
      space_(instance),
      classes_(instance),
      start_(Clock::now()),
      reported_(start_) {}

PlanKey Search::key(const Configuration& configuration, std::int64_t depth) const {
  return {configuration.micro_batch, configuration.dp, configuration.dp_inner, depth};
}

bool Search::beaten(Total total, const PlanKey& key) const {
  if (total >= kNoTotal) return true;
  if (best_.empty()) return false;
  return total > best_.front().total || (total == best_.front().total && key > best_.front().key);
}

void Search::offer(const Configuration& configuration, std::int64_t depth, Total total, Ticks cap) {
  const PlanKey where = key(configuration, depth);
  if (beaten(total, where)) return;
  if (!best_.empty() && (total < best_.front().total || where < best_.front().key)) best_.clear();
  best_.push_back({total, where, configuration, cap});
}

/// No stage of a plan of this depth that matters takes longer.
Ticks Search::stage_cap(const Visit& visit, std::int64_t depth) const {
  if (best_.empty() || !settings_.prune) return kNever;
  const std::int64_t m = visit.configuration().microbatches;
  const Total best = best_.front().total;
  if (paper_) return to_cap(best / (m + depth - 1));
  const Total room = best - to_total(visit.bounds.at_depth(depth).sum);
  return room < 0 ? -1 : m == 1 ? to_cap(best) : to_cap(room / (m - 1));
}

/// The stages of a plan of this depth that matters take no longer together.
Ticks Search::sum_limit(const Visit& visit, std::int64_t depth) const {
  if (best_.empty() || !settings_.prune) return kNever;
  const DepthBound bound = visit.bounds.at_depth(depth);
  return to_cap(best_.front().total - to_total(visit.bounds.first_extra()) -
                (visit.configuration().microbatches - 1) * to_total(bound.bottleneck));
}

void Search::drop_hopeless(const Visit& visit, std::vector<std::int64_t>& depths) const {
  std::erase_if(depths, [&](std::int64_t p) {
    return beaten(visit.bounds.at_depth(p).total, key(visit.configuration(), p));
  });
}

void Search::drop_unreachable(const Visit& visit, std::vector<std::int64_t>& depths,
                              Ticks cap) const {
  if (depths.empty()) return;
  const auto suffix = longest_suffixes(instance_, visit.placement, depths.back(), cap);
  std::erase_if(depths,
                [&](std::int64_t p) { return suffix[at(p)] < instance_.lattice().whole(); });
}

/// The first stage holds a source of the graph at least: what data parallelism adds to the cheapest
/// of these is added to any plan.
std::vector<FirstStageCost> Search::first_stage_costs(const Configuration& configuration) const {
  const Lattice& lattice = instance_.lattice();
  const DownsetId whole = lattice.whole();
  const std::vector<int>& zero_stages = instance_.rule(whole).zero;
  std::vector<FirstStageCost> least(zero_stages.size(), {kNever, kNever, kNever});
  // Every first stage contains one of the steps from a downset just below the whole graph.
  DownsetId lowest = whole - 1;
  while (!lattice.totally_ordered() && lowest > 0 &&
         lattice.cardinality(lowest - 1) + 1 == lattice.cardinality(whole)) {
    --lowest;
  }
  for (const int k : configuration.strategies) {
    const StrategySums& sums = instance_.strategies()[at(k)];
    const DataParallelTimes times = data_parallel_times_at_origin(instance_, configuration, k);
    for (DownsetId inner = lowest; inner < whole; ++inner) {
      if (sums.unusable[at(whole)] != sums.unusable[at(inner)]) continue;
      const cost::StageFootprint stage = instance_.footprint(k, whole, inner);
      const Ticks base = sums.forward[at(whole)] - sums.forward[at(inner)] +
                         sums.backward[at(whole)] - sums.backward[at(inner)];
      for (std::size_t z = 0; z < zero_stages.size(); ++z) {
        least[z].base = std::min(least[z].base, base);
        least[z].zero =
            std::min(least[z].zero, times.zero_traffic(instance_, zero_stages[z], stage.parameters,
                                                       stage.expert_parameters));
        least[z].sync = std::min(
            least[z].sync,
            times.sync(instance_, zero_stages[z], stage.parameters, stage.expert_parameters));
      }
    }
  }
  return least;
}

Total Search::bound_at_origin(const Configuration& configuration) const {
  const DepthBounds bounds(instance_, configuration, space_.floor(configuration),
                           first_stage_costs(configuration));
  Total least = kNoTotal;
  for (const std::int64_t p : space_.depths(configuration)) {
    least = std::min(least, bounds.at_depth(p).total);
  }
  return least;
}

bool Search::stop() {
  if (stopped_) return true;
  const auto now = Clock::now();
  if (std::chrono::duration<double>(now - start_).count() > settings_.time_limit_s ||
      (settings_.stop_requested && settings_.stop_requested())) {
    stopped_ = true;
  }
  return stopped_;
}

bool Search::fill(Table& table) {
  const bool done = table.fill([this] { return stop(); });
  ++result_.stats.tables;
  result_.stats.cells += table.relaxations();
  return done;
}

void Search::seed(const Visit& visit, const std::vector<std::int64_t>& depths) {
  const PortLayers layers(instance_, visit.placement, depths);
  Table table(instance_, visit.placement, layers, depths, Combine::kBottleneck,
              {kNever, kNever, settings_.prune});
  if (!fill(table)) return;
  const Configuration& configuration = visit.configuration();
  for (const std::int64_t p : depths) {
    if (beaten(visit.bounds.at_depth(p).total, key(configuration, p))) continue;
    if (table.best(p) == kNoTotal) continue;
    const Walk walk = table.walk(p);
    offer(configuration, p,
          to_total(walk.sum) + (configuration.microbatches - 1) * to_total(walk.bottleneck),
          walk.bottleneck);
  }
}

void Search::refine(const Visit& visit, std::int64_t depth, Ticks cap) {
  const Configuration& configuration = visit.configuration();
  const std::vector<std::int64_t> depths{depth};
  const PortLayers layers(instance_, visit.placement, depths);
  const Total slowest =
      (configuration.microbatches - 1) * to_total(visit.bounds.at_depth(depth).bottleneck);
  while (cap >= 0) {
    Table table(instance_, visit.placement, layers, depths, Combine::kSum,
                {cap, sum_limit(visit, depth), settings_.prune});
    if (!fill(table)) return;
    const Total sum = table.best(depth);
    if (sum == kNoTotal || beaten(sum + slowest, key(configuration, depth))) return;
    const Walk walk = table.walk(depth);
    offer(configuration, depth, sum + (configuration.microbatches - 1) * to_total(walk.bottleneck),
          walk.bottleneck);
    if (configuration.microbatches == 1) return;  // the bottleneck does not count
    cap = std::min(just_below(walk.bottleneck), stage_cap(visit, depth));
  }
}

void Search::visit_1f1b(const Visit& visit, std::vector<std::int64_t> depths) {
  const Configuration& configuration = visit.configuration();
  if (best_.empty() && settings_.prune) {
    seed(visit, depths);
    drop_hopeless(visit, depths);
  }
  Ticks cap = -1;
  for (const std::int64_t p : depths) cap = std::max(cap, stage_cap(visit, p));
  drop_unreachable(visit, depths, cap);
  if (depths.empty() || stopped_) return;
  if (depths.size() == 1) return refine(visit, depths.front(), cap);

  Ticks sum = -1;
  for (const std::int64_t p : depths) sum = std::max(sum, sum_limit(visit, p));
  const PortLayers layers(instance_, visit.placement, depths);
  Table table(instance_, visit.placement, layers, depths, Combine::kSum,
              {cap, sum, settings_.prune});
  if (!fill(table)) return;
  // The depth that promises most goes first, so that the others are cut by what it finds.
  std::vector<std::pair<Total, std::int64_t>> promising;
  for (const std::int64_t p : depths) {
    const Total least = table.best(p);
    if (least == kNoTotal) continue;
    promising.emplace_back(
        least + (configuration.microbatches - 1) * to_total(visit.bounds.at_depth(p).bottleneck),
        p);
  }
  std::sort(promising.begin(), promising.end());
  for (const auto& [total, p] : promising) {
    if (stopped_) return;
    if (!beaten(total, key(configuration, p))) refine(visit, p, stage_cap(visit, p));
  }
}

void Search::visit_paper(const Visit& visit, std::vector<std::int64_t> depths) {
  Ticks cap = -1;
  for (const std::int64_t p : depths) cap = std::max(cap, stage_cap(visit, p));
  drop_unreachable(visit, depths, cap);
  if (depths.empty()) return;
  const PortLayers layers(instance_, visit.placement, depths);
  Table table(instance_, visit.placement, layers, depths, Combine::kBottleneck,
              {cap, kNever, settings_.prune});
  if (!fill(table)) return;
  for (const std::int64_t p : depths) {
    offer(visit.configuration(), p, table.best(p), kNever);
  }
}

void Search::visit(const Configuration& configuration) {
  const Placement placement(instance_, configuration, classes_);
  const DepthBounds bounds(instance_, configuration, placement.floor(),
                           first_stage_costs(configuration));
  const Visit visit{placement, bounds};
  std::vector<std::int64_t> depths = space_.depths(configuration);
  if (settings_.prune) drop_hopeless(visit, depths);
  if (depths.empty()) {
    ++rejected_["cannot beat the best plan"];
    return;
  }
  if (best_.empty()) {
    drop_unreachable(visit, depths, kNever);
    if (depths.empty()) {
      ++rejected_["does not fit into memory at any depth"];
      return;
    }
  }
  const std::int64_t tables = result_.stats.tables;
  if (paper_) {
    visit_paper(visit, std::move(depths));
  } else {
    visit_1f1b(visit, std::move(depths));
  }
  if (result_.stats.tables == tables) ++rejected_["cannot beat the best plan within memory"];
}

void Search::report(std::size_t done, std::size_t total, Total lower_bound) {
  const auto now = Clock::now();
  if (!settings_.progress || now - reported_ < kReportEvery) return;
  reported_ = now;
  Progress progress;
  progress.seconds = std::chrono::duration<double>(now - start_).count();
  progress.configurations_done = static_cast<std::int64_t>(done);
  progress.configurations_total = static_cast<std::int64_t>(total);
  if (!best_.empty()) progress.best_s = instance_.scale().seconds(best_.front().total);
  progress.lower_bound_s = instance_.scale().seconds(lower_bound);
  settings_.progress(progress);
}

SearchResult Search::run() {
  const std::vector<Configuration> configurations = space_.list();
  rejected_ = space_.rejected();
  // Best first. A configuration is bounded twice before a table is filled: by its layers when it is
  // listed, and when its turn comes by its first stage's data-parallel traffic as well.
  struct Entry {
    Total bound;
    std::size_t index;
    bool at_origin;
    bool operator>(const Entry& other) const {
      return std::tie(bound, index) > std::tie(other.bound, other.index);
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    queue.push({configurations[i].bound, i, false});
  }
  std::size_t done = 0;
  Total lower_bound = queue.empty() ? 0 : queue.top().bound;
  while (!queue.empty() && !stop()) {
    const Entry entry = queue.top();
    const Configuration& configuration = configurations[entry.index];
    lower_bound = entry.bound;
    // Bounds rise, so nothing behind one that is strictly worse can win.
    if (settings_.prune && !best_.empty() && entry.bound > best_.front().total) {
      rejected_["cannot beat the best plan"] += static_cast<std::int64_t>(queue.size());
      queue = {};
      break;
    }
    queue.pop();
    report(done, configurations.size(), lower_bound);
    if (!entry.at_origin) {
      queue.push({std::max(entry.bound, bound_at_origin(configuration)), entry.index, true});
      continue;
    }
    ++done;
    visit(configuration);
  }
  result_.complete = !stopped_;
  if (!best_.empty()) {
    result_.total = best_.front().total;
    result_.lower_bound = stopped_ ? std::min(result_.total, lower_bound) : result_.total;
    result_.plan = canonical_plan(instance_, best_, classes_);
  } else if (stopped_) {
    result_.lower_bound = lower_bound;
  }
  result_.stats.configurations = static_cast<std::int64_t>(configurations.size());
  for (const auto& [reason, count] : space_.rejected()) result_.stats.configurations += count;
  result_.stats.rejected.assign(rejected_.begin(), rejected_.end());
  result_.stats.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return result_;
}

}  // namespace nestplan::solver
