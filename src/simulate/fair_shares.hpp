#pragma once

#include <span>
#include <vector>

#include "nestplan/simulate/pipeline.hpp"

namespace nestplan::simulate {

/// Max-min fair rates of transfers that are under way at once, in bytes/s per device: all rise
/// together; a transfer stops at its own rate or when a link that it uses is full.
/// Result: one for each of `transfers`. Links whose index is not `live` are never full.
void fair_shares(std::span<const Transfer* const> transfers, std::span<const SharedLink> links,
                 const std::vector<char>& live, std::vector<double>& rates);

/// The links that can be full: those that cannot carry at once, at their own rates, the most
/// demanding transfer into every stage.
std::vector<char> live_links(const PodKind& kind, std::int64_t stages);

}  // namespace nestplan::simulate
