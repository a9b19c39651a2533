#include "solver/fleet.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "solver/ladder.hpp"

namespace nestplan::solver {
namespace {

using Clock = std::chrono::steady_clock;

/// When to stop a search, and why.
class Watch {
 public:
  Watch(const SearchSettings& settings, bool keeps_time)
      : settings_(settings), keeps_time_(keeps_time), start_(Clock::now()), saved_(start_) {}

  double spent_s() const { return seconds_since(start_); }

  /// kDone: no reason. A save is never due at the first call after another, so that there is
  /// progress in between.
  Halt reason() {
    if (stopped_ || spent_s() > settings_.time_limit_s) return Halt::kStop;
    if (settings_.stop_requested && settings_.stop_requested()) return Halt::kStop;
    if (std::exchange(just_saved_, false)) return Halt::kDone;
    const bool due = keeps_time_ && settings_.checkpoints != nullptr &&
                     seconds_since(saved_) > settings_.checkpoints->every_s;
    return due ? Halt::kPause : Halt::kDone;
  }

  /// From now on there is a reason.
  void stop() { stopped_ = true; }
  void saved() {
    saved_ = Clock::now();
    just_saved_ = true;
  }

 private:
  static double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  const SearchSettings& settings_;
  bool keeps_time_;
  Clock::time_point start_;
  Clock::time_point saved_;
  bool just_saved_ = true;
  bool stopped_ = false;
};

/// The best plan, if there is one.
struct Found {
  std::optional<cost::PlacedPlan> plan;
  Total total = kNoTotal;
};

/// What the searches of all rungs did together.
struct Effort {
  std::int64_t tables = 0, cells = 0;
};

class Climb {
 public:
  Climb(const model::Problem& problem, const network::Network& network,
        const SearchSettings& settings, Fleet& fleet)
      : problem_(problem),
        network_(network),
        settings_(settings),
        fleet_(fleet),
        watch_(settings, fleet.world().rank() == 0),
        reader_(settings.checkpoints ? settings.checkpoints->from : nullptr) {
    group_settings_ = settings;
    group_settings_.stop_requested = [this] {
      const bool others = fleet_.attend();
      return others || watch_.reason() != Halt::kDone;
    };
    if (!first()) group_settings_.progress = nullptr;
    if (reader_ != nullptr) {
      from_ = SavedSearch::read(*reader_);
      spent_before_s_ = from_->spent_s;
    }
  }

  std::optional<model::Plan> plan() {
    std::shared_ptr<util::Storage> storage = fleet_.storage();
    const std::optional<Lattice> lattice = find_lattice(*storage);
    if (!lattice) {
      if (!first()) return std::nullopt;
      return stopped_at_once(problem_, watch_.spent_s());
    }
    const std::vector<Rung> rungs = settings_.prune && settings_.collapse
                                        ? ladder(problem_, *lattice, shared_)
                                        : std::vector<Rung>{{problem_, *lattice, shared_}};
    double horizon_s = from_ ? from_->horizon_s : 0;
    if (from_) {
      known_.total = from_->known;
      if (!from_->known_plan.empty()) known_.plan = to_placed_plan(from_->known_plan);
    }
    auto r = static_cast<std::size_t>(from_ ? from_->rung : 0);
    if (r >= rungs.size()) throw InvalidInput("the saved search is of another graph");
    rungs_ = static_cast<std::int64_t>(rungs.size());
    if (from_) attempt_ = from_->attempt;
    constexpr int kMostAttempts = 4;
    while (attempt_ < kMostAttempts) {
      const bool last = r + 1 == rungs.size();
      Outcome outcome = climb(rungs[r], static_cast<std::int64_t>(r), last, horizon_s);
      // Searched again from the start, with ticks that suit the plan; once if it is not the answer.
      if (outcome.better_horizon_s > 0 && (last || attempt_ == 0)) {
        horizon_s = outcome.better_horizon_s;
        known_ = {};
        r = 0;
        ++attempt_;
      } else if (last) {
        return std::move(outcome.plan);
      } else {
        ++r;
      }
    }
    throw InternalError("no size of tick suits this problem");
  }

 private:
  bool first() { return fleet_.world().rank() == 0; }

  bool anybody(bool mine) {
    bool any = false;
    for (const auto& flags : fleet_.world().all_gather_items(std::vector<char>{mine})) {
      any = any || flags.front() != 0;
    }
    return any;
  }

  /// All ranks fail for the first reason that one of them has.
  [[noreturn]] void give_up(const std::string& mine) {
    for (const auto& reason :
         fleet_.world().all_gather_items(std::vector<char>(mine.begin(), mine.end()))) {
      if (!reason.empty()) throw MemoryLimit(std::string(reason.begin(), reason.end()));
    }
    throw InternalError("a search failed without a reason");
  }

  /// One rank of a node enumerates a large lattice for all of them. Nothing if somebody was stopped
  /// on the way.
  std::optional<Lattice> find_lattice(util::Storage& storage) {
    std::optional<Lattice> mine;
    const auto stop = [this] { return watch_.reason() == Halt::kStop; };
    std::string failure;
    try {
      if (storage.fills()) mine = enumerate(problem_.graph, stop);
    } catch (const MemoryLimit& error) {
      failure = error.what();
    }
    if (anybody(!failure.empty())) give_up(failure);
    if (anybody(storage.fills() && !mine)) return std::nullopt;
    const std::int64_t size = storage.agree(mine ? mine->size() : 0);
    shared_ = size >= settings_.share_from;
    if (shared_) return Lattice::shared(mine, storage);
    if (!mine) mine = enumerate(problem_.graph, {});
    return mine;
  }

  struct Outcome {
    std::optional<model::Plan> plan;
    double better_horizon_s = 0;
  };

  /// Searches one rung. Of the last rung the first rank gets the answer; of the others it keeps
  /// what they found.
  Outcome climb(const Rung& rung, std::int64_t r, bool last, double horizon_s) {
    const std::shared_ptr<util::Storage> storage =
        rung.shared ? fleet_.storage() : std::make_shared<util::LocalStorage>();
    const Instance instance(rung.problem, network_, rung.lattice, settings_.collapse, horizon_s,
                            storage);
    fleet_.regroup(instance, settings_.memory_limit_bytes - instance.bytes());
    const std::optional<SavedSearch> from = std::exchange(from_, std::nullopt);
    Search search(instance, group_settings_, fleet_.group(), known_.total, from ? &*from : nullptr,
                  reader_);
    Standing standing;
    do {
      Halt halt = search.run();
      if (halt != Halt::kDone) halt = std::max(halt, watch_.reason());
      standing = search.meet(halt);
      if (standing.halt == Halt::kFailed) give_up(search.failure());
      if (standing.halt != Halt::kDone) {
        SavedSearch saved;
        saved.rung = r;
        saved.horizon_s = horizon_s;
        saved.listed = search.listed();
        saved.downsets = rung.lattice.size();
        const Total best = std::min(standing.best, known_.total);
        if (best < kNoTotal) saved.best_s = instance.scale().seconds(best);
        const Total bound = std::min(standing.lower_bound, best);
        if (last && bound < kNoTotal) saved.lower_bound_s = instance.scale().seconds(bound);
        save(search, from ? &*from : nullptr, std::move(saved), standing.halt == Halt::kStop);
      }
      if (standing.halt == Halt::kStop) watch_.stop();
    } while (standing.halt == Halt::kPause);
    SearchResult result = search.finish(standing);
    Found found = merge(result);
    if (result.better_horizon_s != 0) return {std::nullopt, result.better_horizon_s};
    if (!last) {
      if (standing.best < kNoTotal) known_ = {std::move(found.plan), standing.best};
      return {};
    }
    std::vector<model::RankFigure> figures = fleet_.figures(result.stats);
    if (!first()) return {};
    if (!found.plan && known_.plan) {
      if (result.complete) throw InternalError("a search lost a plan that it had to find");
      found = known_;
    }
    result.plan = std::move(found.plan);
    result.total = found.total;
    result.lower_bound =
        result.complete ? result.total : std::min(result.lower_bound, result.total);
    if (!result.plan && result.complete) result.lower_bound = 0;
    result.stats.ranks = fleet_.world().size();
    result.stats.seconds = spent_before_s_ + watch_.spent_s();
    result.stats.tables = effort_.tables;
    result.stats.cells = effort_.cells;
    result.stats.per_rank = std::move(figures);
    return {to_plan(instance, result, settings_.explain), 0};
  }

  /// The best of what the groups found; of equal plans the canonical one. Only the first rank gets
  /// the plan, and the effort of all groups in `result`.
  Found merge(SearchResult& result) {
    const bool leads = fleet_.group().team.rank() == 0;
    std::vector<std::int64_t> mine{0, 0, result.stats.cells, 0};
    if (leads) {
      mine = {result.visited, result.stats.tables, result.stats.cells,
              static_cast<std::int64_t>(result.plan ? 1 : 0)};
      if (result.plan) {
        const std::vector<std::int64_t> plan = to_numbers(*result.plan);
        mine.insert(mine.end(), plan.begin(), plan.end());
      }
    }
    GroupState notes;
    notes.rejected = result.stats.rejected;
    const auto reasons =
        fleet_.world().all_gather(leads ? to_bytes(notes) : std::vector<std::byte>{});
    Found found;
    std::int64_t visited = 0;
    for (const std::vector<std::int64_t>& report : fleet_.world().all_gather_items(mine)) {
      visited += report[0];
      effort_.tables += report[1];
      effort_.cells += report[2];
      if (report[3] == 0) continue;
      cost::PlacedPlan plan = to_placed_plan(std::span(report).subspan(4));
      if (!found.plan || canonically_before(plan, *found.plan)) found.plan = std::move(plan);
    }
    if (found.plan) found.total = result.best;
    std::map<std::string, std::int64_t> rejected;
    for (const auto& bytes : reasons) {
      if (bytes.empty()) continue;
      for (const auto& [reason, count] : to_group_state(bytes).rejected) rejected[reason] += count;
    }
    if (result.complete && result.listed > visited) {
      rejected["cannot beat the best plan"] += result.listed - visited;
    }
    result.stats.rejected.assign(rejected.begin(), rejected.end());
    return found;
  }

  /// After the last save, `for_good`, the rest of the ladder is only walked to its end.
  void save(Search& search, const SavedSearch* earlier, SavedSearch saved, bool for_good) {
    if (settings_.checkpoints == nullptr || saved_for_good_) return;
    saved_for_good_ = for_good;
    const bool leads = fleet_.group().team.rank() == 0;
    const GroupState mine = search.state();
    std::vector<GroupState> groups;
    for (const auto& bytes :
         fleet_.world().all_gather(leads ? to_bytes(mine) : std::vector<std::byte>{})) {
      if (!bytes.empty()) groups.push_back(to_group_state(bytes));
    }
    saved.rungs = rungs_;
    saved.attempt = attempt_;
    saved.known = known_.total;
    if (known_.plan) saved.known_plan = to_numbers(*known_.plan);
    saved.tables = effort_.tables;
    saved.relaxations = effort_.cells;
    for (const auto& counts :
         fleet_.world().all_gather_items(std::vector<std::int64_t>{search.relaxations()})) {
      saved.relaxations += counts.front();
    }
    saved.spent_s = spent_before_s_ + watch_.spent_s();
    std::vector<std::int64_t> earlier_visit;
    gather(groups, earlier, saved, earlier_visit);
    // The visits are in the order of the groups that have one.
    const auto before = groups.begin() + fleet_.group().index;
    const auto own = static_cast<std::size_t>(std::count_if(
        groups.begin(), before, [](const GroupState& g) { return g.visit.has_value(); }));
    settings_.checkpoints->save([&](SnapshotWriter& out) {
      saved.write(out);
      for (std::size_t i = 0; i < saved.visits.size(); ++i) {
        if (saved.visits[i].next < 0) continue;
        const std::string name = SavedSearch::cells_name(i);
        if (earlier_visit[i] >= 0) {
          copy(out, name, saved.visits[i].capacity, at(earlier_visit[i]));
        } else {
          const bool mine_too = i == own && search.table() != nullptr;
          out.pieces(name, saved.visits[i].capacity,
                     mine_too ? search.table()->pieces() : std::vector<Piece>{});
        }
      }
    });
    watch_.saved();
  }

  /// Takes over the cells of a saved table that nobody has taken up, a part on each rank.
  void copy(SnapshotWriter& out, const std::string& name, std::int64_t capacity,
            std::size_t earlier) {
    const std::int64_t ranks = fleet_.world().size();
    const std::int64_t begin = capacity * fleet_.world().rank() / ranks;
    const std::int64_t end = capacity * (fleet_.world().rank() + 1) / ranks;
    std::vector<double> cells(at(end - begin));
    if (!cells.empty()) reader_->read(SavedSearch::cells_name(earlier), begin, cells);
    std::vector<Piece> pieces;
    if (!cells.empty()) pieces.push_back({begin, cells});
    out.pieces(name, capacity, pieces);
  }

  const model::Problem& problem_;
  const network::Network& network_;
  const SearchSettings& settings_;
  Fleet& fleet_;
  Watch watch_;
  SearchSettings group_settings_;
  const SnapshotReader* reader_;
  std::optional<SavedSearch> from_;
  double spent_before_s_ = 0;
  bool shared_ = false;
  std::int64_t rungs_ = 1;
  std::int64_t attempt_ = 0;
  bool saved_for_good_ = false;
  Found known_;
  Effort effort_;
};

}  // namespace

std::optional<model::Plan> solve(const model::Problem& problem, const network::Network& network,
                                 const SearchSettings& settings, Fleet& fleet) {
  check_options(problem.options);
  return Climb(problem, network, settings, fleet).plan();
}

}  // namespace nestplan::solver
