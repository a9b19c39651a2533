#include "nestplan/network/links.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <queue>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::network {
namespace {

constexpr double kAlike = 0.95;  ///< of the fastest: still the same level
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostLatencySteps = std::size_t{1} << 23;

using Index = std::int32_t;
constexpr Index kNone = -1;
constexpr Index kMany = -2;

using util::idx;

/// What two are together, each kNone, kMany or a single one.
Index joined(Index one, Index other) {
  if (one == kNone) return other;
  return other == kNone || other == one ? one : kMany;
}

/// One direction of a link.
struct Arc {
  Index from = 0, to = 0;
  double bandwidth = 0;
  double latency_s = 0;
};

/// Strongly connected components of `vertices` vertices: a label for each, ascending in the order
/// of their first vertices. Tarjan's algorithm without recursion.
std::vector<Index> components(Index vertices, const std::vector<std::pair<Index, Index>>& arcs) {
  std::vector<Index> start(idx(vertices) + 1, 0), head(arcs.size());
  for (const auto& [from, to] : arcs) ++start[idx(from) + 1];
  std::partial_sum(start.begin(), start.end(), start.begin());
  std::vector<Index> next(start.begin(), start.end() - 1);
  for (const auto& [from, to] : arcs) head[idx(next[idx(from)]++)] = to;

  std::vector<Index> seen(idx(vertices), kNone), low(idx(vertices)), root(idx(vertices), kNone);
  std::vector<Index> path, open;
  std::copy(start.begin(), start.end() - 1, next.begin());
  Index clock = 0;
  for (Index source = 0; source < vertices; ++source) {
    if (seen[idx(source)] != kNone) continue;
    path.push_back(source);
    while (!path.empty()) {
      const Index v = path.back();
      if (seen[idx(v)] == kNone) {
        seen[idx(v)] = low[idx(v)] = clock++;
        open.push_back(v);
      }
      if (next[idx(v)] < start[idx(v) + 1]) {
        const Index w = head[idx(next[idx(v)]++)];
        if (seen[idx(w)] == kNone) {
          path.push_back(w);
        } else if (root[idx(w)] == kNone) {
          low[idx(v)] = std::min(low[idx(v)], seen[idx(w)]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[idx(path.back())] = std::min(low[idx(path.back())], low[idx(v)]);
      if (low[idx(v)] != seen[idx(v)]) continue;
      while (root[idx(v)] == kNone) {
        root[idx(open.back())] = v;
        open.pop_back();
      }
    }
  }
  std::vector<Index> label_of_root(idx(vertices), kNone), labels(idx(vertices));
  Index count = 0;
  for (Index v = 0; v < vertices; ++v) {
    Index& label = label_of_root[idx(root[idx(v)])];
    if (label == kNone) label = count++;
    labels[idx(v)] = label;
  }
  return labels;
}

Index count_of(const std::vector<Index>& labels) {
  return labels.empty() ? 0 : *std::max_element(labels.begin(), labels.end()) + 1;
}

/// A level as it is found: the block of every device, and its rates.
struct Level {
  std::vector<Index> block;
  double bandwidth = 0;  ///< of a device alone
  double share = 0;      ///< when all send
};

/// Blocks grow until one holds all devices.
class Merging {
 public:
  Merging(Index devices, Index vertices, std::vector<Arc> arcs, const std::vector<Index>& hosts,
          bool with_capacity)
      : devices_(devices),
        vertices_(vertices),
        arcs_(std::move(arcs)),
        with_capacity_(with_capacity),
        block_(idx(vertices)) {
    std::iota(block_.begin(), block_.end(), 0);
    find_tiers();
    find_hosts(hosts);
    survey();
  }

  /// From the nearest to the farthest. The last one has several blocks if not all devices can reach
  /// each other.
  std::vector<Level> levels() {
    double least = kAlike * fastest_below(kInfinity);
    while (!is_whole()) {
      if (merge_tiers(least)) continue;  // which may have raised shares
      const double next = fastest_below(least);
      if (next > 0) {
        least = kAlike * next;
      } else if (std::exchange(through_switches_, true)) {
        break;
      }
    }
    return std::move(levels_);
  }

  bool is_whole() const { return device_blocks_ == 1; }

 private:
  void find_tiers() {
    tier_.assign(idx(vertices_), kNone);
    std::vector<std::vector<Index>> neighbours(idx(vertices_));
    for (const Arc& arc : arcs_) {
      neighbours[idx(arc.from)].push_back(arc.to);
      neighbours[idx(arc.to)].push_back(arc.from);
    }
    std::queue<Index> queue;
    for (Index d = 0; d < devices_; ++d) {
      tier_[idx(d)] = 0;
      queue.push(d);
    }
    for (; !queue.empty(); queue.pop()) {
      const Index v = queue.front();
      tiers_ = std::max(tiers_, tier_[idx(v)]);
      for (const Index w : neighbours[idx(v)]) {
        if (tier_[idx(w)] != kNone) continue;
        tier_[idx(w)] = tier_[idx(v)] + 1;
        queue.push(w);
      }
    }
  }

  /// A switch belongs to a host if all devices at it do.
  void find_hosts(const std::vector<Index>& hosts) {
    host_.assign(idx(vertices_), kNone);
    std::copy(hosts.begin(), hosts.end(), host_.begin());
    if (hosts.empty()) return;
    for (const Index host : hosts) {
      if (std::ssize(host_size_) <= host) host_size_.resize(idx(host) + 1, 0);
      ++host_size_[idx(host)];
    }
    for (const Arc& arc : arcs_) {
      if (arc.from < devices_ && arc.to >= devices_) {
        host_[idx(arc.to)] = joined(host_[idx(arc.to)], host_[idx(arc.from)]);
      }
    }
    for (Index v = devices_; v < vertices_; ++v) {
      if (host_[idx(v)] == kMany) host_[idx(v)] = kNone;
    }
  }

  /// Of the blocks as they are: devices, hosts, shares.
  void survey() {
    const Index blocks = count_of(block_);
    block_devices_.assign(idx(blocks), 0);
    block_host_.assign(idx(blocks), kNone);
    for (Index v = 0; v < vertices_; ++v) {
      const std::size_t b = idx(block_[idx(v)]);
      block_devices_[b] += v < devices_ ? 1 : 0;
      block_host_[b] = joined(block_host_[b], host_[idx(v)]);
    }
    device_blocks_ = static_cast<Index>(std::count_if(block_devices_.begin(), block_devices_.end(),
                                                      [](Index count) { return count > 0; }));
    std::vector<std::array<double, 2>> cut(idx(blocks), {0, 0});
    for (const Arc& arc : arcs_) {
      const Index from = block_[idx(arc.from)], to = block_[idx(arc.to)];
      if (from == to) continue;
      cut[idx(from)][0] += arc.bandwidth;
      cut[idx(to)][1] += arc.bandwidth;
    }
    share_.assign(idx(blocks), kInfinity);
    if (!with_capacity_) return;
    std::size_t largest = 0;
    for (std::size_t b = 0; b < share_.size(); ++b) {
      if (block_devices_[b] > 0) share_[b] = std::min(cut[b][0], cut[b][1]) / block_devices_[b];
      if (block_devices_[b] > block_devices_[largest]) largest = b;
    }
    share_[largest] = share_of_largest(largest);
  }

  /// What the largest block can give each device of those others that could take it.
  double share_of_largest(std::size_t largest) const {
    std::vector<std::pair<double, Index>> others;  // share, devices
    for (std::size_t b = 0; b < share_.size(); ++b) {
      if (b != largest && block_devices_[b] > 0) others.emplace_back(share_[b], block_devices_[b]);
    }
    std::sort(others.begin(), others.end(), std::greater<>());
    const double capacity = share_[largest] * block_devices_[largest];
    double share = share_[largest];
    double devices = 0;
    for (const auto& [wanted, count] : others) {
      devices += count;
      share = std::max(share, std::min(wanted, capacity / devices));
    }
    return share;
  }

  double weight(const Arc& arc) const {
    return std::min(
        {arc.bandwidth, share_[idx(block_[idx(arc.from)])], share_[idx(block_[idx(arc.to)])]});
  }

  /// Between two blocks of which one has devices: switches alone are a block only where one-way
  /// links leave no other way.
  bool is_bridge(const Arc& arc) const {
    const Index from = block_[idx(arc.from)], to = block_[idx(arc.to)];
    return from != to &&
           (through_switches_ || block_devices_[idx(from)] + block_devices_[idx(to)] > 0);
  }

  double fastest_below(double limit) const {
    double fastest = 0;
    for (const Arc& arc : arcs_) {
      if (!is_bridge(arc)) continue;
      const double w = weight(arc);
      if (w < limit) fastest = std::max(fastest, w);
    }
    return fastest;
  }

  /// An arc between two blocks.
  struct Bridge {
    Index from = 0, to = 0;
    double weight = 0;
    double bandwidth = 0;
  };

  template <class Wanted>
  std::vector<Index> grouped(const std::vector<Bridge>& bridges, Wanted&& wanted) const {
    std::vector<std::pair<Index, Index>> arcs;
    for (const Bridge& bridge : bridges) {
      if (wanted(bridge)) arcs.emplace_back(bridge.from, bridge.to);
    }
    return components(static_cast<Index>(share_.size()), arcs);
  }

  /// Merges over links of `least` and more, tier by tier. Whether it did.
  bool merge_tiers(double least) {
    bool merged = false;
    for (Index tier = 0; tier <= tiers_; ++tier) {
      const Index before = device_blocks_;
      while (merge(least, tier)) merged = true;
      if (device_blocks_ == before) continue;
      levels_.push_back(
          {{block_.begin(), block_.begin() + devices_}, std::max(bandwidth_, slowest_), slowest_});
    }
    return merged;
  }

  /// Merges over links of `least` and more and switches up to `tier`. Whether it did.
  bool merge(double least, Index tier) {
    std::vector<Bridge> bridges;
    for (const Arc& arc : arcs_) {
      if (std::max(tier_[idx(arc.from)], tier_[idx(arc.to)]) > tier || !is_bridge(arc)) continue;
      const double w = weight(arc);
      if (w < least) continue;
      bridges.push_back({block_[idx(arc.from)], block_[idx(arc.to)], w, arc.bandwidth});
    }
    if (bridges.empty()) return false;
    std::vector<Index> group = grouped(bridges, [](const Bridge&) { return true; });
    if (!host_size_.empty()) group = without_broken_hosts(bridges, std::move(group));
    const Index groups = count_of(group);
    if (groups == std::ssize(share_)) return false;

    std::erase_if(bridges, [&](const Bridge& b) { return group[idx(b.from)] != group[idx(b.to)]; });
    slowest_ = std::min(slowest_, slowest_needed(bridges, groups, &Bridge::weight));
    bandwidth_ = std::min(bandwidth_, slowest_needed(bridges, groups, &Bridge::bandwidth));
    for (Index& block : block_) block = group[idx(block)];
    survey();
    return true;
  }

  /// The largest value such that the bridges of that much or more make the same groups.
  double slowest_needed(const std::vector<Bridge>& bridges, Index groups,
                        double Bridge::*value) const {
    std::vector<double> values;
    for (const Bridge& bridge : bridges) values.push_back(bridge.*value);
    util::sort_unique(values);
    std::size_t enough = 0, too_much = values.size();
    while (too_much - enough > 1) {
      const std::size_t middle = (enough + too_much) / 2;
      const auto group =
          grouped(bridges, [&](const Bridge& b) { return b.*value >= values[middle]; });
      (count_of(group) == groups ? enough : too_much) = middle;
    }
    return values[enough];
  }

  /// Groups that would hold a part of a host beside another host fall into those of one host each.
  std::vector<Index> without_broken_hosts(const std::vector<Bridge>& bridges,
                                          std::vector<Index> group) const {
    std::map<std::pair<Index, Index>, Index> devices;  // by group and host
    for (Index d = 0; d < devices_; ++d) ++devices[{group[idx(block_[idx(d)])], host_[idx(d)]}];
    std::vector<Index> hosts(idx(count_of(group)), 0);
    std::vector<bool> broken(hosts.size(), false);
    for (const auto& [where, count] : devices) {
      ++hosts[idx(where.first)];
      if (count < host_size_[idx(where.second)]) broken[idx(where.first)] = true;
    }
    for (std::size_t g = 0; g < hosts.size(); ++g) broken[g] = broken[g] && hosts[g] > 1;
    if (std::find(broken.begin(), broken.end(), true) == broken.end()) return group;
    return grouped(bridges, [&](const Bridge& b) {
      if (group[idx(b.from)] != group[idx(b.to)]) return false;
      const Index host = block_host_[idx(b.from)];
      return !broken[idx(group[idx(b.from)])] || (host >= 0 && host == block_host_[idx(b.to)]);
    });
  }

  Index devices_, vertices_;
  std::vector<Arc> arcs_;
  bool with_capacity_;
  std::vector<Index> tier_, host_;
  std::vector<Index> host_size_;  ///< devices; empty: hosts are not known
  Index tiers_ = 0;

  std::vector<Index> block_;  ///< of every vertex
  std::vector<Index> block_devices_, block_host_;
  std::vector<double> share_;
  Index device_blocks_ = 0;
  bool through_switches_ = false;
  double slowest_ = kInfinity;    ///< share of all merges so far
  double bandwidth_ = kInfinity;  ///< likewise of a device alone
  std::vector<Level> levels_;
};

/// The blocks of a level without links in common with others, by the names of their devices.
[[noreturn]] void refuse_parts(const std::vector<std::string>& names,
                               const std::vector<Index>& block) {
  constexpr std::size_t kShown = 4;
  std::vector<std::size_t> size(names.size(), 0);
  for (const Index b : block) ++size[idx(b)];
  const auto largest = std::max_element(size.begin(), size.end()) - size.begin();
  const auto inside = std::find(block.begin(), block.end(), largest) - block.begin();
  std::vector<std::string> outside;
  for (std::size_t d = 0; d < names.size(); ++d) {
    if (block[d] != largest) outside.push_back(util::quoted(names[d]));
  }
  const std::size_t count = outside.size();
  outside.resize(std::min(count, kShown));
  const std::string more = count > kShown ? fmt::format(" and {} more", count - kShown) : "";
  throw InvalidInput(fmt::format("no links lead both ways between {} and {}{}",
                                 util::quoted(names[static_cast<std::size_t>(inside)]),
                                 fmt::join(outside, ", "), more));
}

/// The hosts in the order of their places, from the device at each place.
std::vector<model::Host> arranged_hosts(const std::vector<std::int64_t>& order,
                                        const std::vector<std::string>& hosts,
                                        const std::vector<Index>& host_of_device) {
  std::vector<model::Host> result;
  if (host_of_device.empty()) return result;
  std::vector<std::int32_t> local, seen(hosts.size(), 0);
  for (const Index host : host_of_device) local.push_back(seen[idx(host)]++);
  Index last = kNone;
  for (const std::int64_t device : order) {
    const auto d = static_cast<std::size_t>(device);
    if (host_of_device[d] != last) result.push_back({hosts[idx(host_of_device[d])], 0, {}});
    last = host_of_device[d];
    ++result.back().places;
    result.back().local.push_back(local[d]);
  }
  for (model::Host& host : result) {
    if (std::is_sorted(host.local.begin(), host.local.end())) host.local.clear();
  }
  return result;
}

/// Places in the order of the tree, with fan-outs and hosts.
LinkHierarchy arranged(const std::vector<Level>& levels, const std::vector<std::string>& hosts,
                       const std::vector<Index>& host_of_device) {
  const std::size_t devices = levels.front().block.size();
  const auto host_of = [&](std::size_t d) {
    return host_of_device.empty() ? 0 : host_of_device[d];
  };
  using Key = std::pair<Index, std::size_t>;  // first host, first device of a block
  std::vector<std::vector<Key>> keys;
  for (const Level& level : levels) {
    std::vector<Key> first(devices, {std::numeric_limits<Index>::max(), devices});
    for (std::size_t d = 0; d < devices; ++d) {
      Key& key = first[idx(level.block[d])];
      key = {std::min(key.first, host_of(d)), std::min(key.second, d)};
    }
    std::vector<Key>& of_device = keys.emplace_back();
    for (std::size_t d = 0; d < devices; ++d) of_device.push_back(first[idx(level.block[d])]);
  }
  LinkHierarchy result;
  result.order.resize(devices);
  std::iota(result.order.begin(), result.order.end(), std::int64_t{0});
  std::sort(result.order.begin(), result.order.end(), [&](std::int64_t x, std::int64_t y) {
    const auto a = static_cast<std::size_t>(x), b = static_cast<std::size_t>(y);
    for (auto level = keys.rbegin(); level != keys.rend(); ++level) {
      if ((*level)[a] != (*level)[b]) return (*level)[a] < (*level)[b];
    }
    return Key{host_of(a), a} < Key{host_of(b), b};
  });

  std::vector<std::int64_t> inner(devices, 1);  // blocks one level below, as devices in each
  result.hosts = arranged_hosts(result.order, hosts, host_of_device);
  std::vector<std::int64_t> host_sizes;
  for (const model::Host& host : result.hosts) host_sizes.push_back(host.places);
  for (std::size_t l = 0; l < levels.size(); ++l) {
    model::NetworkLevel& level = result.levels.emplace_back();
    level.bandwidth = levels[l].bandwidth;
    level.oversubscription = levels[l].bandwidth / levels[l].share;
    std::vector<std::int64_t> blocks;
    std::size_t place = 0;
    Index last = kNone;
    for (const std::int64_t size : inner) {
      const Index block = levels[l].block[static_cast<std::size_t>(result.order[place])];
      if (block != last) {
        blocks.push_back(0);
        level.fanouts.push_back(0);
      }
      last = block;
      blocks.back() += size;
      ++level.fanouts.back();
      place += static_cast<std::size_t>(size);
    }
    level.fanout = *std::max_element(level.fanouts.begin(), level.fanouts.end());
    if (*std::min_element(level.fanouts.begin(), level.fanouts.end()) == level.fanout) {
      level.fanouts.clear();
    }
    inner = std::move(blocks);
    level.name = inner == host_sizes ? "host" : fmt::format("level{}", l);
  }
  return result;
}

std::size_t level_of(const std::vector<Level>& levels, std::size_t a, std::size_t b) {
  std::size_t l = 0;
  while (levels[l].block[a] != levels[l].block[b]) ++l;
  return l;
}

/// Paths by latency from one vertex to all.
class Paths {
 public:
  Paths(Index vertices, const std::vector<Arc>& arcs) : start_(idx(vertices) + 1, 0) {
    for (const Arc& arc : arcs) ++start_[idx(arc.from) + 1];
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    std::vector<Index> next(start_.begin(), start_.end() - 1);
    hop_.resize(arcs.size());
    for (const Arc& arc : arcs) hop_[idx(next[idx(arc.from)]++)] = {arc.latency_s, arc.to};
  }

  const std::vector<double>& from(Index source) {
    seconds_.assign(start_.size() - 1, kInfinity);
    seconds_[idx(source)] = 0;
    using Entry = std::pair<double, Index>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    queue.push({0, source});
    while (!queue.empty()) {
      const auto [seconds, v] = queue.top();
      queue.pop();
      if (seconds > seconds_[idx(v)]) continue;
      for (Index i = start_[idx(v)]; i < start_[idx(v) + 1]; ++i) {
        const auto& [latency_s, to] = hop_[idx(i)];
        if (seconds + latency_s >= seconds_[idx(to)]) continue;
        seconds_[idx(to)] = seconds + latency_s;
        queue.push({seconds_[idx(to)], to});
      }
    }
    return seconds_;
  }

 private:
  std::vector<Index> start_;
  std::vector<std::pair<double, Index>> hop_;
  std::vector<double> seconds_;
};

/// One device of each set of devices of a host with the same links.
std::vector<Index> unlike_devices(Index devices, const std::vector<Arc>& arcs,
                                  const std::vector<Index>& host_of_device) {
  using Hop = std::pair<std::pair<Index, bool>, std::pair<double, double>>;
  std::vector<std::vector<Hop>> links(idx(devices));
  for (const Arc& arc : arcs) {
    const std::pair rates{arc.bandwidth, arc.latency_s};
    if (arc.from < devices) links[idx(arc.from)].push_back({{arc.to, true}, rates});
    if (arc.to < devices) links[idx(arc.to)].push_back({{arc.from, false}, rates});
  }
  std::map<std::pair<Index, std::vector<Hop>>, Index> first;
  for (Index d = 0; d < devices; ++d) {
    std::sort(links[idx(d)].begin(), links[idx(d)].end());
    const Index host = host_of_device.empty() ? 0 : host_of_device[idx(d)];
    first.emplace(std::pair{host, std::move(links[idx(d)])}, d);
  }
  std::vector<Index> result;
  for (const auto& [links_of, device] : first) result.push_back(device);
  std::sort(result.begin(), result.end());
  return result;
}

/// Both directions of all links, those between the same two vertices as one.
std::vector<Arc> arcs_of(const LinkGraph& graph) {
  std::map<std::pair<Index, Index>, Arc> arcs;
  const auto add = [&](std::int64_t from, std::int64_t to, double bandwidth, double latency_s) {
    if (bandwidth <= 0) return;
    const auto [arc, fresh] =
        arcs.try_emplace({static_cast<Index>(from), static_cast<Index>(to)},
                         Arc{static_cast<Index>(from), static_cast<Index>(to), 0, latency_s});
    arc->second.bandwidth += bandwidth;
    arc->second.latency_s = std::min(arc->second.latency_s, latency_s);
  };
  for (const LinkGraph::Link& link : graph.links) {
    add(link.a, link.b, link.forward, link.latency_s);
    add(link.b, link.a, link.backward, link.latency_s);
  }
  std::vector<Arc> result;
  for (const auto& [ends, arc] : arcs) result.push_back(arc);
  return result;
}

/// Without the links of switches that lead nowhere else: they are no way out of a block.
std::vector<Arc> without_dead_ends(Index devices, Index vertices, std::vector<Arc> arcs) {
  for (bool found = true; found;) {
    std::vector<Index> neighbour(idx(vertices), kNone);
    for (const Arc& arc : arcs) {
      neighbour[idx(arc.from)] = joined(neighbour[idx(arc.from)], arc.to);
      neighbour[idx(arc.to)] = joined(neighbour[idx(arc.to)], arc.from);
    }
    const auto is_dead_end = [&](Index v) { return v >= devices && neighbour[idx(v)] != kMany; };
    found = std::erase_if(arcs, [&](const Arc& arc) {
              return is_dead_end(arc.from) || is_dead_end(arc.to);
            }) > 0;
  }
  return arcs;
}

void check_count(std::size_t devices) {
  if (devices < 2) throw InvalidInput("links are between two devices at least");
}

/// A maximum spanning tree (Prim), and all pairs inside of hosts.
std::vector<Arc> strongest_arcs(const PairMatrix& matrix, const std::vector<double>& bandwidth) {
  const std::size_t n = matrix.devices.size();
  std::vector<Arc> arcs;
  const auto add = [&](std::size_t a, std::size_t b) {
    const auto x = static_cast<Index>(a), y = static_cast<Index>(b);
    arcs.push_back({x, y, bandwidth[a * n + b], 0});
    arcs.push_back({y, x, bandwidth[a * n + b], 0});
  };
  std::vector<double> best(n, -1);
  std::vector<std::size_t> nearest(n, 0);
  std::vector<bool> inside(n, false);
  std::size_t newest = 0;
  for (std::size_t count = 1; count < n; ++count) {
    inside[newest] = true;
    std::size_t next = n;
    for (std::size_t d = 0; d < n; ++d) {
      if (inside[d]) continue;
      if (bandwidth[newest * n + d] > best[d]) {
        best[d] = bandwidth[newest * n + d];
        nearest[d] = newest;
      }
      if (next == n || best[d] > best[next]) next = d;
    }
    if (best[next] > 0) add(nearest[next], next);
    newest = next;
  }
  std::map<Index, std::vector<std::size_t>> hosts;
  for (std::size_t d = 0; d < matrix.host_of_device.size(); ++d) {
    for (const std::size_t other : hosts[matrix.host_of_device[d]]) {
      if (bandwidth[other * n + d] > 0) add(other, d);
    }
    hosts[matrix.host_of_device[d]].push_back(d);
  }
  return arcs;
}

}  // namespace

LinkHierarchy hierarchy_of(const LinkGraph& graph) {
  check_count(graph.devices.size());
  const auto devices = static_cast<Index>(graph.devices.size());
  const auto vertices = static_cast<Index>(graph.devices.size() + graph.switches.size());
  const std::vector<Arc> arcs = without_dead_ends(devices, vertices, arcs_of(graph));
  Merging merging(devices, vertices, arcs, graph.host_of_device, true);
  const std::vector<Level> levels = merging.levels();
  if (!merging.is_whole()) {
    std::vector<Index> apart(graph.devices.size());
    std::iota(apart.begin(), apart.end(), 0);
    refuse_parts(graph.devices, levels.empty() ? apart : levels.back().block);
  }
  LinkHierarchy result = arranged(levels, graph.hosts, graph.host_of_device);

  const std::vector<Index> sources = unlike_devices(devices, arcs, graph.host_of_device);
  const std::size_t affordable = std::max<std::size_t>(1, kMostLatencySteps / arcs.size());
  // odd, so as not to meet the same device of every host
  const std::size_t step = ((sources.size() + affordable - 1) / affordable) | 1U;
  Paths paths(vertices, arcs);
  for (std::size_t i = 0; i < sources.size(); i += step) {
    const auto source = static_cast<std::size_t>(sources[i]);
    const std::vector<double>& seconds = paths.from(sources[i]);
    for (std::size_t d = 0; d < graph.devices.size(); ++d) {
      if (d == source) continue;
      double& worst = result.levels[level_of(levels, source, d)].latency_s;
      worst = std::max(worst, seconds[d]);
    }
  }
  return result;
}

LinkHierarchy hierarchy_of(const PairMatrix& matrix) {
  const std::size_t n = matrix.devices.size();
  check_count(n);
  std::vector<double> slower(n * n);
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      slower[a * n + b] = std::min(matrix.bandwidth[a * n + b], matrix.bandwidth[b * n + a]);
    }
  }
  const auto devices = static_cast<Index>(n);
  Merging merging(devices, devices, strongest_arcs(matrix, slower), matrix.host_of_device, false);
  const std::vector<Level> levels = merging.levels();
  if (!merging.is_whole()) {
    std::vector<Index> apart(n);
    std::iota(apart.begin(), apart.end(), 0);
    refuse_parts(matrix.devices, levels.empty() ? apart : levels.back().block);
  }
  LinkHierarchy result = arranged(levels, matrix.hosts, matrix.host_of_device);
  const bool one = matrix.latency_s.size() == 1;
  for (std::size_t a = 0; a < n; ++a) {
    for (std::size_t b = 0; b < n; ++b) {
      if (a == b) continue;
      double& worst = result.levels[level_of(levels, a, b)].latency_s;
      worst = std::max(worst, matrix.latency_s[one ? 0 : a * n + b]);
    }
  }
  return result;
}

}  // namespace nestplan::network
