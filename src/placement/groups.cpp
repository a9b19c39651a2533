#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <span>

#include "nestplan/placement/placement.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"

namespace nestplan::placement {
namespace {

using util::idx;

/// The ranks of every stage in the order tp, cp, dp.
std::vector<std::vector<std::int64_t>> ranks_by_stage(const Placement& placement) {
  std::vector<std::vector<std::int64_t>> ranks(placement.plan.stages.size());
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    const model::StageOutline& stage = placement.plan.stages[s];
    ranks[s].resize(idx(stage.tp * stage.cp * placement.plan.dp()));
  }
  for (const Seat& seat : placement.seats) {
    const model::StageOutline& stage = placement.plan.stages[idx(seat.stage)];
    ranks[idx(seat.stage)][idx(seat.tp + stage.tp * (seat.cp + stage.cp * seat.dp))] = seat.rank;
  }
  return ranks;
}

/// Cuts `ranks` into groups of `size` members at `stride`, in blocks of size·stride neighbours.
void cut(const std::vector<std::int64_t>& ranks, std::int64_t size, std::int64_t stride,
         std::vector<Group>& out) {
  if (size < 2) return;
  for (std::int64_t block = 0; block < std::ssize(ranks); block += size * stride) {
    for (std::int64_t first = block; first < block + stride; ++first) {
      Group& group = out.emplace_back();
      for (std::int64_t i = 0; i < size; ++i) group.push_back(ranks[idx(first + i * stride)]);
    }
  }
}

/// Transfers go from device `r` of a unit to device `r` of the next, in every pod.
void add_pipelines(const Placement& placement, std::vector<Group>& out) {
  const model::PlanOutline& plan = placement.plan;
  const auto ranks = ranks_by_stage(placement);
  std::int64_t widest = 0;
  for (const auto& of_stage : ranks) widest = std::max(widest, std::ssize(of_stage));
  widest /= plan.dp_outer;
  for (std::int64_t pod = 0; pod < plan.dp_outer; ++pod) {
    for (std::int64_t r = 0; r < widest; ++r) {
      Group group;
      for (const auto& of_stage : ranks) {
        const std::int64_t unit = std::ssize(of_stage) / plan.dp_outer;
        if (r < unit) group.push_back(of_stage[idx(pod * unit + r)]);
      }
      if (group.size() > 1) out.push_back(std::move(group));
    }
  }
}

/// The ranks that hold the same experts' groups together: blocks of ep·tp of them in a stage.
template <typename Visit>
void for_each_expert_block(const Placement& placement, Visit visit) {
  const auto ranks = ranks_by_stage(placement);
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    const model::StageOutline& stage = placement.plan.stages[s];
    const std::int64_t size = stage.ep * stage.tp;
    if (size == stage.etp) continue;  // experts are not dealt out
    for (std::int64_t begin = 0; begin < std::ssize(ranks[s]); begin += size) {
      visit(std::span(ranks[s]).subspan(idx(begin), idx(size)));
    }
  }
}

/// The first and the last of the nodes in use that an expert block touches.
struct NodeRange {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t last = 0;
  auto operator<=>(const NodeRange&) const = default;
};

std::set<NodeRange> nodes_of_expert_blocks(const Placement& placement) {
  std::vector<std::int64_t> number(placement.hosts.size(), 0);
  std::int64_t next = 0;
  for (const std::int64_t host : placement.used_hosts()) number[idx(host)] = next++;
  std::set<NodeRange> ranges;
  for_each_expert_block(placement, [&](std::span<const std::int64_t> block) {
    NodeRange range;
    for (const std::int64_t rank : block) {
      const std::int64_t node = number[idx(placement.seats[idx(rank)].host)];
      range.first = std::min(range.first, node);
      range.last = std::max(range.last, node);
    }
    ranges.insert(range);
  });
  return ranges;
}

/// Whether the members on one host have other local indices than those on another.
bool mixes_rails(const Placement& placement, const Group& group) {
  std::map<std::int64_t, std::vector<std::int64_t>> locals;
  for (const std::int64_t rank : group) {
    const Seat& seat = placement.seats[idx(rank)];
    locals[seat.host].push_back(seat.local);
  }
  for (auto& [host, list] : locals) {
    std::sort(list.begin(), list.end());
    if (list != locals.begin()->second) return true;
  }
  return false;
}

}  // namespace

const char* to_string(GroupKind kind) {
  switch (kind) {
    case GroupKind::kTensor:
      return "tp";
    case GroupKind::kContext:
      return "cp";
    case GroupKind::kExpert:
      return "ep";
    case GroupKind::kData:
      return "dp";
    case GroupKind::kExpertData:
      return "edp";
    case GroupKind::kPipeline:
      return "pp";
  }
  throw InternalError("a kind of group without a name");
}

std::vector<Group> groups(const Placement& placement, GroupKind kind) {
  std::vector<Group> out;
  if (kind == GroupKind::kPipeline) {
    add_pipelines(placement, out);
    return out;
  }
  const auto ranks = ranks_by_stage(placement);
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    const model::StageOutline& stage = placement.plan.stages[s];
    const std::int64_t block = stage.ep * stage.tp;
    switch (kind) {
      case GroupKind::kTensor:
        cut(ranks[s], stage.tp, 1, out);
        break;
      case GroupKind::kContext:
        cut(ranks[s], stage.cp, stage.tp, out);
        break;
      case GroupKind::kExpert:
        cut(ranks[s], block / stage.etp, stage.etp, out);
        break;
      case GroupKind::kData:
        cut(ranks[s], std::ssize(ranks[s]) / stage.tp, stage.tp, out);
        break;
      case GroupKind::kExpertData:
        if (block > stage.etp) cut(ranks[s], std::ssize(ranks[s]) / block, block, out);
        break;
      case GroupKind::kPipeline:
        break;
    }
  }
  return out;
}

std::vector<Spread> spreads(const Placement& placement, const network::Network& network) {
  std::vector<Spread> result;
  for (const GroupKind kind : kGroupKinds) {
    Spread spread;
    spread.kind = kind;
    spread.in_domain.assign(network.domains().size(), 0);
    for (const Group& group : groups(placement, kind)) {
      std::vector<std::int64_t> devices;
      for (const std::int64_t rank : group) devices.push_back(placement.seats[idx(rank)].device);
      std::sort(devices.begin(), devices.end());
      ++spread.in_domain[idx(network.domain(network.shape(devices)))];
      ++spread.groups;
      if (placement.rails && mixes_rails(placement, group)) ++spread.mixed_rails;
      spread.members = std::max(spread.members, std::ssize(group));
    }
    if (spread.groups == 0) continue;
    const auto used = [](std::int64_t count) { return count > 0; };
    const auto& counts = spread.in_domain;
    spread.best =
        static_cast<int>(std::find_if(counts.begin(), counts.end(), used) - counts.begin());
    spread.worst =
        static_cast<int>(counts.rend() - std::find_if(counts.rbegin(), counts.rend(), used)) - 1;
    result.push_back(std::move(spread));
  }
  return result;
}

Segment segment(const Placement& placement) {
  const std::set<NodeRange> ranges = nodes_of_expert_blocks(placement);
  Segment result;
  for (const NodeRange& range : ranges) {
    result.span = std::max(result.span, range.last - range.first + 1);
  }
  if (result.span < 2) return {};
  const auto nodes = std::ssize(placement.used_hosts());
  const auto parts = [](const NodeRange& range, std::int64_t size) {
    return range.first / size != range.last / size;
  };
  for (std::int64_t size = result.span; size <= nodes; ++size) {
    if (nodes % size != 0) continue;
    const bool whole = std::none_of(ranges.begin(), ranges.end(),
                                    [&](const NodeRange& range) { return parts(range, size); });
    if (!whole) continue;
    result.nodes = size;
    break;
  }
  return result;
}

}  // namespace nestplan::placement
