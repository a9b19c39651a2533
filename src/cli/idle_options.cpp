#include "cli/idle_options.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace nestplan::cli {
namespace {

/// Why the shards of a pod are those of all copies, or none; empty if they can be others.
std::string why_pods_share_nothing_else(const Flags& flags, const model::Graph& graph) {
  const auto only = [](const auto& list, std::int64_t value) {
    return list.size() == 1 && list.front() == value;
  };
  const bool splits_context = std::any_of(graph.strategies.begin(), graph.strategies.end(),
                                          [](const auto& strategy) { return strategy.cp > 1; });
  if (only(flags.zero, 0)) return "ZeRO 0 shares no state";
  if (only(flags.dp, 1) && !splits_context) return "a single copy has nobody to share with";
  if (flags.dp.size() == 1 && flags.dp == flags.dp_inner) return "all copies are in one pod";
  return "";
}

}  // namespace

std::vector<std::string> remarks_on_idle_options(const Flags& flags, const model::Graph& graph) {
  std::vector<std::string> remarks;
  const auto idle = [&](const char* flag, const std::string& why) {
    remarks.push_back(fmt::format("--{} changes nothing: {}", flag, why));
  };
  if (graph.dimensions.experts == 0) {
    const std::string why = graph.name + " has no experts";
    if (!flags.capacity_factor.empty()) idle("capacity-factor", why);
    if (!flags.routing_imbalance.empty()) idle("routing-imbalance", why);
  }
  const bool whole = std::all_of(graph.strategies.begin(), graph.strategies.end(),
                                 [](const model::Strategy& each) { return each.cp == 1; });
  if (!flags.context_form.empty() && whole) {
    idle("context-form", "no strategy splits sequences (--cp)");
  }
  if (std::find(flags.shard.begin(), flags.shard.end(), "pod") != flags.shard.end()) {
    const std::string why = why_pods_share_nothing_else(flags, graph);
    if (!why.empty()) idle("shard pod", why);
  }
  return remarks;
}

}  // namespace nestplan::cli
