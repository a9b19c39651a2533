#include "nestplan/simulate/simulation.hpp"

#include <algorithm>
#include <cstddef>

#include "nestplan/util/index.hpp"

namespace nestplan::simulate {
namespace {

using util::idx;

/// Steps of one stage with their transfers.
struct StageSteps {
  double first_forward_s = 0;  ///< of the first chunk
  double first_backward_s = 0;
  double forward_s = 0;  ///< of all chunks, without transfers beside other steps
  double backward_s = 0;
  double total_s() const { return forward_s + backward_s; }
};

std::vector<StageSteps> steps_of(const Pipeline& pipeline, const PodKind& kind) {
  std::vector<StageSteps> stages(idx(pipeline.stages));
  for (std::int64_t part = 0; part < pipeline.parts(); ++part) {
    StageSteps& stage = stages[idx(part % pipeline.stages)];
    const double waits = 1 - pipeline.transfer_overlap;
    const PartWork& work = pipeline.work[idx(part)];
    stage.forward_s += waits * kind.forward[idx(part)].seconds + work.forward_s;
    stage.backward_s += waits * kind.gradient[idx(part)].seconds + work.backward_s;
    if (part >= pipeline.stages) continue;
    stage.first_forward_s = kind.forward[idx(part)].seconds + work.forward_s;
    stage.first_backward_s = kind.gradient[idx(part)].seconds + work.backward_s;
  }
  return stages;
}

/// `E` of bounds_of().
double warm_up_excess(const Pipeline& pipeline, const std::vector<StageSteps>& stages) {
  const std::int64_t p = pipeline.stages;
  std::vector<double> row(idx(std::min(p, pipeline.microbatches)), 0);  // of forward steps only
  double before = 0;
  double behind = 0;
  for (const StageSteps& stage : stages) behind += stage.total_s();
  double excess = 0;
  for (std::int64_t k = 0; k < p; ++k) {
    const double f = stages[idx(k)].forward_s;
    before += f;
    behind -= stages[idx(k)].total_s();
    for (std::size_t n = 0; n < row.size(); ++n) {
      row[n] = f + std::max(row[n], n > 0 ? row[n - 1] : 0);
    }
    const std::int64_t last = std::min(pipeline.microbatches, p - k);
    excess = std::max(excess, row[idx(last - 1)] - before - behind);
  }
  return excess;
}

/// The end of an iteration: what comes after the last backward steps.
void synchronise(const Pipeline& pipeline, Simulation& out) {
  double tied_until = 0;
  StageSummary& first = out.stages.front();
  for (std::int64_t s = 0; s < pipeline.stages; ++s) {
    StageSummary& stage = out.stages[idx(s)];
    stage.sync_s = pipeline.sync_s[idx(s)];
    stage.update_s = pipeline.update_s[idx(s)];
    stage.sync_end_s = stage.sync_start_s + stage.sync_s;
    out.makespan_s = std::max(out.makespan_s, stage.sync_end_s);
    if (stage.sync_s > 0) ++out.events;
    const double tie = pipeline.tie_s[idx(s)];
    if (tie <= 0) continue;
    const double start = std::max({tied_until, first.sync_end_s, stage.sync_end_s});
    tied_until = start + tie;
    out.ties.push_back({s, start, tied_until});
    stage.tie_s = tie;
    first.tie_s += tie;
    out.makespan_s = std::max(out.makespan_s, tied_until);
    ++out.events;
  }
}

/// All kinds of pods, and the synchronisation over them.
Simulation iterate(const Pipeline& pipeline, bool contention, std::vector<PodRun>& runs) {
  Simulation out;
  out.stages.resize(idx(pipeline.stages));
  runs.clear();
  for (const PodKind& kind : pipeline.kinds) {
    runs.push_back(run(pipeline, kind, contention));
    out.events += runs.back().events;
    for (std::int64_t s = 0; s < pipeline.stages; ++s) {
      StageSummary& stage = out.stages[idx(s)];
      stage.sync_start_s = std::max(stage.sync_start_s, runs.back().stages[idx(s)].finish_s);
    }
    const auto finish = [](const PodRun& each) { return each.stages.front().finish_s; };
    if (finish(runs.back()) > finish(runs[out.slowest_kind])) out.slowest_kind = runs.size() - 1;
  }
  synchronise(pipeline, out);
  return out;
}

void summarise_stages(const std::vector<PodRun>& runs, Simulation& out) {
  for (std::size_t s = 0; s < out.stages.size(); ++s) {
    StageSummary& stage = out.stages[s];
    const StageUse& use = runs[out.slowest_kind].stages[s];
    stage.forward_s = use.forward_s;
    stage.backward_s = use.backward_s;
    stage.receive_s = use.receive_s;
    const double used =
        stage.forward_s + stage.backward_s + stage.receive_s + stage.sync_s + stage.tie_s;
    stage.idle_s = std::max(0.0, out.makespan_s - used);
  }
}

double share_of(double part_s, double whole_s) { return whole_s > 0 ? part_s / whole_s : 0; }

/// Share of the fullest uplink to `level` in a pod of that kind.
double fullest_uplink(const Pipeline& pipeline, const PodKind& kind, int level, double makespan_s) {
  std::vector<double> bytes(kind.links.size(), 0);
  for (const auto* transfers : {&kind.forward, &kind.gradient}) {
    for (const Transfer& transfer : *transfers) {
      for (const LinkUse& use : transfer.uses) {
        bytes[idx(use.link)] += use.weight * transfer.device_bytes;
      }
    }
  }
  double fullest = 0;
  for (std::size_t l = 0; l < bytes.size(); ++l) {
    if (kind.links[l].level != level) continue;
    fullest = std::max(fullest, bytes[l] / kind.links[l].capacity);
  }
  return share_of(fullest * static_cast<double>(pipeline.microbatches), makespan_s);
}

void summarise_levels(const Pipeline& pipeline, const network::Network& network,
                      const std::vector<PodRun>& runs, Simulation& out) {
  std::size_t levels = 0;
  for (const PodRun& run : runs) levels = std::max(levels, run.levels.size());
  for (std::size_t l = 0; l < levels; ++l) {
    LevelSummary level;
    level.name = network.level_name(static_cast<int>(l));
    for (std::size_t k = 0; k < runs.size(); ++k) {
      const PodKind& kind = pipeline.kinds[k];
      level.fullest_uplink_share =
          std::max(level.fullest_uplink_share,
                   fullest_uplink(pipeline, kind, static_cast<int>(l), out.makespan_s));
      if (l >= runs[k].levels.size()) continue;
      const LevelUse& use = runs[k].levels[l];
      level.transfers += use.transfers * kind.pods;
      level.bytes += use.bytes * static_cast<double>(kind.pods);
      level.busy_share = std::max(level.busy_share, share_of(use.busy_s, out.makespan_s));
    }
    if (level.transfers > 0 || level.fullest_uplink_share > 0) out.levels.push_back(level);
  }
}

}  // namespace

Bounds bounds_of(const Pipeline& pipeline, const PodKind& kind) {
  const std::vector<StageSteps> stages = steps_of(pipeline, kind);
  const auto m = static_cast<double>(pipeline.microbatches);
  Bounds bounds;
  double ahead = 0;
  double sum = 0;
  double slowest = 0;
  double slowest_forward = 0;
  double slowest_backward = 0;
  double later_sync = 0;
  double backward_ahead = 0;
  double ties = 0;
  for (std::size_t k = 0; k < stages.size(); ++k) {
    const StageSteps& stage = stages[k];
    bounds.least_s = std::max(bounds.least_s, ahead + m * stage.total_s());
    later_sync = std::max(later_sync, pipeline.sync_s[k] - backward_ahead);
    ahead += stage.first_forward_s + stage.first_backward_s;
    backward_ahead += stage.first_backward_s;
    sum += stage.total_s();
    slowest = std::max(slowest, stage.total_s());
    slowest_forward = std::max(slowest_forward, stage.forward_s);
    slowest_backward = std::max(slowest_backward, stage.backward_s);
    ties += pipeline.tie_s[k];
  }
  bounds.least_s += pipeline.sync_s.front() + ties;
  if (pipeline.chunks > 1) return bounds;
  const double rate = pipeline.schedule == model::Schedule::kGPipe
                          ? (m - 1) * (slowest_forward + slowest_backward)
                          : (m - 1) * slowest + warm_up_excess(pipeline, stages);
  bounds.most_s = sum + rate + later_sync + ties;
  return bounds;
}

Simulation simulate(const Pipeline& pipeline, const network::Network& network,
                    const model::Plan& plan) {
  std::vector<PodRun> runs;
  const Simulation alone = iterate(pipeline, false, runs);
  const double last_step_s = runs[alone.slowest_kind].stages.front().finish_s;
  Simulation out = iterate(pipeline, true, runs);
  summarise_stages(runs, out);
  summarise_levels(pipeline, network, runs, out);
  for (const PodKind& kind : pipeline.kinds) {
    const Bounds bounds = bounds_of(pipeline, kind);
    out.bounds.least_s = std::max(out.bounds.least_s, bounds.least_s);
    if (bounds.most_s) out.bounds.most_s = std::max(out.bounds.most_s.value_or(0), *bounds.most_s);
  }
  out.pod_kinds = static_cast<std::int64_t>(pipeline.kinds.size());
  out.predicted_s = plan.iteration_time_s;
  out.without_contention_s = alone.makespan_s;
  out.contention_s = out.makespan_s - alone.makespan_s;

  double counted_s = pipeline.sync_s.front();
  if (plan.objective != model::Objective::kPaper) {
    for (const double tie : pipeline.tie_s) counted_s += tie;
  }
  out.schedule_s = last_step_s - (plan.iteration_time_s - counted_s);
  out.synchronisation_s = alone.makespan_s - last_step_s - counted_s;
  return out;
}

}  // namespace nestplan::simulate
