#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/targets/targets.hpp"

namespace nestplan::targets {

/// Collects settings.
class Collector {
 public:
  void add(std::string key, std::string value, std::string why) {
    settings_.push_back({std::move(key), std::move(value), std::move(why)});
  }
  void add(std::string key, std::int64_t value, std::string why) {
    add(std::move(key), std::to_string(value), std::move(why));
  }
  /// Only if the number is known.
  void add_known(std::string key, std::int64_t value, std::string why) {
    if (value != 0) add(std::move(key), value, std::move(why));
  }
  std::vector<Setting> take() { return std::move(settings_); }

 private:
  std::vector<Setting> settings_;
};

}  // namespace nestplan::targets
