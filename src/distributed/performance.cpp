#include "distributed/performance.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <istream>
#include <numeric>
#include <ostream>
#include <string>

#include "nestplan/util/errors.hpp"

namespace nestplan::distributed {
namespace {

using solver::at;
using solver::DownsetId;
using solver::Ticks;

constexpr double kCellBytes = sizeof(Ticks);
constexpr double kChunkCells = 1 << 19;  ///< as `solver::Table` has it
constexpr double kBytesByDownset = 20;
constexpr double kBatch = 32;  ///< configurations that are bounded at a time

double total(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double total(const std::vector<double>& values, std::int64_t first, std::int64_t last) {
  double sum = 0;
  for (std::int64_t i = first; i <= last; ++i) sum += values[at(i)];
  return sum;
}

void scale(std::vector<double>& values, double factor) {
  for (double& value : values) value *= factor;
}

/// Cells and runs of cells that a stage of one strategy relaxes at one depth, at most.
struct Reach {
  double cells = 0, segments = 0;
};

Reach reach_of(const solver::PortLayer& layer, int choice) {
  Reach reach;
  for (const solver::Flow& flow : layer.flows) {
    if (flow.choice != choice) continue;
    for (const solver::PortClass& ports : flow.classes) {
      reach.segments += static_cast<double>(ports.segments.size());
      for (const solver::Segment& segment : ports.segments) {
        reach.cells += segment.end - segment.begin;
      }
    }
  }
  return reach;
}

/// Counts the work of one table.
class Counter {
 public:
  Counter(const solver::Instance& instance, const solver::Placement& placement,
          const solver::PortLayers& layers, const std::vector<std::int64_t>& depths,
          const solver::TableLimits& limits)
      : lattice_(instance.lattice()),
        placement_(placement),
        layers_(layers),
        cap_(limits.prune ? limits.stage : solver::kNever),
        stages_(depths.back() - 1),
        windows_(solver::depth_windows(instance, placement, layers, depths, cap_)) {
    windows_.first[0] = windows_.last[0] = 0;  // it is pushed from all the same
    find_starts();
    find_reach();
    if (!lattice_.totally_ordered()) seen_.assign(at(lattice_.size()), -1);
  }

  TableSummary count(std::int64_t walks) {
    TableSummary table;
    table.downsets = static_cast<double>(lattice_.size());
    table.depths = stages_;
    const double share = std::min(1.0, static_cast<double>(walks) / table.downsets);
    for (DownsetId begin = 0; begin < lattice_.whole(); begin = lattice_.next_wave(begin)) {
      table.waves.push_back(count_wave(begin, share));
    }
    return table;
  }

 private:
  /// First and last device at which a stage that starts a downset leaves enough for the others.
  void find_starts() {
    const solver::Configuration& configuration = placement_.configuration();
    const auto pod = static_cast<double>(configuration.pods.pod_size);
    const std::vector<double>& work = placement_.work_sums();
    const double devices_per_work =
        cap_ == solver::kNever || cap_ <= 0
            ? 0
            : static_cast<double>(configuration.dp_inner) / static_cast<double>(cap_);
    for (const double of_suffix : work) {
      earliest_.push_back((work.back() - of_suffix) * devices_per_work);
      latest_.push_back(pod - of_suffix * devices_per_work);
    }
  }

  void find_reach() {
    const int choices = static_cast<int>(placement_.configuration().strategies.size());
    for (std::int64_t s = 0; s <= stages_; ++s) {
      Reach all;
      double low = 0, high = 0, moved = 0;
      if (s > 0) {
        const solver::PortLayer& layer = layers_.layer(s);
        for (int choice = 0; choice < choices; ++choice) {
          const Reach one = reach_of(layer, choice);
          all.cells += one.cells;
          all.segments += one.segments;
        }
        if (layer.size() > 0) {
          const auto [least, most] = std::minmax_element(layer.start.begin(), layer.start.end());
          low = static_cast<double>(*least);
          high = static_cast<double>(*most);
        }
        moved = static_cast<double>(layer.size()) * static_cast<double>(layer.flows.size());
      }
      reach_.push_back(all);
      low_.push_back(low);
      high_.push_back(high);
      moved_.push_back(moved);
    }
  }

  /// Share of the positions at depth `s` that leave enough devices around `d`.
  double open(DownsetId d, std::int64_t s) const {
    const double from = std::max(low_[at(s)], earliest_[at(d)]);
    const double to = std::min(high_[at(s)], latest_[at(d)]);
    if (to < from) return 0;
    const double all = high_[at(s)] - low_[at(s)];
    return all > 0 ? (to - from) / all : 1;
  }

  /// Calls `visit` for every downset above `inner` that a stage within the floor's time reaches;
  /// returns how many were met on the way.
  template <typename Visit>
  std::int64_t walk(DownsetId inner, Visit&& visit) {
    const std::vector<Ticks>& floor = placement_.floor_sums();
    const DownsetId whole = lattice_.whole();
    const auto too_long = [&](DownsetId outer) {
      return floor[at(outer)] - floor[at(inner)] > cap_;
    };
    std::int64_t met = 0;
    if (lattice_.totally_ordered()) {
      for (DownsetId outer = inner + 1; outer < whole && !too_long(outer); ++outer, ++met) {
        visit(outer);
      }
      return met;
    }
    frontier_.assign(1, inner);
    for (std::size_t i = 0; i < frontier_.size(); ++i) {
      for (const DownsetId outer : lattice_.above(frontier_[i])) {
        ++met;
        if (outer >= whole || seen_[at(outer)] == inner) continue;
        seen_[at(outer)] = inner;
        if (too_long(outer)) continue;
        visit(outer);
        frontier_.push_back(outer);
      }
    }
    return met;
  }

  void count_walk(DownsetId inner, Wave& wave) {
    const auto choices = static_cast<double>(placement_.configuration().strategies.size());
    const std::int64_t first = inner == 0 ? 1 : windows_.first[at(inner)] + 1;
    const std::int64_t last = inner == 0
                                  ? std::min<std::int64_t>(1, stages_)
                                  : std::min<std::int64_t>(windows_.last[at(inner)] + 1, stages_);
    for (std::int64_t s = first; s <= last; ++s) wave.prepared[at(s)] += moved_[at(s)];
    if (first > last) return;
    const DownsetId next_wave_end =
        lattice_.next_wave(std::min(lattice_.next_wave(inner), lattice_.whole()));
    const std::int64_t met = walk(inner, [&](DownsetId outer) {
      wave.priced += choices;
      if (outer < next_wave_end) wave.near += choices;
      farthest_ = std::max(farthest_, outer);
      const std::int64_t to = std::min<std::int64_t>(last, windows_.last[at(outer)]);
      for (std::int64_t s = std::max<std::int64_t>(first, windows_.first[at(outer)]); s <= to;
           ++s) {
        const double share = open(outer, s);
        if (share == 0) continue;
        wave.segments[at(s)] += reach_[at(s)].segments;
        wave.relaxed[at(s)] += reach_[at(s)].cells * share;
      }
    });
    wave.walked += static_cast<double>(met);
  }

  Wave count_wave(DownsetId begin, double share) {
    const DownsetId end = std::min(lattice_.next_wave(begin), lattice_.whole());
    Wave wave;
    for (auto* of_depth : {&wave.cells, &wave.prepared, &wave.segments, &wave.relaxed}) {
      of_depth->assign(at(stages_ + 1), 0);
    }
    std::vector<DownsetId> rows;
    for (DownsetId d = begin; d < end; ++d) {
      if (windows_.first[at(d)] > windows_.last[at(d)]) continue;
      rows.push_back(d);
      for (std::int64_t s = std::max<std::int64_t>(1, windows_.first[at(d)]);
           s <= windows_.last[at(d)]; ++s) {
        wave.cells[at(s)] += static_cast<double>(layers_.layer(s).size());
      }
    }
    wave.downsets = static_cast<double>(rows.size());
    if (rows.empty()) return wave;
    const auto walks =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(wave.downsets * share)));
    farthest_ = begin;
    for (std::size_t i = 0; i < walks; ++i) {
      count_walk(rows[(2 * i + 1) * rows.size() / (2 * walks)], wave);
    }
    const double factor = wave.downsets / static_cast<double>(walks);
    wave.near = wave.priced > 0 ? wave.near / wave.priced : 0;
    for (double* of_wave : {&wave.walked, &wave.priced}) *of_wave *= factor;
    for (auto* of_depth : {&wave.prepared, &wave.segments, &wave.relaxed}) {
      scale(*of_depth, factor);
    }
    for (DownsetId d = end; d <= farthest_; ++d) {
      wave.targets += windows_.first[at(d)] <= windows_.last[at(d)] ? 1 : 0;
    }
    return wave;
  }

  const solver::Lattice& lattice_;
  const solver::Placement& placement_;
  const solver::PortLayers& layers_;
  Ticks cap_;
  std::int64_t stages_;
  solver::DepthWindows windows_;
  std::vector<double> earliest_, latest_;  ///< by downset
  std::vector<Reach> reach_;               ///< by depth, over all strategies
  std::vector<double> low_, high_;         ///< by depth: first and last device of its positions
  std::vector<double> moved_;              ///< by depth: cells that preparing one row moves
  std::vector<DownsetId> seen_;            ///< by downset: who met it last
  std::vector<DownsetId> frontier_;
  DownsetId farthest_ = 0;
};

/// First depths of blocks of about as many cells, and one past the last.
std::vector<std::int64_t> cut_depths(const TableSummary& table, int blocks) {
  std::vector<double> cells(at(table.depths + 1), 0);
  for (const Wave& wave : table.waves) {
    for (std::int64_t s = 1; s <= table.depths; ++s) cells[at(s)] += wave.cells[at(s)];
  }
  const double all = total(cells);
  std::vector<std::int64_t> first(1, 1);
  double sum = 0;
  for (std::int64_t s = 1; s <= table.depths; ++s) {
    sum += cells[at(s)];
    const auto block = static_cast<int>(first.size());
    if (block < blocks && sum * blocks >= all * block) first.push_back(s + 1);
  }
  while (static_cast<int>(first.size()) <= blocks) first.push_back(table.depths + 1);
  return first;
}

/// How much longer whole items take on the fullest of `shares` than if they could be cut.
double unevenness(double items, int shares) {
  return items > 0 ? std::ceil(items / shares) * shares / items : 1;
}

class Forecast {
 public:
  Forecast(const TableSummary& table, solver::Grid grid, const Machine& machine)
      : table_(table),
        grid_(grid),
        machine_(machine),
        blocks_(cut_depths(table, grid.stages)),
        turns_(machine.cores > 0 && grid.size() > machine.cores
                   ? static_cast<double>(grid.size()) / machine.cores
                   : 1) {
    link_ = machine.within;
    if (grid.size() > machine.ranks_per_node) {
      link_ = machine.between;
      link_.gap_s_per_byte *= machine.ranks_per_node;
    }
  }

  Prediction make() {
    const auto waves = static_cast<std::int64_t>(table_.waves.size());
    std::vector<double> band(at(waves), 0);  // when the previous block's bands arrive
    double even = 0;
    for (int block = 0; block < grid_.stages; ++block) {
      const Path path = follow(block, band);
      even += path.work_s * grid_.downsets;
      // A block without work only hands on.
      if (path.end_s < result_.seconds || (path.work_s == 0 && block > 0)) continue;
      result_.seconds = path.end_s;
      result_.redundant_s = path.redundant_s;
      result_.gather_s = path.gather_s;
    }
    result_.work_s = even * turns_ / grid_.size();
    result_.uneven_s =
        std::max(0.0, result_.seconds - result_.work_s - result_.redundant_s - result_.gather_s);
    count_bytes();
    return result_;
  }

 private:
  /// What a block did by the end.
  struct Path {
    double end_s = 0, work_s = 0, redundant_s = 0, gather_s = 0;
  };

  double chunks(const Wave& wave) const {
    return std::max(1.0, std::ceil(total(wave.cells) / kChunkCells));
  }

  /// Seconds until the rows of a wave are everywhere in a block.
  double gather_s(const Wave& wave, double cells) {
    if (grid_.downsets == 1 || wave.downsets == 0) return 0;
    const double others = grid_.downsets - 1;
    const double received = kCellBytes * cells * others / grid_.downsets;
    return chunks(wave) * (link_.latency_s + 2 * others * link_.overhead_s) +
           received * link_.gap_s_per_byte;
  }

  double band_s(const Wave& wave, double cells) const {
    return chunks(wave) * (link_.latency_s + 2 * link_.overhead_s) +
           kCellBytes * cells * link_.gap_s_per_byte;
  }

  /// Follows one block through all waves. `band`: when the bands that it needs arrive; on return,
  /// those that it sends.
  Path follow(int block, std::vector<double>& band) {
    const std::int64_t first = blocks_[at(block)];
    const std::int64_t last = blocks_[at(block + 1)] - 1;
    Path path;
    double gathered = 0;
    double received = 0, sent = 0, messages = 0;
    for (std::size_t w = 0; w < table_.waves.size(); ++w) {
      const Wave& wave = table_.waves[w];
      if (wave.downsets == 0) continue;
      const double relaxed = total(wave.relaxed, first, last);
      double redundant = 0, shared = 0;
      if (relaxed > 0) {
        redundant = turns_ * (wave.walked * machine_.step_s +
                              total(wave.prepared, first, last) * machine_.prepared_cell_s);
        shared =
            (wave.priced * machine_.price_s +
             total(wave.segments, first, last) * machine_.segment_s + relaxed * machine_.cell_s) /
            grid_.downsets;
      }
      path.work_s += shared;
      path.redundant_s += redundant;
      const double begin = std::max({path.end_s, gathered, band[w]});
      path.gather_s += std::max(0.0, gathered - path.end_s);
      const double pushed = turns_ * shared * unevenness(wave.targets, grid_.downsets);
      path.end_s = begin + redundant + pushed;
      if (w + 1 < table_.waves.size()) {
        const Wave& next = table_.waves[w + 1];
        const double cells = total(next.cells, first, last);
        const double near = turns_ * shared * wave.near * unevenness(next.downsets, grid_.downsets);
        gathered = begin + redundant + std::min(near, pushed) + gather_s(next, cells);
        if (grid_.downsets > 1 && next.downsets > 0) {
          received += kCellBytes * cells * (grid_.downsets - 1) / grid_.downsets;
          messages += chunks(next) * (grid_.downsets - 1);
        }
      }
      if (block + 1 < grid_.stages) {
        const double cells = last >= 1 ? wave.cells[at(last)] : 0;
        band[w] = begin + band_s(wave, cells);
        sent += kCellBytes * cells;
        messages += chunks(wave);
      }
    }
    result_.gathered_bytes = std::max(result_.gathered_bytes, received);
    result_.band_bytes = std::max(result_.band_bytes, sent);
    result_.messages = std::max(result_.messages, messages);
    return path;
  }

  void count_bytes() {
    double most = 0, largest_chunk = 0;
    for (int block = 0; block < grid_.stages; ++block) {
      double cells = 0;
      for (const Wave& wave : table_.waves) {
        cells += total(wave.cells, blocks_[at(block)], blocks_[at(block + 1)] - 1);
      }
      most = std::max(most, cells);
    }
    for (const Wave& wave : table_.waves) {
      largest_chunk = std::max(largest_chunk, total(wave.cells) / chunks(wave));
    }
    const double under_way = grid_.size() > 1 ? 6 * largest_chunk : 0;
    result_.bytes_under_way = kCellBytes * under_way + kBytesByDownset * table_.downsets;
    result_.bytes = kCellBytes * most / grid_.downsets + result_.bytes_under_way;
  }

  const TableSummary& table_;
  solver::Grid grid_;
  const Machine& machine_;
  std::vector<std::int64_t> blocks_;
  double turns_;
  LogGP link_;
  Prediction result_;
};

using Field = std::pair<const char*, double Machine::*>;
constexpr std::array<Field, 6> kWork{{{"cell_s", &Machine::cell_s},
                                      {"segment_s", &Machine::segment_s},
                                      {"price_s", &Machine::price_s},
                                      {"step_s", &Machine::step_s},
                                      {"prepared_cell_s", &Machine::prepared_cell_s},
                                      {"configuration_s", &Machine::configuration_s}}};

double* find(Machine& machine, const std::string& name) {
  for (const auto& [field, member] : kWork) {
    if (name == field) return &(machine.*member);
  }
  for (const auto& [prefix, link] :
       {std::pair{"within.", &machine.within}, std::pair{"between.", &machine.between}}) {
    if (name == std::string(prefix) + "latency_s") return &link->latency_s;
    if (name == std::string(prefix) + "overhead_s") return &link->overhead_s;
    if (name == std::string(prefix) + "gap_s_per_byte") return &link->gap_s_per_byte;
  }
  return nullptr;
}

}  // namespace

double TableSummary::cells() const {
  double sum = 0;
  for (const Wave& wave : waves) sum += total(wave.cells);
  return sum;
}

double TableSummary::relaxed() const {
  double sum = 0;
  for (const Wave& wave : waves) sum += total(wave.relaxed);
  return sum;
}

void TableSummary::scale_pushes(double factor) {
  for (Wave& wave : waves) {
    for (auto* of_depth : {&wave.segments, &wave.relaxed}) {
      scale(*of_depth, factor);
    }
  }
}

TableSummary summarise(const solver::Instance& instance, const solver::Placement& placement,
                       const solver::PortLayers& layers, const std::vector<std::int64_t>& depths,
                       const solver::TableLimits& limits, std::int64_t walks) {
  return Counter(instance, placement, layers, depths, limits).count(walks);
}

Prediction predict(const TableSummary& table, solver::Grid grid, const Machine& machine) {
  return Forecast(table, grid, machine).make();
}

Prediction predict_sweep(const SweepSummary& sweep, int groups, const Machine& machine) {
  const LogGP& link = groups > machine.ranks_per_node ? machine.between : machine.within;
  const double turns =
      machine.cores > 0 && groups > machine.cores ? static_cast<double>(groups) / machine.cores : 1;
  const double exchanges = sweep.visits + sweep.configurations / kBatch;
  const double work =
      turns * (sweep.visits * sweep.visit_s + sweep.configurations * machine.configuration_s);
  Prediction result;
  result.work_s = work / groups;
  result.redundant_s = turns * sweep.serial_s;
  result.seconds = result.work_s + result.redundant_s;
  if (groups == 1 || exchanges == 0) return result;
  const double each = work / exchanges;
  const double wait = 2 * (link.latency_s + 2 * link.overhead_s) + turns * sweep.look_s / 2;
  const double done = exchanges / (1 / each + (groups - 1) / (each + wait));
  const double board = exchanges * 3 * link.overhead_s;
  result.uneven_s = turns * sweep.longest_visit_s / 2;
  result.gather_s = std::max(done, board - result.uneven_s) - result.work_s;
  result.messages = exchanges / groups;
  result.seconds += result.gather_s + result.uneven_s;
  return result;
}

Machine measured_machine() {
  Machine machine;
  machine.cell_s = 0.65e-9;
  machine.segment_s = 8.8e-9;
  machine.price_s = 31e-9;
  machine.step_s = 2.1e-9;
  machine.prepared_cell_s = 0.73e-9;
  machine.configuration_s = 50e-6;
  machine.within = {0.2e-6, 0.1e-6, 0.26e-9};
  machine.between = {1.5e-6, 0.5e-6, 1 / 25e9};
  machine.ranks_per_node = 64;
  return machine;
}

Machine assumed_cluster() {
  Machine machine = measured_machine();
  machine.between = {1.5e-6, 0.5e-6, 1 / 25e9};
  machine.ranks_per_node = 64;
  machine.cores = 0;
  return machine;
}

Machine read_machine(std::istream& in) {
  Machine machine;
  std::string name;
  double value = 0;
  while (in >> name) {
    if (!(in >> value) || !(value >= 0)) {
      throw InvalidInput(
          fmt::format("machine: {} is not followed by a number of at least 0", name));
    }
    if (name == "ranks_per_node" && value >= 1) {
      machine.ranks_per_node = static_cast<int>(value);
    } else if (name == "cores") {
      machine.cores = static_cast<int>(value);
    } else if (double* field = find(machine, name)) {
      *field = value;
    } else {
      throw InvalidInput(fmt::format("machine: {} is not a constant of the model", name));
    }
  }
  return machine;
}

void write(std::ostream& out, const Machine& machine) {
  for (const auto& [name, member] : kWork) out << fmt::format("{} {:.4g}\n", name, machine.*member);
  for (const auto& [name, link] :
       {std::pair{"within", machine.within}, std::pair{"between", machine.between}}) {
    out << fmt::format(
        "{0}.latency_s {1:.4g}\n{0}.overhead_s {2:.4g}\n{0}.gap_s_per_byte {3:.4g}\n", name,
        link.latency_s, link.overhead_s, link.gap_s_per_byte);
  }
  out << fmt::format("ranks_per_node {}\ncores {}\n", machine.ranks_per_node, machine.cores);
}

}  // namespace nestplan::distributed
