#include "nestplan/placement/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/index.hpp"
#include "nestplan/util/text.hpp"
#include "placement/hosts.hpp"

namespace nestplan::placement {
namespace {

using util::idx;

std::int64_t unit_of(const model::PlanOutline& plan, const model::StageOutline& stage) {
  return stage.tp * stage.cp * plan.dp_inner;
}

/// Expert groups split the copies of a pod, or join those of whole consecutive pods.
bool expert_groups_exist(const model::PlanOutline& plan, const model::StageOutline& stage) {
  const std::int64_t per_pod = stage.cp * plan.dp_inner;
  if (per_pod % stage.ep == 0) return true;
  return stage.ep % per_pod == 0 && plan.dp_outer % (stage.ep / per_pod) == 0;
}

/// Why the stages do not lie within the pods of so many devices.
std::string misfit(const model::PlanOutline& plan, std::int64_t devices) {
  const std::int64_t pod = devices / plan.dp_outer;
  std::int64_t free = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const model::StageOutline& stage = plan.stages[s];
    if (stage.position < free) {
      return fmt::format("stages[{}].position: is {}, but the stage before ends at {}", s,
                         stage.position, free);
    }
    const double unit =
        static_cast<double>(stage.tp * stage.cp) * static_cast<double>(plan.dp_inner);
    if (unit > static_cast<double>(pod)) {
      return fmt::format("stages[{}]: takes {} devices, but a pod has {} ({} in all, dp_outer {})",
                         s, unit, pod, devices, plan.dp_outer);
    }
    free = stage.position + unit_of(plan, stage);
    if (free > pod) {
      return fmt::format(
          "stages[{}]: ends at {}, but a pod has {} devices ({} in all, dp_outer {})", s, free, pod,
          devices, plan.dp_outer);
    }
    if (!expert_groups_exist(plan, stage)) {
      return fmt::format("stages[{}].ep: {} neither divides the {} copies of a pod nor joins pods",
                         s, stage.ep, stage.cp * plan.dp_inner);
    }
    if (stage.tp % stage.etp != 0) {
      return fmt::format("stages[{}].etp: {} does not divide tp, which is {}", s, stage.etp,
                         stage.tp);
    }
  }
  return "";
}

/// Numbers the ranks of stages, which have tp·cp of them in each of the dp copies.
class Numbering {
 public:
  Numbering(const model::PlanOutline& plan, RankOrder order) : plan_(plan), order_(order) {
    for (const model::StageOutline& stage : plan.stages) {
      before_.push_back(per_copy_);
      per_copy_ += stage.tp * stage.cp;
    }
  }

  std::int64_t ranks() const { return per_copy_ * plan_.dp(); }

  /// Of index `within` (tp fastest, then cp) of the copy `dp` of a stage.
  std::int64_t rank(std::int64_t stage, std::int64_t dp, std::int64_t within) const {
    if (order_ == RankOrder::kDataLast) return dp * per_copy_ + before_[idx(stage)] + within;
    const model::StageOutline& split = plan_.stages[idx(stage)];
    return before_[idx(stage)] * plan_.dp() + dp * split.tp * split.cp + within;
  }

 private:
  const model::PlanOutline& plan_;
  RankOrder order_;
  std::vector<std::int64_t> before_;  ///< ranks of earlier stages in one copy
  std::int64_t per_copy_ = 0;
};

/// Where a device is: the seat without its part in the plan.
class Room {
 public:
  Room(const model::Cluster& cluster, const HostMap& hosts)
      : place_of_(cluster.places_of_devices()), hosts_(hosts) {}

  std::int64_t devices() const { return std::ssize(place_of_); }

  Seat seat(std::int64_t device) const {
    Seat seat;
    seat.device = device;
    seat.place = place_of_[idx(device)];
    seat.host = hosts_.host_of[idx(seat.place)];
    seat.local = hosts_.local_of[idx(seat.place)];
    return seat;
  }

 private:
  std::vector<std::int64_t> place_of_;
  const HostMap& hosts_;
};

bool has_rails(const model::Cluster& cluster) {
  const auto* hierarchy = std::get_if<model::HierarchySpec>(&cluster.network);
  return hierarchy != nullptr &&
         std::any_of(hierarchy->levels.begin(), hierarchy->levels.end(),
                     [](const auto& level) { return level.rails != model::Rails::kNone; });
}

Placement empty_placement(const model::PlanOutline& plan, RankOrder order, const Room& room,
                          const HostMap& hosts) {
  Placement placement;
  placement.plan = plan;
  placement.order = order;
  placement.named_hosts = hosts.named;
  for (const std::string& name : hosts.names) placement.hosts.push_back({name, 0, 0});
  for (std::int64_t device = 0; device < room.devices(); ++device) {
    ++placement.hosts[idx(room.seat(device).host)].devices;
  }
  return placement;
}

}  // namespace

std::vector<std::string> rank_order_names() { return {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp"}; }

const char* to_string(RankOrder order) {
  return order == RankOrder::kPipelineLast ? "tp-cp-ep-dp-pp" : "tp-cp-ep-pp-dp";
}

RankOrder parse_rank_order(std::string_view name) {
  for (const RankOrder order : {RankOrder::kPipelineLast, RankOrder::kDataLast}) {
    if (name == to_string(order)) return order;
  }
  throw InvalidInput(fmt::format("unknown order of ranks {}{}", util::quoted(name),
                                 util::hint(name, rank_order_names())));
}

std::vector<std::int64_t> Placement::used_hosts() const {
  std::vector<std::int64_t> used;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    if (hosts[h].used > 0) used.push_back(static_cast<std::int64_t>(h));
  }
  return used;
}

model::PlanOutline outline_of(const model::Plan& plan, const model::Graph& graph) {
  model::PlanOutline outline;
  outline.status = plan.status;
  outline.reason = plan.reason;
  outline.model = graph.name;
  outline.dp_inner = plan.strategy.dp_inner;
  outline.dp_outer = plan.strategy.dp_outer;
  const bool experts = graph.dimensions.experts > 0;
  for (const model::StagePlan& stage : plan.stages) {
    const model::Strategy& s = graph.strategies[static_cast<std::size_t>(stage.strategy)];
    outline.stages.push_back({stage.position, s.tp, s.cp, s.ep, experts ? s.etp : s.tp});
  }
  return outline;
}

std::string obstacle(const model::PlanOutline& plan, const model::Cluster& cluster,
                     RankOrder order) {
  std::string problem = misfit(plan, cluster.devices());
  if (!problem.empty() || order == RankOrder::kPipelineLast || plan.stages.size() == 1) {
    return problem;
  }
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const model::StageOutline& stage = plan.stages[s];
    const std::int64_t dealt = stage.ep * stage.tp;
    if (dealt == stage.etp || stage.ep == stage.cp) continue;
    return fmt::format(
        "stages[{}].ep: with ranks in the order {} the experts of a stage must be dealt out over "
        "tp times cp = {} ranks, not {}; {} takes any",
        s, to_string(order), stage.tp * stage.cp, dealt, to_string(RankOrder::kPipelineLast));
  }
  return "";
}

Placement place(const model::PlanOutline& plan, const model::Cluster& cluster, RankOrder order,
                const std::vector<std::string>& host_names) {
  if (const std::string problem = obstacle(plan, cluster, order); !problem.empty()) {
    throw InvalidInput(problem);
  }
  const HostMap hosts = map_hosts(cluster, host_names);
  const Room room(cluster, hosts);
  Placement placement = empty_placement(plan, order, room, hosts);
  const Numbering numbering(plan, order);
  placement.rails = has_rails(cluster);
  placement.seats.resize(idx(numbering.ranks()));
  std::vector<bool> taken(idx(room.devices()), false);
  const std::int64_t pod_size = room.devices() / plan.dp_outer;
  for (std::int64_t s = 0; s < std::ssize(plan.stages); ++s) {
    const model::StageOutline& stage = plan.stages[idx(s)];
    const std::int64_t copy = stage.tp * stage.cp;
    for (std::int64_t i = 0; i < copy * plan.dp(); ++i) {  // tp, cp, dp
      const std::int64_t dp = i / copy;
      const std::int64_t in_pod = dp % plan.dp_inner * copy + i % copy;
      const std::int64_t pod = dp / plan.dp_inner;
      Seat seat = room.seat(pod * pod_size + stage.position + in_pod);
      seat.rank = numbering.rank(s, dp, i % copy);
      seat.pod = pod;
      seat.stage = s;
      seat.dp = dp;
      seat.cp = i / stage.tp % stage.cp;
      seat.tp = i % stage.tp;
      seat.etp = i % stage.etp;
      seat.ep = i / stage.etp % (stage.ep * stage.tp / stage.etp);
      taken[idx(seat.device)] = true;
      ++placement.hosts[idx(seat.host)].used;
      placement.seats[idx(seat.rank)] = seat;
    }
  }
  for (std::int64_t device = 0; device < room.devices(); ++device) {
    if (!taken[idx(device)]) placement.idle.push_back(room.seat(device));
  }
  return placement;
}

}  // namespace nestplan::placement
