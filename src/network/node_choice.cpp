#include "nestplan/network/node_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "nestplan/model/blocks.hpp"
#include "nestplan/network/slurm_topology.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::network {
namespace {

using Hosts = std::vector<std::int64_t>;

using util::idx;

/// Where blocks end, level by level; of a network without levels, a single one.
std::vector<std::vector<std::int64_t>> ends_of_blocks(const model::Cluster& cluster) {
  const auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network);
  if (hierarchy == nullptr) return {{cluster.places()}};
  return model::block_ends(*hierarchy);
}

std::int64_t block_of(const std::vector<std::int64_t>& ends, std::int64_t place) {
  return std::upper_bound(ends.begin(), ends.end(), place) - ends.begin();
}

class Chooser {
 public:
  Chooser(const model::Cluster& cluster, const NodeRequest& request)
      : request_(request), ends_(ends_of_blocks(cluster)) {
    std::int64_t place = 0;
    for (const std::int64_t size : cluster.host_sizes()) {
      first_.push_back(place);
      place += size;
      last_.push_back(place - 1);
    }
    find_lowest();
    const auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network);
    const bool has_unknown = hierarchy != nullptr && hierarchy->levels.back().name == kUnknownPlace;
    for (const std::int64_t host : request.available) {
      const bool known = !has_unknown || block(top() - 1, host) == 0;
      (known ? known_ : unknown_).push_back(host);
    }
  }

  NodeChoice choose() {
    const std::int64_t nodes = request_.nodes;
    if (nodes < 1 || request_.segment < 1 || nodes % request_.segment != 0) {
      throw InvalidConfig(
          fmt::format("{} nodes are no whole number of segments of {}", nodes, request_.segment));
    }
    if (std::ssize(request_.available) < nodes) {
      throw InvalidConfig(fmt::format("{} nodes are wanted and {} are available",
                                      util::format_count(nodes),
                                      util::format_count(std::ssize(request_.available))));
    }
    if (!choose_domain()) choose_with_leftovers();
    return finished();
  }

 private:
  int top() const { return static_cast<int>(ends_.size()) - 1; }
  std::int64_t block(int level, std::int64_t host) const {
    return block_of(ends_[idx(level)], first_[idx(host)]);
  }

  void find_lowest() {
    const auto joins_hosts = [&](int level) {
      for (std::size_t h = 1; h < first_.size(); ++h) {
        const auto host = static_cast<std::int64_t>(h);
        if (block(level, host) == block(level, host - 1)) return true;
      }
      return false;
    };
    while (lowest_ < top() && !joins_hosts(lowest_)) ++lowest_;
  }

  std::map<std::int64_t, Hosts> by_block(int level, const Hosts& hosts) const {
    std::map<std::int64_t, Hosts> result;
    for (const std::int64_t host : hosts) result[block(level, host)].push_back(host);
    return result;
  }

  /// Whole segments inside of lowest blocks.
  std::int64_t room(const Hosts& hosts) const {
    std::int64_t segments = 0;
    for (const auto& [block, inside] : by_block(lowest_, hosts)) {
      segments += std::ssize(inside) / request_.segment;
    }
    return segments;
  }

  struct Candidate {
    Hosts hosts;
    std::int64_t room = 0;
  };

  std::vector<Candidate> candidates(int level, const Hosts& hosts) const {
    std::vector<Candidate> result;
    for (auto& [block, inside] : by_block(level, hosts)) {
      result.push_back({inside, room(inside)});
    }
    return result;
  }

  /// Of those with room for so many segments the one with fewest hosts left over; null: none.
  static const Candidate* tightest(const std::vector<Candidate>& blocks, std::int64_t segments) {
    const Candidate* best = nullptr;
    for (const Candidate& block : blocks) {
      const bool better = best == nullptr || block.hosts.size() < best->hosts.size();
      if (block.room >= segments && better) best = &block;
    }
    return best;
  }

  bool choose_domain() {
    const std::int64_t segments = request_.nodes / request_.segment;
    for (int level = lowest_; level <= top(); ++level) {
      const std::vector<Candidate> blocks = candidates(level, known_);
      if (const Candidate* domain = tightest(blocks, segments)) {
        take(level, domain->hosts, segments);
        std::sort(chosen_.begin(), chosen_.end());
        return true;
      }
    }
    return false;
  }

  /// Takes so many segments of a block of `level`, which has room for them.
  void take(int level, const Hosts& hosts, std::int64_t segments) {
    if (segments == 0) return;
    if (level == lowest_) {
      chosen_.insert(chosen_.end(), hosts.begin(), hosts.begin() + segments * request_.segment);
      return;
    }
    std::vector<Candidate> blocks = candidates(level - 1, hosts);
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const Candidate& a, const Candidate& b) { return a.room > b.room; });
    while (blocks.front().room < segments) {
      take(level - 1, blocks.front().hosts, blocks.front().room);
      segments -= blocks.front().room;
      blocks.erase(blocks.begin());
    }
    take(level - 1, tightest(blocks, segments)->hosts, segments);
  }

  /// There is no room for all segments: as many as there is for, in the tightest domain that has
  /// hosts enough, and what is left over of its blocks; hosts of unknown place last.
  void choose_with_leftovers() {
    Hosts domain = known_;
    for (int level = top(); level >= lowest_; --level) {
      const Hosts* best = nullptr;
      const auto blocks = by_block(level, domain);
      for (const auto& [block, hosts] : blocks) {
        const bool enough = std::ssize(hosts) >= request_.nodes;
        if (enough && (best == nullptr || hosts.size() < best->size())) best = &hosts;
      }
      if (best == nullptr) break;
      domain = Hosts(*best);
    }
    const std::int64_t whole = std::min(room(domain), request_.nodes / request_.segment);
    take(top(), domain, whole);
    std::sort(chosen_.begin(), chosen_.end());
    Hosts rest;
    std::set_difference(domain.begin(), domain.end(), chosen_.begin(), chosen_.end(),
                        std::back_inserter(rest));
    rest.insert(rest.end(), unknown_.begin(), unknown_.end());
    rest.resize(idx(request_.nodes) - chosen_.size());
    if (request_.segment > 1) straddling_ = std::ssize(rest) / request_.segment;
    chosen_.insert(chosen_.end(), rest.begin(), rest.end());
  }

  NodeChoice finished() const {
    NodeChoice choice;
    choice.hosts = chosen_;
    choice.straddling = straddling_;
    Hosts sorted = chosen_;
    std::sort(sorted.begin(), sorted.end());
    const auto is_chosen = [&](std::int64_t host) {
      return std::binary_search(sorted.begin(), sorted.end(), host);
    };
    for (const auto& [block, hosts] : by_block(lowest_, known_)) {
      BlockUse& use = choice.blocks.emplace_back();
      for (const std::int64_t host : hosts) {
        (is_chosen(host) ? use.chosen : use.idle).push_back(host);
      }
    }
    for (const std::int64_t host : unknown_) {
      (is_chosen(host) ? choice.chosen_unknown : choice.fallback).push_back(host);
    }
    choice.level = sorted.size() == 1 ? -1 : 0;
    const auto holds_all = [&](int level) {
      const std::vector<std::int64_t>& ends = ends_[idx(level)];
      return block_of(ends, first_[idx(sorted.front())]) ==
             block_of(ends, last_[idx(sorted.back())]);
    };
    while (choice.level >= 0 && !holds_all(choice.level)) ++choice.level;
    return choice;
  }

  const NodeRequest& request_;
  std::vector<std::vector<std::int64_t>> ends_;
  std::vector<std::int64_t> first_, last_;  ///< places of hosts
  Hosts known_, unknown_, chosen_;
  std::int64_t straddling_ = 0;
  int lowest_ = 0;
};

std::vector<bool> named_hosts(const model::Cluster& cluster, std::span<const std::string> names) {
  if (cluster.hosts.empty()) {
    throw InvalidConfig(fmt::format("cluster {} does not name its hosts", cluster.name));
  }
  std::vector<std::string> known;
  std::unordered_map<std::string, std::size_t> index;
  for (const model::Host& host : cluster.hosts) {
    index.emplace(host.name, known.size());
    known.push_back(host.name);
  }
  std::vector<bool> named(known.size(), false);
  for (const std::string& name : names) {
    const auto host = index.find(name);
    if (host == index.end()) {
      throw InvalidConfig(fmt::format("cluster {} has no host {}{}", cluster.name,
                                      util::quoted(name), util::hint(name, known)));
    }
    named[host->second] = true;
  }
  return named;
}

/// Adds the places of hosts for which `out` is true to those that are unavailable.
void take_out(model::Cluster& cluster, const std::vector<bool>& out) {
  std::vector<model::PlaceRun> runs = cluster.unavailable;
  std::int64_t place = 0;
  const std::vector<std::int64_t> sizes = cluster.host_sizes();
  for (std::size_t h = 0; h < sizes.size(); ++h) {
    if (out[h]) runs.push_back({place, sizes[h]});
    place += sizes[h];
  }
  std::sort(runs.begin(), runs.end(),
            [](const model::PlaceRun& a, const model::PlaceRun& b) { return a.first < b.first; });
  std::vector<model::PlaceRun> merged;
  for (const model::PlaceRun& run : runs) {
    if (merged.empty() || run.first > merged.back().first + merged.back().count) {
      merged.push_back(run);
      continue;
    }
    model::PlaceRun& last = merged.back();
    last.count = std::max(last.first + last.count, run.first + run.count) - last.first;
  }
  std::int64_t count = cluster.places();
  for (const model::PlaceRun& run : merged) count -= run.count;
  if (count == 0) {
    throw InvalidConfig(fmt::format("no devices of cluster {} are left", cluster.name));
  }
  cluster.unavailable = std::move(merged);
}

/// Of every host, how many of its places are unavailable.
std::vector<std::int64_t> missing_places(const model::Cluster& cluster) {
  std::vector<std::int64_t> missing;
  std::int64_t begin = 0;
  auto hole = cluster.unavailable.begin();
  for (const std::int64_t size : cluster.host_sizes()) {
    const std::int64_t end = begin + size;
    std::int64_t& count = missing.emplace_back(0);
    for (; hole != cluster.unavailable.end() && hole->first < end; ++hole) {
      const std::int64_t hole_end = hole->first + hole->count;
      count += std::min(hole_end, end) - std::max(hole->first, begin);
      if (hole_end > end) break;
    }
    begin = end;
  }
  return missing;
}

std::vector<bool> partly_missing(const model::Cluster& cluster) {
  const std::vector<std::int64_t> sizes = cluster.host_sizes();
  const std::vector<std::int64_t> missing = missing_places(cluster);
  std::vector<bool> partly(sizes.size());
  for (std::size_t h = 0; h < sizes.size(); ++h) {
    partly[h] = missing[h] > 0 && missing[h] < sizes[h];
  }
  return partly;
}

}  // namespace

NodeChoice choose_nodes(const model::Cluster& cluster, const NodeRequest& request) {
  return Chooser(cluster, request).choose();
}

std::vector<std::int64_t> available_hosts(const model::Cluster& cluster) {
  const std::vector<std::int64_t> missing = missing_places(cluster);
  std::vector<std::int64_t> result;
  for (std::size_t h = 0; h < missing.size(); ++h) {
    if (missing[h] == 0) result.push_back(static_cast<std::int64_t>(h));
  }
  return result;
}

std::int64_t partial_hosts(const model::Cluster& cluster) {
  const std::vector<bool> partly = partly_missing(cluster);
  return std::count(partly.begin(), partly.end(), true);
}

void without_partial_hosts(model::Cluster& cluster) {
  if (available_hosts(cluster).empty()) throw InvalidConfig("every host misses a device");
  take_out(cluster, partly_missing(cluster));
}

std::vector<std::int64_t> places_of_hosts(const model::Cluster& cluster,
                                          std::span<const std::int64_t> hosts) {
  const std::vector<std::int64_t> sizes = cluster.host_sizes();
  std::vector<std::int64_t> first(sizes.size(), 0);
  std::exclusive_scan(sizes.begin(), sizes.end(), first.begin(), std::int64_t{0});
  std::vector<std::int64_t> places;
  for (const std::int64_t host : hosts) {
    for (std::int64_t i = 0; i < sizes[idx(host)]; ++i) places.push_back(first[idx(host)] + i);
  }
  return places;
}

std::vector<std::vector<std::int64_t>> pieces_of_groups(const model::Cluster& cluster, int level,
                                                        std::span<const std::int64_t> places,
                                                        std::int64_t size) {
  const std::vector<std::int64_t> ends = ends_of_blocks(cluster)[idx(level)];
  std::vector<std::vector<std::int64_t>> groups;
  for (std::size_t start = 0; start < places.size(); start += idx(size)) {
    std::map<std::int64_t, std::int64_t> members;
    for (std::size_t i = start; i < std::min(places.size(), start + idx(size)); ++i) {
      ++members[block_of(ends, places[i])];
    }
    std::vector<std::int64_t>& pieces = groups.emplace_back();
    for (const auto& [block, count] : members) pieces.push_back(count);
  }
  return groups;
}

void restrict_to_hosts(model::Cluster& cluster, std::span<const std::string> names) {
  std::vector<bool> out = named_hosts(cluster, names);
  out.flip();
  take_out(cluster, out);
}

void without_hosts(model::Cluster& cluster, std::span<const std::string> names) {
  take_out(cluster, named_hosts(cluster, names));
}

}  // namespace nestplan::network
