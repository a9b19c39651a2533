#include "network/uneven.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "nestplan/model/blocks.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::network {
namespace {

using Blocks = UnevenHierarchy::Blocks;

using util::idx;

std::vector<Blocks> blocks_of(const model::HierarchySpec& spec) {
  std::vector<Blocks> result;
  for (std::vector<std::int64_t>& ends : model::block_ends(spec)) {
    Blocks blocks;
    std::int64_t start = 0;
    for (const std::int64_t end : ends) {
      const std::int64_t size = end - start;
      blocks.smallest = start == 0 ? size : std::min(blocks.smallest, size);
      blocks.largest = std::max(blocks.largest, size);
      blocks.divisor = std::gcd(blocks.divisor, end);
      start = end;
    }
    blocks.ends = std::move(ends);
    result.push_back(std::move(blocks));
  }
  return result;
}

std::vector<std::int64_t> sizes_of(const std::vector<Blocks>& blocks,
                                   std::int64_t Blocks::*extreme) {
  std::vector<std::int64_t> sizes;
  for (const Blocks& of_level : blocks) sizes.push_back(of_level.*extreme);
  return sizes;
}

model::Rails rails_of(const std::vector<model::NetworkLevel>& levels) {
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const model::Rails rails = levels[l].rails;
    if (rails == model::Rails::kNone || l == 1) continue;
    throw InvalidInput(fmt::format(
        "network.levels[{}].rails: only the second level, right above the nodes, has rails", l));
  }
  if (levels.size() < 2) return model::Rails::kNone;
  if (levels[1].rails == model::Rails::kJoined && levels.size() == 2) {
    throw InvalidInput(
        "network.levels[1].rails: joined rails meet on the level above, and there is none (write "
        "\"isolated\" if they never meet)");
  }
  return levels[1].rails;
}

std::vector<LevelRates> mixed_rates_of(model::Rails rails, std::span<const LevelRates> plain) {
  std::vector<LevelRates> rates(plain.begin(), plain.end());
  if (rails == model::Rails::kJoined) {
    LevelRates& one = rates[1];
    const LevelRates& two = rates[2];
    one.latency_s = std::max(one.latency_s, two.latency_s);
    one.in_network_reduction = false;
    if (two.port < one.port) one.port = two.port;
    one.oversubscription = std::max(one.oversubscription, two.oversubscription);
    one.beta = std::min(one.beta, two.beta);
  }
  if (rails == model::Rails::kIsolated) {
    for (std::size_t i = 1; i < rates.size(); ++i) {
      rates[i].latency_s += rates[0].latency_s;
      rates[i].in_network_reduction = false;
      rates[i].port = std::min(rates[i].port, rates[0].port);
      rates[i].oversubscription = std::max(rates[i].oversubscription, rates[0].oversubscription);
      rates[i].beta = std::min(rates[i].beta, rates[0].beta);
    }
  }
  return rates;
}

}  // namespace

std::int64_t Blocks::end_of(std::int64_t device) const {
  if (alike()) return (device / largest + 1) * largest;
  return *std::upper_bound(ends.begin(), ends.end(), device);
}

std::int64_t Blocks::start_of(std::int64_t device) const {
  if (alike()) return device / largest * largest;
  const auto end = std::upper_bound(ends.begin(), ends.end(), device);
  return end == ends.begin() ? 0 : *(end - 1);
}

UnevenHierarchy::UnevenHierarchy(const model::HierarchySpec& spec,
                                 std::optional<std::int64_t> limit)
    : UnevenHierarchy(spec, blocks_of(spec), limit) {}

UnevenHierarchy::UnevenHierarchy(const model::HierarchySpec& spec, std::vector<Blocks> blocks,
                                 std::optional<std::int64_t> limit)
    : Hierarchy(spec, sizes_of(blocks, &Blocks::smallest), sizes_of(blocks, &Blocks::largest)),
      blocks_(std::move(blocks)),
      rails_(rails_of(spec.levels)) {
  for (int l = 0; l < tree_levels(); ++l) {
    class_.push_back({l, false});
    if (l > 0 && rails_ == model::Rails::kIsolated) class_.push_back({l, true});
  }
  mixed_rates_ = mixed_rates_of(rails_, rates());
  const std::int64_t all = blocks_.back().ends.back();
  devices_ = std::min(all, limit.value_or(all));
  period_ = find_period();
}

std::string UnevenHierarchy::level_name(int level) const {
  const Class& of_pair = class_[idx(level)];
  return tree_level(of_pair.lca).name + (of_pair.forwarded ? " (other rail)" : "");
}

void UnevenHierarchy::append_starts(const PodLayout&, std::int64_t end,
                                    std::vector<std::int64_t>& starts) const {
  if (end > blocks_.back().ends.back()) return;
  if (end <= 0) return starts.push_back(0);
  for (const Blocks& blocks : blocks_) starts.push_back(blocks.end_of(end - 1));
}

std::int64_t UnevenHierarchy::reach(int level) const {
  const Class& of_pair = class_[idx(level)];
  // Links of the class before a forwarded one have the same lca.
  return blocks_[idx(of_pair.forwarded ? of_pair.lca : of_pair.lca - 1)].largest;
}

int UnevenHierarchy::lca(std::int64_t a, std::int64_t b) const {
  int l = 0;
  while (std::max(a, b) >= blocks_[idx(l)].end_of(std::min(a, b))) ++l;
  return l;
}

int UnevenHierarchy::class_of(int lca, bool other_rail) const {
  if (lca == 0) return 0;
  if (rails_ == model::Rails::kIsolated) return 2 * lca - 1 + (other_rail ? 1 : 0);
  if (rails_ == model::Rails::kJoined && other_rail) return std::max(lca, 2);
  return lca;
}

int UnevenHierarchy::level(std::int64_t a, std::int64_t b) const {
  const Blocks& nodes = blocks_.front();
  const bool other_rail =
      rails_ != model::Rails::kNone && a - nodes.start_of(a) != b - nodes.start_of(b);
  return class_of(lca(a, b), other_rail);
}

double UnevenHierarchy::transfer_s(double bytes, int level, std::int64_t unit) const {
  if (bytes <= 0) return 0;
  const Class& of_pair = class_[idx(level)];
  double latency_s = tree_level(of_pair.lca).latency_s;
  double bandwidth = path_bandwidth(rates(), of_pair.lca, unit);
  if (of_pair.forwarded) {
    latency_s += tree_level(0).latency_s;
    bandwidth = std::min(bandwidth, path_bandwidth(rates(), 0, unit));
  }
  return latency_s + bytes / bandwidth;
}

bool UnevenHierarchy::mixes_rails(std::span<const std::int64_t> members) const {
  const Blocks& nodes = blocks_.front();
  std::vector<std::int64_t> first;  // indices in the first node
  std::size_t seen = 0;             // in the current one
  std::int64_t start = 0;
  std::int64_t end = 0;
  bool in_first = false;
  for (const std::int64_t device : members) {
    if (device >= end) {
      if (end > 0 && !in_first && seen != first.size()) return true;
      in_first = end == 0;
      start = nodes.start_of(device);
      end = nodes.end_of(device);
      seen = 0;
    }
    if (in_first) {
      first.push_back(device - start);
    } else if (seen == first.size() || first[seen] != device - start) {
      return true;
    }
    ++seen;
  }
  return !in_first && seen != first.size();
}

GroupShape UnevenHierarchy::shape(std::span<const std::int64_t> members) const {
  GroupShape most = count_blocks(members, blocks_.size(),
                                 [this](std::size_t level, std::int64_t device, std::int64_t) {
                                   return blocks_[level].end_of(device);
                                 });
  if (rails_ != model::Rails::kNone) most.push_back(mixes_rails(members) ? 1 : 0);
  return most;
}

CollectiveTime UnevenHierarchy::collective(model::CollectiveOp op, const GroupShape& shape) const {
  const std::span<const std::int64_t> counts = std::span(shape).first(blocks_.size());
  const bool mixed = shape.size() > blocks_.size() && shape.back() != 0;
  return collective_time(algorithm(), mixed ? std::span<const LevelRates>(mixed_rates_) : rates(),
                         op, counts);
}

/// Whether some pair `(x, x + shift)` of the link is in different blocks of `level`: there is a
/// boundary `e` with `x < e ≤ x + shift` for one of the `unit` neighbours `x` in one of the pods.
bool UnevenHierarchy::crosses(int level, const PodLayout& pods, std::int64_t from,
                              std::int64_t shift, std::int64_t unit) const {
  const Blocks& blocks = blocks_[idx(level)];
  const std::int64_t width = unit - 1 + shift;
  const std::int64_t last = pods.devices - 1;
  if (std::ssize(blocks.ends) <= pods.pods) {
    for (const std::int64_t end : blocks.ends) {
      if (end > last) break;
      if (end <= from) continue;
      const std::int64_t pod = std::min((end - 1 - from) / pods.pod_size, pods.pods - 1);
      if (end <= pod * pods.pod_size + from + width) return true;
    }
    return false;
  }
  for (std::int64_t pod = 0; pod < pods.pods; ++pod) {
    const std::int64_t first = pod * pods.pod_size + from;
    if (first + shift > last) break;
    if (blocks.end_of(first) <= std::min(first + width, last)) return true;
  }
  return false;
}

int UnevenHierarchy::link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                                std::int64_t unit) const {
  const std::int64_t shift = to - from;
  const bool rails = rails_ != model::Rails::kNone;
  if (to >= pods.pod_size || (rails && !blocks_.front().alike())) {
    return Network::link_level(pods, from, to, unit);
  }
  int farthest = 0;
  for (int l = tree_levels() - 1; l >= 1 && farthest == 0; --l) {
    if (crosses(l - 1, pods, from, shift, unit)) farthest = l;
  }
  return class_of(farthest, rails && shift % blocks_.front().largest != 0);
}

/// The blocks below the last level repeat after as many devices as the least run of them that the
/// others go on with, the last time perhaps in part (Knuth, Morris and Pratt's border).
std::int64_t UnevenHierarchy::find_period() const {
  if (blocks_.size() < 2) return 1;
  const std::vector<std::int64_t>& ends = blocks_[blocks_.size() - 2].ends;
  // By size and the sizes of all blocks inside.
  std::map<std::vector<std::int64_t>, int> known;
  std::vector<int> kind;
  std::vector<std::size_t> next(blocks_.size(), 0);
  std::int64_t start = 0;
  for (const std::int64_t end : ends) {
    std::vector<std::int64_t> inside{end - start};
    for (std::size_t l = 0; l + 2 < blocks_.size(); ++l) {
      if (blocks_[l].alike()) continue;
      inside.push_back(-1);
      for (; next[l] < blocks_[l].ends.size() && blocks_[l].ends[next[l]] <= end; ++next[l]) {
        inside.push_back(blocks_[l].ends[next[l]] - start);
      }
    }
    kind.push_back(known.try_emplace(inside, static_cast<int>(known.size())).first->second);
    start = end;
  }
  std::vector<std::size_t> border(kind.size(), 0);
  for (std::size_t i = 1; i < kind.size(); ++i) {
    std::size_t k = border[i - 1];
    while (k > 0 && kind[i] != kind[k]) k = border[k - 1];
    border[i] = kind[i] == kind[k] ? k + 1 : 0;
  }
  return ends[kind.size() - border.back() - 1];
}

bool UnevenHierarchy::shapes_repeat(const PodLayout& pods, std::int64_t unit,
                                    bool across_pods) const {
  const auto nested = [](std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; };
  if (pods.pods > 1 && pods.pod_size % unit != 0) return false;
  for (std::size_t l = 0; l + 1 < blocks_.size(); ++l) {
    const Blocks& blocks = blocks_[l];
    if (blocks.alike()) {
      if (!nested(unit, blocks.largest)) return false;
      if (across_pods && !nested(pods.pod_size, blocks.largest)) return false;
    } else {
      // A stage lies inside one block, and so does a pod.
      if (blocks.divisor % unit != 0) return false;
      if (across_pods && blocks.divisor % pods.pod_size != 0) return false;
    }
  }
  return true;
}

}  // namespace nestplan::network
