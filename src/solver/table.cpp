#include "solver/table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "nestplan/util/errors.hpp"
#include "solver/kernels.hpp"

namespace nestplan::solver {
namespace {

constexpr Ticks kNotYetPriced = -1;

/// Cells of the rows that travel together: large enough to hide the latency of a message, small
/// beside a table that is worth partitioning.
constexpr double kChunkCells = 1 << 19;

/// Pushes between two looks at the clock, and between two chances for messages to move on.
constexpr std::int64_t kPollPushes = 4096;
constexpr std::int64_t kProgressMask = 63;

}  // namespace

std::vector<DownsetId> longest_suffixes(const Instance& instance, const Placement& placement,
                                        std::int64_t depth, Ticks cap) {
  const DownsetId whole = instance.lattice().whole();
  std::vector<DownsetId> result(at(depth + 1), whole);
  if (!instance.lattice().totally_ordered()) return result;
  const int choices = static_cast<int>(placement.configuration().strategies.size());
  std::vector<StagePricer> pricer;
  for (int choice = 0; choice < choices; ++choice) pricer.emplace_back(instance, placement, choice);
  const auto holds = [&](DownsetId outer, DownsetId inner, std::int64_t s) {
    const std::int64_t in_flight =
        cost::in_flight(instance.options().schedule, s, placement.configuration().microbatches);
    const Ticks received =
        placement.least_receive() * ((inner > 0 ? 1 : 0) + (outer < whole ? 1 : 0));
    for (int choice = 0; choice < choices; ++choice) {
      if (!pricer[at(choice)].load(outer, inner)) continue;
      if (pricer[at(choice)].decide(in_flight) == StagePricer::Decision::kNone) continue;
      const int classes = static_cast<int>(placement.classes(choice).size());
      for (int c = 0; c < classes; ++c) {
        const Ticks time = pricer[at(choice)].least_time(c) + received;
        if (time <= cap && time < kNever) return true;
      }
    }
    return false;
  };
  result[0] = 0;
  for (std::int64_t s = 1; s <= depth; ++s) {
    const DownsetId inner = result[at(s - 1)];
    DownsetId reached = inner;
    if (holds(whole, inner, s))
      reached = whole;  // receives nothing, so it may hold when less does not
    while (reached < whole && holds(reached + 1, inner, s)) ++reached;
    result[at(s)] = reached;
  }
  return result;
}

namespace {

/// How many stages a downset could be cut into at most.
std::int64_t most_stages(const Lattice& lattice, DownsetId d) {
  return lattice.totally_ordered() ? d : lattice.cardinality(d);
}

/// Stages that take so long together are so many at least.
std::int64_t least_stages(Ticks ticks, Ticks cap) {
  constexpr std::int64_t kTooMany = std::numeric_limits<std::int32_t>::max();
  if (ticks <= cap) return 1;
  if (cap <= 0 || ticks / cap > static_cast<Ticks>(kTooMany)) return kTooMany;
  auto stages = std::max<std::int64_t>(1, static_cast<std::int64_t>(ticks / cap));
  while (ticks > static_cast<Ticks>(stages) * cap) ++stages;
  return stages;
}

}  // namespace

DepthWindows depth_windows(const Instance& instance, const Placement& placement,
                           const PortLayers& layers, const std::vector<std::int64_t>& depths,
                           Ticks cap) {
  const Lattice& lattice = instance.lattice();
  const DownsetId whole = lattice.whole();
  const std::int64_t stages = depths.back() - 1;
  const std::vector<DownsetId> farthest = longest_suffixes(instance, placement, stages, cap);
  const std::vector<Ticks>& floor = placement.floor_sums();
  DepthWindows windows;
  windows.first.assign(at(lattice.size()), 1);
  windows.last.assign(at(lattice.size()), 0);
  std::int64_t shortest = 1;  // least depth whose longest suffix reaches d
  for (DownsetId d = 1; d < whole; ++d) {
    while (shortest <= stages && farthest[at(shortest)] < d) ++shortest;
    const std::int64_t before = most_stages(lattice, whole) - most_stages(lattice, d);
    const std::int64_t needed = least_stages(floor[at(whole)] - floor[at(d)], cap);
    const auto useful = [&](std::int64_t s) {
      const auto p = std::lower_bound(depths.begin(), depths.end(), s + needed);
      return layers.layer(s).size() > 0 && p != depths.end() && *p - s <= before;
    };
    std::int64_t first = std::max(shortest, least_stages(floor[at(d)], cap));
    std::int64_t last = std::min({stages, most_stages(lattice, d), depths.back() - needed});
    while (first <= last && !useful(first)) ++first;
    while (first <= last && !useful(last)) --last;
    if (first > last) continue;
    windows.first[at(d)] = static_cast<std::int32_t>(first);
    windows.last[at(d)] = static_cast<std::int32_t>(last);
  }
  return windows;
}

Table::Table(const Instance& instance, const Placement& placement, const PortLayers& layers,
             std::vector<std::int64_t> depths, Combine combine, TableLimits limits, Team& team)
    : instance_(instance),
      placement_(placement),
      layers_(layers),
      configuration_(placement.configuration()),
      depths_(std::move(depths)),
      combine_(combine),
      limits_(limits),
      levels_(instance.network().levels()),
      team_(team),
      stages_(depths_.back() - 1),
      ties_count_(instance.has_ties() && instance.options().objective != model::Objective::kPaper) {
  const int choices = static_cast<int>(configuration_.strategies.size());
  for (int choice = 0; choice < choices; ++choice) {
    const int k = configuration_.strategies[at(choice)];
    pricer_.emplace_back(instance, placement, choice);
    cut_of_.push_back(instance.strategies()[at(k)].cuts.of.data());
    auto& receive = receive_.emplace_back();
    for (const std::int64_t unit : placement.units()) {
      for (int level = 0; level < levels_; ++level) {
        receive.push_back(instance.transfer(k, level, unit).data());
      }
    }
    const std::int64_t unit = placement.units()[at(placement.unit_of(choice))];
    auto& gradient = receive_gradient_.emplace_back();
    for (int level = 0; level < levels_; ++level) {
      gradient.push_back(instance.transfer(k, level, unit).data());
    }
  }
  find_worth();
  cut_blocks();
}

std::int64_t Table::in_flight(std::int64_t s) const {
  return cost::in_flight(instance_.options().schedule, s, configuration_.microbatches);
}

std::int64_t Table::cells_of(DownsetId d, std::int64_t first, std::int64_t last) const {
  first = std::max<std::int64_t>(first, first_row_[at(d)]);
  last = std::min<std::int64_t>(last, last_row_[at(d)]);
  return first > last ? 0 : ports_before_[at(last + 1)] - ports_before_[at(first)];
}

const Ticks* Table::row(DownsetId d, std::int64_t s) const {
  if (!own(d) || !worth(d, s) || s < first_depth_ || s > last_depth_) return nullptr;
  const Ticks* rows = rows_[at(d / team_.grid().downsets)].get();
  return rows == nullptr ? nullptr : rows + cells_of(d, first_depth_, s - 1);
}

Ticks* Table::grow(DownsetId d, std::int64_t s) {
  auto& rows = rows_[at(d / team_.grid().downsets)];
  if (rows == nullptr) {
    const std::int64_t cells = own_cells(d);
    rows = std::make_unique_for_overwrite<Ticks[]>(at(cells));
    std::fill_n(rows.get(), cells, kNever);
    cells_ += cells;
  }
  return rows.get() + cells_of(d, first_depth_, s - 1);
}

/// The depths with rows, and the cells that come of them.
void Table::find_worth() {
  DepthWindows windows = depth_windows(instance_, placement_, layers_, depths_,
                                       limits_.prune ? limits_.stage : kNever);
  first_row_ = std::move(windows.first);
  last_row_ = std::move(windows.last);
  ports_before_.assign(at(stages_ + 2), 0);
  for (std::int64_t s = 1; s <= stages_; ++s) {
    ports_before_[at(s + 1)] = ports_before_[at(s)] + layers_.layer(s).size();
  }
  for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) capacity_ += cells_of(d, 1, stages_);
}

/// Cuts the depths into one block per stage block of the grid, of about as many cells each.
void Table::cut_blocks() {
  const int blocks = team_.grid().stages;
  const int shares = team_.grid().downsets;
  std::vector<double> of_depth(at((stages_ + 1) * shares), 0);  // by depth, share
  const auto total = static_cast<double>(capacity_);
  for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
    for (std::int64_t s = first_row_[at(d)]; s <= last_row_[at(d)]; ++s) {
      of_depth[at(s * shares + share_of(d))] += static_cast<double>(layers_.layer(s).size());
    }
  }
  blocks_.assign(1, 1);
  cells_in_.assign(at(blocks * shares), 0);
  double sum = 0;
  for (std::int64_t s = 1; s <= stages_; ++s) {
    const auto block = static_cast<std::int64_t>(blocks_.size()) - 1;
    for (int share = 0; share < shares; ++share) {
      cells_in_[at(block * shares + share)] += of_depth[at(s * shares + share)];
      sum += of_depth[at(s * shares + share)];
    }
    if (block + 1 < blocks && sum * blocks >= total * static_cast<double>(block + 1)) {
      blocks_.push_back(s + 1);
    }
  }
  while (static_cast<int>(blocks_.size()) <= blocks) blocks_.push_back(stages_ + 1);
  first_depth_ = blocks_[at(team_.stage_block())];
  last_depth_ = blocks_[at(team_.stage_block() + 1)] - 1;
}

/// The downsets of a wave go to the shares in turn, starting where the wave before left off.
int Table::share_of(DownsetId d) const { return d % team_.grid().downsets; }

double Table::bytes_per_rank() const {
  const double most = *std::max_element(cells_in_.begin(), cells_in_.end());
  double largest_chunk = 0;
  if (team_.size() > 1) {
    for (const Chunk& chunk : chunks()) {
      double cells = 0;
      for (DownsetId d = chunk.begin; d < chunk.end; ++d) {
        cells += static_cast<double>(cells_of(d, 1, stages_));
      }
      largest_chunk = std::max(largest_chunk, cells);
    }
  }
  double onward = 0;
  for (std::int64_t s = 2; s <= stages_; ++s) {
    onward += static_cast<double>(layers_.layer(s).size()) *
              static_cast<double>(layers_.layer(s).flows.size());
  }
  // Two chunks are on their way, each as what is sent, received, and handed on.
  const double by_downset =
      static_cast<double>(first_row_.size()) * 5 * sizeof(std::int32_t) +
      static_cast<double>(first_row_.size()) / team_.grid().downsets * sizeof(void*);
  return sizeof(Ticks) * (most + onward + 6 * largest_chunk) + by_downset;
}

double Table::bytes_alone() const {
  return sizeof(Ticks) * std::accumulate(cells_in_.begin(), cells_in_.end(), 0.0);
}

std::vector<Piece> Table::pieces() {
  std::vector<Piece> result;
  std::int64_t offset = 0;
  std::int64_t largest = 0;
  for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
    if (const std::int64_t mine = own(d) ? own_cells(d) : 0; mine > 0) {
      const Ticks* rows = rows_[at(d / team_.grid().downsets)].get();
      result.push_back({offset + cells_of(d, 1, first_depth_ - 1), {rows, at(mine)}});
      largest = std::max(largest, mine);
    }
    offset += cells_of(d, 1, stages_);
  }
  never_.assign(at(largest), kNever);
  for (Piece& piece : result) {
    if (piece.values.data() == nullptr) piece.values = {never_.data(), piece.values.size()};
  }
  return result;
}

void Table::restore(DownsetId next,
                    const std::function<void(std::int64_t offset, std::span<Ticks> cells)>& read) {
  if (rows_.empty()) make_room();
  next_ = next;
  std::vector<Ticks> cells;
  std::int64_t offset = 0;
  for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
    const std::int64_t mine = own(d) ? own_cells(d) : 0;
    if (mine > 0) {
      cells.resize(at(mine));
      read(offset + cells_of(d, 1, first_depth_ - 1), cells);
      if (std::any_of(cells.begin(), cells.end(), [](Ticks value) { return value < kNever; })) {
        std::copy(cells.begin(), cells.end(),
                  grow(d, std::max<std::int64_t>(first_depth_, first_row_[at(d)])));
      }
    }
    offset += cells_of(d, 1, stages_);
  }
}

std::pair<std::int64_t, std::int64_t> Table::starts(DownsetId d) const {
  const std::int64_t pod_size = configuration_.pods.pod_size;
  if (!limits_.prune || limits_.stage == kNever) return {0, pod_size};
  const std::vector<double>& work = placement_.work_sums();
  const auto replicas = static_cast<double>(configuration_.dp_inner);
  // A little wider, since products of ticks and devices round.
  constexpr double kNearly = 1 - 1e-9;
  const auto devices = [&](double of_work) {
    if (of_work <= 0) return std::int64_t{0};
    return static_cast<std::int64_t>(
        std::min(static_cast<double>(pod_size) + 1,
                 std::ceil(of_work * replicas / limits_.stage * kNearly)));
  };
  const double before = work[at(instance_.lattice().whole())] - work[at(d)];
  return {placement_.position(placement_.origin()) + devices(before),
          pod_size - devices(work[at(d)])};
}

void Table::trim(DownsetId inner) {
  if (!limits_.prune || combine_ != Combine::kSum || inner == 0) return;
  auto& rows = rows_[at(inner / team_.grid().downsets)];
  if (rows == nullptr) return;
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks most = limits_.sum - (floor[at(instance_.lattice().whole())] - floor[at(inner)]);
  const std::int64_t cells = own_cells(inner);
  bool any = false;
  for (Ticks& value : std::span(rows.get(), at(cells))) {
    if (value > most) value = kNever;
    any = any || value < kNever;
  }
  if (any) return;
  rows.reset();
  cells_ -= cells;
}

/// Prepares what the rows in `source_` offer to the stages before them. Returns whether that is
/// anything.
bool Table::prepare(DownsetId inner) {
  live_.clear();
  if (inner == 0) {
    if (first_depth_ > 1 || last_depth_ < 1) return false;
    live_.push_back(0);
    for (std::size_t f = 0; f < layers_.layer(1).flows.size(); ++f) {
      Offers& offers = onward_[1][f];
      offers.values.assign(at(layers_.layer(1).size()), 0);
      offers.find_live(layers_.layer(1).flows[f]);
    }
    return true;
  }
  for (std::int64_t s = std::max<std::int64_t>(1, first_depth_ - 1); s < last_depth_; ++s) {
    const Ticks* values = source_[at(s)];
    if (values == nullptr) continue;
    const std::int64_t size = layers_.layer(s).size();
    if (std::all_of(values, values + size, [](Ticks value) { return value == kNever; })) continue;
    live_.push_back(s);
    const PortLayer& layer = layers_.layer(s + 1);
    for (std::size_t f = 0; f < layer.flows.size(); ++f) {
      Offers& offers = onward_[at(s + 1)][f];
      offers.values.assign(at(layer.size()), kNever);
      for (const Run& run : layer.flows[f].runs) {
        relax(offers.values.data() + run.port, values + run.next, run.length);
      }
      offers.find_live(layer.flows[f]);
    }
  }
  return !live_.empty();
}

/// Of the segments of a flow, what is not all kNever.
void Table::Offers::find_live(const Flow& flow) {
  classes.clear();
  segments.clear();
  for (const PortClass& port_class : flow.classes) {
    const std::size_t first = segments.size();
    for (const Segment& segment : port_class.segments) {
      std::int32_t begin = segment.begin;
      std::int32_t end = segment.end;
      while (begin < end && values[at(begin)] == kNever) ++begin;
      while (begin < end && values[at(end - 1)] == kNever) --end;
      if (begin == end) continue;
      segments.push_back(
          {begin, end, *std::min_element(values.begin() + begin, values.begin() + end)});
    }
    if (segments.size() == first) continue;
    classes.push_back({port_class.link, port_class.position_class, first, segments.size()});
  }
}

/// Offers the finished rows of `inner` to `outer`, with stage `outer \ inner` before them. Returns
/// false if the stage is within the limits nowhere and at no depth: neither is one that holds it.
bool Table::push(DownsetId inner, DownsetId outer) {
  const Verdict verdict = instance_.admits(outer, inner, configuration_.middle);
  if (verdict != Verdict::kAdmitted) return verdict == Verdict::kRefused;
  const int choices = static_cast<int>(configuration_.strategies.size());
  tied_ = ties_count_ && instance_.tied(outer, inner);
  bool possible = false;
  for (int choice = 0; choice < choices; ++choice) {
    StagePricer& pricer = pricer_[at(choice)];
    const int classes = static_cast<int>(placement_.classes(choice).size());
    if (!pricer.load(outer, inner)) continue;
    // Memory and time are least with the fewest micro-batches in flight.
    if (pricer.decide(in_flight(live_.front() + 1)) == StagePricer::Decision::kNone) continue;
    class_time_.assign(at(classes), kNotYetPriced);
    bool quick = false;
    for (int c = 0; c < classes; ++c) {
      class_time_[at(c)] = pricer.least_time(c);
      quick = quick || class_time_[at(c)] <= limits_.stage;
    }
    if (!quick) continue;
    possible = true;
    for (const std::int64_t behind : live_) {
      const std::int64_t s = behind + 1;
      if (!worth(outer, s) || s < first_depth_ || !instance_.admits_place(outer, inner, s))
        continue;
      const StagePricer::Decision decision = pricer.decide(in_flight(s));
      if (decision == StagePricer::Decision::kNone) break;  // nor will it with more in flight
      if (decision == StagePricer::Decision::kNew) {
        class_time_.assign(at(classes), kNotYetPriced);
      }
      push_row(inner, outer, s, choice);
    }
  }
  return possible;
}

/// Offers the rows one depth below `s` to the row `(outer, s)`, for the stage that the pricer of
/// `choice` is at.
void Table::push_row(DownsetId inner, DownsetId outer, std::int64_t s, int choice) {
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks most = limits_.prune && combine_ == Combine::kSum
                         ? limits_.sum - (floor[at(instance_.lattice().whole())] - floor[at(outer)])
                         : kNever;
  const auto outer_cut = at(cut_of_[at(choice)][outer]);
  const auto inner_cut = at(cut_of_[at(choice)][inner]);
  const PortLayer& layer = layers_.layer(s);
  Ticks* values = nullptr;
  for (std::size_t f = 0; f < layer.flows.size(); ++f) {
    const Flow& flow = layer.flows[f];
    if (flow.choice != choice) continue;
    const Offers& offers = onward_[at(s)][f];
    const Ticks gradient =
        flow.level < 0 ? 0 : receive_gradient_[at(choice)][at(flow.level)][inner_cut];
    for (const Offers::Class& ports : offers.classes) {
      Ticks& stage = class_time_[at(ports.position_class)];
      if (stage == kNotYetPriced) stage = pricer_[at(choice)].least_time(ports.position_class);
      // In the order in which a transition adds it up, so that both agree to the bit.
      const Ticks time = stage + (receive_[at(choice)][at(ports.link)][outer_cut] + gradient);
      if (time > limits_.stage || time == kNever) continue;
      for (std::size_t i = ports.first; i < ports.last; ++i) {
        const Offers::Live& live = offers.segments[i];
        if (time + live.least > most) continue;
        const auto [begin, end] = within(layer, outer, live.begin, live.end);
        if (begin == end) continue;
        if (values == nullptr) values = grow(outer, s);
        relaxations_ += end - begin;
        if (tied_ && combine_ == Combine::kSum) {
          relax_tied(inner, outer, layer, choice, offers.values.data(), time, begin, end, values);
        } else if (combine_ == Combine::kSum) {
          relax_sum(values + begin, offers.values.data() + begin, time, end - begin);
        } else {
          relax_bottleneck(values + begin, offers.values.data() + begin, time, end - begin);
        }
      }
    }
  }
}

/// The same where the time for ties differs from port to port.
void Table::relax_tied(DownsetId inner, DownsetId outer, const PortLayer& layer, int choice,
                       const Ticks* offers, Ticks time, std::int32_t begin, std::int32_t end,
                       Ticks* values) const {
  for (std::int32_t q = begin; q < end; ++q) {
    const Ticks value = offers[q] + (time + tie(outer, inner, choice, layer.position[at(q)]));
    values[q] = std::min(values[q], value);
  }
}

/// What a stage at `position` exchanges with the first one about parameters that they share.
Ticks Table::tie(DownsetId outer, DownsetId inner, int choice, std::int32_t position) const {
  if (position == placement_.origin()) return 0;
  const int unit = placement_.unit_of(choice);
  return instance_.tie_ticks(configuration_.strategies[at(choice)], outer, inner,
                             placement_.origin_level(unit, position), placement_.units()[at(unit)]);
}

/// Of these ports, by rising position, those at which a stage that starts `outer` leaves enough
/// devices before and behind it.
std::pair<std::int32_t, std::int32_t> Table::within(const PortLayer& layer, DownsetId outer,
                                                    std::int32_t begin, std::int32_t end) const {
  const auto earliest = static_cast<std::int64_t>(earliest_[at(outer)]);
  const auto latest = static_cast<std::int64_t>(latest_[at(outer)]);
  if (layer.start[at(begin)] >= earliest && layer.start[at(end - 1)] <= latest) return {begin, end};
  const auto starts = layer.start.begin();
  const auto from = std::lower_bound(starts + begin, starts + end, earliest);
  const auto to = std::upper_bound(from, starts + end, latest);
  return {static_cast<std::int32_t>(from - starts), static_cast<std::int32_t>(to - starts)};
}

/// Pushes the prepared rows of `inner` to this rank's downsets in `[first, last)` above it.
void Table::push_to(DownsetId inner, DownsetId first, DownsetId last) {
  const Lattice& lattice = instance_.lattice();
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const auto too_long = [&](DownsetId outer) {
    return limits_.prune && floor[at(outer)] - floor[at(inner)] > limits_.stage;
  };
  const auto push_one = [&](DownsetId outer) {
    if ((++pushes_ & kProgressMask) == 0) team_.progress();
    return push(inner, outer);
  };
  if (lattice.totally_ordered()) {
    for (DownsetId outer = std::max(first, inner + 1); outer < last && !too_long(outer); ++outer) {
      if (own(outer) && !push_one(outer)) return;
    }
    return;
  }
  ++walk_;
  frontier_.assign(1, inner);
  for (std::size_t i = 0; i < frontier_.size(); ++i) {
    for (const DownsetId outer : lattice.above(frontier_[i])) {
      if (outer >= last || seen_[at(outer)] == walk_) continue;
      seen_[at(outer)] = walk_;
      if (too_long(outer)) continue;
      if (outer >= first && own(outer) && !push_one(outer)) continue;
      frontier_.push_back(outer);
    }
  }
}

bool Table::fill(const std::function<bool()>& stop) {
  if (rows_.empty()) make_room();
  return team_.size() == 1 ? fill_alone(stop) : fill_shared(stop);
}

void Table::make_room() {
  const std::int64_t downsets = instance_.lattice().size();
  rows_.resize(at(downsets / team_.grid().downsets + 1));
  if (!instance_.lattice().totally_ordered()) seen_.assign(at(downsets), 0);
  onward_.resize(at(stages_ + 1));
  for (std::int64_t s = 1; s <= stages_; ++s) {
    onward_[at(s)].resize(layers_.layer(s).flows.size());
  }
  for (DownsetId d = 0; d < downsets; ++d) {
    const auto [earliest, latest] = starts(d);
    earliest_.push_back(static_cast<std::int32_t>(earliest));
    latest_.push_back(static_cast<std::int32_t>(latest));
  }
  source_.assign(at(stages_ + 1), nullptr);
}

bool Table::fill_alone(const std::function<bool()>& stop) {
  const DownsetId whole = instance_.lattice().whole();
  for (; next_ < whole; ++next_) {
    if (stop && pushes_ - polled_ > kPollPushes) {
      polled_ = pushes_;
      if (stop()) return false;
    }
    trim(next_);
    for (std::int64_t s = 1; s <= stages_; ++s) source_[at(s)] = row(next_, s);
    if (prepare(next_)) push_to(next_, 1, whole);
  }
  return true;
}

/// A chunk of finished rows on its way to this rank.
struct Table::Flight {
  Chunk chunk;
  std::vector<double> mine;  ///< rows by downset, then depth; last a flag: stop
  std::vector<double> all;   ///< what every share sent, by share
  std::vector<int> counts;
  std::vector<double> band;  ///< rows at the depth below this block, by downset; last a flag: stop
  std::unique_ptr<Pending> gather, receive;
  std::vector<const Ticks*> source;  ///< by downset of the chunk, then depth from first - 1

  static void wait(Pending* pending) {
    if (pending != nullptr) pending->wait();
  }
};

std::vector<Table::Chunk> Table::chunks() const {
  const Lattice& lattice = instance_.lattice();
  std::vector<Chunk> result;
  for (DownsetId d = std::max(next_, 1); d < lattice.whole();) {
    const DownsetId wave_end = std::min(lattice.next_wave(d), lattice.whole());
    Chunk chunk{d, d};
    double cells = 0;
    while (chunk.end < wave_end && cells < kChunkCells) {
      cells += static_cast<double>(cells_of(chunk.end, 1, stages_));
      ++chunk.end;
    }
    result.push_back(chunk);
    d = chunk.end;
  }
  return result;
}

std::unique_ptr<Table::Flight> Table::launch(Chunk chunk, bool stop) {
  auto flight = std::make_unique<Flight>();
  flight->chunk = chunk;
  flight->counts.assign(at(team_.grid().downsets), 1);  // the flag
  std::int64_t band = 1;
  for (DownsetId d = chunk.begin; d < chunk.end; ++d) {
    const std::int64_t cells = own_cells(d);
    flight->counts[at(share_of(d))] += static_cast<int>(cells);
    if (own(d) && cells > 0) {
      trim(d);
      const Ticks* rows = rows_[at(d / team_.grid().downsets)].get();
      if (rows != nullptr) {
        flight->mine.insert(flight->mine.end(), rows, rows + cells);
      } else {
        flight->mine.insert(flight->mine.end(), at(cells), kNever);
      }
    }
    band += cells_of(d, first_depth_ - 1, first_depth_ - 1);
  }
  flight->mine.push_back(stop ? 1 : 0);
  std::int64_t total = 0;
  for (const int count : flight->counts) total += count;
  flight->all.resize(at(total));
  flight->gather = team_.gather_rows(flight->mine, flight->counts, flight->all.data());
  if (team_.stage_block() > 0) {
    flight->band.resize(at(band));
    flight->receive = team_.receive_band(flight->band);
  }
  return flight;
}

/// Waits for a flight and finds the rows in it. Returns whether somebody wants to stop.
bool Table::land(Flight& flight) {
  Flight::wait(flight.gather.get());
  Flight::wait(flight.receive.get());
  const std::int64_t depths = last_depth_ - first_depth_ + 2;
  const auto [begin, end] = flight.chunk;
  flight.source.assign(at((end - begin) * depths), nullptr);
  bool stop = false;
  const Ticks* next = flight.all.data();
  for (int share = 0; share < team_.grid().downsets; ++share) {
    for (DownsetId d = begin; d < end; ++d) {
      if (share_of(d) != share) continue;
      for (std::int64_t s = first_depth_; s <= last_depth_; ++s) {
        if (!worth(d, s)) continue;
        flight.source[at((d - begin) * depths + s - first_depth_ + 1)] = next;
        next += layers_.layer(s).size();
      }
    }
    stop = stop || *next++ != 0;
  }
  if (!flight.band.empty()) {
    next = flight.band.data();
    for (DownsetId d = begin; d < end; ++d) {
      const std::int64_t below = first_depth_ - 1;
      if (below < 1 || !worth(d, below)) continue;
      flight.source[at((d - begin) * depths)] = next;
      next += layers_.layer(below).size();
    }
    stop = stop || *next != 0;
  }
  if (team_.stage_block() + 1 < team_.grid().stages) {
    auto& [band, sent] = bands_.emplace_back();
    for (DownsetId d = begin; d < end; ++d) {
      if (last_depth_ < 1 || last_depth_ < first_depth_) {
        // an empty block hands on what it received
        const Ticks* passed = flight.source[at((d - begin) * depths)];
        if (passed != nullptr) {
          band.insert(band.end(), passed, passed + layers_.layer(first_depth_ - 1).size());
        }
        continue;
      }
      const Ticks* row = flight.source[at((d - begin) * depths + depths - 1)];
      if (row != nullptr) band.insert(band.end(), row, row + layers_.layer(last_depth_).size());
    }
    band.push_back(stop ? 1 : 0);
    sent = team_.send_band(band);
    while (!bands_.empty() && bands_.front().second->test()) bands_.pop_front();
  }
  return stop;
}

void Table::push_chunk(const Flight& flight, DownsetId first, DownsetId last) {
  const std::int64_t depths = last_depth_ - first_depth_ + 2;
  for (DownsetId inner = flight.chunk.begin; inner < flight.chunk.end; ++inner) {
    for (std::int64_t s = std::max<std::int64_t>(1, first_depth_ - 1); s <= last_depth_; ++s) {
      source_[at(s)] =
          flight.source[at((inner - flight.chunk.begin) * depths + s - first_depth_ + 1)];
    }
    if (prepare(inner)) push_to(inner, first, last);
  }
}

bool Table::fill_shared(const std::function<bool()>& stop) {
  const DownsetId whole = instance_.lattice().whole();
  if (stages_ < 1) return true;
  if (next_ == 0) {
    if (prepare(0)) push_to(0, 1, whole);
    next_ = 1;
  }
  const std::vector<Chunk> order = chunks();
  // Only the first block asks: what it says runs through all others behind it.
  const auto asked = [&] { return team_.stage_block() == 0 && stop && stop(); };
  bool stopped = false;
  std::unique_ptr<Flight> flight = order.empty() ? nullptr : launch(order.front(), asked());
  for (std::size_t i = 0; i < order.size() && !stopped; ++i) {
    stopped = land(*flight);
    next_ = order[i].begin;
    if (stopped) break;
    std::unique_ptr<Flight> next;
    if (i + 1 == order.size()) {
      push_chunk(*flight, 1, whole);
    } else if (order[i + 1].begin < instance_.lattice().next_wave(order[i].begin)) {
      next = launch(order[i + 1], asked());
      push_chunk(*flight, 1, whole);
    } else {
      // What the next wave needs goes first, so that its rows travel while the rest is pushed.
      const DownsetId wave_end = instance_.lattice().next_wave(order[i + 1].begin);
      push_chunk(*flight, 1, wave_end);
      next = launch(order[i + 1], asked());
      push_chunk(*flight, wave_end, whole);
    }
    flight = std::move(next);
  }
  for (auto& [band, sent] : bands_) sent->wait();
  bands_.clear();
  if (!stopped) next_ = whole;
  return !stopped;
}

Ticks Table::rest(const Transition& transition, std::int64_t s) const {
  if (s == 1) return 0;
  const Ticks* values = row(transition.inner, s - 1);
  return values == nullptr ? kNever : values[transition.next];
}

void Table::expand(DownsetId outer, std::int64_t s, std::int32_t position, std::int32_t link,
                   bool all_options, const std::function<void(const Transition&)>& visit) {
  const std::int64_t pinned = instance_.pinned_position(s);
  if (pinned >= 0 && placement_.position(position) != pinned) return;
  const Lattice& lattice = instance_.lattice();
  const int choices = static_cast<int>(configuration_.strategies.size());
  const DownsetId first = s == 1 ? 0 : 1;
  const DownsetId last = s == 1 ? 1 : outer;
  const std::vector<Ticks>& floor = placement_.floor_sums();
  for (DownsetId inner = first; inner < last; ++inner) {
    if (s > 1 && row(inner, s - 1) == nullptr) continue;
    if (limits_.prune && floor[at(outer)] - floor[at(inner)] > limits_.stage) continue;
    if (!lattice.subset(inner, outer)) continue;
    if (instance_.admits(outer, inner, configuration_.middle) != Verdict::kAdmitted ||
        !instance_.admits_place(outer, inner, s)) {
      continue;
    }
    const bool tied = ties_count_ && outer != lattice.whole() && instance_.tied(outer, inner);
    for (int choice = 0; choice < choices; ++choice) {
      const int unit = placement_.unit_of(choice);
      if (!placement_.fits(unit, position)) continue;
      StagePricer& pricer = pricer_[at(choice)];
      if (!pricer.load(outer, inner)) continue;
      const int position_class = placement_.class_of(choice, position);
      std::vector<StageOption> options;
      if (all_options) {
        options = pricer.options(position_class, in_flight(s));
      } else {
        if (pricer.decide(in_flight(s)) == StagePricer::Decision::kNone) continue;
        options.resize(1);
        options[0].time = pricer.least_time(position_class);
      }
      const auto inner_cut = at(cut_of_[at(choice)][inner]);
      const Ticks shared = tied ? tie(outer, inner, choice, position) : 0;
      const Ticks input =
          link < 0 ? 0 : receive_[at(choice)][at(link)][at(cut_of_[at(choice)][outer])];
      const auto offer = [&](std::int32_t next, Ticks gradient) {
        for (const StageOption& option : options) {
          const Transition transition{inner, choice, next, input + gradient, shared, option};
          if (transition.time() > limits_.stage || transition.time() == kNever) continue;
          if (rest(transition, s) < kNever) visit(transition);
        }
      };
      if (s == 1) {
        offer(-1, 0);
        continue;
      }
      for (const Placement::Hop& hop : placement_.hops(unit, position)) {
        if (!hop.free && instance_.pinned_position(s - 1) < 0) continue;
        const std::int32_t next = layers_.find(s - 1, hop.position, unit * levels_ + hop.level);
        if (next >= 0) offer(next, receive_gradient_[at(choice)][at(hop.level)][inner_cut]);
      }
    }
  }
}

void Table::first_stages(std::int64_t depth, const std::function<void(const Transition&)>& visit) {
  expand(instance_.lattice().whole(), depth, placement_.origin(), -1, true, visit);
}

void Table::stages(DownsetId outer, std::int64_t s, std::int32_t q, bool all_options,
                   const std::function<void(const Transition&)>& visit) {
  const PortLayer& layer = layers_.layer(s);
  expand(outer, s, layer.position[at(q)], layer.link[at(q)], all_options, visit);
}

Total Table::objective(std::int64_t depth, const Transition& first) const {
  const Ticks behind = rest(first, depth);
  if (combine_ == Combine::kSum) {
    return to_total(first.time() + behind) + to_total(first.option.sync);
  }
  return (configuration_.microbatches + depth - 1) * to_total(std::max(first.time(), behind)) +
         to_total(first.option.sync);
}

Total Table::best(std::int64_t depth) {
  Total least = kNoTotal;
  first_stages(depth,
               [&](const Transition& first) { least = std::min(least, objective(depth, first)); });
  if (team_.size() == 1) return least;
  for (const auto& others : team_.all_gather_items(std::vector<Total>{least})) {
    least = std::min(least, others.front());
  }
  return least;
}

Ticks Table::least_bottleneck(std::int64_t depth) {
  Ticks least = kNever;
  first_stages(depth, [&](const Transition& first) {
    least = std::min(least, std::max(first.time(), rest(first, depth)));
  });
  if (team_.size() == 1) return least;
  for (const auto& others : team_.all_gather_items(std::vector<Ticks>{least})) {
    least = std::min(least, others.front());
  }
  return least;
}

/// Of what every rank has to offer, the first with the least value, for all of them.
std::optional<Table::Offer> Table::agree(const std::optional<Offer>& mine) {
  if (team_.size() == 1) return mine;
  std::vector<Offer> offers;
  if (mine) offers.push_back(*mine);
  std::optional<Offer> best;
  for (const auto& of_rank : team_.all_gather_items(offers)) {
    for (const Offer& offer : of_rank) {
      if (!best || offer.value < best->value) best = offer;
    }
  }
  return best;
}

Walk Table::walk(std::int64_t depth) {
  Walk result;
  std::optional<Offer> chosen;
  first_stages(depth, [&](const Transition& first) {
    const Total value = objective(depth, first);
    if (!chosen || value < chosen->value) chosen = Offer{value, rest(first, depth), first};
  });
  chosen = agree(chosen);
  for (std::int64_t s = depth; chosen; --s) {
    const Transition& stage = chosen->transition;
    result.stages.push_back(stage);
    result.sum += to_total(stage.time()) + to_total(stage.tie) +
                  (s == depth ? to_total(stage.option.sync) : 0);
    result.bottleneck = std::max(result.bottleneck, stage.time());
    if (s == 1) return result;
    const Offer behind = *chosen;
    chosen.reset();
    stages(behind.transition.inner, s - 1, behind.transition.next, false,
           [&](const Transition& candidate) {
             const Ticks after = rest(candidate, s - 1);
             const Ticks value = combine_ == Combine::kSum
                                     ? candidate.time() + candidate.tie + after
                                     : std::max(candidate.time(), after);
             if (!chosen && value == behind.rest) {
               chosen = Offer{to_total(value), after, candidate};
             }
           });
    chosen = agree(chosen);
  }
  throw InternalError("a table has a value that no pipeline gives");
}

}  // namespace nestplan::solver
