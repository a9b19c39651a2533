#include "simulate/fair_shares.hpp"

#include <algorithm>
#include <limits>

#include "nestplan/util/index.hpp"

namespace nestplan::simulate {
namespace {

using util::idx;

/// Of a capacity, so that what fits exactly is not kept from fitting by rounding.
constexpr double kSlack = 1e-9;

}  // namespace

void fair_shares(std::span<const Transfer* const> transfers, std::span<const SharedLink> links,
                 const std::vector<char>& live, std::vector<double>& rates) {
  const std::size_t count = transfers.size();
  rates.assign(count, 0);
  std::vector<char> rising(count, 1);
  std::vector<double> left(links.size());
  std::vector<double> weight(links.size());
  for (std::size_t unsettled = count; unsettled > 0;) {
    for (std::size_t l = 0; l < links.size(); ++l) left[l] = links[l].capacity, weight[l] = 0;
    double common = std::numeric_limits<double>::infinity();
    for (std::size_t t = 0; t < count; ++t) {
      for (const LinkUse& use : transfers[t]->uses) {
        if (live[idx(use.link)] == 0) continue;
        if (rising[t] != 0) {
          weight[idx(use.link)] += use.weight;
        } else {
          left[idx(use.link)] -= use.weight * rates[t];
        }
      }
      if (rising[t] != 0) common = std::min(common, transfers[t]->rate);
    }
    const auto limit = [&](std::int64_t link) {
      return std::max(0.0, left[idx(link)]) / weight[idx(link)];
    };
    for (std::size_t l = 0; l < links.size(); ++l) {
      if (weight[l] > 0) common = std::min(common, limit(static_cast<std::int64_t>(l)));
    }
    for (std::size_t t = 0; t < count; ++t) {
      if (rising[t] == 0) continue;
      const auto full = [&](const LinkUse& use) {
        return live[idx(use.link)] != 0 && limit(use.link) <= common * (1 + kSlack);
      };
      const auto& uses = transfers[t]->uses;
      const bool own = transfers[t]->rate <= common * (1 + kSlack);
      if (!own && std::none_of(uses.begin(), uses.end(), full)) continue;
      rates[t] = own ? transfers[t]->rate : common;
      rising[t] = 0;
      --unsettled;
    }
  }
}

std::vector<char> live_links(const PodKind& kind, std::int64_t stages) {
  std::vector<double> demand(kind.links.size(), 0);
  std::vector<double> most(kind.links.size());
  const auto parts = static_cast<std::int64_t>(kind.forward.size());
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    std::fill(most.begin(), most.end(), 0.0);
    for (std::int64_t part = stage; part < parts; part += stages) {
      for (const Transfer* transfer : {&kind.forward[idx(part)], &kind.gradient[idx(part)]}) {
        for (const LinkUse& use : transfer->uses) {
          most[idx(use.link)] = std::max(most[idx(use.link)], use.weight * transfer->rate);
        }
      }
    }
    for (std::size_t l = 0; l < most.size(); ++l) demand[l] += most[l];
  }
  std::vector<char> live(kind.links.size());
  for (std::size_t l = 0; l < live.size(); ++l) {
    live[l] = demand[l] > kind.links[l].capacity * (1 + kSlack) ? 1 : 0;
  }
  return live;
}

}  // namespace nestplan::simulate
