#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nestplan/network/network.hpp"

namespace nestplan::network {

/// The part of a network whose places are available: device `d` is the `d`-th of them. Links keep
/// the rates they have in the whole network, since a device that is missing takes no wire with it.
///
/// After a gap a stage starts at a boundary of the whole network's blocks as the first pod sees
/// them, or at the first available device behind it.
class AvailableNetwork final : public Network {
 public:
  /// `places`: of the devices, ascending.
  AvailableNetwork(std::unique_ptr<Network> whole, std::vector<std::int64_t> places);

  std::int64_t devices() const override { return static_cast<std::int64_t>(places_.size()); }
  int levels() const override { return whole_->levels(); }
  std::string level_name(int level) const override { return whole_->level_name(level); }
  int level(std::int64_t a, std::int64_t b) const override;
  double transfer_s(double bytes, int level, std::int64_t unit) const override {
    return whole_->transfer_s(bytes, level, unit);
  }
  void append_starts(const PodLayout& pods, std::int64_t end,
                     std::vector<std::int64_t>& starts) const override;
  std::int64_t reach(int level) const override;
  GroupShape shape(std::span<const std::int64_t> members) const override;
  CollectiveTime collective(model::CollectiveOp op, const GroupShape& shape) const override {
    return whole_->collective(op, shape);
  }
  std::vector<std::string> domains() const override { return whole_->domains(); }
  int domain(const GroupShape& shape) const override { return whole_->domain(shape); }

 private:
  std::int64_t place(std::int64_t device) const {
    return places_[static_cast<std::size_t>(device)];
  }

  std::unique_ptr<Network> whole_;
  std::vector<std::int64_t> places_;
};

}  // namespace nestplan::network
