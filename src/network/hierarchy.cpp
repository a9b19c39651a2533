#include "network/hierarchy.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "nestplan/util/errors.hpp"
#include "network/uneven.hpp"

namespace nestplan::network {
namespace {

/// Whether some `(j·step + offset) mod modulus` with `0 ≤ j < count` is at least `threshold`.
bool reaches_residue(std::int64_t offset, std::int64_t step, std::int64_t count,
                     std::int64_t modulus, std::int64_t threshold) {
  if (threshold <= 0) return count > 0;
  const std::int64_t stride = step % modulus;
  const std::int64_t divisor = std::gcd(stride, modulus);  // gcd(0, m) = m
  const std::int64_t period = modulus / divisor;
  if (count >= period) return modulus - divisor + offset % divisor >= threshold;
  std::int64_t residue = offset % modulus;
  for (std::int64_t j = 0; j < count; ++j) {
    if (residue >= threshold) return true;
    residue += stride;
    if (residue >= modulus) residue -= modulus;
  }
  return false;
}

std::vector<std::int64_t> blocks_of(const model::HierarchySpec& spec) {
  std::vector<std::int64_t> blocks;
  std::int64_t size = 1;
  for (const model::NetworkLevel& level : spec.levels) {
    size *= level.fanout;
    blocks.push_back(size);
  }
  return blocks;
}

}  // namespace

Hierarchy::Hierarchy(const model::HierarchySpec& spec, std::span<const std::int64_t> smallest,
                     std::span<const std::int64_t> largest)
    : level_(spec.levels),
      rates_(level_rates(spec.levels, smallest, largest)),
      algorithm_(parse_algorithm(spec.collectives)) {
  if (level_.empty()) throw InvalidInput("network.levels: at least one level is needed");
  const auto reduces = [](const model::NetworkLevel& level) { return level.in_network_reduction; };
  if (algorithm_ == Algorithm::kInNetwork && std::none_of(level_.begin(), level_.end(), reduces)) {
    throw InvalidInput(
        "network.collectives: \"in-network\" needs a level with \"in_network_reduction\": true");
  }
}

std::vector<std::string> Hierarchy::domains() const {
  std::vector<std::string> names;
  for (const model::NetworkLevel& level : level_) names.push_back(level.name);
  return names;
}

int Hierarchy::domain(const GroupShape& shape) const {
  int farthest = 0;
  for (int l = 0; l < tree_levels(); ++l) {
    if (shape[static_cast<std::size_t>(l)] > 1) farthest = l;
  }
  return farthest;
}

HierarchicalNetwork::HierarchicalNetwork(const model::HierarchySpec& spec,
                                         std::optional<std::int64_t> limit)
    : HierarchicalNetwork(spec, blocks_of(spec), limit) {}

HierarchicalNetwork::HierarchicalNetwork(const model::HierarchySpec& spec,
                                         std::vector<std::int64_t> blocks,
                                         std::optional<std::int64_t> limit)
    : Hierarchy(spec, blocks, blocks),
      block_(std::move(blocks)),
      devices_(std::min(block_.back(), limit.value_or(block_.back()))) {}

std::string HierarchicalNetwork::level_name(int level) const { return tree_level(level).name; }

void HierarchicalNetwork::append_starts(const PodLayout&, std::int64_t end,
                                        std::vector<std::int64_t>& starts) const {
  for (const std::int64_t block : block_) starts.push_back((end + block - 1) / block * block);
}

std::int64_t HierarchicalNetwork::reach(int level) const {
  return block_[static_cast<std::size_t>(level) - 1];
}

int HierarchicalNetwork::level(std::int64_t a, std::int64_t b) const {
  int l = 0;
  while (a / block_[static_cast<std::size_t>(l)] != b / block_[static_cast<std::size_t>(l)]) ++l;
  return l;
}

double HierarchicalNetwork::transfer_s(double bytes, int level, std::int64_t unit) const {
  if (bytes <= 0) return 0;
  return tree_level(level).latency_s + bytes / path_bandwidth(rates(), level, unit);
}

GroupShape HierarchicalNetwork::shape(std::span<const std::int64_t> members) const {
  return count_blocks(members, block_.size(),
                      [this](std::size_t level, std::int64_t device, std::int64_t last_end) {
                        const std::int64_t block = block_[level];
                        const bool neighbour = last_end > 0 && device < last_end + block;
                        return neighbour ? last_end + block : (device / block + 1) * block;
                      });
}

CollectiveTime HierarchicalNetwork::collective(model::CollectiveOp op,
                                               const GroupShape& shape) const {
  return collective_time(algorithm(), rates(), op, shape);
}

int HierarchicalNetwork::link_level(const PodLayout& pods, std::int64_t from, std::int64_t to,
                                    std::int64_t unit) const {
  const std::int64_t shift = to - from;
  const std::int64_t last = (pods.pods - 1) * pods.pod_size;
  const std::int64_t last_pairs = std::min(unit, pods.devices - (last + to));
  // A pair is split by a block size when the producer's residue is among the last `shift` of its
  // block; of `unit` neighbours the one with the largest residue decides.
  for (int l = levels() - 1; l >= 1; --l) {
    const std::int64_t block = block_[static_cast<std::size_t>(l) - 1];
    if (last_pairs > 0 && (last + from) % block + last_pairs - 1 + shift >= block) return l;
    if (reaches_residue(from, pods.pod_size, pods.pods - 1, block, block - shift - unit + 1)) {
      return l;
    }
  }
  return 0;
}

std::int64_t HierarchicalNetwork::shape_period() const {
  return block_.size() > 1 ? block_[block_.size() - 2] : 1;
}

bool HierarchicalNetwork::shapes_repeat(const PodLayout& pods, std::int64_t unit,
                                        bool across_pods) const {
  const auto nested = [](std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; };
  if (pods.pods > 1 && pods.pod_size % unit != 0) return false;
  for (std::size_t l = 0; l + 1 < block_.size(); ++l) {
    if (!nested(unit, block_[l])) return false;
    if (across_pods && !nested(pods.pod_size, block_[l])) return false;
  }
  return true;
}

std::unique_ptr<Network> make_hierarchy(const model::HierarchySpec& spec,
                                        std::optional<std::int64_t> limit) {
  model::HierarchySpec regular = spec;
  for (model::NetworkLevel& level : regular.levels) {
    const std::vector<std::int64_t>& counts = level.fanouts;
    const bool alike =
        std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
    if (!alike || level.rails != model::Rails::kNone) {
      return std::make_unique<UnevenHierarchy>(spec, limit);
    }
    if (!counts.empty()) level.fanout = counts.front();
  }
  return std::make_unique<HierarchicalNetwork>(regular, limit);
}

}  // namespace nestplan::network
