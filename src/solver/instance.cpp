#include "solver/instance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"
#include "solver/rules.hpp"

namespace nestplan::solver {
namespace {

/// cut(D): over layers outside `D` with an edge into it, the sum of the largest such edge of each.
std::vector<double> cut_bytes(const model::Graph& graph, const Lattice& lattice, int k) {
  const auto words = at(lattice.words());
  std::vector<std::vector<std::pair<int, double>>> out(graph.layers.size());
  std::vector<std::uint64_t> before(graph.layers.size() * words, 0);  // predecessors of a layer
  for (const model::Edge& edge : graph.edges) {
    out[at(edge.from)].emplace_back(edge.to, edge.bytes[at(k)]);
    before[at(edge.to) * words + at(edge.from) / 64] |= std::uint64_t{1} << (edge.from % 64);
  }
  std::vector<double> cut(at(lattice.size()), 0);
  std::vector<std::uint64_t> feeds(at(lattice.size()) * words, 0);  // layers with an edge into D
  for (DownsetId d = 1; d < lattice.size(); ++d) {
    const DownsetId below = lattice.below(d);
    std::uint64_t* into = feeds.data() + at(d) * words;
    std::copy_n(feeds.data() + at(below) * words, words, into);
    for (const int layer : lattice.difference(d, below)) {
      for (std::size_t w = 0; w < words; ++w) into[w] |= before[at(layer) * words + w];
    }
    const auto members = lattice.members(d);
    for (std::size_t w = 0; w < words; ++w) {
      for (std::uint64_t rest = into[w] & ~members[w]; rest != 0; rest &= rest - 1) {
        double largest = 0;
        for (const auto& [to, bytes] : out[w * 64 + at(std::countr_zero(rest))]) {
          if (lattice.contains(d, to)) largest = std::max(largest, bytes);
        }
        cut[at(d)] += largest;
      }
    }
  }
  return cut;
}

/// Seconds of a collective among neighbours, as a measure of its size.
double neighbour_seconds(const network::Network& network, const model::Strategy& strategy,
                         const model::Collective& collective) {
  const std::int64_t members = collective.group == model::GroupKind::kTensor    ? strategy.tp
                               : collective.group == model::GroupKind::kContext ? strategy.cp
                               : collective.group == model::GroupKind::kExpert  ? strategy.ep
                                                                                : 2;
  std::vector<std::int64_t> group(at(std::min(members, network.devices())));
  std::iota(group.begin(), group.end(), 0);
  return network.collective_s(collective.op, collective.bytes, network.shape(group));
}

/// About what one micro-batch takes through the whole model when every layer is a stage.
double horizon_seconds(const model::Graph& graph, const network::Network& network) {
  double total = 0;
  for (const model::Layer& layer : graph.layers) {
    double most = 0;
    for (std::size_t k = 0; k < layer.costs.size(); ++k) {
      if (!layer.costs[k]) continue;
      double seconds = 2 * layer.costs[k]->forward_s + layer.costs[k]->backward_s;
      for (const model::Collective& collective : layer.costs[k]->collectives) {
        seconds += neighbour_seconds(network, graph.strategies[k], collective);
      }
      most = std::max(most, seconds);
    }
    total += most;
  }
  for (const model::Edge& edge : graph.edges) {
    const double bytes = *std::max_element(edge.bytes.begin(), edge.bytes.end());
    total += 2 * network.transfer_s(bytes, network.levels() - 1, 1);
  }
  return total;
}

bool same_kind(const model::Collective& a, const model::Collective& b) {
  return a.phase == b.phase && a.op == b.op && a.group == b.group && a.bytes == b.bytes;
}

}  // namespace

StageMaximum::StageMaximum(const Lattice& lattice, const std::vector<double>& value_of_layer,
                           util::Storage& storage, BitSets& known)
    : words_(at(lattice.words())) {
  std::vector<int> order(value_of_layer.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return value_of_layer[at(a)] > value_of_layer[at(b)]; });
  for (const int layer : order) falling_.push_back(value_of_layer[at(layer)]);
  const auto [entry, inserted] = known.try_emplace(order);
  if (inserted) {
    const auto fill = [&](std::span<std::uint64_t> bits) {
      for (DownsetId d = 0; d < lattice.size(); ++d) {
        for (std::size_t rank = 0; rank < order.size(); ++rank) {
          if (lattice.contains(d, order[rank])) {
            bits[at(d) * words_ + rank / 64] |= std::uint64_t{1} << (rank % 64);
          }
        }
      }
    };
    entry->second =
        storage.make<std::uint64_t>(lattice.size() * static_cast<std::int64_t>(words_), fill);
  }
  bits_ = entry->second;
}

double StageMaximum::over(DownsetId outer, DownsetId inner) const {
  const std::uint64_t* a = bits_.data() + at(outer) * words_;
  const std::uint64_t* b = bits_.data() + at(inner) * words_;
  for (std::size_t w = 0; w < words_; ++w) {
    if (const std::uint64_t rest = a[w] & ~b[w]; rest != 0) {
      return falling_[w * 64 + at(std::countr_zero(rest))];
    }
  }
  return 0;
}

Instance::Instance(const model::Problem& problem, const network::Network& network, Lattice lattice,
                   bool collapse, double horizon_s, std::shared_ptr<util::Storage> storage)
    : problem_(problem),
      network_(network),
      storage_(std::move(storage)),
      lattice_(std::move(lattice)),
      scale_(horizon_s > 0 ? horizon_s : horizon_seconds(problem.graph, network)),
      strategies_(problem.graph.strategies.size()),
      collapse_(collapse),
      horizon_known_(horizon_s > 0),
      target_rules_(std::make_shared<Rules>(problem)),
      default_rule_(problem.options.recompute, problem.options.zero, problem.options.shard, -1) {
  count_types();
  StageMaximum::BitSets known;
  for (std::size_t k = 0; k < strategies_.size(); ++k) {
    build_strategy(static_cast<int>(k), known);
  }
  build_ties();
  build_constraints();
  find_confinements();
  storage_->publish();
  for (StrategySums& sums : strategies_) {
    if (lattice_.size() <= 2) continue;
    // The empty and the whole downset have kinds of their own or one that nothing enters.
    sums.least_cut = std::numeric_limits<double>::infinity();
    for (DownsetId d = 1; d < lattice_.whole(); ++d) {
      sums.least_cut = std::min(sums.least_cut, sums.cut[at(sums.cuts.of[at(d)])]);
    }
  }
}

util::Array<double> Instance::sum(const std::vector<double>& of_layer) {
  return storage_->make<double>(
      lattice_.size(), [&](std::span<double> sums) { sum_members(lattice_, of_layer, sums); });
}

util::Array<int> Instance::count(const std::vector<int>& of_layer) {
  return storage_->make<int>(lattice_.size(),
                             [&](std::span<int> sums) { sum_members(lattice_, of_layer, sums); });
}

void Instance::build_ties() {
  for (const model::Tie& tie : problem_.graph.ties) {
    std::vector<int> member(problem_.graph.layers.size(), 0);
    for (const int layer : tie.layers) member[at(layer)] = 1;
    ties_.push_back({count(member), static_cast<int>(tie.layers.size())});
  }
}

bool Instance::holds_part_of_tie(DownsetId outer, DownsetId inner) const {
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    const int members = tie_members(t, outer, inner);
    if (members > 0 && members < ties_[t].size) return true;
  }
  return false;
}

Ticks Instance::tie_ticks(int k, DownsetId outer, DownsetId inner, int level,
                          std::int64_t unit) const {
  Ticks sum = 0;
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    const int members = tie_members(t, outer, inner);
    if (members > 0 && members < ties_[t].size) sum += tie_ticks(k, t, level, unit);
  }
  return sum;
}

Ticks Instance::tie_ticks(int k, std::size_t tie, int level, std::int64_t unit) const {
  const double bytes = options().state_bytes.gradient * problem_.graph.ties[tie].parameters[at(k)];
  return scale_.ticks(network_.transfer_s(bytes, level, unit));
}

namespace {

/// The place from the end of a stage that a rule is about; 0 for the first stage, whatever its
/// place.
std::int64_t place_from_end(const model::PlanOptions& options, std::int64_t stage) {
  if (stage <= 0) return -stage;
  if (options.pp.size() != 1) {
    throw InvalidConfig("a rule on stage " + std::to_string(stage + 1) +
                        " needs one pipeline depth (--pp); say \"first\" or \"last\" without");
  }
  return options.pp.front() - stage;
}

}  // namespace

void Instance::find_confinements() {
  const std::vector<std::string> domains = network_.domains();
  for (const auto& [scope, name] : options().stages.confined) {
    const auto domain = std::find(domains.begin(), domains.end(), name);
    if (domain == domains.end()) {
      throw InvalidConfig("the network has no " + util::quoted(name) + util::hint(name, domains));
    }
    confined_.push_back({scope, static_cast<int>(domain - domains.begin())});
  }
}

bool Instance::confines(model::StageConstraints::Scope scope) const {
  return std::any_of(confined_.begin(), confined_.end(),
                     [scope](const Confined& rule) { return rule.scope == scope; });
}

bool Instance::stays_inside(model::StageConstraints::Scope scope,
                            const std::vector<network::GroupShape>& shapes) const {
  return std::all_of(confined_.begin(), confined_.end(), [&](const Confined& rule) {
    return rule.scope != scope ||
           std::all_of(shapes.begin(), shapes.end(), [&](const network::GroupShape& shape) {
             return network_.domain(shape) <= rule.domain;
           });
  });
}

void Instance::build_constraints() {
  const model::StageConstraints& rules = options().stages;
  using Layout = model::StageConstraints::Layout;
  constrained_ = !rules.none() || target_rules_->layout() != Layout::kAny;
  const std::vector<model::Layer>& layers = problem_.graph.layers;
  std::vector<int> value(layers.size(), 0);
  for (std::size_t v = 0; v < layers.size(); ++v) value[v] = layers[v].counted ? 1 : 0;
  if (constrained_ || options().vpp.back() > 1) counted_ = count(value);
  if (!constrained_) return;
  for (const std::vector<int>& set : rules.cuts) {
    value.assign(layers.size(), 0);
    for (const int layer : set) value[at(layer)] = 1;
    sets_.push_back(count(value));
  }
  for (const model::StageConstraints::Place& place : rules.places) {
    positions_.emplace_back(place_from_end(options(), place.stage), place.position);
  }
  std::vector<int> first, last;
  for (const model::StageConstraints::Pin& pin : rules.pins) {
    const std::int64_t place = place_from_end(options(), pin.stage);
    if (place == 0) {
      first.push_back(pin.layer);
    } else if (place == 1) {
      last.push_back(pin.layer);
    } else {
      places_.emplace_back(place, pin.layer);
    }
  }
  const auto forbidden = [&](DownsetId d) {
    if (d == 0 || d == lattice_.whole()) return false;
    const auto inside = [&](int layer) { return lattice_.contains(d, layer); };
    if (std::any_of(first.begin(), first.end(), inside)) return true;
    if (!std::all_of(last.begin(), last.end(), inside)) return true;
    return std::any_of(rules.together.begin(), rules.together.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(), inside) &&
             !std::all_of(group.begin(), group.end(), inside);
    });
  };
  no_boundary_ = storage_->make<int>(lattice_.size(), [&](std::span<int> no) {
    for (DownsetId d = 0; d < lattice_.size(); ++d) no[at(d)] = forbidden(d) ? 1 : 0;
  });
}

Verdict Instance::admits(DownsetId outer, DownsetId inner, std::int64_t middle) const {
  if (!constrained_) return Verdict::kAdmitted;
  int mixed = 0;
  for (const util::Array<int>& set : sets_) mixed += set[at(outer)] > set[at(inner)] ? 1 : 0;
  if (mixed > 1) return Verdict::kHopeless;
  const model::StageConstraints& rules = options().stages;
  const std::int64_t held = counted_[at(outer)] - counted_[at(inner)];
  const bool is_first = outer == lattice_.whole();
  const bool is_last = inner == 0;
  if (rules.most && held > *rules.most) return Verdict::kHopeless;
  const auto differs = [held](const std::optional<std::int64_t>& wanted) {
    return wanted && held != *wanted;
  };
  if (no_boundary_[at(outer)] != 0 || no_boundary_[at(inner)] != 0 ||
      (rules.least && held < *rules.least) || (is_first && differs(rules.first)) ||
      (is_last && differs(rules.last))) {
    return Verdict::kRefused;
  }
  const bool even = target_rules_->layout() == model::StageConstraints::Layout::kEven;
  if (middle >= 0 && held != middle && (even || (!is_first && !is_last))) return Verdict::kRefused;
  return Verdict::kAdmitted;
}

bool Instance::admits_place(DownsetId outer, DownsetId inner, std::int64_t s) const {
  return std::all_of(places_.begin(), places_.end(), [&](const auto& pin) {
    const auto& [place, layer] = pin;
    return (lattice_.contains(outer, layer) && !lattice_.contains(inner, layer)) == (s == place);
  });
}

std::int64_t Instance::pinned_position(std::int64_t s) const {
  for (const auto& [place, position] : positions_) {
    if (place == s) return position;
  }
  return -1;
}

std::vector<std::int64_t> Instance::pinned_positions() const {
  std::vector<std::int64_t> all;
  for (const auto& [place, position] : positions_) all.push_back(position);
  return all;
}

StageRule::StageRule(std::vector<model::Recompute> recompute_modes,
                     const std::vector<int>& zero_stages,
                     const std::vector<model::ShardSpan>& spans, std::int64_t only_position)
    : recompute(std::move(recompute_modes)), position(only_position) {
  for (std::size_t i = 0; i < kShardChoices.size(); ++i) {
    const ShardChoice& choice = kShardChoices[i];
    const auto has = [](const auto& list, auto value) {
      return std::find(list.begin(), list.end(), value) != list.end();
    };
    if (!has(zero_stages, choice.zero)) continue;
    if (choice.zero > 0 && !has(spans, choice.span)) continue;
    const bool twin = choice.span == model::ShardSpan::kPod && !shards.empty() &&
                      kShardChoices[at(shards.back())].zero == choice.zero;
    if (!twin) shards_in_one_pod.push_back(static_cast<int>(i));
    shards.push_back(static_cast<int>(i));
  }
}

namespace {

/// Numbers the downsets by what `key_of` says of them; `keys` gets the keys in that order.
template <typename Key, typename KeyOf>
Kinds number(const Lattice& lattice, util::Storage& storage, KeyOf key_of, std::vector<Key>& keys) {
  Kinds kinds;
  kinds.of = storage.make<std::int32_t>(lattice.size(), [&](std::span<std::int32_t> of) {
    std::map<Key, std::int32_t> known;
    for (DownsetId d = 0; d < lattice.size(); ++d) {
      Key key = key_of(d);
      const auto [entry, inserted] =
          known.try_emplace(key, static_cast<std::int32_t>(known.size()));
      if (inserted) keys.push_back(std::move(key));
      of[at(d)] = entry->second;
    }
  });
  kinds.count = storage.agree(static_cast<std::int64_t>(keys.size()));
  return kinds;
}

}  // namespace

void Instance::build_strategy(int k, StageMaximum::BitSets& known) {
  const model::Graph& graph = problem_.graph;
  StrategySums& sums = strategies_[at(k)];
  sums.strategy = graph.strategies[at(k)];
  const std::size_t layers = graph.layers.size();
  const auto types = at(problem_.cluster.type_count());
  /// Of a layer, by type of device.
  struct Times {
    std::vector<Ticks> forward, backward, selective;
    std::vector<int> drowned;
  };
  const std::vector<Ticks> none(layers, 0);
  std::vector<Times> times(types, Times{none, none, none, std::vector<int>(layers, 0)});
  sums.recomputed_of_layer = {none, none, none};
  std::vector<double> parameters(layers, 0), experts(layers, 0), activation(layers, 0),
      checkpoint(layers, 0), all_parameters(layers, 0), selectively(layers, 0), working(layers, 0),
      selective_extra(layers, 0), full_extra(layers, 0);
  std::vector<int> unusable(layers, 0);
  sums.floor_of_layer.assign(layers, kNever);
  for (std::size_t v = 0; v < layers; ++v) {
    const auto& cost = graph.layers[v].costs[at(k)];
    if (!cost) {
      unusable[v] = 1;
      continue;
    }
    Ticks fastest = kNever;
    for (std::size_t type = 0; type < types; ++type) {
      const model::LayerTimes seconds = cost->times(static_cast<int>(type));
      Times& of = times[type];
      of.forward[v] = scale_.ticks(seconds.forward_s);
      of.backward[v] = scale_.ticks(seconds.backward_s);
      of.selective[v] = scale_.ticks(seconds.selective_s);
      fastest = std::min(fastest, of.forward[v] + of.backward[v]);
      if (horizon_known_ && of.forward[v] + of.backward[v] > kDrowning) {
        of.forward[v] = of.backward[v] = of.selective[v] = 0;
        of.drowned[v] = 1;
      }
    }
    if (horizon_known_ && fastest > kDrowning) {
      for (Times& of : times) of.drowned[v] = 0;
      unusable[v] = 1;
      continue;
    }
    parameters[v] = cost->parameters;
    experts[v] = cost->expert_parameters;
    all_parameters[v] = cost->parameters + cost->expert_parameters;
    activation[v] = cost->activation_bytes;
    checkpoint[v] = cost->checkpoint_bytes;
    selectively[v] = cost->selectively_kept();
    working[v] = cost->working_bytes;
    selective_extra[v] = activation[v] - selectively[v] + working[v];
    full_extra[v] = activation[v] + working[v];
    sums.has_selective = sums.has_selective || cost->selective_bytes.has_value();
    sums.floor_of_layer[v] = fastest;
    const auto least = [&](const std::vector<Ticks> Times::*of) {
      Ticks ticks = kNever;
      for (const Times& on_type : times) {
        if (on_type.drowned[v] == 0) ticks = std::min(ticks, (on_type.*of)[v]);
      }
      return ticks;
    };
    sums.recomputed_of_layer[static_cast<std::size_t>(model::Recompute::kSelective)][v] =
        least(&Times::selective);
    sums.recomputed_of_layer[static_cast<std::size_t>(model::Recompute::kFull)][v] =
        least(&Times::forward);
    for (const model::Collective& collective : cost->collectives) {
      if (collective.bytes <= 0) continue;
      std::size_t term = 0;
      while (term < sums.terms.size() && !same_kind(sums.terms[term].collective, collective)) {
        ++term;
      }
      if (term == sums.terms.size()) {
        sums.terms.push_back({collective, std::vector<double>(layers, 0), {}});
      }
      sums.terms[term].count_of_layer[v] += 1;
    }
  }
  for (const Times& of : times) {
    ComputeSums& compute = sums.compute.emplace_back();
    compute.forward = sum(of.forward);
    compute.backward = sum(of.backward);
    if (sums.has_selective) compute.selective = sum(of.selective);
    if (std::find(of.drowned.begin(), of.drowned.end(), 1) != of.drowned.end()) {
      compute.drowned = count(of.drowned);
    }
  }
  sums.parameters = sum(parameters);
  sums.expert_parameters = sum(experts);
  sums.activation = sum(activation);
  sums.checkpoint = sum(checkpoint);
  sums.unusable = count(unusable);
  if (sums.has_selective) {
    sums.selectively = sum(selectively);
    sums.largest_selective = StageMaximum(lattice_, selective_extra, *storage_, known);
  }
  if (std::any_of(working.begin(), working.end(), [](double bytes) { return bytes > 0; })) {
    sums.largest_working = StageMaximum(lattice_, working, *storage_, known);
  }
  sums.largest_activation = StageMaximum(lattice_, full_extra, *storage_, known);
  sums.largest_layer = StageMaximum(lattice_, all_parameters, *storage_, known);
  number_cuts(k);
  number_mixes(k);
}

void Instance::count_types() {
  const model::Cluster& cluster = problem_.cluster;
  for (int type = 0; type < cluster.type_count(); ++type) {
    usable_bytes_ = std::max(usable_bytes_, usable_bytes(TypeSet{1} << type));
  }
  const std::vector<std::uint8_t> types = cluster.types_of_devices();
  if (types.empty()) return;
  devices_of_type_.assign(at(cluster.type_count()), std::vector<std::int64_t>(types.size() + 1, 0));
  for (std::size_t type = 0; type < devices_of_type_.size(); ++type) {
    std::vector<std::int64_t>& before = devices_of_type_[type];
    for (std::size_t d = 0; d < types.size(); ++d) {
      before[d + 1] = before[d] + (types[d] == type ? 1 : 0);
    }
  }
}

double Instance::usable_bytes(TypeSet types) const {
  double least = std::numeric_limits<double>::infinity();
  for (; types != 0; types &= types - 1) {
    const model::Device& device = problem_.cluster.type(std::countr_zero(types));
    least = std::min(least, cost::memory_limit(device.usable_bytes(), options().reserve));
  }
  return least;
}

TypeSet Instance::types(std::int64_t first, std::int64_t count) const {
  if (one_type()) return 1;
  TypeSet types = 0;
  const std::int64_t end = std::min(first + count, std::ssize(devices_of_type_.front()) - 1);
  for (std::size_t type = 0; type < devices_of_type_.size(); ++type) {
    const std::vector<std::int64_t>& before = devices_of_type_[type];
    if (before[at(end)] > before[at(first)]) types |= TypeSet{1} << type;
  }
  return types;
}

Ticks Instance::update(double bytes, TypeSet types) const {
  Ticks slowest = 0;
  for (; types != 0; types &= types - 1) {
    const double seconds = problem_.graph.update_s(bytes, std::countr_zero(types));
    slowest = std::max(slowest, scale_.ticks(seconds));
  }
  return slowest;
}

StageCompute Instance::compute(int k, DownsetId outer, DownsetId inner, TypeSet types) const {
  const StrategySums& sums = strategies_[at(k)];
  StageCompute slowest;
  for (; types != 0; types &= types - 1) {
    const ComputeSums& of = sums.compute[at(std::countr_zero(types))];
    if (!of.drowned.empty() && of.drowned[at(outer)] != of.drowned[at(inner)]) {
      return {kNever, kNever, kNever};
    }
    slowest.wait_for({of.forward[at(outer)] - of.forward[at(inner)],
                      of.backward[at(outer)] - of.backward[at(inner)],
                      sums.has_selective ? of.selective[at(outer)] - of.selective[at(inner)] : 0});
  }
  return slowest;
}

void Instance::number_cuts(int k) {
  StrategySums& sums = strategies_[at(k)];
  std::vector<double> bytes;
  if (storage_->fills()) bytes = cut_bytes(problem_.graph, lattice_, k);
  std::vector<double> distinct;
  sums.cuts = number(
      lattice_, *storage_, [&](DownsetId d) { return bytes[at(d)]; }, distinct);
  sums.cut = storage_->make<double>(sums.cuts.count, [&](std::span<double> cut) {
    std::copy(distinct.begin(), distinct.end(), cut.begin());
  });
}

void Instance::number_mixes(int k) {
  StrategySums& sums = strategies_[at(k)];
  std::vector<std::vector<double>> counts;
  if (storage_->fills()) {
    for (const CollectiveTerm& term : sums.terms) {
      counts.push_back(sum_members(lattice_, term.count_of_layer));
    }
  }
  std::vector<std::vector<double>> distinct;
  const auto mix = [&](DownsetId d) {
    std::vector<double> count;
    for (const auto& of_downset : counts) count.push_back(of_downset[at(d)]);
    return count;
  };
  sums.mixes = number(lattice_, *storage_, mix, distinct);
  for (std::size_t term = 0; term < sums.terms.size(); ++term) {
    sums.terms[term].count =
        storage_->make<double>(sums.mixes.count, [&](std::span<double> of_kind) {
          for (std::size_t i = 0; i < distinct.size(); ++i) of_kind[i] = distinct[i][term];
        });
  }
}

void Instance::fix_stages(const std::vector<int>& strategy_of_stage, std::vector<StageRule> rules) {
  const auto stages = static_cast<DownsetId>(strategy_of_stage.size());
  rules_.assign(at(lattice_.size()), default_rule_);
  for (DownsetId d = 1; d <= stages; ++d) rules_[at(d)] = std::move(rules[at(stages - d)]);
  for (std::size_t k = 0; k < strategies_.size(); ++k) {
    int foreign = 0;
    std::vector<int> unusable(strategies_[k].unusable.begin(), strategies_[k].unusable.end());
    for (DownsetId d = 1; d <= stages; ++d) {
      if (strategy_of_stage[at(stages - d)] != static_cast<int>(k)) ++foreign;
      unusable[at(d)] += foreign;
    }
    strategies_[k].unusable = std::move(unusable);
  }
}

const std::vector<Ticks>& Instance::transfer(int k, int level, std::int64_t unit) const {
  auto& entry = transfers_[{k, level, unit}];
  if (!entry) {
    entry = std::make_unique<std::vector<Ticks>>();
    for (const double bytes : strategies_[at(k)].cut) {
      entry->push_back(scale_.ticks(network_.transfer_s(bytes, level, unit)));
    }
  }
  return *entry;
}

double Instance::least_cut(const std::vector<int>& strategies) const {
  double least = strategies_[at(strategies.front())].least_cut;
  for (const int k : strategies) least = std::min(least, strategies_[at(k)].least_cut);
  return least;
}

cost::StageFootprint Instance::footprint(int k, DownsetId outer, DownsetId inner) const {
  const StrategySums& sums = strategies_[at(k)];
  const auto difference = [outer, inner](const util::Array<double>& of) {
    return of[at(outer)] - of[at(inner)];
  };
  cost::StageFootprint stage;
  stage.parameters = difference(sums.parameters);
  stage.expert_parameters = difference(sums.expert_parameters);
  stage.activation_bytes = difference(sums.activation);
  stage.checkpoint_bytes = difference(sums.checkpoint);
  for (std::size_t t = 0; t < ties_.size(); ++t) {
    const int members = tie_members(t, outer, inner);
    if (members > 1) {
      stage.parameters -= (members - 1) * problem_.graph.ties[t].parameters[at(k)];
    }
  }
  stage.largest_layer = sums.largest_layer.over(outer, inner);
  stage.selective_bytes =
      sums.has_selective ? difference(sums.selectively) : stage.activation_bytes;
  stage.largest_working = sums.largest_working.over(outer, inner);
  stage.largest_selective =
      sums.has_selective ? sums.largest_selective.over(outer, inner) : stage.largest_working;
  stage.largest_activation = sums.largest_activation.over(outer, inner);
  return stage;
}

}  // namespace nestplan::solver
