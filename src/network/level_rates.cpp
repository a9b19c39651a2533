#include "network/level_rates.hpp"

#include <algorithm>
#include <limits>

namespace nestplan::network {

std::vector<LevelRates> level_rates(std::span<const model::NetworkLevel> levels,
                                    std::span<const std::int64_t> smallest,
                                    std::span<const std::int64_t> largest) {
  std::vector<LevelRates> result;
  for (std::size_t l = 0; l < levels.size(); ++l) {
    const model::NetworkLevel& level = levels[l];
    LevelRates rates;
    rates.port = level.bandwidth * (1 - level.background);
    rates.oversubscription = level.oversubscription;
    rates.latency_s = level.latency_s;
    rates.in_network_reduction = level.in_network_reduction;
    if (l > 0) {
      rates.sharers = level.ports > 0 ? largest[l - 1] : smallest[l - 1];
      const auto ports = static_cast<double>(level.ports);
      const auto devices = static_cast<double>(rates.sharers);
      if (ports > devices) rates.port *= ports / devices;
      if (ports > 0 && ports < devices) rates.oversubscription *= devices / ports;
    }
    const double all = rates.port / rates.oversubscription;
    rates.beta = l <= 1 ? all : std::min(result.back().beta, all);
    result.push_back(rates);
  }
  return result;
}

double path_bandwidth(std::span<const LevelRates> rates, int level, std::int64_t unit) {
  double bandwidth = std::numeric_limits<double>::infinity();
  const int first = level == 0 ? 0 : 1;
  for (int l = first; l <= level; ++l) {
    const LevelRates& at = rates[static_cast<std::size_t>(l)];
    const auto senders = static_cast<double>(std::min(unit, at.sharers));
    const double uplink =
        static_cast<double>(at.sharers) * at.port / (at.oversubscription * senders);
    bandwidth = std::min({bandwidth, at.port, uplink});
  }
  return bandwidth;
}

}  // namespace nestplan::network
