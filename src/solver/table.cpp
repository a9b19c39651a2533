#include "solver/table.hpp"

#include <algorithm>
#include <cmath>

#include "nestplan/util/errors.hpp"
#include "solver/kernels.hpp"

namespace nestplan::solver {
namespace {

constexpr Ticks kNotYetPriced = -1;

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
             std::vector<std::int64_t> depths, Combine combine, TableLimits limits)
    : instance_(instance),
      placement_(placement),
      layers_(layers),
      configuration_(placement.configuration()),
      depths_(std::move(depths)),
      combine_(combine),
      limits_(limits),
      levels_(instance.network().levels()),
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
}

/// How many stages a downset could be cut into at most.
std::int64_t Table::rank(DownsetId d) const {
  return instance_.lattice().totally_ordered() ? d : instance_.lattice().cardinality(d);
}

std::int64_t Table::in_flight(std::int64_t s) const {
  return cost::in_flight(instance_.options().schedule, s, configuration_.microbatches);
}

const Ticks* Table::row(DownsetId d, std::int64_t s) const {
  const std::int64_t offset = row_[at(s * instance_.lattice().size() + d)];
  return offset == kNoRow ? nullptr : values_.data() + offset;
}

bool Table::useful(DownsetId d, std::int64_t s) const {
  if (rank(d) < s) return false;
  const std::int64_t before = rank(instance_.lattice().whole()) - rank(d);
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks total = floor[at(instance_.lattice().whole())];
  if (limits_.prune && floor[at(d)] > static_cast<double>(s) * limits_.stage) return false;
  return std::any_of(depths_.begin(), depths_.end(), [&](std::int64_t p) {
    if (p <= s || p - s > before) return false;
    return !limits_.prune || total - floor[at(d)] <= static_cast<double>(p - s) * limits_.stage;
  });
}

void Table::allocate() {
  const DownsetId downsets = instance_.lattice().size();
  const std::vector<DownsetId> farthest =
      longest_suffixes(instance_, placement_, stages_, limits_.prune ? limits_.stage : kNever);
  row_.assign(at((stages_ + 1) * downsets), kNoRow);
  std::int64_t offset = 0;
  for (std::int64_t s = 1; s <= stages_; ++s) {
    const std::int64_t ports = layers_.layer(s).size();
    if (ports == 0) continue;
    for (DownsetId d = 1; d < instance_.lattice().whole(); ++d) {
      if (d > farthest[at(s)] || !useful(d, s)) continue;
      row_[at(s * downsets + d)] = offset;
      offset += ports;
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

/// Drops what is beyond the limits from the rows of `inner` and prepares what they offer to the
/// stages before them. Returns whether anything is left.
bool Table::finish_rows(DownsetId inner) {
  live_.clear();
  const std::vector<Ticks>& floor = placement_.floor_sums();
  const Ticks before = floor[at(instance_.lattice().whole())] - floor[at(inner)];
  const bool cut = limits_.prune && combine_ == Combine::kSum;
  for (std::int64_t s = 1; s < stages_; ++s) {
    const std::int64_t offset = row_[at(s * instance_.lattice().size() + inner)];
    if (offset == kNoRow) continue;
    Ticks* values = values_.data() + offset;
    bool alive = false;
    for (std::int64_t q = 0; q < layers_.layer(s).size(); ++q) {
      if (cut && values[q] + before > limits_.sum) values[q] = kNever;
      alive = alive || values[q] < kNever;
    }
    if (!alive) continue;
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
  const std::int64_t downsets = instance_.lattice().size();
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
      const std::int64_t offset = row_[at(s * downsets + outer)];
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
          const Ticks time = stage + gradient + receive_[at(choice)][at(segment.link)][outer];
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

bool Table::fill(const std::function<bool()>& stop) {
  allocate();
  onward_.resize(at(stages_ + 1));
  for (std::int64_t s = 2; s <= stages_; ++s) {
    onward_[at(s)].resize(layers_.layer(s).flows.size());
  }
  const Lattice& lattice = instance_.lattice();
  const std::vector<Ticks>& floor = placement_.floor_sums();
  std::int64_t pairs = 0;
  for (DownsetId inner = 0; inner < lattice.whole(); ++inner) {
    if (inner == 0) {
      live_.assign(1, 0);
      if (stages_ < 1) continue;
    } else if (!finish_rows(inner)) {
      continue;
    }
    for (DownsetId outer = lattice.next_wave(inner); outer < lattice.whole(); ++outer) {
      if (limits_.prune && floor[at(outer)] - floor[at(inner)] > limits_.stage) {
        if (lattice.totally_ordered()) break;
        continue;
      }
      if (!lattice.totally_ordered() && !lattice.subset(inner, outer)) continue;
      if (!push(inner, outer) && lattice.totally_ordered()) break;
      if ((++pairs & 0xfff) == 0 && stop && stop()) return false;
    }
  }
  return true;
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
  if (combine_ == Combine::kSum) return to_total(first.time() + first.option.sync + behind);
  return (configuration_.microbatches + depth - 1) * to_total(std::max(first.time(), behind)) +
         to_total(first.option.sync);
}

Total Table::best(std::int64_t depth) {
  Total least = kNoTotal;
  first_stages(depth,
               [&](const Transition& first) { least = std::min(least, objective(depth, first)); });
  return least;
}

Walk Table::walk(std::int64_t depth) {
  const Total least = best(depth);
  Walk result;
  Transition chosen;
  bool found = false;
  first_stages(depth, [&](const Transition& first) {
    if (found || objective(depth, first) != least) return;
    chosen = first;
    found = true;
  });
  for (std::int64_t s = depth; found; --s) {
    result.stages.push_back(chosen);
    result.sum += chosen.time() + (s == depth ? chosen.option.sync : 0);
    result.bottleneck = std::max(result.bottleneck, chosen.time());
    if (s == 1) return result;
    const Ticks goal = rest(chosen, s);
    const Transition behind = chosen;
    found = false;
    stages(behind.inner, s - 1, behind.next, false, [&](const Transition& stage) {
      const Ticks value = combine_ == Combine::kSum ? stage.time() + rest(stage, s - 1)
                                                    : std::max(stage.time(), rest(stage, s - 1));
      if (found || value != goal) return;
      chosen = stage;
      found = true;
    });
  }
  throw InternalError("a table has a value that no pipeline gives");
}

}  // namespace nestplan::solver
