#include "cli/pareto_front.hpp"

#include <algorithm>

#include "nestplan/cost/memory.hpp"

namespace nestplan::cli {

bool FrontPoint::dominates(const FrontPoint& other) const {
  constexpr double kRounding = 1e-12;
  const double margin = kRounding * other.iteration_time_s;
  if (devices > other.devices || memory_bytes > other.memory_bytes ||
      iteration_time_s > other.iteration_time_s + margin) {
    return false;
  }
  return devices < other.devices || memory_bytes < other.memory_bytes ||
         iteration_time_s < other.iteration_time_s - margin;
}

void walk_front(
    const std::function<std::optional<std::int64_t>(std::optional<std::int64_t> limit)>& fastest) {
  std::optional<std::int64_t> limit;
  while (const std::optional<std::int64_t> bytes = fastest(limit)) limit = *bytes - 1;
}

void limit_memory(model::Problem& problem, std::int64_t bytes) {
  model::MemoryReserve& reserve = problem.options.reserve;
  const auto limit = [&](model::Device& device) {
    device.memory_bytes =
        std::min(cost::memory_limit(device.usable_bytes(), reserve), static_cast<double>(bytes));
    device.reserved_bytes = 0;
  };
  limit(problem.cluster.device);
  for (model::Device& device : problem.cluster.other_devices) limit(device);
  reserve.margin = 0;
}

std::vector<std::size_t> undominated(const std::vector<FrontPoint>& points) {
  std::vector<std::size_t> front;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto beats = [&](const FrontPoint& other) { return other.dominates(points[i]); };
    const auto equals = [&](std::size_t kept) {
      return !points[kept].dominates(points[i]) && !points[i].dominates(points[kept]) &&
             points[kept].devices == points[i].devices &&
             points[kept].memory_bytes == points[i].memory_bytes;
    };
    if (std::any_of(points.begin(), points.end(), beats)) continue;
    if (std::none_of(front.begin(), front.end(), equals)) front.push_back(i);
  }
  return front;
}

std::vector<std::size_t> spread(std::size_t size, std::size_t count) {
  std::vector<std::size_t> indices;
  const std::size_t kept = std::min(size, count);
  for (std::size_t i = 0; i < kept; ++i) {
    indices.push_back(kept == size ? i : (i * (size - 1) + (count - 1) / 2) / (count - 1));
  }
  return indices;
}

std::vector<std::int64_t> halves(std::int64_t devices) {
  std::vector<std::int64_t> counts;
  for (; devices > 0; devices /= 2) counts.push_back(devices);
  return counts;
}

}  // namespace nestplan::cli
