#include "network/available.hpp"

#include <algorithm>
#include <utility>

namespace nestplan::network {

AvailableNetwork::AvailableNetwork(std::unique_ptr<Network> whole, std::vector<std::int64_t> places)
    : whole_(std::move(whole)), places_(std::move(places)) {}

int AvailableNetwork::level(std::int64_t a, std::int64_t b) const {
  return whole_->level(place(a), place(b));
}

void AvailableNetwork::append_starts(const PodLayout&, std::int64_t end,
                                     std::vector<std::int64_t>& starts) const {
  if (end >= devices()) return;
  const PodLayout whole{whole_->devices(), 1, whole_->devices()};
  const std::int64_t behind = end == 0 ? 0 : place(end - 1) + 1;
  std::vector<std::int64_t> boundaries;
  whole_->append_starts(whole, behind, boundaries);
  for (const std::int64_t boundary : boundaries) {
    starts.push_back(std::lower_bound(places_.begin(), places_.end(), boundary) - places_.begin());
  }
}

std::int64_t AvailableNetwork::reach(int level) const {
  return std::min(devices(), whole_->reach(level));
}

GroupShape AvailableNetwork::shape(std::span<const std::int64_t> members) const {
  std::vector<std::int64_t> places;
  places.reserve(members.size());
  for (const std::int64_t device : members) places.push_back(place(device));
  return whole_->shape(places);
}

}  // namespace nestplan::network
