#include "nestplan/model/blocks.hpp"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::model {
namespace {

using util::idx;

constexpr std::int64_t kMostBlocks = std::int64_t{1} << 26;

}  // namespace

std::vector<std::vector<std::int64_t>> block_counts(const HierarchySpec& network) {
  const std::vector<NetworkLevel>& levels = network.levels;
  std::vector<std::vector<std::int64_t>> counts(levels.size());
  std::int64_t blocks = 1;
  for (std::size_t l = levels.size(); l-- > 0;) {
    if (blocks > kMostBlocks) {
      throw InvalidInput(fmt::format("network.levels[{}]: more than {} blocks", l, kMostBlocks));
    }
    counts[l] = levels[l].fanouts;
    if (counts[l].empty()) counts[l].assign(idx(blocks), levels[l].fanout);
    if (std::ssize(counts[l]) != blocks) {
      throw InvalidInput(fmt::format(
          "network.levels[{}].fanout: lists {} blocks, but the levels above make {} of them", l,
          counts[l].size(), blocks));
    }
    blocks = std::accumulate(counts[l].begin(), counts[l].end(), std::int64_t{0});
  }
  return counts;
}

std::vector<std::vector<std::int64_t>> block_ends(const HierarchySpec& network) {
  std::vector<std::vector<std::int64_t>> ends;
  for (const std::vector<std::int64_t>& counts : block_counts(network)) {
    std::vector<std::int64_t> of_level;
    std::int64_t inner = 0;
    for (const std::int64_t count : counts) {
      inner += count;
      of_level.push_back(ends.empty() ? inner : ends.back()[idx(inner) - 1]);
    }
    ends.push_back(std::move(of_level));
  }
  return ends;
}

std::vector<std::int64_t> hosts_of_places(const Cluster& cluster) {
  std::vector<std::int64_t> hosts;
  std::int64_t host = 0;
  for (const std::int64_t size : cluster.host_sizes()) hosts.insert(hosts.end(), idx(size), host++);
  return hosts;
}

}  // namespace nestplan::model
