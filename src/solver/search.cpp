#include "solver/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "nestplan/cost/update.hpp"
#include "nestplan/util/errors.hpp"
#include "solver/interleaved.hpp"

namespace nestplan::solver {
namespace {

constexpr auto kReportEvery = std::chrono::milliseconds(200);
constexpr const char* kBeaten = "cannot beat the best plan";

std::vector<std::pair<std::string, std::int64_t>> rejections(const ConfigurationSpace& space) {
  return {space.rejected().begin(), space.rejected().end()};
}

/// The optimizer's step of a stage on the fastest type of devices.
Ticks least_update(const Instance& instance, const Configuration& configuration,
                   const model::Strategy& strategy, const ShardChoice& shard,
                   const cost::StageFootprint& stage) {
  const cost::ShardGroups groups = cost::shard_groups(
      shard.span, configuration.dp, configuration.dp_inner, strategy.cp, strategy.ep);
  const double bytes =
      cost::update_bytes(stage, shard.zero, instance.options().state_bytes, groups);
  Ticks least = kNever;
  for (int type = 0; type < instance.problem().cluster.type_count(); ++type) {
    least = std::min(least, instance.update(bytes, TypeSet{1} << type));
  }
  return least;
}

}  // namespace

Search::Search(const Instance& instance, const SearchSettings& settings, const Group& group,
               Total known, const SavedSearch* from, const SnapshotReader* cells)
    : instance_(instance),
      settings_(settings),
      team_(group.team),
      board_(group.board),
      first_group_(group.index == 0),
      from_(from),
      cells_(cells),
      space_(instance),
      classes_(instance),
      configurations_(space_.list()),
      start_(Clock::now()),
      reported_(start_) {
  for (const auto& of_rank : team_.all_gather_items(std::vector<double>{instance.bytes()})) {
    instance_bytes_ = std::max(instance_bytes_, of_rank.front());
  }
  if (settings.prune) incumbent_.hear(known);
  if (first_group_) {
    for (const auto& [reason, count] : from ? from->rejected : rejections(space_)) {
      rejected_[reason] = count;
    }
  }
  if (from == nullptr) return;
  for (const Candidate& candidate : from->best) {
    // The others know that they exist.
    if (first_group_) {
      incumbent_.offer(candidate);
    } else {
      incumbent_.hear(candidate.total);
    }
  }
  if (!first_group_ || team_.rank() != 0) return;
  visited_ = from->visited;
  stats_.tables = from->tables;
  stats_.cells = from->relaxations;
}

/// The first stage holds a source of the graph at least: what data parallelism adds to the cheapest
/// of these is added to any plan. How long the stage computes is not known, so whatever may run
/// beside computation does.
std::vector<FirstStageCost> Search::first_stage_costs(const Configuration& configuration) {
  const Lattice& lattice = instance_.lattice();
  const DownsetId whole = lattice.whole();
  const std::vector<int> shards =
      configuration.shard ? std::vector<int>{*configuration.shard} : instance_.rule(whole).shards;
  std::vector<FirstStageCost> least(shards.size(), {kNever, kNever, kNever});
  // Every first stage contains one of the steps from a downset just below the whole graph.
  DownsetId lowest = whole - 1;
  while (!lattice.totally_ordered() && lowest > 0 &&
         lattice.cardinality(lowest - 1) + 1 == lattice.cardinality(whole)) {
    --lowest;
  }
  const int types = instance_.problem().cluster.type_count();
  const model::Overlap& overlap = instance_.options().overlap;
  for (const int k : configuration.strategies) {
    const StrategySums& sums = instance_.strategies()[at(k)];
    const DataParallelTimes& times = classes_.at_origin(k, configuration);
    for (DownsetId inner = lowest; inner < whole; ++inner) {
      if (sums.unusable[at(whole)] != sums.unusable[at(inner)]) continue;
      const cost::StageFootprint stage = instance_.footprint(k, whole, inner);
      Ticks base = kNever;
      for (int type = 0; type < types; ++type) {
        const StageCompute compute = instance_.compute(k, whole, inner, TypeSet{1} << type);
        base = std::min(base, compute.forward + compute.backward);
      }
      for (std::size_t z = 0; z < shards.size(); ++z) {
        const ShardChoice& shard = kShardChoices[at(shards[z])];
        least[z].base = std::min(least[z].base, base);
        const Ticks zero =
            times.zero_traffic(instance_, shard, stage.parameters, stage.expert_parameters);
        const SyncTicks sync =
            times.sync(instance_, shard, stage.parameters, stage.expert_parameters);
        least[z].zero = std::min(least[z].zero, exposed(zero, overlap.shards, kNever));
        const Ticks update = least_update(instance_, configuration, sums.strategy, shard, stage);
        least[z].sync =
            std::min(least[z].sync, sync.exposed(overlap.sync, kNever, kNever) + update);
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

/// Asks whoever may stop this search, and reports on the way.
bool Search::told_to_stop() {
  report();
  return settings_.stop_requested && settings_.stop_requested();
}

/// Fills as much of the table as it may. Returns whether it is full. Every rank of the team learns
/// whether any of them was told to stop.
bool Search::fill(Table& table) {
  const bool full = table.fill([this] { return told_to_stop(); });
  stop_ = !full || told_to_stop();
  if (team_.size() > 1) {
    for (const auto& flags : team_.all_gather_items(std::vector<char>{stop_})) {
      stop_ = stop_ || flags.front() != 0;
    }
  }
  stats_.largest_table_bytes =
      std::max(stats_.largest_table_bytes,
               static_cast<double>(table.cells()) * static_cast<double>(sizeof(Ticks)));
  return full;
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

void Search::open(Active& active, const TableRequest& request) {
  last_.reset();
  active.table.reset();
  active.filled = false;
  active.request = request;
  if (!active.layers || active.depths != request.depths) {
    active.depths = request.depths;
    active.layers = std::make_unique<PortLayers>(instance_, active.placement, request.depths);
  }
  active.table = std::make_unique<Table>(instance_, active.placement, *active.layers,
                                         request.depths, request.combine, request.limits, team_);
  const double bytes = active.table->bytes_per_rank() + instance_bytes_;
  if (bytes > settings_.memory_limit_bytes) failure_ = describe_need(*active.table, bytes);
}

/// Goes on with the active visit. Returns false if the team was stopped, also just after it, or
/// failed.
bool Search::work() {
  while (const TableRequest* request = active_->visit->request()) {
    if (!active_->in_progress()) open(*active_, *request);
    if (!failure_.empty()) return false;
    if (!fill(*active_->table)) return false;
    ++active_->tables;
    ++stats_.tables;
    stats_.cells += active_->table->relaxations();
    active_->visit->absorb(*active_->table);
    active_->filled = true;
    if (stop_) return false;
  }
  if (active_->tables == 0) ++rejected_["cannot beat the best plan within memory"];
  if (active_->table) last_ = std::move(active_);
  active_.reset();
  return true;
}

void Search::begin(const BoardEntry& entry) {
  const Configuration& configuration = configurations_[at(entry.index)];
  auto active =
      std::make_unique<Active>(instance_, configuration, classes_, first_stage(configuration));
  first_stage_.erase(&configuration);
  if (active->placement.floor().total == kNever) {
    ++rejected_[kBeaten];
    return;
  }
  const Visit::Subject subject{instance_, active->placement, active->bounds, entry.index,
                               settings_.prune};
  std::vector<std::int64_t> depths = space_.depths(configuration);
  if (settings_.prune) drop_hopeless(subject, incumbent_, depths);
  if (depths.empty()) {
    ++rejected_[kBeaten];
    return;
  }
  if (configuration.vpp > 1) return interleave(*active, entry.index, depths);
  if (incumbent_.value() == kNoTotal) {
    drop_unreachable(subject, kNever, depths);
    if (depths.empty()) {
      ++rejected_["does not fit into memory at any depth"];
      return;
    }
  }
  active->bound = entry.bound;
  active->visit.emplace(subject, incumbent_, std::move(depths));
  active_ = std::move(active);
}

/// Every rank of the team makes the same search: it takes milliseconds.
void Search::interleave(const Active& active, std::int64_t index,
                        const std::vector<std::int64_t>& depths) {
  Interleaved search(instance_, active.placement);
  bool any = false;
  for (const std::int64_t p : depths) {
    if (incumbent_.beaten(active.bounds.at_depth(p).total, key_of(active.configuration, p))) {
      continue;
    }
    const Total total = search.best(p, settings_.prune ? incumbent_.value() : kNoTotal);
    ++stats_.tables;
    if (total >= kNoTotal) continue;
    any = true;
    incumbent_.offer({total, key_of(active.configuration, p), index, kNever});
  }
  stats_.cells += search.priced();
  if (!any) ++rejected_["cannot beat the best plan within memory"];
}

void Search::go_on_with(std::int64_t saved) {
  const SavedVisit& visit = from_->visits[at(saved)];
  const Configuration& configuration = configurations_.at(at(visit.configuration));
  active_ =
      std::make_unique<Active>(instance_, configuration, classes_, first_stage(configuration));
  const Visit::Subject subject{instance_, active_->placement, active_->bounds, visit.configuration,
                               settings_.prune};
  active_->bound = visit.bound;
  active_->visit.emplace(subject, incumbent_, visit.state);
  active_->tables = 1;  // it was not given up for want of any
  if (visit.next < 0 || active_->visit->request() == nullptr) return;
  open(*active_, *active_->visit->request());
  if (active_->table->capacity() != visit.capacity) {
    throw InternalError("a saved table has another shape than the one that it is read into");
  }
  if (!failure_.empty()) return;
  const std::string name = SavedSearch::cells_name(at(saved));
  active_->table->restore(
      static_cast<DownsetId>(visit.next),
      [&](std::int64_t offset, std::span<Ticks> cells) { cells_->read(name, offset, cells); });
}

void Search::report() {
  const auto now = Clock::now();
  if (!settings_.progress || now - reported_ < kReportEvery) return;
  reported_ = now;
  Progress progress;
  progress.seconds = std::chrono::duration<double>(now - start_).count();
  progress.configurations_total = static_cast<std::int64_t>(configurations_.size());
  progress.configurations_done = progress.configurations_total - waiting_ - (active_ ? 1 : 0);
  if (active_ && active_->in_progress()) {
    progress.table_done = static_cast<double>(active_->table->next()) /
                          static_cast<double>(instance_.lattice().size());
  }
  if (incumbent_.value() < kNoTotal)
    progress.best_s = instance_.scale().seconds(incumbent_.value());
  progress.lower_bound_s = instance_.scale().seconds(lower_bound_);
  settings_.progress(progress);
}

// A configuration is bounded twice before a table is filled: by its layers when it is listed, and
// when its turn comes by its first stage's data-parallel traffic as well.
void Search::post() {
  posted_ = true;
  std::vector<BoardEntry> entries;
  if (from_ == nullptr) {
    for (std::size_t i = 0; i < configurations_.size(); ++i) {
      entries.push_back({configurations_[i].bound, static_cast<std::int64_t>(i), 0, -1});
    }
  } else {
    entries = from_->waiting;
    for (std::size_t i = 0; i < from_->visits.size(); ++i) {
      const SavedVisit& visit = from_->visits[i];
      entries.push_back({visit.bound, visit.configuration, 1, static_cast<std::int64_t>(i)});
    }
  }
  if (!entries.empty()) {
    const auto below = [](const BoardEntry& a, const BoardEntry& b) { return a.bound < b.bound; };
    lower_bound_ = std::min_element(entries.begin(), entries.end(), below)->bound;
  }
  if (team_.rank() == 0) board_.post(std::move(entries));
}

Search::Order Search::next_order() {
  Order order;
  if (team_.rank() == 0) {
    if (taken_ == ticket_.entries.size()) {
      ticket_ = board_.exchange(back_, incumbent_.own());
      taken_ = 0;
      back_.clear();
    }
    order.best = ticket_.best;
    order.lower_bound = ticket_.lower_bound;
    order.waiting = ticket_.waiting;
    order.alive = taken_ < ticket_.entries.size() ? 1 : 0;
    order.stop = ticket_.stop || (order.alive != 0 && told_to_stop()) ? 1 : 0;
    if (order.alive != 0 && order.stop == 0) order.entry = ticket_.entries[taken_++];
  }
  team_.broadcast(std::as_writable_bytes(std::span(&order, 1)));
  return order;
}

Halt Search::run() {
  if (!posted_) post();
  stop_ = false;
  for (;;) {
    if (active_ && !work()) return failure_.empty() ? Halt::kPause : Halt::kFailed;
    const Order order = next_order();
    if (order.stop != 0) return Halt::kPause;
    if (order.alive == 0) return Halt::kDone;
    lower_bound_ = order.lower_bound;
    waiting_ = order.waiting;
    if (settings_.prune) incumbent_.hear(order.best);
    report();
    if (order.entry.saved >= 0) {
      go_on_with(order.entry.saved);
    } else if (order.entry.bounded == 0) {
      const Total bound =
          std::max(order.entry.bound, bound_at_origin(configurations_[at(order.entry.index)]));
      back_.push_back({bound, order.entry.index, 1, -1});
    } else {
      ++visited_;
      begin(order.entry);
    }
  }
}

Standing Search::meet(Halt halt) {
  Standing standing{incumbent_.own(), {}, kNoTotal, halt};
  if (!incumbent_.candidates().empty()) standing.key = incumbent_.candidates().front().key;
  if (active_) standing.lower_bound = active_->bound;
  // A signal may have reached one rank only.
  if (team_.size() > 1) {
    for (const auto& halts : team_.all_gather_items(std::vector<Halt>{halt})) {
      standing.halt = std::max(standing.halt, halts.front());
    }
  }
  if (team_.rank() == 0) {
    std::vector<BoardEntry> untaken = back_;
    untaken.insert(untaken.end(), ticket_.entries.begin() + static_cast<std::ptrdiff_t>(taken_),
                   ticket_.entries.end());
    ticket_ = {};
    taken_ = 0;
    back_.clear();
    standing = board_.meet(standing, untaken);
  }
  team_.broadcast(std::as_writable_bytes(std::span(&standing, 1)));
  return standing;
}

GroupState Search::state() const {
  GroupState state;
  state.best = incumbent_.candidates();
  if (first_group_) state.waiting = board_.waiting();
  state.visited = visited_;
  state.tables = stats_.tables;
  state.rejected.assign(rejected_.begin(), rejected_.end());
  if (!active_ || active_->visit->request() == nullptr) return state;
  SavedVisit visit;
  visit.configuration = static_cast<std::int64_t>(&active_->configuration - configurations_.data());
  visit.bound = active_->bound;
  visit.state = active_->visit->state();
  if (active_->in_progress()) {
    visit.next = active_->table->next();
    visit.capacity = active_->table->capacity();
  }
  state.visit = std::move(visit);
  return state;
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

SearchResult Search::finish(const Standing& standing) {
  SearchResult result;
  result.complete = standing.halt == Halt::kDone;
  result.best = standing.best;
  if (result.complete) result.better_horizon_s = better_horizon(standing.best, standing.key);
  result.lower_bound = std::min(standing.lower_bound, standing.best);
  if (result.lower_bound == kNoTotal) result.lower_bound = 0;
  const std::vector<Candidate>& candidates = incumbent_.candidates();
  const bool wins = !candidates.empty() && candidates.front().total == standing.best &&
                    candidates.front().key == standing.key && result.better_horizon_s == 0;
  if (wins) {
    result.total = standing.best;
    Active* const last = last_ ? last_.get() : active_.get();
    std::optional<FilledTable> filled;
    if (last != nullptr && last->filled) {
      filled.emplace(FilledTable{last->placement, *last->layers, *last->table, last->request});
    }
    result.plan = canonical_plan(instance_, configurations_, candidates,
                                 filled ? &*filled : nullptr, classes_, team_);
  }
  if (active_ && active_->in_progress()) stats_.cells += active_->table->relaxations();
  stats_.configurations = static_cast<std::int64_t>(configurations_.size());
  for (const auto& [reason, count] : space_.rejected()) stats_.configurations += count;
  result.visited = visited_;
  result.listed = static_cast<std::int64_t>(configurations_.size());
  stats_.rejected.assign(rejected_.begin(), rejected_.end());
  stats_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  result.stats = stats_;
  return result;
}

}  // namespace nestplan::solver
