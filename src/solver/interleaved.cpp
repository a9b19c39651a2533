#include "solver/interleaved.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "nestplan/cost/memory.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"
#include "solver/incumbent.hpp"
#include "solver/partial_plan.hpp"
#include "solver/rules.hpp"
#include "solver/stage_pricer.hpp"

namespace nestplan::solver {
namespace {

/// More ways to end the runs than this, and only even layouts are searched.
constexpr std::int64_t kMostWays = 64;

/// Layers that stay together: from downset `outer` down to `inner`.
struct Item {
  DownsetId outer = 0;
  DownsetId inner = 0;
};

/// Neighbouring items that cost the same.
struct ItemRun {
  std::vector<Item> items;
  std::int64_t length() const { return static_cast<std::int64_t>(items.size()); }
};

/// Numbers of items, by run.
using Counts = std::vector<std::int64_t>;

/// What a stage can do and what it takes then.
struct Priced {
  std::vector<StageOption> options;  ///< that fit, with all that is received in `time`
  Ticks least = kNever;              ///< least time
  Ticks received = 0;
  Ticks beside = 0;  ///< of what is received: runs beside work of the stage
  Ticks tie = 0;

  /// What counts as the time of the slowest stage. No more for an option of less time.
  Ticks pace(Ticks time) const {
    return time == kNever ? kNever : time - std::min(beside, time - received);
  }
};

/// The row of layers as items and runs.
class Row {
 public:
  Row(const Instance& instance, int k) : instance_(instance), k_(k) {
    find_usual_cut();
    glue();
    join();
  }

  const std::vector<ItemRun>& runs() const { return runs_; }
  const std::vector<Item>& items() const { return items_; }
  std::size_t usual_cut() const { return usual_cut_; }

 private:
  const util::Array<std::int32_t>& cut_kinds() const {
    return instance_.strategies()[at(k_)].cuts.of;
  }

  /// The kind of cut that most of the boundaries have; of equals the first.
  void find_usual_cut() {
    std::map<std::int32_t, std::int64_t> count;
    for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) ++count[cut_kinds()[at(d)]];
    std::int64_t most = 0;
    for (const auto& [kind, boundaries] : count) {
      if (boundaries > most) {
        most = boundaries;
        usual_cut_ = at(kind);
      }
    }
  }

  void glue() {
    DownsetId outer = instance_.lattice().whole();
    for (DownsetId d = outer - 1; d >= 0; --d) {
      if (d > 0 && at(cut_kinds()[at(d)]) != usual_cut_) continue;
      items_.push_back({outer, d});
      outer = d;
    }
  }

  /// Layers of an item, first to last.
  std::vector<int> layers(const Item& item) const {
    std::vector<int> result;
    for (DownsetId d = item.outer; d > item.inner; --d) {
      for (const int layer : instance_.lattice().difference(d, d - 1)) result.push_back(layer);
    }
    return result;
  }

  bool shares_parameters(int layer) const {
    const auto& ties = instance_.problem().graph.ties;
    return std::any_of(ties.begin(), ties.end(), [layer](const model::Tie& tie) {
      return std::find(tie.layers.begin(), tie.layers.end(), layer) != tie.layers.end();
    });
  }

  bool alike(const Item& a, const Item& b) const {
    const auto& graph = instance_.problem().graph;
    const std::vector<int> of_a = layers(a);
    const std::vector<int> of_b = layers(b);
    return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), [&](int x, int y) {
      return graph.layers[at(x)].costs[at(k_)] == graph.layers[at(y)].costs[at(k_)] &&
             !shares_parameters(x) && !shares_parameters(y);
    });
  }

  void join() {
    for (const Item& item : items_) {
      if (runs_.empty() || !alike(runs_.back().items.back(), item)) runs_.emplace_back();
      runs_.back().items.push_back(item);
    }
  }

  const Instance& instance_;
  int k_;
  std::size_t usual_cut_ = 0;
  std::vector<Item> items_;
  std::vector<ItemRun> runs_;
};

struct Layout {
  std::vector<std::vector<int>> parts;  ///< layers of part `c·p + i`, ascending
  std::vector<StageOption> options;     ///< by stage
};

}  // namespace

struct Interleaved::Shared {
  Shared(const Instance& its_instance, const Placement& its_placement)
      : instance(its_instance),
        placement(its_placement),
        row(instance, placement.configuration().strategies.front()),
        pricer(instance, placement, 0) {
    for (int x = 0; x < placement.positions(); ++x) index.emplace(placement.position(x), x);
  }

  const Instance& instance;
  const Placement& placement;
  Row row;
  StagePricer pricer;
  std::map<std::int64_t, int> index;  ///< of positions
  std::int64_t priced = 0;
};

/// One depth of the configuration.
class Interleaved::Depth {
 public:
  Depth(Shared& shared, std::int64_t depth)
      : shared_(shared),
        instance_(shared.instance),
        placement_(shared.placement),
        row_(shared.row),
        configuration_(placement_.configuration()),
        k_(configuration_.strategies.front()),
        unit_(configuration_.unit(instance_.strategies()[at(k_)].strategy)),
        depth_(depth),
        vpp_(configuration_.vpp),
        parts_(depth * vpp_) {
    for (std::int64_t i = 0; i < depth; ++i) class_.push_back(class_at(i));
    find_received();
    find_ways();
  }

  /// The least scaled total no more than `limit`, with its layout in `best_`.
  Total search(Total limit) {
    best_total_ = limit;
    if (placement_.units().front() * depth_ > configuration_.pods.pod_size) return kNoTotal;
    if (even_only_) {
      try_even();
    } else if (instance_.options().objective == model::Objective::kPaper) {
      for (const Way& way : ways_) try_paper(way);
    } else {
      for (const Way& way : ways_) try_way(way);
    }
    return best_ ? best_total_ : kNoTotal;
  }

  /// Totals here are vpp times as large, so that they are whole.
  Total unscaled(Total total) const {
    return total >= kNoTotal ? kNoTotal : (total + vpp_ - 1) / vpp_;
  }
  /// The largest scaled total that is no more than `total`.
  Total scaled(Total total) const { return total >= kNoTotal / vpp_ ? kNoTotal : total * vpp_; }

  cost::PlacedPlan plan() const {
    cost::PlacedPlan plan;
    plan.dp = configuration_.dp;
    plan.dp_inner = configuration_.dp_inner;
    plan.stages.resize(at(depth_));
    for (std::int64_t part = 0; part < parts_; ++part) {
      const std::vector<int>& layers = best_->parts[at(part)];
      cost::PlacedStage& stage = plan.stages[at(part % depth_)];
      stage.layers.insert(stage.layers.end(), layers.begin(), layers.end());
      stage.chunks.push_back(layers);
    }
    for (std::int64_t i = 0; i < depth_; ++i) {
      cost::PlacedStage& stage = plan.stages[at(i)];
      std::sort(stage.layers.begin(), stage.layers.end());
      stage.strategy = k_;
      stage.position = i * unit_;
      stage.recompute = best_->options[at(i)].recompute;
      stage.zero = best_->options[at(i)].shard.zero;
      stage.shard = best_->options[at(i)].shard.span;
    }
    return plan;
  }

 private:
  /// In which part each run ends, and what follows for the stages.
  struct Way {
    std::vector<std::int64_t> end;     ///< by run
    std::vector<Counts> least;         ///< by stage, run: parts that need one
    std::vector<Counts> parts_of;      ///< by stage, run: parts that may have some
    std::vector<Counts> least_behind;  ///< by stage: of this stage and all behind it
    std::vector<Counts> may_behind;    ///< by stage: parts of this stage and all behind it
  };

  int class_at(std::int64_t stage) const {
    const auto found = shared_.index.find(stage * unit_);
    return found == shared_.index.end() ? -1 : placement_.class_of(0, found->second);
  }

  /// Ticks that each stage receives at its chunks' ends, where all cuts are the usual one.
  void find_received() {
    const auto ticks = [&](std::int64_t producer) { return crossing(producer, row_.usual_cut()); };
    for (std::int64_t i = 0; i < depth_; ++i) {
      const auto chunks = static_cast<Ticks>(vpp_);
      const Ticks in = i == 0 ? (chunks - 1) * ticks(depth_ - 1) : chunks * ticks(i - 1);
      const Ticks gradient = i + 1 == depth_ ? (chunks - 1) * ticks(i) : chunks * ticks(i);
      received_.push_back(in + gradient);
    }
  }

  void find_ways() {
    even_only_ = instance_.rules().layout() != model::StageConstraints::Layout::kAny ||
                 count_ways(0, -1) > kMostWays;
    std::vector<std::int64_t> ends;
    if (!even_only_) end_run(ends);
  }

  /// Parts in which a run can end, if the run before it ends in part `before`.
  std::pair<std::int64_t, std::int64_t> ends_of(std::size_t run, std::int64_t before) const {
    const std::vector<ItemRun>& runs = row_.runs();
    // Every part behind the one in which the last run ended needs an item of this one.
    const std::int64_t most = std::min(parts_ - 1, before + runs[run].length());
    std::int64_t left = 0;
    for (std::size_t later = run + 1; later < runs.size(); ++later) left += runs[later].length();
    return {std::max({before, parts_ - 1 - left, std::int64_t{0}}), most};
  }

  /// How many ways there are to end the runs from `run` on; stops counting beyond the most.
  std::int64_t count_ways(std::size_t run, std::int64_t before) const {
    if (run == row_.runs().size()) return 1;
    const auto [least, most] = ends_of(run, before);
    std::int64_t ways = 0;
    for (std::int64_t end = least; end <= most && ways <= kMostWays; ++end) {
      ways += count_ways(run + 1, end);
    }
    return ways;
  }

  void end_run(std::vector<std::int64_t>& ends) {
    const std::size_t r = ends.size();
    if (r == row_.runs().size()) return add_way(ends);
    const auto [least, most] = ends_of(r, r == 0 ? -1 : ends.back());
    for (std::int64_t end = least; end <= most; ++end) {
      ends.push_back(end);
      end_run(ends);
      ends.pop_back();
    }
  }

  void add_way(const std::vector<std::int64_t>& ends) {
    const std::size_t runs = ends.size();
    Way way;
    way.end = ends;
    way.least.assign(at(depth_), Counts(runs, 0));
    way.parts_of = way.least_behind = way.may_behind = way.least;
    for (std::size_t r = 0; r < runs; ++r) {
      const std::int64_t before = r == 0 ? 0 : ends[r - 1];
      for (std::int64_t part = before; part <= ends[r]; ++part) {
        ++way.parts_of[at(part % depth_)][r];
        if (r == 0 || part > before) ++way.least[at(part % depth_)][r];
      }
    }
    for (std::int64_t i = depth_ - 1; i >= 0; --i) {
      for (std::size_t r = 0; r < runs; ++r) {
        const bool more = i + 1 < depth_;
        way.least_behind[at(i)][r] =
            way.least[at(i)][r] + (more ? way.least_behind[at(i + 1)][r] : 0);
        way.may_behind[at(i)][r] =
            way.parts_of[at(i)][r] + (more ? way.may_behind[at(i + 1)][r] : 0);
      }
    }
    ways_.push_back(std::move(way));
  }

  /// What a stage with `load` takes, with `received` for its transfers.
  struct Load {
    cost::StageFootprint footprint;
    Traffic forward, backward;          ///< collectives
    bool drowned = false;               ///< has collectives that were left out
    std::vector<StageCompute> compute;  ///< by type of device
    std::vector<int> tied;              ///< by tie: members
    std::vector<int> removed;           ///< by tie: copies that `footprint` is without
  };

  void add(Load& load, const Item& item, std::int64_t times, int position_class) const {
    const auto n = static_cast<double>(times);
    const StrategySums& sums = instance_.strategies()[at(k_)];
    const cost::StageFootprint one = instance_.footprint(k_, item.outer, item.inner);
    cost::StageFootprint& all = load.footprint;
    all.parameters += n * one.parameters;
    all.expert_parameters += n * one.expert_parameters;
    all.activation_bytes += n * one.activation_bytes;
    all.selective_bytes += n * one.selective_bytes;
    all.checkpoint_bytes += n * one.checkpoint_bytes;
    all.largest_layer = std::max(all.largest_layer, one.largest_layer);
    all.largest_working = std::max(all.largest_working, one.largest_working);
    all.largest_selective = std::max(all.largest_selective, one.largest_selective);
    all.largest_activation = std::max(all.largest_activation, one.largest_activation);
    const ClassSums& collectives = *placement_.classes(0)[at(position_class)]->sums;
    const auto outer = at(sums.mixes.of[at(item.outer)]);
    const auto inner = at(sums.mixes.of[at(item.inner)]);
    load.forward += n * collectives.forward_of(outer, inner);
    load.backward += n * collectives.backward_of(outer, inner);
    load.drowned = load.drowned || collectives.drowns(outer, inner);
    load.compute.resize(sums.compute.size());
    for (std::size_t type = 0; type < load.compute.size(); ++type) {
      const StageCompute one_item =
          instance_.compute(k_, item.outer, item.inner, TypeSet{1} << type);
      load.compute[type].forward += n * one_item.forward;
      load.compute[type].backward += n * one_item.backward;
      load.compute[type].selective += n * one_item.selective;
    }
    load.tied.resize(instance_.problem().graph.ties.size(), 0);
    load.removed.resize(load.tied.size(), 0);
    for (std::size_t t = 0; t < load.tied.size(); ++t) {
      const int members = instance_.tie_members(t, item.outer, item.inner);
      load.tied[t] += members;
      load.removed[t] += std::max(0, members - 1);
    }
  }

  Priced price(std::int64_t stage, Load load, Ticks received) {
    ++shared_.priced;
    Priced result;
    remove_copies(load);
    result.received = received;
    result.beside = part_of(received, instance_.options().transfer_overlap(vpp_));
    result.tie = tie(stage, load);
    if (load.drowned) return result;
    StageWork work{{}, load.forward, load.backward};
    for (TypeSet rest = placement_.classes(0)[at(class_[at(stage)])]->types; rest != 0;
         rest &= rest - 1) {
      work.compute.wait_for(load.compute[at(std::countr_zero(rest))]);
    }
    const cost::InFlight in_flight =
        cost::interleaved_in_flight(depth_ - stage, depth_, vpp_, configuration_.microbatches);
    for (StageOption& option :
         shared_.pricer.options(class_[at(stage)], load.footprint, work, in_flight)) {
      option.time += received;
      if (option.time >= kNever) continue;
      result.least = std::min(result.least, option.time);
      result.options.push_back(option);
    }
    return result;
  }

  /// A stage has one copy of what several of its layers share.
  void remove_copies(Load& load) const {
    for (std::size_t t = 0; t < load.tied.size(); ++t) {
      const int copies = load.tied[t] - 1 - load.removed[t];
      if (copies <= 0) continue;
      load.footprint.parameters -= copies * instance_.problem().graph.ties[t].parameters[at(k_)];
    }
  }

  Ticks tie(std::int64_t stage, const Load& load) const {
    if (stage == 0 || instance_.options().objective == model::Objective::kPaper) return 0;
    Ticks sum = 0;
    const auto& ties = instance_.problem().graph.ties;
    for (std::size_t t = 0; t < load.tied.size(); ++t) {
      const int members = load.tied[t];
      if (members == 0 || at(members) == ties[t].layers.size()) continue;
      const std::int64_t to = stage * unit_;
      const int level =
          instance_.network().link_level(configuration_.pods, 0, to, std::min(unit_, to));
      sum += instance_.tie_ticks(k_, t, level, unit_);
    }
    return sum;
  }

  const Priced& price(std::int64_t stage, const Counts& counts) {
    auto [entry, inserted] = prices_.try_emplace({stage, counts});
    if (inserted) {
      Load load;
      for (std::size_t r = 0; r < counts.size(); ++r) {
        if (counts[r] > 0) {
          add(load, row_.runs()[r].items.front(), counts[r], class_[at(stage)]);
        }
      }
      entry->second = price(stage, std::move(load), received_[at(stage)]);
    }
    return entry->second;
  }

  /// What a stage adds to the scaled total, apart from the slowest stage, with no option slower
  /// than `cap`; kNever if nothing is left.
  Ticks added(std::int64_t stage, const Priced& priced, Ticks cap) const {
    const auto v = static_cast<Ticks>(vpp_);
    if (stage > 0) return priced.pace(priced.least) <= cap ? priced.least + v * priced.tie : kNever;
    Ticks least = kNever;
    for (const StageOption& option : priced.options) {
      if (priced.pace(option.time) > cap) continue;
      least = std::min(least, option.time + v * option.sync);
    }
    return least;
  }

  /// The best from a stage on.
  struct Cell {
    Ticks value = kNever;
    Counts taken;
  };
  using Cells = std::map<std::pair<std::int64_t, Counts>, Cell>;

  /// Calls `visit` for all that `stage` may take of what is left.
  template <typename Visit>
  void each_taking(const Way& way, std::int64_t stage, const Counts& left, Visit visit) const {
    Counts taken(left.size(), 0);
    const auto choose = [&](const auto& self, std::size_t r) -> void {
      if (r == left.size()) return visit(taken);
      const bool more = stage + 1 < depth_;
      const std::int64_t keep = more ? way.least_behind[at(stage + 1)][r] : 0;
      const bool others = more && way.may_behind[at(stage + 1)][r] > 0;
      std::int64_t most = left[r] - keep;
      if (way.parts_of[at(stage)][r] == 0) most = std::min<std::int64_t>(most, 0);
      const std::int64_t least = others ? way.least[at(stage)][r] : left[r];
      for (taken[r] = std::max(least, way.least[at(stage)][r]); taken[r] <= most; ++taken[r]) {
        self(self, r + 1);
      }
    };
    choose(choose, 0);
  }

  /// W_τ, or with `bottleneck` the least slowest stage, from `stage` on.
  const Cell& solve(const Way& way, std::int64_t stage, const Counts& left, Ticks cap,
                    bool bottleneck, Cells& cells) {
    const auto [entry, inserted] = cells.try_emplace({stage, left});
    Cell& cell = entry->second;
    if (!inserted) return cell;
    if (stage == depth_) {
      cell.value = 0;
      return cell;
    }
    each_taking(way, stage, left, [&](const Counts& taken) {
      const Priced& priced = price(stage, taken);
      const Ticks mine = bottleneck ? priced.pace(priced.least) : added(stage, priced, cap);
      if (mine >= cell.value) return;
      Counts rest = left;
      for (std::size_t r = 0; r < rest.size(); ++r) rest[r] -= taken[r];
      const Ticks behind = solve(way, stage + 1, rest, cap, bottleneck, cells).value;
      const Ticks value = bottleneck ? std::max(mine, behind) : mine + behind;
      if (value < cell.value) {
        cell.value = value;
        cell.taken = taken;
      }
    });
    return cell;
  }

  Counts whole() const {
    Counts all;
    for (const ItemRun& run : row_.runs()) all.push_back(run.length());
    return all;
  }

  /// What every stage takes, by the cells of a solution.
  std::vector<Counts> taken(const Cells& cells) const {
    std::vector<Counts> result;
    Counts left = whole();
    for (std::int64_t i = 0; i < depth_; ++i) {
      result.push_back(cells.at({i, left}).taken);
      for (std::size_t r = 0; r < left.size(); ++r) left[r] -= result.back()[r];
    }
    return result;
  }

  Total total_of(Ticks sum, Ticks slowest) const {
    return to_total(sum) + (configuration_.microbatches * vpp_ - 1) * to_total(slowest);
  }

  Total paper_total_of(Ticks slowest, Ticks sync) const {
    return (configuration_.microbatches * vpp_ + depth_ - 1) * to_total(slowest) +
           vpp_ * to_total(sync);
  }

  /// First the least sum without a cap and the least slowest stage, for a plan and a bound; then
  /// caps that fall from the largest that may still matter.
  void try_way(const Way& way) {
    Cells least_max;
    const Ticks slowest = solve(way, 0, whole(), kNever, true, least_max).value;
    if (slowest == kNever) return;
    Cells least_sum;
    const Ticks sum = solve(way, 0, whole(), kNever, false, least_sum).value;
    if (total_of(sum, slowest) >= best_total_ && best_) return;
    if (total_of(sum, slowest) > best_total_) return;
    offer(way, slowest);
    const Total rounds = configuration_.microbatches * vpp_ - 1;
    const auto useful = [&] {
      return rounds == 0 || best_total_ >= kNoTotal
                 ? kNever
                 : static_cast<Ticks>((best_total_ - to_total(sum)) / rounds);
    };
    for (Ticks cap = useful(); cap > slowest;) {
      const Ticks reached = offer(way, cap);
      if (reached == kNever) return;
      cap = std::min(just_below(reached), useful());
    }
  }

  /// The best plan under a cap; returns how long its slowest stage takes, kNever without one.
  Ticks offer(const Way& way, Ticks cap) {
    Cells cells;
    const Ticks sum = solve(way, 0, whole(), cap, false, cells).value;
    if (sum == kNever) return kNever;
    const std::vector<Counts> counts = taken(cells);
    std::vector<StageOption> options;
    Ticks slowest = 0;
    for (std::int64_t i = 0; i < depth_; ++i) {
      const Priced& priced = price(i, counts[at(i)]);
      options.push_back(chosen(i, priced, cap));
      slowest = std::max(slowest, priced.pace(options.back().time));
    }
    take(total_of(sum, slowest), [&] { return Layout{spread(way, counts), options}; });
    return slowest;
  }

  /// The option that `added` counts; of equals the first.
  StageOption chosen(std::int64_t stage, const Priced& priced, Ticks cap) const {
    const Ticks value = added(stage, priced, cap);
    const auto v = static_cast<Ticks>(vpp_);
    for (const StageOption& option : priced.options) {
      const Ticks adds = stage > 0 ? option.time + v * priced.tie : option.time + v * option.sync;
      if (priced.pace(option.time) <= cap && adds == value) return option;
    }
    throw InternalError("no option of a stage takes what it was counted for");
  }

  /// Every option of the first stage with the least slowest stage behind it.
  void try_paper(const Way& way) {
    Cells cells;
    each_taking(way, 0, whole(), [&](const Counts& first) {
      Counts rest = whole();
      for (std::size_t r = 0; r < rest.size(); ++r) rest[r] -= first[r];
      const Ticks behind = solve(way, 1, rest, kNever, true, cells).value;
      if (behind == kNever) return;
      const Priced of_first = price(0, first);
      for (const StageOption& option : of_first.options) {
        const Ticks slowest = std::max(of_first.pace(option.time), behind);
        take(paper_total_of(slowest, option.sync), [&] {
          cells[{0, whole()}] = {slowest, first};
          const std::vector<Counts> counts = taken(cells);
          std::vector<StageOption> options{option};
          for (std::int64_t i = 1; i < depth_; ++i) {
            options.push_back(chosen(i, price(i, counts[at(i)]), kNever));
          }
          return Layout{spread(way, counts), options};
        });
      }
    });
  }

  template <typename Make>
  void take(Total total, Make make) {
    if (best_ ? total >= best_total_ : total > best_total_) return;
    best_ = make();
    best_total_ = total;
  }

  /// Deals what stages have to their parts: one to those that need one, the rest evenly, earlier
  /// parts first.
  std::vector<std::vector<int>> spread(const Way& way, const std::vector<Counts>& counts) const {
    const std::size_t runs = row_.runs().size();
    std::vector<Counts> parts(at(parts_), Counts(runs, 0));
    for (std::size_t r = 0; r < runs; ++r) {
      const std::int64_t before = r == 0 ? 0 : way.end[r - 1];
      for (std::int64_t i = 0; i < depth_; ++i) {
        std::int64_t left = counts[at(i)][r];
        for (std::int64_t part = before; part <= way.end[r]; ++part) {
          if (part % depth_ != i || (r > 0 && part == before)) continue;
          parts[at(part)][r] = 1;
          --left;
        }
        while (left > 0) {
          std::int64_t emptiest = -1;
          for (std::int64_t part = before; part <= way.end[r]; ++part) {
            if (part % depth_ != i) continue;
            if (emptiest < 0 || size(parts[at(part)]) < size(parts[at(emptiest)])) emptiest = part;
          }
          ++parts[at(emptiest)][r];
          --left;
        }
      }
    }
    return layers_of(parts);
  }

  std::vector<std::vector<int>> layers_of(const std::vector<Counts>& parts) const {
    std::vector<std::vector<int>> result;
    std::vector<std::size_t> next(row_.runs().size(), 0);
    for (const Counts& part : parts) {
      std::vector<int>& layers = result.emplace_back();
      for (std::size_t r = 0; r < part.size(); ++r) {
        for (std::int64_t n = part[r]; n > 0; --n) {
          const Item& item = row_.runs()[r].items[next[r]++];
          const std::vector<int> more = instance_.lattice().difference(item.outer, item.inner);
          layers.insert(layers.end(), more.begin(), more.end());
        }
      }
      std::sort(layers.begin(), layers.end());
    }
    return result;
  }

  static std::int64_t size(const Counts& counts) {
    std::int64_t sum = 0;
    for (const std::int64_t n : counts) sum += n;
    return sum;
  }

  /// Equally many counted layers in every part; what is not counted goes with the layer before it,
  /// or with the first.
  void try_even() {
    const DownsetId whole = instance_.lattice().whole();
    const std::int64_t counted = instance_.counted(whole);
    if (counted == 0 || counted % parts_ != 0) return;
    const std::int64_t each = counted / parts_;
    std::vector<DownsetId> borders{whole};
    for (std::int64_t part = 1; part < parts_; ++part) {
      DownsetId d = borders.back();
      const auto begins = [&] {  // with the first counted layer of the part
        return counted - instance_.counted(d) == part * each &&
               instance_.counted(d) > instance_.counted(d - 1);
      };
      while (!begins()) --d;
      borders.push_back(d);
    }
    borders.push_back(0);
    offer_even(borders);
  }

  void offer_even(const std::vector<DownsetId>& borders) {
    std::vector<Priced> prices;
    for (std::int64_t i = 0; i < depth_; ++i) {
      Load load;
      Ticks received = 0;
      for (std::int64_t part = i; part < parts_; part += depth_) {
        add(load, {borders[at(part)], borders[at(part + 1)]}, 1, class_[at(i)]);
        if (part > 0) received += crossing(part - 1, cut_at(borders[at(part)]));
        if (part + 1 < parts_) received += crossing(part, cut_at(borders[at(part + 1)]));
      }
      prices.push_back(price(i, std::move(load), received));
      if (prices.back().options.empty()) return;
    }
    // Every time of an option may be the slowest.
    std::vector<Ticks> caps;
    for (const Priced& priced : prices) {
      for (const StageOption& option : priced.options) caps.push_back(priced.pace(option.time));
    }
    util::sort_unique(caps);
    const bool paper = instance_.options().objective == model::Objective::kPaper;
    for (const Ticks cap : caps) {
      std::vector<StageOption> options;
      Ticks sum = 0;
      Ticks slowest = 0;
      for (std::int64_t i = 0; i < depth_; ++i) {
        const Ticks adds = added(i, prices[at(i)], cap);
        if (adds == kNever) break;
        sum += adds;
        options.push_back(chosen(i, prices[at(i)], cap));
        slowest = std::max(slowest, prices[at(i)].pace(options.back().time));
      }
      if (options.size() < at(depth_)) continue;
      const Total total = paper ? paper_total_of(slowest, options[0].sync) : total_of(sum, slowest);
      take(total, [&] {
        std::vector<std::vector<int>> parts;
        for (std::size_t part = 0; part + 1 < borders.size(); ++part) {
          parts.push_back(instance_.lattice().difference(borders[part], borders[part + 1]));
        }
        return Layout{std::move(parts), options};
      });
    }
  }

  /// Kind of the cut at a border.
  std::size_t cut_at(DownsetId border) const {
    return at(instance_.strategies()[at(k_)].cuts.of[at(border)]);
  }

  /// Ticks to receive, over the border behind `part`, what a cut of this kind lets through.
  Ticks crossing(std::int64_t part, std::size_t cut) const {
    const std::int64_t producer = part % depth_;
    const bool wraps = producer + 1 == depth_;  // behind the last stage comes the first
    const std::int64_t from = wraps ? 0 : producer * unit_;
    const std::int64_t to = wraps ? producer * unit_ : from + unit_;
    const int level = instance_.network().link_level(configuration_.pods, from, to, unit_);
    return instance_.transfer(k_, level, unit_)[cut];
  }

  Shared& shared_;
  const Instance& instance_;
  const Placement& placement_;
  const Row& row_;
  const Configuration& configuration_;
  int k_;
  std::int64_t unit_;
  std::int64_t depth_;
  std::int64_t vpp_;
  std::int64_t parts_;
  std::vector<int> class_;       ///< by stage
  std::vector<Ticks> received_;  ///< by stage
  bool even_only_ = false;
  std::vector<Way> ways_;
  std::map<std::pair<std::int64_t, Counts>, Priced> prices_;
  std::optional<Layout> best_;
  Total best_total_ = kNoTotal;
};

Interleaved::Interleaved(const Instance& instance, const Placement& placement)
    : shared_(std::make_unique<Shared>(instance, placement)) {}
Interleaved::~Interleaved() = default;

std::int64_t Interleaved::priced() const { return shared_->priced; }

Total Interleaved::best(std::int64_t depth, Total limit) {
  Depth search(*shared_, depth);
  return search.unscaled(search.search(search.scaled(limit)));
}

cost::PlacedPlan Interleaved::plan(std::int64_t depth) {
  Depth search(*shared_, depth);
  if (search.search(kNoTotal) == kNoTotal) {
    throw InternalError("there is no interleaved pipeline where there was one");
  }
  return search.plan();
}

bool is_interleaved(const model::PartialPlan& partial) {
  return std::any_of(partial.stages.begin(), partial.stages.end(),
                     [](const model::PartialStage& stage) { return stage.chunks.size() > 1; });
}

namespace {

/// The options of the stages of an interleaved plan, priced by the evaluator.
class Completion {
 public:
  Completion(const model::Problem& problem, const network::Network& network,
             const model::PartialPlan& partial)
      : problem_(problem), network_(network), partial_(partial) {}

  model::Plan run() {
    for (std::int64_t inner = 1; inner <= partial_.dp; ++inner) {
      if (partial_.dp % inner != 0 || (partial_.dp_inner && *partial_.dp_inner != inner)) continue;
      try_inner(inner);
    }
    if (best_) return *best_;
    if (nearest_) return *nearest_;
    throw InvalidInput("plan: strategy.dp_inner: no divisor of dp = " +
                       std::to_string(partial_.dp));
  }

 private:
  void try_inner(std::int64_t inner) {
    const cost::PlacedPlan plan = one_behind_another(problem_, partial_, inner);
    price(plan);
    choose(plan);
  }

  struct Option {
    cost::PlacedStage stage;
    model::StagePlan cost;
  };

  /// A stage's time and memory depend on its own options alone.
  void price(cost::PlacedPlan plan) {
    options_.assign(plan.stages.size(), {});
    std::vector<StageRule> rules;
    for (const model::PartialStage& stage : partial_.stages) {
      rules.push_back(rule_of(stage, problem_.options));
    }
    const auto in = [](const auto& list, auto value) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    for (const model::Recompute recompute :
         {model::Recompute::kNone, model::Recompute::kSelective, model::Recompute::kFull}) {
      for (int c = 0; c < static_cast<int>(kShardChoices.size()); ++c) {
        const ShardChoice& shard = kShardChoices[at(c)];
        for (cost::PlacedStage& stage : plan.stages) {
          stage.recompute = recompute;
          stage.zero = shard.zero;
          stage.shard = shard.span;
        }
        const model::Plan costed = cost::evaluate(problem_, network_, plan);
        for (std::size_t i = 0; i < plan.stages.size(); ++i) {
          if (in(rules[i].recompute, recompute) && in(rules[i].shards, c)) {
            options_[i].push_back({plan.stages[i], costed.stages[i]});
          }
        }
      }
    }
  }

  /// For every time that may be the slowest, the best option of each stage within it.
  void choose(cost::PlacedPlan plan) {
    std::vector<double> caps{std::numeric_limits<double>::infinity()};
    for (const auto& of_stage : options_) {
      for (const Option& option : of_stage) caps.push_back(option.cost.time.pace_s());
    }
    const auto chunks = static_cast<double>(partial_.stages.front().chunks.size());
    for (const double cap : caps) {
      for (std::size_t i = 0; i < plan.stages.size(); ++i) {
        const auto value = [&](const Option& option) {
          const model::StageMemory& memory = option.cost.memory;
          const bool over =
              memory.total_bytes > memory.limit_bytes || option.cost.time.pace_s() > cap;
          return std::tuple(
              over, over ? option.cost.memory.total_bytes : 0,
              option.cost.time.total_s + (i == 0 ? chunks * option.cost.time.sync_s : 0));
        };
        plan.stages[i] =
            std::min_element(options_[i].begin(), options_[i].end(),
                             [&](const Option& a, const Option& b) { return value(a) < value(b); })
                ->stage;
      }
      offer(cost::evaluate(problem_, network_, plan));
    }
  }

  void offer(model::Plan plan) {
    if (plan.status == model::Status::kInfeasible) {
      if (!nearest_) nearest_ = std::move(plan);
      return;
    }
    if (!best_ || plan.iteration_time_s < best_->iteration_time_s) best_ = std::move(plan);
  }

  const model::Problem& problem_;
  const network::Network& network_;
  const model::PartialPlan& partial_;
  std::vector<std::vector<Option>> options_;
  std::optional<model::Plan> best_, nearest_;
};

}  // namespace

model::Plan complete_interleaved(const model::Problem& problem, const network::Network& network,
                                 const model::PartialPlan& partial) {
  return Completion(problem, network, partial).run();
}

}  // namespace nestplan::solver
