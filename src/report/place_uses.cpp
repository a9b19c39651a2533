#include "report/place_uses.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::report {

std::vector<PlaceUse> uses_of(const placement::Placement& placement, std::int64_t places) {
  std::vector<PlaceUse> uses(static_cast<std::size_t>(places));
  for (const placement::Seat& seat : placement.seats) {
    uses[static_cast<std::size_t>(seat.place)] = {PlaceUse::Kind::kBusy, seat.pod, seat.stage,
                                                  seat.dp % placement.plan.dp_inner};
  }
  for (const placement::Seat& seat : placement.idle) {
    uses[static_cast<std::size_t>(seat.place)].kind = PlaceUse::Kind::kIdle;
  }
  return uses;
}

std::size_t Looks::of(const PlaceUse& use) const {
  const std::int64_t copy = use.pod * strategy_.dp_inner + use.copy;
  return static_cast<std::size_t>(by_copy() ? copy % kCopies : use.stage);
}

std::string Looks::label(const PlaceUse& use) const {
  if (by_copy()) return fmt::format("{}", use.pod * strategy_.dp_inner + use.copy + 1);
  return strategy_.dp_inner == 1 ? fmt::format("{}", use.stage + 1)
                                 : fmt::format("{}.{}", use.stage + 1, use.copy + 1);
}

std::size_t Looks::count() const {
  return static_cast<std::size_t>(by_copy() ? std::min(strategy_.dp, kCopies) : strategy_.pp);
}

}  // namespace nestplan::report
