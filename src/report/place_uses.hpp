#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nestplan/model/plan.hpp"
#include "nestplan/placement/placement.hpp"

namespace nestplan::report {

/// What the device at a place of a cluster does.
struct PlaceUse {
  enum class Kind : std::uint8_t { kUnavailable, kIdle, kBusy };
  Kind kind = Kind::kUnavailable;
  std::int64_t pod = 0;
  std::int64_t stage = 0;
  std::int64_t copy = 0;  ///< of the stage inside the pod
  bool busy() const { return kind == Kind::kBusy; }
};

/// By place of the cluster's network.
std::vector<PlaceUse> uses_of(const placement::Placement& placement, std::int64_t places);

/// How places are told apart: by stage; by copy if there is one stage only.
class Looks {
 public:
  explicit Looks(const model::PlanStrategy& strategy) : strategy_(strategy) {}

  bool by_copy() const { return strategy_.pp == 1; }
  std::size_t of(const PlaceUse& use) const;
  /// "3", or "3.2" for the second copy of stage 3 in a pod.
  std::string label(const PlaceUse& use) const;
  /// How many there are on a page.
  std::size_t count() const;

 private:
  /// Copies that look different: all of them, or as many as can be told apart at a glance.
  static constexpr std::int64_t kCopies = 8;

  model::PlanStrategy strategy_;
};

}  // namespace nestplan::report
