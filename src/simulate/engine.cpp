#include "nestplan/simulate/engine.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "simulate/fair_shares.hpp"

namespace nestplan::simulate {
namespace {

std::size_t idx(std::int64_t i) { return static_cast<std::size_t>(i); }

/// What a stage is doing.
enum class Phase : std::uint8_t { kIdle, kLatency, kReceive, kCompute };

struct Activity {
  Phase phase = Phase::kIdle;
  Step step;
  StepTimes times;
  const Transfer* transfer = nullptr;
  bool shares = false;  ///< the transfer uses a link that can be full
  double end_s = 0;     ///< of the phase
  double since_s = 0;   ///< while sharing: when `left_s` was true
  double left_s = 0;    ///< while sharing: of the transfer at its own rate
  double speed = 1;     ///< of its own rate
  std::uint64_t version = 0;
  std::int64_t next = 0;  ///< index of the next step
};

struct Event {
  double time_s = 0;
  std::int64_t stage = 0;
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
        forward_done_(idx(pipeline.parts()), 0),
        backward_done_(idx(pipeline.parts()), 0),
        activity_(idx(pipeline.stages)) {
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
        if (event.version == activity_[idx(event.stage)].version) end_phase(event.stage);
      }
      if (shares_changed_) share();
    }
    return std::move(result_);
  }

 private:
  std::int64_t part_of(std::int64_t stage, const Step& step) const {
    return step.chunk * pipeline_.stages + stage;
  }

  bool has_input(std::int64_t part, const Step& step) const {
    if (step.kind == Step::Kind::kForward) {
      return part == 0 || forward_done_[idx(part - 1)] > step.turn;
    }
    return part + 1 == pipeline_.parts() || backward_done_[idx(part + 1)] > step.turn;
  }

  void try_start(std::int64_t stage) {
    Activity& activity = activity_[idx(stage)];
    if (activity.phase != Phase::kIdle || activity.next == order_[idx(stage)].size()) return;
    const Step step = order_[idx(stage)][activity.next];
    const std::int64_t part = part_of(stage, step);
    if (!has_input(part, step)) return;
    ++activity.next;
    activity.step = step;
    activity.times.start_s = now_;
    const bool forward = step.kind == Step::Kind::kForward;
    const Transfer& transfer = forward ? kind_.forward[idx(part)] : kind_.gradient[idx(part)];
    if (transfer.seconds <= 0) return compute(stage);
    receive(stage, transfer);
  }

  void receive(std::int64_t stage, const Transfer& transfer) {
    Activity& activity = activity_[idx(stage)];
    activity.transfer = &transfer;
    activity.shares = std::any_of(transfer.uses.begin(), transfer.uses.end(),
                                  [this](const LinkUse& use) { return live_[idx(use.link)] != 0; });
    count_transfer(transfer);
    if (activity.shares) {
      enter(stage, Phase::kLatency, now_ + transfer.latency_s);
    } else {
      enter(stage, Phase::kReceive, now_ + transfer.seconds);
    }
  }

  void compute(std::int64_t stage) {
    Activity& activity = activity_[idx(stage)];
    activity.times.received_s = now_;
    const PartWork& work = pipeline_.work[idx(part_of(stage, activity.step))];
    const bool forward = activity.step.kind == Step::Kind::kForward;
    enter(stage, Phase::kCompute, now_ + (forward ? work.forward_s : work.backward_s));
  }

  void enter(std::int64_t stage, Phase phase, double end_s) {
    Activity& activity = activity_[idx(stage)];
    activity.phase = phase;
    activity.end_s = end_s;
    events_.push({end_s, stage, ++activity.version});
  }

  void end_phase(std::int64_t stage) {
    Activity& activity = activity_[idx(stage)];
    switch (activity.phase) {
      case Phase::kIdle:
        return;
      case Phase::kLatency: {
        const Transfer& transfer = *activity.transfer;
        activity.since_s = now_;
        activity.left_s = transfer.seconds - transfer.latency_s;
        activity.speed = 1;
        shares_changed_ = true;
        return enter(stage, Phase::kReceive, now_ + activity.left_s);
      }
      case Phase::kReceive:
        ++result_.events;
        if (activity.shares) shares_changed_ = true;
        count_end_of_transfer(*activity.transfer);
        return compute(stage);
      case Phase::kCompute:
        ++result_.events;
        return end_step(stage);
    }
  }

  void end_step(std::int64_t stage) {
    Activity& activity = activity_[idx(stage)];
    activity.phase = Phase::kIdle;
    activity.times.end_s = now_;
    const Step step = activity.step;
    StageUse& use = result_.stages[idx(stage)];
    const bool forward = step.kind == Step::Kind::kForward;
    use.receive_s += activity.times.received_s - activity.times.start_s;
    (forward ? use.forward_s : use.backward_s) += activity.times.end_s - activity.times.received_s;
    use.finish_s = now_;
    if (observer_ != nullptr) observer_->done(stage, step, activity.times);

    const std::int64_t part = part_of(stage, step);
    ++(forward ? forward_done_ : backward_done_)[idx(part)];
    try_start(stage);
    if (forward && part + 1 < pipeline_.parts()) try_start((part + 1) % pipeline_.stages);
    if (!forward && part > 0) try_start((part - 1) % pipeline_.stages);
  }

  /// New rates for all transfers that share links.
  void share() {
    shares_changed_ = false;
    sharing_.clear();
    sharers_.clear();
    for (std::int64_t stage = 0; stage < pipeline_.stages; ++stage) {
      const Activity& activity = activity_[idx(stage)];
      if (activity.phase != Phase::kReceive || !activity.shares) continue;
      sharing_.push_back(activity.transfer);
      sharers_.push_back(stage);
    }
    fair_shares(sharing_, kind_.links, live_, rates_);
    for (std::size_t i = 0; i < sharers_.size(); ++i) {
      Activity& activity = activity_[idx(sharers_[i])];
      const double speed = rates_[i] / activity.transfer->rate;
      if (speed == activity.speed) continue;
      activity.left_s = std::max(0.0, activity.left_s - activity.speed * (now_ - activity.since_s));
      activity.since_s = now_;
      activity.speed = speed;
      enter(sharers_[i], Phase::kReceive, now_ + activity.left_s / speed);
    }
  }

  void count_transfer(const Transfer& transfer) {
    const auto level = idx(transfer.level);
    if (result_.levels.size() <= level) {
      result_.levels.resize(level + 1);
      under_way_.resize(level + 1, 0);
      busy_since_.resize(level + 1, 0);
    }
    ++result_.levels[level].transfers;
    result_.levels[level].bytes += transfer.pod_bytes;
    if (under_way_[level]++ == 0) busy_since_[level] = now_;
  }

  void count_end_of_transfer(const Transfer& transfer) {
    const auto level = idx(transfer.level);
    if (--under_way_[level] == 0) result_.levels[level].busy_s += now_ - busy_since_[level];
  }

  const Pipeline& pipeline_;
  const PodKind& kind_;
  Observer* observer_;
  std::vector<char> live_;
  std::vector<StepOrder> order_;
  std::vector<std::int64_t> forward_done_;  ///< by part: micro-batches
  std::vector<std::int64_t> backward_done_;
  std::vector<Activity> activity_;
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
