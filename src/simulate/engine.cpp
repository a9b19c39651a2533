#include "nestplan/simulate/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <queue>
#include <utility>

#include "nestplan/util/index.hpp"
#include "simulate/fair_shares.hpp"

namespace nestplan::simulate {
namespace {

using util::idx;

enum class Phase : std::uint8_t { kIdle, kLatency, kReceive, kCompute };

/// What a stage is doing, or its port beside it.
struct Activity {
  Phase phase = Phase::kIdle;
  const Transfer* transfer = nullptr;
  double part = 1;      ///< of the transfer
  bool shares = false;  ///< the transfer uses a link that can be full
  bool paused = false;
  double since_s = 0;  ///< when `left_s` was true
  double left_s = 0;   ///< of the phase at its own rate
  double speed = 1;    ///< of its own rate
  std::uint64_t version = 0;
};

/// The step that a stage is at.
struct Progress {
  Step step;
  StepTimes times;
  std::int64_t next = 0;  ///< index of the next step
};

/// What is to be received for a part of the model.
struct Inbound {
  std::int64_t part = 0;
  bool forward = true;
};

struct Event {
  double time_s = 0;
  std::int64_t runner = 0;  ///< a stage, or behind all stages the port of one
  std::uint64_t version = 0;
  auto operator<=>(const Event&) const = default;
};

class Engine {
 public:
  Engine(const Pipeline& pipeline, const PodKind& kind, bool contention, Observer* observer)
      : pipeline_(pipeline),
        kind_(kind),
        observer_(observer),
        live_(contention ? live_links(kind, pipeline.stages)
                         : std::vector<char>(kind.links.size(), 0)),
        forward_ready_(idx(pipeline.parts()), 0),
        backward_ready_(idx(pipeline.parts()), 0),
        activity_(idx(2 * pipeline.stages)),
        progress_(idx(pipeline.stages)),
        inbound_(idx(pipeline.stages)) {
    result_.stages.resize(idx(pipeline.stages));
    for (std::int64_t stage = 0; stage < pipeline.stages; ++stage) {
      order_.emplace_back(pipeline.schedule, pipeline.stages, pipeline.chunks,
                          pipeline.microbatches, stage);
    }
  }

  PodRun run() {
    for (std::int64_t stage = 0; stage < pipeline_.stages; ++stage) try_start(stage);
    while (!events_.empty()) {
      now_ = events_.top().time_s;
      while (!events_.empty() && events_.top().time_s == now_) {
        const Event event = events_.top();
        events_.pop();
        if (event.version == activity_[idx(event.runner)].version) end_phase(event.runner);
      }
      if (shares_changed_) share();
    }
    return std::move(result_);
  }

 private:
  std::int64_t part_of(std::int64_t stage, const Step& step) const {
    return step.chunk * pipeline_.stages + stage;
  }
  std::int64_t port_of(std::int64_t stage) const { return pipeline_.stages + stage; }

  const Transfer& transfer_to(std::int64_t part, bool forward) const {
    return forward ? kind_.forward[idx(part)] : kind_.gradient[idx(part)];
  }

  bool has_input(std::int64_t part, const Step& step) const {
    if (step.kind == Step::Kind::kForward) {
      return part == 0 || forward_ready_[idx(part)] > step.turn;
    }
    return part + 1 == pipeline_.parts() || backward_ready_[idx(part)] > step.turn;
  }

  void try_start(std::int64_t stage) {
    Progress& progress = progress_[idx(stage)];
    if (activity_[idx(stage)].phase != Phase::kIdle || progress.next == order_[idx(stage)].size()) {
      return;
    }
    const Step step = order_[idx(stage)][progress.next];
    const std::int64_t part = part_of(stage, step);
    if (!has_input(part, step)) return;
    ++progress.next;
    progress.step = step;
    progress.times.start_s = now_;
    const Transfer& transfer = transfer_to(part, step.kind == Step::Kind::kForward);
    const double waits = 1 - pipeline_.transfer_overlap;
    if (waits * transfer.seconds <= 0) return compute(stage);
    if (waits == 1) count(transfer);
    pause_port(stage);
    receive(stage, transfer, waits);
  }

  /// A part of the model has what it needs for one more step, but for the way to it.
  void deliver(const Inbound& inbound) {
    const std::int64_t stage = inbound.part % pipeline_.stages;
    if (pipeline_.transfer_overlap * transfer_to(inbound.part, inbound.forward).seconds <= 0) {
      return arrive(inbound);
    }
    inbound_[idx(stage)].push_back(inbound);
    try_receive(stage);
  }

  void arrive(const Inbound& inbound) {
    ++(inbound.forward ? forward_ready_ : backward_ready_)[idx(inbound.part)];
    try_start(inbound.part % pipeline_.stages);
  }

  /// Beside the steps of a stage, if it is not receiving anything.
  void try_receive(std::int64_t stage) {
    const Activity& port = activity_[idx(port_of(stage))];
    if (port.phase != Phase::kIdle || port.paused || inbound_[idx(stage)].empty()) return;
    const Inbound& next = inbound_[idx(stage)].front();
    const Transfer& transfer = transfer_to(next.part, next.forward);
    count(transfer);
    receive(port_of(stage), transfer, pipeline_.transfer_overlap);
  }

  void pause_port(std::int64_t stage) {
    Activity& port = activity_[idx(port_of(stage))];
    port.paused = true;
    if (port.phase == Phase::kIdle) return;
    settle(port);
    ++port.version;
    end_use(*port.transfer);
    if (port.shares) shares_changed_ = true;
  }

  void resume_port(std::int64_t stage) {
    Activity& port = activity_[idx(port_of(stage))];
    port.paused = false;
    if (port.phase == Phase::kIdle) return try_receive(stage);
    begin_use(*port.transfer);
    enter(port_of(stage), port.phase, port.left_s);
    if (port.shares) shares_changed_ = true;
  }

  void receive(std::int64_t runner, const Transfer& transfer, double part) {
    Activity& activity = activity_[idx(runner)];
    activity.transfer = &transfer;
    activity.part = part;
    activity.shares = std::any_of(transfer.uses.begin(), transfer.uses.end(),
                                  [this](const LinkUse& use) { return live_[idx(use.link)] != 0; });
    begin_use(transfer);
    if (activity.shares) {
      enter(runner, Phase::kLatency, part * transfer.latency_s);
    } else {
      enter(runner, Phase::kReceive, part * transfer.seconds);
    }
  }

  void compute(std::int64_t stage) {
    Progress& progress = progress_[idx(stage)];
    progress.times.received_s = now_;
    const PartWork& work = pipeline_.work[idx(part_of(stage, progress.step))];
    const bool forward = progress.step.kind == Step::Kind::kForward;
    enter(stage, Phase::kCompute, forward ? work.forward_s : work.backward_s);
  }

  void enter(std::int64_t runner, Phase phase, double seconds) {
    Activity& activity = activity_[idx(runner)];
    activity.phase = phase;
    activity.since_s = now_;
    activity.left_s = seconds;
    activity.speed = 1;
    events_.push({now_ + seconds, runner, ++activity.version});
  }

  /// Takes off what was done since.
  void settle(Activity& activity) const {
    activity.left_s = std::max(0.0, activity.left_s - activity.speed * (now_ - activity.since_s));
    activity.since_s = now_;
  }

  void end_phase(std::int64_t runner) {
    Activity& activity = activity_[idx(runner)];
    switch (activity.phase) {
      case Phase::kIdle:
        return;
      case Phase::kLatency: {
        const Transfer& transfer = *activity.transfer;
        shares_changed_ = true;
        return enter(runner, Phase::kReceive,
                     activity.part * (transfer.seconds - transfer.latency_s));
      }
      case Phase::kReceive:
        if (activity.shares) shares_changed_ = true;
        end_use(*activity.transfer);
        return runner < pipeline_.stages ? end_wait(runner) : end_beside(runner);
      case Phase::kCompute:
        ++result_.events;
        return end_step(runner);
    }
  }

  void end_wait(std::int64_t stage) {
    ++result_.events;
    resume_port(stage);
    compute(stage);
  }

  void end_beside(std::int64_t port) {
    if (pipeline_.transfer_overlap == 1) ++result_.events;
    activity_[idx(port)].phase = Phase::kIdle;
    const std::int64_t stage = port - pipeline_.stages;
    const Inbound inbound = inbound_[idx(stage)].front();
    inbound_[idx(stage)].pop_front();
    arrive(inbound);
    try_receive(stage);
  }

  void end_step(std::int64_t stage) {
    activity_[idx(stage)].phase = Phase::kIdle;
    Progress& progress = progress_[idx(stage)];
    progress.times.end_s = now_;
    const Step step = progress.step;
    const StepTimes& times = progress.times;
    StageUse& use = result_.stages[idx(stage)];
    const bool forward = step.kind == Step::Kind::kForward;
    use.receive_s += times.received_s - times.start_s;
    (forward ? use.forward_s : use.backward_s) += times.end_s - times.received_s;
    use.finish_s = now_;
    if (observer_ != nullptr) observer_->done(stage, step, times);

    const std::int64_t part = part_of(stage, step);
    try_start(stage);
    if (forward && part + 1 < pipeline_.parts()) deliver({part + 1, true});
    if (!forward && part > 0) deliver({part - 1, false});
  }

  /// New rates for all transfers that share links.
  void share() {
    shares_changed_ = false;
    sharing_.clear();
    sharers_.clear();
    for (std::size_t runner = 0; runner < activity_.size(); ++runner) {
      const Activity& activity = activity_[runner];
      if (activity.phase != Phase::kReceive || activity.paused || !activity.shares) continue;
      sharing_.push_back(activity.transfer);
      sharers_.push_back(static_cast<std::int64_t>(runner));
    }
    fair_shares(sharing_, kind_.links, live_, rates_);
    for (std::size_t i = 0; i < sharers_.size(); ++i) {
      Activity& activity = activity_[idx(sharers_[i])];
      const double speed = rates_[i] / activity.transfer->rate;
      if (speed == activity.speed) continue;
      settle(activity);
      activity.speed = speed;
      events_.push({now_ + activity.left_s / speed, sharers_[i], ++activity.version});
    }
  }

  void count(const Transfer& transfer) {
    const auto level = idx(transfer.level);
    if (result_.levels.size() <= level) {
      result_.levels.resize(level + 1);
      under_way_.resize(level + 1, 0);
      busy_since_.resize(level + 1, 0);
    }
    ++result_.levels[level].transfers;
    result_.levels[level].bytes += transfer.pod_bytes;
  }

  void begin_use(const Transfer& transfer) {
    const auto level = idx(transfer.level);
    if (under_way_[level]++ == 0) busy_since_[level] = now_;
  }

  void end_use(const Transfer& transfer) {
    const auto level = idx(transfer.level);
    if (--under_way_[level] == 0) result_.levels[level].busy_s += now_ - busy_since_[level];
  }

  const Pipeline& pipeline_;
  const PodKind& kind_;
  Observer* observer_;
  std::vector<char> live_;
  std::vector<StepOrder> order_;
  std::vector<std::int64_t> forward_ready_;  ///< by part: steps whose input is there
  std::vector<std::int64_t> backward_ready_;
  std::vector<Activity> activity_;  ///< of all stages, then of all ports
  std::vector<Progress> progress_;
  std::vector<std::deque<Inbound>> inbound_;  ///< by stage: to be received beside its steps
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  bool shares_changed_ = false;
  std::vector<const Transfer*> sharing_;
  std::vector<std::int64_t> sharers_;
  std::vector<double> rates_;
  std::vector<std::int64_t> under_way_;  ///< by level
  std::vector<double> busy_since_;
  PodRun result_;
};

}  // namespace

PodRun run(const Pipeline& pipeline, const PodKind& kind, bool contention, Observer* observer) {
  return Engine(pipeline, kind, contention, observer).run();
}

}  // namespace nestplan::simulate
