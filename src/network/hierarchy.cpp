#include "network/hierarchy.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "nestplan/util/errors.hpp"

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

}  // namespace

HierarchicalNetwork::HierarchicalNetwork(const model::HierarchySpec& spec,
                                         std::optional<std::int64_t> limit)
    : level_(spec.levels) {
  if (spec.collectives != "hierarchical-ring") {
    throw InvalidInput("network.collectives: unknown algorithm \"" + spec.collectives +
                       "\" (known: \"hierarchical-ring\")");
  }
  if (level_.empty()) throw InvalidInput("network.levels: at least one level is needed");
  std::int64_t size = 1;
  for (std::size_t l = 0; l < level_.size(); ++l) {
    size *= level_[l].fanout;
    block_.push_back(size);
    const double port = level_[l].bandwidth / level_[l].oversubscription;
    beta_.push_back(l <= 1 ? port : std::min(beta_.back(), port));
  }
  devices_ = std::min(size, limit.value_or(size));
}

std::string HierarchicalNetwork::level_name(int level) const {
  return level_[static_cast<std::size_t>(level)].name;
}

void HierarchicalNetwork::append_starts(const PodLayout&, std::int64_t end,
                                        std::vector<std::int64_t>& starts) const {
  for (const std::int64_t block : block_) starts.push_back((end + block - 1) / block * block);
}

std::int64_t HierarchicalNetwork::reach(int level) const {
  return block_[static_cast<std::size_t>(level) - 1];
}

std::vector<std::string> HierarchicalNetwork::domains() const {
  std::vector<std::string> names;
  for (const model::NetworkLevel& level : level_) names.push_back(level.name);
  return names;
}

int HierarchicalNetwork::domain(const GroupShape& shape) const {
  int farthest = 0;
  for (int l = 0; l < levels(); ++l) {
    if (shape[static_cast<std::size_t>(l)] > 1) farthest = l;
  }
  return farthest;
}

int HierarchicalNetwork::level(std::int64_t a, std::int64_t b) const {
  int l = 0;
  while (a / block_[static_cast<std::size_t>(l)] != b / block_[static_cast<std::size_t>(l)]) ++l;
  return l;
}

double HierarchicalNetwork::transfer_s(double bytes, int level, std::int64_t unit) const {
  if (bytes <= 0) return 0;
  double bandwidth = std::numeric_limits<double>::infinity();
  const int first = level == 0 ? 0 : 1;
  for (int l = first; l <= level; ++l) {
    const auto index = static_cast<std::size_t>(l);
    const std::int64_t inner = l == 0 ? 1 : block_[index - 1];
    const auto senders = static_cast<double>(std::min(unit, inner));
    const double port = level_[index].bandwidth;
    const double uplink =
        static_cast<double>(inner) * port / (level_[index].oversubscription * senders);
    bandwidth = std::min({bandwidth, port, uplink});
  }
  return level_[static_cast<std::size_t>(level)].latency_s + bytes / bandwidth;
}

GroupShape HierarchicalNetwork::shape(std::span<const std::int64_t> members) const {
  const std::size_t levels = block_.size();
  GroupShape most(levels, 0);
  GroupShape count(levels, 0);
  GroupShape end(levels, 0);  // of the block, level by level, that the last member is in
  for (const std::int64_t device : members) {
    // A new block at some level is counted one level up, and its inside from the start.
    std::size_t level = 0;
    for (; level + 1 < levels && device >= end[level]; ++level) {
      const bool neighbour = end[level] > 0 && device < end[level] + block_[level];
      end[level] =
          neighbour ? end[level] + block_[level] : (device / block_[level] + 1) * block_[level];
      count[level] = 1;
      most[level] = std::max<std::int64_t>(most[level], 1);
    }
    most[level] = std::max(most[level], ++count[level]);
  }
  return most;
}

CollectiveTime HierarchicalNetwork::collective(model::CollectiveOp op,
                                               const GroupShape& shape) const {
  AffineTime time;
  if (op == model::CollectiveOp::kAllToAll) {
    double members = 1;
    for (const std::int64_t m : shape) members *= static_cast<double>(m);
    double inside = 1;  // P_(i-1), with P_(-1) = 1: the device itself
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto m = static_cast<double>(shape[i]);
      time.per_byte_s = std::max(time.per_byte_s, (inside * m - inside) / (members * beta_[i]));
      time.fixed_s += (m - 1) * level_[i].latency_s;
      inside *= m;
    }
    return time;
  }
  // One pass over the rings, as all_gather and reduce_scatter do; all_reduce takes two.
  double share = 1;  // V_i / V
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto m = static_cast<double>(shape[i]);
    time.per_byte_s += (m - 1) / m * share / beta_[i];
    time.fixed_s += (m - 1) * level_[i].latency_s;
    share /= m;
  }
  if (op == model::CollectiveOp::kAllReduce) {
    time.per_byte_s *= 2;
    time.fixed_s *= 2;
  }
  return time;
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

}  // namespace nestplan::network
