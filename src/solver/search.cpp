#include "solver/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "nestplan/util/errors.hpp"

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

Search::Search(const Instance& instance, const SearchSettings& settings, Team& team, Board& board)
    : instance_(instance),
      settings_(settings),
      team_(team),
      board_(board),
      paper_(instance.options().objective == model::Objective::kPaper),
      space_(instance),
      classes_(instance),
      start_(Clock::now()),
      reported_(start_) {}

PlanKey Search::key(const Configuration& configuration, std::int64_t depth) const {
  return {configuration.micro_batch, configuration.dp, configuration.dp_inner, depth};
}

Total Search::incumbent() const {
  return best_.empty() ? shared_best_ : std::min(shared_best_, best_.front().total);
}

bool Search::beaten(Total total, const PlanKey& key) const {
  if (total >= kNoTotal || total > shared_best_) return true;
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
  const Total best = incumbent();
  if (best == kNoTotal || !settings_.prune) return kNever;
  const std::int64_t m = visit.configuration().microbatches;
  if (paper_) return to_cap(best / (m + depth - 1));
  const Total room = best - to_total(visit.bounds.at_depth(depth).sum);
  return room < 0 ? -1 : m == 1 ? to_cap(best) : to_cap(room / (m - 1));
}

/// The stages of a plan of this depth that matters take no longer together.
Ticks Search::sum_limit(const Visit& visit, std::int64_t depth) const {
  const Total best = incumbent();
  if (best == kNoTotal || !settings_.prune) return kNever;
  const DepthBound bound = visit.bounds.at_depth(depth);
  return to_cap(best - to_total(visit.bounds.first_extra()) -
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

const std::vector<FirstStageCost>& Search::first_stage(const Configuration& configuration) {
  std::vector<FirstStageCost>& costs = first_stage_[&configuration];
  if (costs.empty()) costs = first_stage_costs(configuration);
  return costs;
}

Total Search::bound_at_origin(const Configuration& configuration) {
  const DepthBounds bounds(instance_, configuration, space_.floor(configuration),
                           first_stage(configuration));
  Total least = kNoTotal;
  for (const std::int64_t p : space_.depths(configuration)) {
    least = std::min(least, bounds.at_depth(p).total);
  }
  return least;
}

bool Search::clock_says_stop() const {
  const std::chrono::duration<double> spent = Clock::now() - start_;
  return spent.count() > settings_.time_limit_s ||
         (settings_.stop_requested && settings_.stop_requested());
}

bool Search::fill(Table& table) {
  const double bytes = table.bytes_per_rank();
  if (bytes > settings_.memory_limit_bytes) throw MemoryLimit(describe_need(table, bytes));
  bool done = table.fill([this] { return clock_says_stop(); });
  if (team_.size() > 1) {
    // A signal may have reached any rank.
    for (const auto& flags : team_.all_gather_items(std::vector<char>{clock_says_stop()})) {
      done = done && flags.front() == 0;
    }
  }
  if (!done) stopped_ = true;
  ++result_.stats.tables;
  result_.stats.cells += table.relaxations();
  result_.stats.largest_table_bytes =
      std::max(result_.stats.largest_table_bytes,
               static_cast<double>(table.cells()) * static_cast<double>(sizeof(Ticks)));
  return done;
}

std::string Search::describe_need(const Table& table, double bytes) const {
  constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
  const double limit = settings_.memory_limit_bytes;
  const double alone = table.bytes_alone();
  return fmt::format(
      "a table of this search takes {:.2f} GiB, {:.2f} GiB on the fullest of {} rank{}, but a rank "
      "has {:.2f} GiB; about {:.0f} ranks with as much would do, or {:.2f} GiB per rank",
      alone / kGiB, bytes / kGiB, team_.size(), team_.size() == 1 ? "" : "s", limit / kGiB,
      std::ceil(1.1 * alone / std::max(limit, 1.0)) + 1, bytes / kGiB);
}

void Search::seed(const Visit& visit, const std::vector<std::int64_t>& depths) {
  const PortLayers layers(instance_, visit.placement, depths);
  Table table(instance_, visit.placement, layers, depths, Combine::kBottleneck,
              {kNever, kNever, settings_.prune}, team_);
  if (!fill(table)) return;
  const Configuration& configuration = visit.configuration();
  for (const std::int64_t p : depths) {
    if (beaten(visit.bounds.at_depth(p).total, key(configuration, p))) continue;
    if (table.best(p) == kNoTotal) continue;
    const Walk walk = table.walk(p);
    offer(configuration, p, walk.sum + (configuration.microbatches - 1) * to_total(walk.bottleneck),
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
                {cap, sum_limit(visit, depth), settings_.prune}, team_);
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
  if (incumbent() == kNoTotal && settings_.prune) {
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
              {cap, sum, settings_.prune}, team_);
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
              {cap, kNever, settings_.prune}, team_);
  if (!fill(table)) return;
  for (const std::int64_t p : depths) {
    offer(visit.configuration(), p, table.best(p), kNever);
  }
}

void Search::visit(const Configuration& configuration) {
  const Placement placement(instance_, configuration, classes_);
  if (placement.floor().total == kNever) {
    ++rejected_["cannot beat the best plan"];
    return;
  }
  const DepthBounds bounds(instance_, configuration, placement.floor(), first_stage(configuration));
  first_stage_.erase(&configuration);
  const Visit visit{placement, bounds};
  std::vector<std::int64_t> depths = space_.depths(configuration);
  if (settings_.prune) drop_hopeless(visit, depths);
  if (depths.empty()) {
    ++rejected_["cannot beat the best plan"];
    return;
  }
  if (incumbent() == kNoTotal) {
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

void Search::report(Total lower_bound, std::int64_t waiting) {
  const auto now = Clock::now();
  if (!settings_.progress || now - reported_ < kReportEvery) return;
  reported_ = now;
  Progress progress;
  progress.seconds = std::chrono::duration<double>(now - start_).count();
  progress.configurations_total = configurations_;
  progress.configurations_done = configurations_ - waiting;
  if (incumbent() < kNoTotal) progress.best_s = instance_.scale().seconds(incumbent());
  progress.lower_bound_s = instance_.scale().seconds(lower_bound);
  settings_.progress(progress);
}

Search::Order Search::next_order() {
  Order order;
  if (team_.rank() == 0) {
    if (taken_ == ticket_.entries.size()) {
      ticket_ = board_.exchange(back_, best_.empty() ? kNoTotal : best_.front().total);
      taken_ = 0;
      back_.clear();
    }
    order.best = ticket_.best;
    order.lower_bound = ticket_.lower_bound;
    order.waiting = ticket_.waiting;
    order.told = ticket_.stop ? 1 : 0;
    order.stop = ticket_.stop || clock_says_stop() ? 1 : 0;
    if (taken_ < ticket_.entries.size()) {
      order.entry = ticket_.entries[taken_++];
      order.alive = 1;
    }
  }
  team_.broadcast(std::as_writable_bytes(std::span(&order, 1)));
  return order;
}

SearchResult Search::run() {
  const std::vector<Configuration> configurations = space_.list();
  rejected_ = space_.rejected();
  configurations_ = static_cast<std::int64_t>(configurations.size());
  // A configuration is bounded twice before a table is filled: by its layers when it is listed, and
  // when its turn comes by its first stage's data-parallel traffic as well.
  std::vector<BoardEntry> entries;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    entries.push_back({configurations[i].bound, static_cast<std::int64_t>(i), 0});
  }
  Total lower_bound = entries.empty() ? 0 : entries.front().bound;
  if (team_.rank() == 0) board_.post(std::move(entries));
  for (;;) {
    const Order order = next_order();
    if (order.stop != 0 && (order.alive != 0 || order.told != 0)) {
      stopped_ = true;
      break;
    }
    if (order.alive == 0) break;
    lower_bound = order.lower_bound;
    if (settings_.prune) shared_best_ = std::min(shared_best_, order.best);
    report(lower_bound, order.waiting);
    const Configuration& configuration = configurations[at(order.entry.index)];
    if (order.entry.bounded == 0) {
      const Total bound = std::max(order.entry.bound, bound_at_origin(configuration));
      back_.push_back({bound, order.entry.index, 1});
      continue;
    }
    ++visited_;
    visit(configuration);
    if (stopped_) break;
  }
  finish(lower_bound);
  return result_;
}

/// Σt of the best plan is at most p·total/m. It has to stay below 2^53 to be exact, and well above
/// 1 to be precise.
double Search::better_horizon(Total best, const PlanKey& key) const {
  if (best >= kNoTotal || best == 0) return 0;
  const std::int64_t step = key.dp * key.micro_batch;
  const std::int64_t m = (instance_.options().global_batch + step - 1) / step;
  const double sum =
      static_cast<double>(best) * static_cast<double>(key.depth) / static_cast<double>(m);
  const double least = std::ldexp(1.0, 44);
  const double most = std::ldexp(1.0, 53);
  return least <= sum && sum <= most ? 0 : instance_.scale().seconds(sum);
}

void Search::finish(Total lower_bound) {
  result_.complete = !stopped_;
  Winner winner;
  if (team_.rank() == 0) {
    winner = board_.settle({best_.empty() ? kNoTotal : best_.front().total,
                            best_.empty() ? PlanKey{} : best_.front().key, stopped_ ? 1 : 0});
  }
  team_.broadcast(std::as_writable_bytes(std::span(&winner, 1)));
  result_.better_horizon_s = better_horizon(winner.best, winner.key);
  const bool wins = !best_.empty() && best_.front().total == winner.best &&
                    best_.front().key == winner.key && result_.better_horizon_s == 0;
  result_.lower_bound = lower_bound;
  if (!best_.empty()) {
    result_.total = best_.front().total;
    result_.lower_bound = stopped_ ? std::min(result_.total, lower_bound) : result_.total;
    if (wins) result_.plan = canonical_plan(instance_, best_, classes_, team_);
  }
  result_.stats.configurations = configurations_;
  for (const auto& [reason, count] : space_.rejected()) result_.stats.configurations += count;
  const std::int64_t unvisited = configurations_ - visited_;
  if (!stopped_ && unvisited > 0) rejected_["cannot beat the best plan"] += unvisited;
  result_.stats.rejected.assign(rejected_.begin(), rejected_.end());
  result_.stats.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
}

}  // namespace nestplan::solver
