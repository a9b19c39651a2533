#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>

#include "nestplan/util/format.hpp"
#include "solver/demands.hpp"
#include "solver/ladder.hpp"
#include "solver/rules.hpp"
#include "solver/search.hpp"

namespace nestplan::solver {
namespace {

constexpr const char* kIllegal =
    "no combination of micro-batch, data parallelism and strategy is legal";
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

/// The pipeline of one strategy whose fullest stage needs the least memory.
struct Tightest {
  double bytes = std::numeric_limits<double>::infinity();
  Configuration configuration;
  std::vector<DownsetId> chain;  ///< first stage's downset to the empty one
};

/// Least memory of the fullest stage, over all pipelines of one configuration with one strategy.
class MemorySearch {
 public:
  MemorySearch(const Instance& instance, const Configuration& configuration)
      : instance_(instance),
        lattice_(instance.lattice()),
        configuration_(configuration),
        cache_(instance),
        placement_(instance, configuration, cache_),
        pricer_(instance, placement_, 0),
        depths_(ConfigurationSpace(instance).depths(configuration)) {}

  void improve(Tightest& best) {
    if (depths_.empty()) return;
    if (lattice_.totally_ordered() && !instance_.constrained()) {
      improve_row(best);
    } else {
      improve_any(best);
    }
  }

 private:
  double stage_bytes(DownsetId outer, DownsetId inner, std::int64_t s) {
    if (instance_.admits(outer, inner, configuration_.middle) != Verdict::kAdmitted ||
        !instance_.admits_place(outer, inner, s)) {
      return std::numeric_limits<double>::infinity();
    }
    if (!pricer_.load(outer, inner)) return std::numeric_limits<double>::infinity();
    return pricer_.least_bytes(
        cost::in_flight(instance_.options().schedule, s, configuration_.microbatches));
  }

  /// Layers in a row: extending each stage from the last as far as `limit` lets it decides whether
  /// `limit` is enough. Bisection over whole bytes.
  void improve_row(Tightest& best) {
    std::vector<DownsetId> chain = greedy(best.bytes);
    if (chain.empty()) return;
    double low = 0;
    double high = fullest(chain);
    best.chain = chain;
    while (high - low > 1) {
      const double middle = std::floor((low + high) / 2);
      chain = greedy(middle + 1);
      if (chain.empty()) {
        low = middle;
      } else {
        high = std::min(middle, fullest(chain));
        best.chain = chain;
      }
    }
    best.bytes = high;
    best.configuration = configuration_;
  }

  double fullest(const std::vector<DownsetId>& chain) {
    double bytes = 0;
    const auto stages = static_cast<std::int64_t>(chain.size()) - 1;
    for (std::int64_t i = 0; i < stages; ++i) {
      bytes = std::max(bytes, stage_bytes(chain[at(i)], chain[at(i + 1)], stages - i));
    }
    return bytes;
  }

  /// A chain whose stages all need less than `limit`; empty if there is none.
  std::vector<DownsetId> greedy(double limit) {
    for (const std::int64_t depth : depths_) {
      std::vector<DownsetId> chain{0};
      for (std::int64_t s = 1; s <= depth; ++s) {
        DownsetId outer = chain.back();
        // every stage before this one still needs a layer
        const DownsetId last = lattice_.whole() - static_cast<DownsetId>(depth - s);
        // All that is left may fit where less does not: the only stage has fewer communicators.
        if (s == depth && stage_bytes(last, chain.back(), s) < limit) outer = last;
        while (outer < last && stage_bytes(outer + 1, chain.back(), s) < limit) ++outer;
        if (outer == chain.back()) break;
        chain.push_back(outer);
      }
      if (static_cast<std::int64_t>(chain.size()) == depth + 1 &&
          chain.back() == lattice_.whole()) {
        std::reverse(chain.begin(), chain.end());
        return chain;
      }
    }
    return {};
  }

  void improve_any(Tightest& best) {
    const DownsetId downsets = lattice_.size();
    const std::int64_t deepest = depths_.back();
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<double> least(at((deepest + 1) * downsets), kNone);
    std::vector<DownsetId> from(least.size(), -1);
    least[0] = 0;
    for (DownsetId outer = 1; outer < downsets; ++outer) {
      for (DownsetId inner = 0; inner < outer; ++inner) {
        if (!lattice_.subset(inner, outer)) continue;
        for (std::int64_t s = 1; s <= deepest; ++s) {
          const double behind = least[at((s - 1) * downsets + inner)];
          if (behind >= best.bytes) continue;
          const double bytes = std::max(behind, stage_bytes(outer, inner, s));
          if (bytes >= least[at(s * downsets + outer)]) continue;
          least[at(s * downsets + outer)] = bytes;
          from[at(s * downsets + outer)] = inner;
        }
      }
    }
    for (const std::int64_t depth : depths_) {
      const double bytes = least[at(depth * downsets + lattice_.whole())];
      if (bytes >= best.bytes) continue;
      best.bytes = bytes;
      best.configuration = configuration_;
      best.chain.assign(1, lattice_.whole());
      for (std::int64_t s = depth; s >= 1; --s) {
        best.chain.push_back(from[at(s * downsets + best.chain.back())]);
      }
    }
  }

  const Instance& instance_;
  const Lattice& lattice_;
  const Configuration& configuration_;
  ClassCache cache_;
  Placement placement_;
  StagePricer pricer_;
  std::vector<std::int64_t> depths_;
};

Tightest tightest(const Instance& instance) {
  Tightest best;
  std::set<std::tuple<int, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                      std::optional<model::Recompute>, std::optional<int>>>
      seen;
  const auto& spans = instance.options().shard;
  const bool pods_matter =
      std::find(spans.begin(), spans.end(), model::ShardSpan::kPod) != spans.end();
  for (Configuration configuration : ConfigurationSpace(instance).list()) {
    const std::vector<int> strategies = configuration.strategies;
    for (const int k : strategies) {
      const std::int64_t fits =
          configuration.pods.pod_size / configuration.unit(instance.strategies()[at(k)].strategy);
      configuration.strategies.assign(1, k);
      configuration.max_depth =
          std::min({fits, static_cast<std::int64_t>(instance.lattice().size() - 1),
                    static_cast<std::int64_t>(instance.lattice().layers())});
      // Without shards in pods memory does not depend on how dp is split into pods, but for how
      // many stages fit.
      const std::int64_t inner = pods_matter ? configuration.dp_inner : 0;
      if (!seen.insert({k, configuration.dp, inner, configuration.middle, configuration.max_depth,
                        configuration.recompute, configuration.shard})
               .second) {
        continue;
      }
      if (fits >= 1) MemorySearch(instance, configuration).improve(best);
    }
  }
  return best;
}

std::string describe_layers(const Instance& instance, DownsetId outer, DownsetId inner) {
  const std::vector<int> layers = instance.lattice().difference(outer, inner);
  const auto& all = instance.problem().graph.layers;
  const std::string& first = all[at(layers.front())].id;
  const std::string& last = all[at(layers.back())].id;
  return layers.size() == 1 ? "layer " + first
                            : fmt::format("{} layers, {} to {}", layers.size(), first, last);
}

std::string describe(const Instance& instance, const Tightest& best) {
  const Configuration& c = best.configuration;
  const auto stages = static_cast<std::int64_t>(best.chain.size()) - 1;
  const model::Strategy& strategy = instance.strategies()[at(c.strategies.front())].strategy;
  ClassCache cache(instance);
  const Placement placement(instance, c, cache);
  StagePricer pricer(instance, placement, 0);
  std::int64_t fullest = 0;
  double most = -1;
  for (std::int64_t i = 0; i < stages; ++i) {
    pricer.load(best.chain[at(i)], best.chain[at(i + 1)]);
    const double bytes = pricer.least_bytes(
        cost::in_flight(instance.options().schedule, stages - i, c.microbatches));
    if (bytes > most) {
      most = bytes;
      fullest = i;
    }
  }
  const double usable = instance.usable_bytes();
  return fmt::format(
      "memory: the plan that comes nearest (strategy {}, micro-batch {}, dp {}, {} stage{}) needs "
      "{:.0f} bytes ({:.2f} GiB) on stage {} ({}), {:.0f} bytes ({:.2f} GiB) more than the {:.0f} "
      "bytes ({:.2f} GiB) {} has",
      strategy.id, c.micro_batch, c.dp, stages, stages == 1 ? "" : "s", most, most / kGiB,
      fullest + 1, describe_layers(instance, best.chain[at(fullest)], best.chain[at(fullest + 1)]),
      most - usable, (most - usable) / kGiB, usable, usable / kGiB,
      instance.one_type() ? "a device" : "the largest type of devices");
}

/// Why stages with equally many counted layers, which the options ask for, cannot be had with any
/// number of stages that is allowed; empty if that is not it.
std::string explain_uneven(const Instance& instance) {
  const model::PlanOptions& options = instance.options();
  using Layout = model::StageConstraints::Layout;
  const bool even_only = options.stages.layout == Layout::kEven;
  if (!even_only || options.pp.empty()) return "";
  const std::int64_t counted = model::counted_layers(instance.problem().graph);
  const auto even = [&](std::int64_t pp) {
    return std::any_of(options.vpp.begin(), options.vpp.end(),
                       [&](std::int64_t vpp) { return counted % (pp * vpp) == 0; });
  };
  if (counted == 0 || std::any_of(options.pp.begin(), options.pp.end(), even)) return "";
  std::int64_t below = options.pp.front() - 1;
  while (below > 1 && !even(below)) --below;
  std::int64_t above = options.pp.back() + 1;
  while (above <= counted && !even(above)) ++above;
  std::string nearest = below >= 1 ? fmt::format("{}", below) : "";
  if (above <= counted) nearest += fmt::format("{}{}", nearest.empty() ? "" : " or ", above);
  return fmt::format(
      ": {} layers do not split evenly over {} stages; nearest: --pp {}{}", counted,
      fmt::join(options.pp, " or "), nearest.empty() ? "1" : nearest,
      instance.rules().set().expresses(Layout::kFirstLast) ? ", or --stage-layers first-last" : "");
}

/// What is wrong when not even the numbers of a configuration work out.
std::string explain_illegal(const Instance& instance) {
  ConfigurationSpace space(instance);
  if (!space.list().empty()) {
    return "no division of the layers into stages satisfies all restrictions together";
  }
  const model::PlanOptions& options = instance.options();
  std::vector<std::pair<std::int64_t, std::string>> reasons;
  for (const auto& [reason, count] : space.rejected()) reasons.emplace_back(count, reason);
  std::sort(reasons.rbegin(), reasons.rend());
  // Rules of the target say what the options can change; sizes that never fit come after them.
  std::stable_partition(reasons.begin(), reasons.end(),
                        [&](const auto& reason) { return space.names_rule(reason.second); });
  std::string text = kIllegal;
  if (reasons.empty()) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const StrategySums& sums : instance.strategies()) {
      if (allowed(options.micro_batches, sums.strategy.micro_batch)) {
        least = std::min(least, sums.strategy.micro_batch);
      }
    }
    if (least > options.global_batch && least < std::numeric_limits<std::int64_t>::max()) {
      return text + fmt::format(
                        ": the global batch of {} is less than the least micro-batch; a "
                        "global batch of {} would do",
                        options.global_batch, least);
    }
    return text + ": the restrictions leave no strategy or no degree; drop one of them";
  }
  for (const auto& [count, reason] : reasons) {
    text += fmt::format("; {} times: {}", count, reason);
    const auto example = space.examples().find(reason);
    if (example != space.examples().end()) text += fmt::format(" ({})", example->second);
  }
  model::Problem uneven = instance.problem();
  uneven.options.allow_uneven_batch = true;
  if (!options.allow_uneven_batch && has_plan(uneven, instance.network())) {
    text += "; least change: --allow-uneven-batch";
  }
  return text;
}

/// The least memory of a device, in whole bytes, of which a plan may use `bytes`.
double memory_to_hold(const model::Problem& problem, double bytes) {
  const model::MemoryReserve& reserve = problem.options.reserve;
  double reserved = problem.cluster.device.reserved_bytes;
  for (const model::Device& other : problem.cluster.other_devices) {
    reserved = std::max(reserved, other.reserved_bytes);
  }
  const auto holds = [&](double memory) {
    return cost::memory_limit(memory - reserved, reserve) >= bytes;
  };
  double memory = std::ceil(bytes / (1 - reserve.margin) + reserved);
  // Beyond 2^53 not every whole number is there.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  while (!holds(memory)) memory = std::max(memory + 1, std::nextafter(memory, kInfinity));
  while (holds(just_below(memory))) memory = just_below(memory);
  return memory;
}

/// Parameters of the whole model, those of ties once: of every layer the fewest that some strategy
/// spreads over its devices.
double least_parameters(const model::Graph& graph) {
  double sum = 0;
  for (const model::Layer& layer : graph.layers) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      if (!layer.costs[s]) continue;
      const auto tp = static_cast<double>(graph.strategies[s].tp);
      const auto ep = static_cast<double>(graph.strategies[s].ep);
      least = std::min(least,
                       tp * (layer.costs[s]->parameters + ep * layer.costs[s]->expert_parameters));
    }
    sum += least;
  }
  for (const model::Tie& tie : graph.ties) {
    double most = 0;
    for (std::size_t s = 0; s < graph.strategies.size(); ++s) {
      most = std::max(most, static_cast<double>(graph.strategies[s].tp) * tie.parameters[s]);
    }
    sum -= static_cast<double>(tie.layers.size() - 1) * most;
  }
  return std::max(sum, 0.0);
}

model::MemoryShortfall shortfall_of(const Instance& instance, double required_bytes) {
  const model::Problem& problem = instance.problem();
  const auto [weight, gradient, optimizer] = problem.options.state_bytes;
  model::MemoryShortfall missing;
  missing.required_bytes = required_bytes;
  missing.available_bytes = instance.usable_bytes();
  missing.state_bytes = least_parameters(problem.graph) * (weight + gradient + optimizer);
  double device = 0;
  for (int type = 0; type < problem.cluster.type_count(); ++type) {
    device = std::max(device, problem.cluster.type(type).usable_bytes());
  }
  if (device > 0) {
    missing.least_devices = static_cast<std::int64_t>(std::ceil(missing.state_bytes / device));
  }
  return missing;
}

/// What does not fit whatever is chosen; empty if the devices hold the state of the model.
std::string too_few_devices(const model::MemoryShortfall& missing, const model::Cluster& cluster) {
  if (missing.least_devices <= cluster.devices()) return "";
  const auto devices = static_cast<double>(cluster.devices());
  return fmt::format(
      "; the state of the model alone is {:.2f} GiB, which is {:.2f} GiB on each of {} "
      "were it shared by all: at least {} such devices are needed",
      missing.state_bytes / kGiB, missing.state_bytes / kGiB / devices,
      util::counted(cluster.devices(), "device"), missing.least_devices);
}

/// Whether stages that fit can be placed: nothing is asked of places.
bool memory_decides(const Instance& instance) {
  const model::StageConstraints& stages = instance.options().stages;
  return stages.places.empty() && stages.confined.empty();
}

/// Why nothing fits, from `instance`. `sure`: no other instance has to be asked whether a smaller
/// change would do.
Infeasibility explain(const Instance& instance, bool sure) {
  const Tightest best = tightest(instance);
  if (best.chain.empty()) return {explain_illegal(instance)};
  if (best.bytes <= instance.usable_bytes()) {
    return {
        "placement: every stage could fit into memory, but no placement of the stages inside a "
        "pod satisfies all restrictions together"};
  }
  const model::MemoryShortfall missing = shortfall_of(instance, best.bytes);
  const std::string text =
      describe(instance, best) + too_few_devices(missing, instance.problem().cluster);
  const char* change = sure ? "least change" : "a change that is enough";
  model::Problem relaxed = instance.problem();
  relaxed.options.recompute = {model::Recompute::kNone, model::Recompute::kSelective,
                               model::Recompute::kFull};
  relaxed.options.zero = {0, 1, 2, 3};
  if (relaxed.options.recompute != instance.options().recompute ||
      relaxed.options.zero != instance.options().zero) {
    const Instance other(relaxed, instance.network(), instance.lattice());
    const Tightest with_all = tightest(other);
    if (with_all.bytes <= other.usable_bytes() &&
        ((other.one_type() && memory_decides(other)) || has_plan(relaxed, instance.network()))) {
      return {text + fmt::format("; {}: allow --recompute none,selective,full and --zero 0,1,2,3, "
                                 "which fits",
                                 change),
              missing};
    }
  }
  const double needed = memory_to_hold(instance.problem(), best.bytes);
  if (!memory_decides(instance) &&
      !has_plan(with_memory(instance.problem(), needed), instance.network())) {
    change = "needed, and not enough by itself";
  }
  return {text + fmt::format("; {}: devices with {:.0f} bytes ({:.2f} GiB) of memory", change,
                             needed, needed / kGiB),
          missing};
}

}  // namespace

Infeasibility explain_infeasible(const Instance& instance) {
  // All pairs of downsets are looked at; with too many of them, those of the layers in a row.
  constexpr std::int64_t kMostDownsets = 2000;
  const Lattice& lattice = instance.lattice();
  const bool few = lattice.totally_ordered() || lattice.size() <= kMostDownsets;
  if (const std::string uneven = explain_uneven(instance); !uneven.empty()) {
    return {std::string(kIllegal) + uneven};
  }
  if (std::string why = contradiction(instance.problem(), instance.network(), few); !why.empty()) {
    return {std::move(why)};
  }
  if (few) return explain(instance, true);
  const Instance in_a_row(instance.problem(), instance.network(),
                          row_lattice(instance.problem().graph));
  return explain(in_a_row, false);
}

}  // namespace nestplan::solver
