#include "solver/table.hpp"

#include <algorithm>
#include <cmath>
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
      stages_(depths_.back() - 1) {
  const int choices = static_cast<int>(configuration_.strategies.size());
  for (int choice = 0; choice < choices; ++choice) {
    const int k = configuration_.strategies[at(choice)];
    pricer_.emplace_back(instance, placement, choice);
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

/// How many stages a downset could be cut into at most.
std::int64_t Table::most_stages(DownsetId d) const {
  return instance_.lattice().totally_ordered() ? d : instance_.lattice().cardinality(d);
}

std::int64_t Table::in_flight(std::int64_t s) const {
  return cost::in_flight(instance_.options().schedule, s, configuration_.microbatches);
}

const Ticks* Table::row(DownsetId d, std::int64_t s) const {
  const std::int64_t offset = row_[index(d, s)];
  return offset == kNoRow ? nullptr : values_.data() + offset;
}

bool Table::useful(DownsetId d, std::int64_t s) const {
  if (most_stages(d) < s) return false;
  const std::int64_t before = most_stages(instance_.lattice().whole()) - most_stages(d);
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks total = floor[at(instance_.lattice().whole())];
  if (limits_.prune && floor[at(d)] > static_cast<double>(s) * limits_.stage) return false;
  return std::any_of(depths_.begin(), depths_.end(), [&](std::int64_t p) {
    if (p <= s || p - s > before) return false;
    return !limits_.prune || total - floor[at(d)] <= static_cast<double>(p - s) * limits_.stage;
  });
}

std::size_t Table::index(DownsetId d, std::int64_t s) const {
  return at(s * instance_.lattice().size() + d);
}

void Table::find_worth() {
  const std::vector<DownsetId> farthest =
      longest_suffixes(instance_, placement_, stages_, limits_.prune ? limits_.stage : kNever);
  worth_.assign(at((stages_ + 1) * instance_.lattice().size()), 0);
  for (std::int64_t s = 1; s <= stages_; ++s) {
    if (layers_.layer(s).size() == 0) continue;
    for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
      worth_[index(d, s)] = d <= farthest[at(s)] && useful(d, s);
    }
  }
}

/// Cuts the depths into one block per stage block of the grid, of about as many cells each.
void Table::cut_blocks() {
  const int blocks = team_.grid().stages;
  const int shares = team_.grid().downsets;
  std::vector<double> of_depth(at((stages_ + 1) * shares), 0);  // by depth, share
  double total = 0;
  for (std::int64_t s = 1; s <= stages_; ++s) {
    const auto ports = static_cast<double>(layers_.layer(s).size());
    for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
      if (!worth(d, s)) continue;
      of_depth[at(s * shares + share_of(d))] += ports;
      total += ports;
    }
  }
  blocks_.assign(1, 1);
  cells_.assign(at(blocks * shares), 0);
  double sum = 0;
  for (std::int64_t s = 1; s <= stages_; ++s) {
    const auto block = static_cast<std::int64_t>(blocks_.size()) - 1;
    for (int share = 0; share < shares; ++share) {
      cells_[at(block * shares + share)] += of_depth[at(s * shares + share)];
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
  const double most = *std::max_element(cells_.begin(), cells_.end());
  const double buffers = team_.size() > 1 ? 4 * kChunkCells : 0;
  const auto index = static_cast<double>(worth_.size()) * (sizeof(std::int64_t) + 1);
  return sizeof(Ticks) * (most + buffers) + index;
}

double Table::bytes_alone() const {
  return sizeof(Ticks) * std::accumulate(cells_.begin(), cells_.end(), 0.0);
}

void Table::allocate() {
  row_.assign(worth_.size(), kNoRow);
  std::int64_t offset = 0;
  for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
    if (share_of(d) != team_.downset_share()) continue;
    own_.push_back(d);
    for (std::int64_t s = first_depth_; s <= last_depth_; ++s) {
      if (!worth(d, s)) continue;
      row_[index(d, s)] = offset;
      offset += layers_.layer(s).size();
    }
  }
  values_.assign(at(offset), kNever);
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

/// Drops what is beyond the limits from this rank's rows of `inner`, which are finished.
void Table::trim(DownsetId inner) {
  if (!limits_.prune || combine_ != Combine::kSum) return;
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks most = limits_.sum - (floor[at(instance_.lattice().whole())] - floor[at(inner)]);
  for (std::int64_t s = first_depth_; s <= last_depth_; ++s) {
    const std::int64_t offset = row_[index(inner, s)];
    if (offset == kNoRow) continue;
    Ticks* values = values_.data() + offset;
    std::replace_if(
        values, values + layers_.layer(s).size(), [most](Ticks value) { return value > most; },
        kNever);
  }
}

/// Prepares what the rows in `source_` offer to the stages before them. Returns whether that is
/// anything.
bool Table::prepare(DownsetId inner) {
  live_.clear();
  if (inner == 0) {
    if (first_depth_ == 1 && last_depth_ >= 1) live_.push_back(0);
    return !live_.empty();
  }
  for (std::int64_t s = std::max<std::int64_t>(1, first_depth_ - 1); s < last_depth_; ++s) {
    const Ticks* values = source_[at(s)];
    if (values == nullptr) continue;
    const std::int64_t size = layers_.layer(s).size();
    if (std::all_of(values, values + size, [](Ticks value) { return value == kNever; })) continue;
    live_.push_back(s);
    const PortLayer& layer = layers_.layer(s + 1);
    auto& onward = onward_[at(s + 1)];
    for (std::size_t f = 0; f < layer.flows.size(); ++f) {
      std::vector<Ticks>& offer = onward[f];
      offer.assign(at(layer.size()), kNever);
      for (const Run& run : layer.flows[f].runs) {
        relax(offer.data() + run.port, values + run.next, run.length);
      }
    }
  }
  return !live_.empty();
}

/// Offers the finished rows of `inner` to `outer`, with stage `outer \ inner` before them. Returns
/// false if the stage is within the limits nowhere and at no depth: neither is one that holds it.
bool Table::push(DownsetId inner, DownsetId outer) {
  const int choices = static_cast<int>(configuration_.strategies.size());
  const auto [earliest, latest] = starts(outer);
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
      const std::int64_t offset = row_[index(outer, s)];
      if (offset == kNoRow) continue;
      const StagePricer::Decision decision = pricer.decide(in_flight(s));
      if (decision == StagePricer::Decision::kNone) break;  // nor will it with more in flight
      if (decision == StagePricer::Decision::kNew) {
        class_time_.assign(at(classes), kNotYetPriced);
      }
      Ticks* values = values_.data() + offset;
      const PortLayer& layer = layers_.layer(s);
      for (std::size_t f = 0; f < layer.flows.size(); ++f) {
        const Flow& flow = layer.flows[f];
        if (flow.choice != choice) continue;
        const Ticks gradient =
            flow.level < 0 ? 0 : receive_gradient_[at(choice)][at(flow.level)][inner];
        for (const Segment& segment : flow.segments) {
          Ticks& stage = class_time_[at(segment.position_class)];
          if (stage == kNotYetPriced) stage = pricer.least_time(segment.position_class);
          // In the order in which a transition adds it up, so that both agree to the bit.
          const Ticks time = stage + (receive_[at(choice)][at(segment.link)][outer] + gradient);
          if (time > limits_.stage || time == kNever) continue;
          std::int64_t begin = segment.begin;
          std::int64_t end = segment.end;
          while (begin < end && layer.start[at(begin)] < earliest) ++begin;
          while (begin < end && layer.start[at(end - 1)] > latest) --end;
          const std::int64_t length = end - begin;
          if (length == 0) continue;
          relaxations_ += length;
          if (behind == 0) {
            std::for_each(values + begin, values + end,
                          [time](Ticks& value) { value = std::min(value, time); });
          } else if (combine_ == Combine::kSum) {
            relax_sum(values + begin, onward_[at(s)][f].data() + begin, time, length);
          } else {
            relax_bottleneck(values + begin, onward_[at(s)][f].data() + begin, time, length);
          }
        }
      }
    }
  }
  return possible;
}

/// Pushes the prepared rows of `inner` to this rank's downsets in `[first, last)` above it.
void Table::push_to(DownsetId inner, DownsetId first, DownsetId last) {
  const Lattice& lattice = instance_.lattice();
  const std::vector<Ticks>& floor = placement_.floor_sums();
  first = std::max(first, lattice.next_wave(inner));
  for (auto outer = std::lower_bound(own_.begin(), own_.end(), first);
       outer != own_.end() && *outer < last; ++outer) {
    if (limits_.prune && floor[at(*outer)] - floor[at(inner)] > limits_.stage) {
      if (lattice.totally_ordered()) return;
      continue;
    }
    if (!lattice.totally_ordered() && !lattice.subset(inner, *outer)) continue;
    if (!push(inner, *outer) && lattice.totally_ordered()) return;
    if ((++pushes_ & kProgressMask) == 0) team_.progress();
  }
}

bool Table::fill(const std::function<bool()>& stop) {
  allocate();
  onward_.resize(at(stages_ + 1));
  for (std::int64_t s = 2; s <= stages_; ++s) {
    onward_[at(s)].resize(layers_.layer(s).flows.size());
  }
  source_.assign(at(stages_ + 1), nullptr);
  return team_.size() == 1 ? fill_alone(stop) : fill_shared(stop);
}

bool Table::fill_alone(const std::function<bool()>& stop) {
  const DownsetId whole = instance_.lattice().whole();
  for (DownsetId inner = 0; inner < whole; ++inner) {
    trim(inner);
    for (std::int64_t s = 1; s <= stages_; ++s) source_[at(s)] = row(inner, s);
    if (!prepare(inner)) continue;
    push_to(inner, 1, whole);
    if (stop && pushes_ - polled_ > kPollPushes) {
      polled_ = pushes_;
      if (stop()) return false;
    }
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
  for (DownsetId d = 1; d < lattice.whole();) {
    const DownsetId wave_end = std::min(lattice.next_wave(d), lattice.whole());
    Chunk chunk{d, d};
    double cells = 0;
    while (chunk.end < wave_end && cells < kChunkCells) {
      for (std::int64_t s = 1; s <= stages_; ++s) {
        if (worth(chunk.end, s)) cells += static_cast<double>(layers_.layer(s).size());
      }
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
    const bool own = share_of(d) == team_.downset_share();
    if (own) trim(d);
    for (std::int64_t s = first_depth_; s <= last_depth_; ++s) {
      if (!worth(d, s)) continue;
      const std::int64_t size = layers_.layer(s).size();
      flight->counts[at(share_of(d))] += static_cast<int>(size);
      if (own) flight->mine.insert(flight->mine.end(), row(d, s), row(d, s) + size);
    }
    const std::int64_t below = first_depth_ - 1;
    if (below >= 1 && worth(d, below)) band += layers_.layer(below).size();
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
  if (prepare(0)) push_to(0, 1, whole);
  const std::vector<Chunk> order = chunks();
  // Only the first block asks: what it says runs through all others behind it.
  const auto asked = [&] { return team_.stage_block() == 0 && stop && stop(); };
  bool stopped = false;
  std::unique_ptr<Flight> flight = order.empty() ? nullptr : launch(order.front(), asked());
  for (std::size_t i = 0; i < order.size() && !stopped; ++i) {
    stopped = land(*flight);
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
  return !stopped;
}

Ticks Table::rest(const Transition& transition, std::int64_t s) const {
  if (s == 1) return 0;
  const Ticks* values = row(transition.inner, s - 1);
  return values == nullptr ? kNever : values[transition.next];
}

void Table::expand(DownsetId outer, std::int64_t s, std::int32_t position, std::int32_t link,
                   bool all_options, const std::function<void(const Transition&)>& visit) {
  const Lattice& lattice = instance_.lattice();
  const int choices = static_cast<int>(configuration_.strategies.size());
  const DownsetId first = s == 1 ? 0 : 1;
  const DownsetId last = s == 1 ? 1 : outer;
  const std::vector<Ticks>& floor = placement_.floor_sums();
  for (DownsetId inner = first; inner < last; ++inner) {
    if (s > 1 && row(inner, s - 1) == nullptr) continue;
    if (limits_.prune && floor[at(outer)] - floor[at(inner)] > limits_.stage) continue;
    if (!lattice.subset(inner, outer)) continue;
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
      const Ticks input = link < 0 ? 0 : receive_[at(choice)][at(link)][outer];
      const auto offer = [&](std::int32_t next, Ticks gradient) {
        for (const StageOption& option : options) {
          const Transition transition{inner, choice, next, input + gradient, option};
          if (transition.time() > limits_.stage || transition.time() == kNever) continue;
          if (rest(transition, s) < kNever) visit(transition);
        }
      };
      if (s == 1) {
        offer(-1, 0);
        continue;
      }
      for (const Placement::Hop& hop : placement_.hops(unit, position)) {
        const std::int32_t next = layers_.find(s - 1, hop.position, unit * levels_ + hop.level);
        if (next >= 0) offer(next, receive_gradient_[at(choice)][at(hop.level)][inner]);
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
    result.sum += to_total(stage.time()) + (s == depth ? to_total(stage.option.sync) : 0);
    result.bottleneck = std::max(result.bottleneck, stage.time());
    if (s == 1) return result;
    const Offer behind = *chosen;
    chosen.reset();
    stages(behind.transition.inner, s - 1, behind.transition.next, false,
           [&](const Transition& candidate) {
             const Ticks after = rest(candidate, s - 1);
             const Ticks value = combine_ == Combine::kSum ? candidate.time() + after
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
