#include "cli/stage_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nestplan/util/errors.hpp"
#include "nestplan/util/lists.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cli {
namespace {

using Layout = model::StageConstraints::Layout;

/// Finds the layers that a flag means.
class LayerFinder {
 public:
  LayerFinder(const char* flag, const model::Graph& graph) : flag_(flag), graph_(graph) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidConfig(fmt::format("--{}: {}", flag_, what));
  }

  /// By id or pattern, ascending, not empty.
  std::vector<int> find(std::string_view name) const {
    if (name.empty()) fail("the name of a layer is empty");
    std::vector<int> exact;
    std::vector<int> matching;
    for (std::size_t i = 0; i < graph_.layers.size(); ++i) {
      const std::string& id = graph_.layers[i].id;
      if (id == name) exact.push_back(static_cast<int>(i));
      if (matches(name, id)) matching.push_back(static_cast<int>(i));
    }
    if (!exact.empty()) return exact;
    if (matching.empty()) refuse(name);
    return matching;
  }

  /// Names with commas between them; ascending, each layer once.
  std::vector<int> find_all(std::string_view names) const {
    std::vector<int> layers;
    for (const std::string_view name : util::split(names, ',')) {
      const std::vector<int> found = find(name);
      layers.insert(layers.end(), found.begin(), found.end());
    }
    return util::sorted_unique(std::move(layers));
  }

  std::string id(int layer) const {
    return util::quoted(graph_.layers[static_cast<std::size_t>(layer)].id);
  }

 private:
  [[noreturn]] void refuse(std::string_view name) const {
    std::vector<std::string> known;
    for (const model::Layer& layer : graph_.layers) known.push_back(layer.id);
    const bool pattern = name.find_first_of("*?") != std::string_view::npos;
    fail(fmt::format("{} {}{}", pattern ? "no layer matches" : "unknown layer", util::quoted(name),
                     util::hint(name, known)));
  }

  const char* flag_;
  const model::Graph& graph_;
};

/// "first", "last", or a number from 1.
std::int64_t parse_stage(std::string_view text, const LayerFinder& finder) {
  if (text == "first") return 0;
  if (text == "last") return -1;
  std::int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || stop != text.data() + text.size() || number < 1) {
    finder.fail(fmt::format("{} is no stage: first, last, or a number from 1", util::quoted(text)));
  }
  return number - 1;
}

std::vector<model::StageConstraints::Pin> parse_pins(const std::vector<std::string>& texts,
                                                     const LayerFinder& finder) {
  std::map<int, std::int64_t> stage_of;
  for (const std::string_view text : texts) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos) {
      finder.fail(fmt::format("{} is not LAYER=first, LAYER=last or LAYER=N", util::quoted(text)));
    }
    const std::int64_t stage = parse_stage(text.substr(equals + 1), finder);
    for (const int layer : finder.find(text.substr(0, equals))) {
      const auto [known, inserted] = stage_of.emplace(layer, stage);
      if (!inserted && known->second != stage) {
        finder.fail(fmt::format("layer {} is pinned to two stages", finder.id(layer)));
      }
    }
  }
  std::vector<model::StageConstraints::Pin> pins;
  for (const auto& [layer, stage] : stage_of) pins.push_back({layer, stage});
  return pins;
}

/// Which stage has a number depends on how many there are.
void check_depth(const std::vector<model::StageConstraints::Pin>& pins, const Flags& flags,
                 const LayerFinder& finder) {
  for (const auto& [layer, stage] : pins) {
    if (stage < 1 || (flags.pp.size() == 1 && stage < flags.pp.front())) continue;
    finder.fail(
        fmt::format("layer {} in stage {} needs one --pp of at least that; or pin it to "
                    "first or last",
                    finder.id(layer), stage + 1));
  }
}

std::vector<std::vector<int>> parse_groups(const std::string& text, const LayerFinder& finder) {
  std::vector<std::vector<int>> groups;
  if (text.empty()) return groups;
  for (const std::string_view group : util::split(text, ';')) {
    groups.push_back(finder.find_all(group));
    if (groups.back().size() < 2) {
      finder.fail(fmt::format("{} is one layer alone; a group needs two", util::quoted(group)));
    }
  }
  return groups;
}

std::vector<std::vector<int>> parse_cuts(const std::string& text, const LayerFinder& finder) {
  std::vector<std::vector<int>> sets;
  if (text.empty()) return sets;
  std::map<int, std::string_view> set_of;
  for (const std::string_view set : util::split(text, '|')) {
    sets.push_back(finder.find_all(set));
    for (const int layer : sets.back()) {
      const auto [known, inserted] = set_of.emplace(layer, set);
      if (inserted) continue;
      finder.fail(fmt::format("layer {} is in two sets, {} and {}", finder.id(layer),
                              util::quoted(known->second), util::quoted(set)));
    }
  }
  if (sets.size() < 2) {
    finder.fail(fmt::format("{} is one set; \"|\" stands between sets", util::quoted(text)));
  }
  return sets;
}

Layout parse_layout(const std::string& name) {
  const std::vector<std::string> names = layout_names();
  return static_cast<Layout>(std::find(names.begin(), names.end(), name) - names.begin());
}

void check_counts(const model::StageConstraints& rules, const model::Graph& graph) {
  const std::int64_t counted = model::counted_layers(graph);
  const auto check = [&](const char* flag, std::optional<std::int64_t> layers) {
    if (!layers || *layers <= counted) return;
    throw InvalidConfig(
        fmt::format("--{}: is {}, but there are only {} to count", flag, *layers, counted));
  };
  check("first-stage-layers", rules.first);
  check("last-stage-layers", rules.last);
  check("least-stage-layers", rules.least);
  if (rules.least && rules.most && *rules.least > *rules.most) {
    throw InvalidConfig(fmt::format("--least-stage-layers: {} is more than --most-stage-layers {}",
                                    *rules.least, *rules.most));
  }
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // the last one seen, and where its text ends
  std::size_t end = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      end = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// Modules of multi-token prediction, all of which Megatron-LM has in one virtual stage: see
/// targets::check_layout.
std::vector<int> joined_predictions(const Flags& flags, const model::Graph& graph) {
  std::vector<int> modules;
  if (flags.target != "megatron" || graph.dimensions.predictions < 2) return modules;
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    if (graph.layers[i].id.starts_with("mtp.")) modules.push_back(static_cast<int>(i));
  }
  return modules;
}

model::StageConstraints stage_rules(const Flags& flags, const model::Graph& graph) {
  model::StageConstraints rules;
  const LayerFinder pinned("pin", graph);
  rules.pins = parse_pins(flags.pin, pinned);
  check_depth(rules.pins, flags, pinned);
  rules.together = parse_groups(flags.together, {"together", graph});
  if (std::vector<int> modules = joined_predictions(flags, graph); modules.size() > 1) {
    rules.together.push_back(std::move(modules));
  }
  rules.cuts = parse_cuts(flags.cut, {"cut", graph});
  rules.first = flags.first_stage_layers;
  rules.last = flags.last_stage_layers;
  rules.least = flags.least_stage_layers;
  rules.most = flags.most_stage_layers;
  if (flags.stage_layers) rules.layout = parse_layout(*flags.stage_layers);
  check_counts(rules, graph);
  return rules;
}

}  // namespace nestplan::cli
