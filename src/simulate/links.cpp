#include "simulate/links.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "nestplan/util/index.hpp"

namespace nestplan::simulate {
namespace {

using util::idx;

/// One device more of the block. A stage is an interval, so the block is among the latest ones.
void cross(std::vector<Crossing>& crossings, int level, std::int64_t block, std::int64_t size) {
  const auto same = [&](const Crossing& c) { return c.level == level && c.block == block; };
  const auto known = std::find_if(crossings.rbegin(), crossings.rend(), same);
  if (known != crossings.rend()) {
    ++known->devices;
  } else {
    crossings.push_back({level, block, size, 1});
  }
}

}  // namespace

StageLinks::StageLinks(const network::Network& network, const network::PodLayout& pods,
                       std::span<const Boundary> boundaries)
    : layout_(pods),
      boundaries_(boundaries.begin(), boundaries.end()),
      at_(idx(pods.pods) * boundaries.size()) {
  find_levels(network);
  find_blocks(network);
  has_uplinks_ = find_crossings(network);
  if (has_uplinks_) {
    count_all_pods();
  } else {
    for (PodBoundary& at : at_) at.near.clear(), at.far.clear();
  }
  start_.clear();
  size_.clear();
}

std::span<const PodBoundary> StageLinks::pod(std::int64_t pod) const {
  return std::span(at_).subspan(idx(pod) * boundaries_.size(), boundaries_.size());
}

std::vector<std::int64_t> StageLinks::signature(std::int64_t pod) const {
  std::map<std::pair<int, std::int64_t>, std::int64_t> names;
  std::vector<std::int64_t> out;
  for (const PodBoundary& at : this->pod(pod)) {
    out.insert(out.end(), {at.level, at.pairs});
    for (const auto* side : {&at.near, &at.far}) {
      out.push_back(static_cast<std::int64_t>(side->size()));
      for (const Crossing& crossing : *side) {
        const auto next = static_cast<std::int64_t>(names.size());
        const auto name = names.emplace(std::pair(crossing.level, crossing.block), next).first;
        out.insert(out.end(), {crossing.level, name->second, crossing.size, crossing.devices});
      }
    }
  }
  return out;
}

template <typename Visit>
void StageLinks::for_pairs(std::int64_t pod, const Boundary& boundary, Visit visit) const {
  const std::int64_t base = pod * layout_.pod_size;
  for (std::int64_t r = 0; r < boundary.unit && base + boundary.to + r < layout_.devices; ++r) {
    visit(base + boundary.from + r, base + boundary.to + r);
  }
}

void StageLinks::find_levels(const network::Network& network) {
  for (std::int64_t pod = 0; pod < layout_.pods; ++pod) {
    for (std::size_t b = 0; b < boundaries_.size(); ++b) {
      PodBoundary& at = at_[idx(pod) * boundaries_.size() + b];
      for_pairs(pod, boundaries_[b], [&](std::int64_t from, std::int64_t to) {
        at.level = std::max(at.level, network.level(from, to));
        ++at.pairs;
      });
    }
  }
}

void StageLinks::find_blocks(const network::Network& network) {
  int worst = 0;
  for (const PodBoundary& at : at_) worst = std::max(worst, at.level);
  if (worst == 0) return;
  std::vector<int> to_next(idx(layout_.devices), 0);
  for (std::int64_t d = 0; d + 1 < layout_.devices; ++d) to_next[idx(d)] = network.level(d, d + 1);
  for (int level = 0; level <= worst; ++level) {
    start_.emplace_back(idx(layout_.devices), 0);
    size_.emplace_back(idx(layout_.devices), 0);
    std::int64_t start = 0;
    for (std::int64_t d = 0; d < layout_.devices; ++d) {
      if (d > 0 && to_next[idx(d - 1)] >= level) start = d;
      start_.back()[idx(d)] = start;
      ++size_.back()[idx(start)];
    }
  }
}

bool StageLinks::find_crossings(const network::Network& network) {
  bool tree = true;
  for (std::int64_t pod = 0; pod < layout_.pods && tree; ++pod) {
    for (std::size_t b = 0; b < boundaries_.size(); ++b) {
      PodBoundary& at = at_[idx(pod) * boundaries_.size() + b];
      for_pairs(pod, boundaries_[b], [&](std::int64_t from, std::int64_t to) {
        const int farthest = network.level(from, to);
        for (int level = 1; level <= farthest; ++level) {
          const std::int64_t near = start_[idx(level)][idx(from)];
          const std::int64_t far = start_[idx(level)][idx(to)];
          tree = tree && near != far;
          cross(at.near, level, near, size_[idx(level)][idx(near)]);
          cross(at.far, level, far, size_[idx(level)][idx(far)]);
        }
      });
    }
  }
  return tree;
}

void StageLinks::count_all_pods() {
  const auto boundaries = boundaries_.size();
  for (std::size_t b = 0; b < boundaries; ++b) {
    for (std::vector<Crossing> PodBoundary::*side : {&PodBoundary::near, &PodBoundary::far}) {
      std::map<std::pair<int, std::int64_t>, std::int64_t> devices;
      const auto each = [&](auto visit) {
        for (std::size_t at = b; at < at_.size(); at += boundaries) {
          for (Crossing& crossing : at_[at].*side) {
            visit(crossing, devices[{crossing.level, crossing.block}]);
          }
        }
      };
      each([](const Crossing& crossing, std::int64_t& sum) { sum += crossing.devices; });
      each([](Crossing& crossing, std::int64_t sum) { crossing.devices = sum; });
    }
  }
}

}  // namespace nestplan::simulate
