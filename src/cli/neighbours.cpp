#include "cli/neighbours.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "cli/strategy_space.hpp"
#include "nestplan/model/names.hpp"
#include "nestplan/util/lists.hpp"

namespace nestplan::cli {
namespace {

using List = std::vector<std::int64_t>;

bool holds(const List& list, std::int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

/// The largest of `list` (ascending) below `value`, or half of it where that is there.
std::optional<std::int64_t> below(const List& list, std::int64_t value) {
  if (value % 2 == 0 && holds(list, value / 2)) return value / 2;
  const auto next = std::lower_bound(list.begin(), list.end(), value);
  if (next == list.begin()) return std::nullopt;
  return *(next - 1);
}

/// The smallest above it, or twice of it where that is there.
std::optional<std::int64_t> above(const List& list, std::int64_t value) {
  if (holds(list, 2 * value)) return 2 * value;
  const auto next = std::upper_bound(list.begin(), list.end(), value);
  if (next == list.end()) return std::nullopt;
  return *next;
}

class Neighbourhood {
 public:
  Neighbourhood(const Flags& flags, const model::Problem& problem, const model::Plan& plan)
      : flags_(flags), problem_(problem), plan_(plan), space_(whole_space(problem)) {
    add_strategy();
    add_pipeline();
    add_stage_choices();
    add_schedule();
  }

  std::vector<Neighbour> take() { return std::move(neighbours_); }

 private:
  /// A degree of the plan and the flag that says which are allowed.
  struct Axis {
    const char* name;    ///< as people say
    const char* option;  ///< of the command line
    List Flags::*field;
    std::int64_t value;
    List offered;
    std::int64_t most;  ///< that can be thought of; 0: none but what is offered
  };

  void add(const Axis& axis, std::int64_t value, bool offered) {
    std::string label = fmt::format("{} {}", axis.name, value);
    std::string change = fmt::format("{} instead of {}", label, axis.value);
    Neighbour neighbour{std::move(label), std::move(change), axis.option, flags_, offered};
    neighbour.flags.*axis.field = {value};
    neighbours_.push_back(std::move(neighbour));
  }

  void step(const Axis& axis) {
    const std::int64_t half = axis.value / 2;
    if (const auto less = below(axis.offered, axis.value)) {
      add(axis, *less, true);
    } else if (axis.value % 2 == 0 && half <= axis.most) {
      add(axis, half, false);
    }
    if (const auto more = above(axis.offered, axis.value)) {
      add(axis, *more, true);
    } else if (2 * axis.value <= axis.most) {
      add(axis, 2 * axis.value, false);
    }
  }

  void add_strategy() {
    const model::Strategy& strategy =
        problem_.graph.strategies[static_cast<std::size_t>(plan_.stages.front().strategy)];
    const bool profiled = flags_.graph.empty();
    const std::int64_t most = profiled ? problem_.cluster.devices() : 0;
    step({"tp", "--tp", &Flags::tp, strategy.tp, space_[kTp], most});
    const bool sequences = problem_.graph.dimensions.sequence > 0;
    step({"cp", "--cp", &Flags::cp, strategy.cp, space_[kCp], sequences ? most : 0});
    if (!profiled || problem_.graph.dimensions.experts > 0)
      step({"ep", "--ep", &Flags::ep, profiled ? expert_ways(strategy) : strategy.ep,
            profiled ? all_expert_ways() : space_[kEp],
            std::min(most, problem_.graph.dimensions.experts)});
    step({"micro-batch", "--micro-batch", &Flags::micro_batch, strategy.micro_batch,
          space_[kMicroBatch], profiled ? problem_.options.global_batch : 0});
  }

  /// As `--ep` counts for a model: see targets::Candidate::ep.
  static std::int64_t expert_ways(const model::Strategy& strategy) {
    return strategy.ep * strategy.tp / strategy.etp;
  }

  List all_expert_ways() const {
    List ways;
    for (const model::Strategy& strategy : problem_.graph.strategies) {
      ways.push_back(expert_ways(strategy));
    }
    return util::sorted_unique(std::move(ways));
  }

  void add_pipeline() {
    const model::PlanStrategy& s = plan_.strategy;
    const auto layers = static_cast<std::int64_t>(problem_.graph.layers.size());
    const std::int64_t devices = problem_.cluster.devices();
    step({"pp", "--pp", &Flags::pp, s.pp, space_[kPp], std::min(layers, devices)});
    if (s.pp > 1) step({"vpp", "--vpp", &Flags::vpp, s.vpp, space_[kVpp], layers / s.pp});
    step({"dp", "--dp", &Flags::dp, s.dp, space_[kDp], 0});
    List inner;
    for (const std::int64_t dp : space_[kDp]) {
      const List& allowed = problem_.options.dp_inner;
      if (s.dp % dp == 0 && (allowed.empty() || holds(allowed, dp))) inner.push_back(dp);
    }
    step({"dp_inner", "--dp-inner", &Flags::dp_inner, s.dp_inner, std::move(inner), 0});
  }

  /// Calls `visit` for the values from one below the least of `used` to one above the most, below
  /// `count`, but not for the only one.
  template <typename Visit>
  static void around(List used, std::int64_t count, Visit visit) {
    util::sort_unique(used);
    const std::int64_t last = std::min(used.back() + 1, count - 1);
    for (std::int64_t value = std::max<std::int64_t>(used.front() - 1, 0); value <= last; ++value) {
      if (used.size() > 1 || value != used.front()) visit(value);
    }
  }

  void add_stage_choices() {
    constexpr std::int64_t kZeroStages = 4;
    List zeros, recomputes;
    for (const model::StagePlan& stage : plan_.stages) {
      zeros.push_back(stage.zero);
      recomputes.push_back(static_cast<std::int64_t>(stage.recompute));
    }
    around(std::move(zeros), kZeroStages, [&](std::int64_t zero) {
      std::string label = fmt::format("ZeRO {}", zero);
      std::string change = label + " in every stage";
      Neighbour neighbour{std::move(label), std::move(change), "--zero", flags_,
                          holds(flags_.zero, zero)};
      neighbour.flags.zero = {zero};
      neighbours_.push_back(std::move(neighbour));
    });
    const std::vector<std::string> names = model::recompute_names();
    around(std::move(recomputes), std::ssize(names), [&](std::int64_t index) {
      const std::string name = model::to_string(static_cast<model::Recompute>(index));
      const auto& allowed = flags_.recompute;
      std::string label = fmt::format("{} recomputation", index == 0 ? "no" : name);
      std::string change = label + " in every stage";
      Neighbour neighbour{std::move(label), std::move(change), "--recompute", flags_,
                          std::find(allowed.begin(), allowed.end(), name) != allowed.end()};
      neighbour.flags.recompute = {name};
      neighbours_.push_back(std::move(neighbour));
    });
  }

  /// Stages are interleaved under 1F1B only.
  void add_schedule() {
    if (plan_.strategy.pp == 1) return;
    const model::Schedule now = plan_.strategy.schedule;
    const model::Schedule other =
        now == model::Schedule::k1F1B ? model::Schedule::kGPipe : model::Schedule::k1F1B;
    std::string label = fmt::format("schedule {}", model::to_string(other));
    std::string change = fmt::format("{} instead of {}", label, model::to_string(now));
    Neighbour neighbour{std::move(label), std::move(change), "--schedule", flags_, false};
    neighbour.flags.schedule = model::to_string(other);
    if (other == model::Schedule::kGPipe) neighbour.flags.vpp = {1};
    neighbours_.push_back(std::move(neighbour));
  }

  const Flags& flags_;
  const model::Problem& problem_;
  const model::Plan& plan_;
  StrategySpace space_;
  std::vector<Neighbour> neighbours_;
};

}  // namespace

std::vector<Neighbour> neighbours_of(const Flags& flags, const model::Problem& problem,
                                     const model::Plan& plan) {
  return Neighbourhood(flags, problem, plan).take();
}

}  // namespace nestplan::cli
