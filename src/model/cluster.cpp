#include "nestplan/model/cluster.hpp"

#include <algorithm>
#include <numeric>

#include "nestplan/util/errors.hpp"

namespace nestplan::model {
namespace {

std::int64_t times(std::int64_t a, std::int64_t b, const char* what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw InvalidInput(std::string("the product of the network's ") + what + " is beyond 64 bits");
  }
  return product;
}

std::int64_t places_of(const HierarchySpec& network) {
  std::int64_t blocks = 1;
  for (auto level = network.levels.rbegin(); level != network.levels.rend(); ++level) {
    const std::vector<std::int64_t>& fanouts = level->fanouts;
    blocks = fanouts.empty() ? times(blocks, level->fanout, "fan-outs")
                             : std::accumulate(fanouts.begin(), fanouts.end(), std::int64_t{0});
  }
  return blocks;
}

std::int64_t places_of(const TorusSpec& network) {
  std::int64_t product = 1;
  for (const TorusDimension& dimension : network.dimensions) {
    product = times(product, dimension.size, "dimensions");
  }
  return product;
}

}  // namespace

std::int64_t Cluster::places() const {
  return std::visit([](const auto& spec) { return places_of(spec); }, network);
}

std::int64_t Cluster::devices() const {
  std::int64_t count = places();
  for (const PlaceRun& run : unavailable) count -= run.count;
  return std::min(count, limit.value_or(count));
}

std::vector<std::int64_t> Cluster::places_of_devices() const {
  std::vector<std::int64_t> result;
  const std::int64_t count = devices();
  result.reserve(static_cast<std::size_t>(count));
  auto hole = unavailable.begin();
  for (std::int64_t place = 0; std::ssize(result) < count; ++place) {
    if (hole != unavailable.end() && place == hole->first) {
      place += hole->count - 1;
      ++hole;
      continue;
    }
    result.push_back(place);
  }
  return result;
}

std::vector<std::uint8_t> Cluster::types_of_devices() const {
  if (other_devices.empty()) return {};
  std::vector<std::uint8_t> of_place(static_cast<std::size_t>(places()), 0);
  for (const TypeRun& run : types) {
    std::fill_n(of_place.begin() + run.places.first, run.places.count,
                static_cast<std::uint8_t>(run.type));
  }
  std::vector<std::uint8_t> result;
  for (const std::int64_t place : places_of_devices()) {
    result.push_back(of_place[static_cast<std::size_t>(place)]);
  }
  return result;
}

std::vector<std::int64_t> Cluster::host_sizes() const {
  std::vector<std::int64_t> sizes;
  if (!hosts.empty()) {
    for (const Host& host : hosts) sizes.push_back(host.places);
    return sizes;
  }
  std::int64_t size = 1;
  const auto* hierarchy = std::get_if<HierarchySpec>(&network);
  if (places_per_host > 0) {
    size = places_per_host;
  } else if (hierarchy != nullptr) {
    const NetworkLevel& nearest = hierarchy->levels.front();
    if (!nearest.fanouts.empty()) return nearest.fanouts;
    size = nearest.fanout;
  } else {
    for (const std::int64_t extent : std::get<TorusSpec>(network).host) size *= extent;
  }
  sizes.assign(static_cast<std::size_t>(places() / size), size);
  return sizes;
}

}  // namespace nestplan::model
