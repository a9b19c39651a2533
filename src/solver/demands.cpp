#include "solver/demands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nestplan/solver/solver.hpp"
#include "solver/instance.hpp"

namespace nestplan::solver {
namespace {

using model::PlanOptions;
using model::StageConstraints;
using Count = std::optional<std::int64_t> StageConstraints::*;

/// One thing that the options ask of stages, which can be asked or not.
struct Demand {
  enum class Kind : std::uint8_t { kLayers, kLeast, kMost, kPlace, kDepth };
  Kind kind;
  std::string text;                                 ///< as it is said on the command line
  std::function<void(model::PlanOptions&)> impose;  ///< on options that do not ask it
};

/// "first", "last", or a number from 1.
std::string stage_name(std::int64_t stage) {
  return stage == 0 ? "first" : stage < 0 ? "last" : std::to_string(stage + 1);
}

const char* scope_name(StageConstraints::Scope scope) {
  static constexpr std::array kNames{"tp", "cp", "ep", "dp", "pod"};
  return kNames[static_cast<std::size_t>(scope)];
}

/// What the options of a problem ask of stages, in the order in which it is preferably blamed.
class Demands {
 public:
  explicit Demands(const model::Problem& problem) : problem_(problem) {
    add_layers();
    add_counts();
    add_places();
    add_depth();
  }

  std::vector<Demand> take() { return std::move(demands_); }

 private:
  using Kind = Demand::Kind;

  void add(Kind kind, std::string text, std::function<void(PlanOptions&)> impose) {
    demands_.push_back({kind, std::move(text), std::move(impose)});
  }

  std::string ids(const std::vector<int>& layers) const {
    std::vector<std::string> names;
    for (const int layer : layers) names.push_back(problem_.graph.layers[at(layer)].id);
    return fmt::format("{}", fmt::join(names, ","));
  }

  void add_layers() {
    for (const StageConstraints::Pin& pin : stages_.pins) {
      add(Kind::kLayers, fmt::format("--pin {}={}", ids({pin.layer}), stage_name(pin.stage)),
          [pin](PlanOptions& options) { options.stages.pins.push_back(pin); });
    }
    for (const std::vector<int>& group : stages_.together) {
      add(Kind::kLayers, "--together " + ids(group),
          [group](PlanOptions& options) { options.stages.together.push_back(group); });
    }
    if (stages_.cuts.empty()) return;
    std::vector<std::string> sets;
    for (const std::vector<int>& set : stages_.cuts) sets.push_back(ids(set));
    add(Kind::kLayers, fmt::format("--cut \"{}\"", fmt::join(sets, "|")),
        [cuts = stages_.cuts](PlanOptions& options) { options.stages.cuts = cuts; });
  }

  void add_count(Kind kind, const char* flag, Count count) {
    if (!(stages_.*count)) return;
    add(kind, fmt::format("{} {}", flag, *(stages_.*count)),
        [count, value = stages_.*count](PlanOptions& options) { options.stages.*count = value; });
  }

  void add_counts() {
    add_count(Kind::kLayers, "--first-stage-layers", &StageConstraints::first);
    add_count(Kind::kLayers, "--last-stage-layers", &StageConstraints::last);
    add_count(Kind::kLeast, "--least-stage-layers", &StageConstraints::least);
    add_count(Kind::kMost, "--most-stage-layers", &StageConstraints::most);
    if (stages_.layout == StageConstraints::Layout::kAny) return;
    const bool even = stages_.layout == StageConstraints::Layout::kEven;
    add(Kind::kLayers, fmt::format("--stage-layers {}", even ? "even" : "first-last"),
        [layout = stages_.layout](PlanOptions& options) { options.stages.layout = layout; });
  }

  void add_places() {
    for (const StageConstraints::Confinement& confined : stages_.confined) {
      add(Kind::kPlace,
          fmt::format("--keep-inside {}={}", scope_name(confined.scope), confined.domain),
          [confined](PlanOptions& options) { options.stages.confined.push_back(confined); });
    }
    for (const StageConstraints::Place& place : stages_.places) {
      add(Kind::kPlace, fmt::format("--stage-at {}={}", stage_name(place.stage), place.position),
          [place](PlanOptions& options) { options.stages.places.push_back(place); });
    }
  }

  /// Stages that are called by their number need one depth.
  void add_depth() {
    const auto numbered = [](const auto& demand) { return demand.stage > 0; };
    if (demands_.empty() || problem_.options.pp.empty() ||
        std::any_of(stages_.pins.begin(), stages_.pins.end(), numbered) ||
        std::any_of(stages_.places.begin(), stages_.places.end(), numbered)) {
      return;
    }
    add(Kind::kDepth, fmt::format("--pp {}", fmt::join(problem_.options.pp, ",")),
        [pp = problem_.options.pp](PlanOptions& options) { options.pp = pp; });
  }

  const model::Problem& problem_;
  const StageConstraints& stages_ = problem_.options.stages;
  std::vector<Demand> demands_;
};

model::Problem with(model::Problem problem, const std::vector<Demand>& demands) {
  for (const Demand& demand : demands) demand.impose(problem.options);
  return problem;
}

/// A problem without demands, and those that can be asked of it.
struct Question {
  model::Problem problem;
  const network::Network& network;
  std::vector<Demand> demands;

  bool feasible(const std::vector<Demand>& asked) const {
    return has_plan(with(problem, asked), network);
  }
};

/// Of `candidates` the fewest that already contradict one another and `background`: QuickXplain
/// (U. Junker, QUICKXPLAIN: Preferred Explanations and Relaxations for Over-Constrained Problems,
/// AAAI 2004), where the earlier ones are blamed if either could be. `grown`: the background is
/// more than the last that was feasible.
std::vector<Demand> least_conflict(const Question& question, const std::vector<Demand>& background,
                                   bool grown, const std::vector<Demand>& candidates) {
  if (grown && !question.feasible(background)) return {};
  if (candidates.size() <= 1) return candidates;
  const auto joined = [](std::vector<Demand> a, const std::vector<Demand>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  const auto middle = candidates.begin() + static_cast<std::ptrdiff_t>(candidates.size() / 2);
  const std::vector<Demand> head(candidates.begin(), middle);
  const std::vector<Demand> tail(middle, candidates.end());
  const std::vector<Demand> of_tail =
      least_conflict(question, joined(background, head), true, tail);
  return joined(least_conflict(question, joined(background, of_tail), !of_tail.empty(), head),
                of_tail);
}

/// Those that contradict one another; none if they do not, or if there is no plan without them
/// either.
std::vector<Demand> conflict(const Question& question, bool thorough) {
  if (question.demands.empty() || !question.feasible({}) || question.feasible(question.demands)) {
    return {};
  }
  return thorough ? least_conflict(question, {}, false, question.demands) : question.demands;
}

bool same(const Demand& a, const Demand& b) { return a.text == b.text; }

/// The bound of `bound`, between the one that contradicts and `end`, that is nearest to the first
/// and leaves a plan, which `end` does.
std::int64_t nearest_bound(model::Problem problem, const network::Network& network, Count bound,
                           std::int64_t end) {
  std::int64_t bad = *(problem.options.stages.*bound);
  while (std::abs(end - bad) > 1) {
    const std::int64_t middle = bad + (end - bad) / 2;
    problem.options.stages.*bound = middle;
    (has_plan(problem, network) ? end : bad) = middle;
  }
  return end;
}

/// The change of one demand that is enough where leaving it out is.
std::string change_of(const model::Problem& problem, const network::Network& network,
                      const Demand& demand) {
  if (demand.kind == Demand::Kind::kMost) {
    const std::int64_t all = model::counted_layers(problem.graph);
    return fmt::format("--most-stage-layers {}",
                       nearest_bound(problem, network, &StageConstraints::most, all));
  }
  if (demand.kind == Demand::Kind::kLeast) {
    return fmt::format("--least-stage-layers {}",
                       nearest_bound(problem, network, &StageConstraints::least, 0));
  }
  return "drop " + demand.text;
}

/// What of `conflicting` is enough to change for a plan of `problem`, each by itself.
std::string least_change(const model::Problem& problem, const Question& question,
                         const std::vector<Demand>& conflicting) {
  std::vector<std::string> changes;
  for (const Demand& demand : conflicting) {
    std::vector<Demand> others = question.demands;
    std::erase_if(others, [&](const Demand& other) { return same(other, demand); });
    if (question.feasible(others)) changes.push_back(change_of(problem, question.network, demand));
  }
  if (!changes.empty()) return fmt::format("least change: {}", fmt::join(changes, ", or "));
  return conflicting.size() == 1 ? "dropping it is needed, and not enough by itself"
                                 : "dropping one of them is needed, and not enough by itself";
}

std::string describe(const std::vector<Demand>& conflicting) {
  std::vector<std::string> texts;
  for (const Demand& demand : conflicting) texts.push_back(demand.text);
  if (texts.size() == 1) return texts.front();
  const std::string last = std::move(texts.back());
  texts.pop_back();
  return fmt::format("{} and {} together", fmt::join(texts, ", "), last);
}

/// Bytes of a device that holds any model.
constexpr double kPlenty = 1e15;

}  // namespace

model::Problem with_memory(model::Problem problem, double bytes) {
  problem.cluster.device.memory_bytes = bytes;
  for (model::Device& other : problem.cluster.other_devices) other.memory_bytes = bytes;
  return problem;
}

bool has_plan(const model::Problem& problem, const network::Network& network) {
  bool found = false;
  SearchSettings settings;
  settings.explain = false;
  settings.progress = [&found](const Progress& progress) { found = found || progress.best_s > 0; };
  settings.stop_requested = [&found] { return found; };
  return solve(problem, network, settings).status != model::Status::kInfeasible;
}

std::string contradiction(const model::Problem& problem, const network::Network& network,
                          bool thorough) {
  const std::vector<Demand> demands = Demands(problem).take();
  if (demands.empty()) return "";
  model::Problem bare = problem;
  bare.options.stages = {};
  if (demands.back().kind == Demand::Kind::kDepth) bare.options.pp.clear();
  const Question real{bare, network, demands};

  const Question roomy{with_memory(bare, kPlenty), network, demands};
  std::vector<Demand> conflicting = conflict(roomy, thorough);
  if (conflicting.size() == 1 && conflicting.front().kind == Demand::Kind::kDepth) return "";
  if (!conflicting.empty()) {
    return fmt::format("demands: no plan satisfies {}; {}", describe(conflicting),
                       least_change(problem, real, conflicting));
  }

  std::vector<Demand> others, places;
  for (const Demand& demand : demands) {
    (demand.kind == Demand::Kind::kPlace ? places : others).push_back(demand);
  }
  conflicting = conflict({with(bare, others), network, places}, thorough);
  if (conflicting.empty()) return "";
  return fmt::format("demands: no plan that fits into memory satisfies {}; {}",
                     describe(conflicting), least_change(problem, real, conflicting));
}

}  // namespace nestplan::solver
