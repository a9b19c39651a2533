#include "cli/plan_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nestplan/frameworks/layers.hpp"
#include "nestplan/frameworks/recipe.hpp"
#include "nestplan/targets/layout.hpp"

namespace nestplan::cli {
namespace {

/// Layers of every part of the pipeline, in the order of the model.
std::vector<std::vector<int>> parts_of(const model::Plan& plan) {
  const std::size_t stages = plan.stages.size();
  const std::size_t chunks = std::max<std::size_t>(1, plan.stages.front().chunks.size());
  std::vector<std::vector<int>> parts;
  for (std::size_t c = 0; c < chunks; ++c) {
    for (std::size_t s = 0; s < stages; ++s) {
      const model::StagePlan& stage = plan.stages[s];
      parts.push_back(stage.chunks.empty() ? stage.layers : stage.chunks[c]);
    }
  }
  return parts;
}

}  // namespace

std::optional<std::string> megatron_layout_of(const model::Plan& plan, const model::Graph& graph) {
  std::vector<std::vector<std::string>> parts;
  for (const std::vector<int>& layers : parts_of(plan)) {
    std::vector<std::string>& ids = parts.emplace_back();
    for (const int layer : layers) ids.push_back(graph.layers[static_cast<std::size_t>(layer)].id);
  }
  const frameworks::CountedParts held = frameworks::counted(parts);
  if (!held.problem.empty() || targets::parts_with_predictions(held.layout) > 1) return {};
  std::string text = targets::megatron_layout(held.layout);
  targets::check_layout(targets::parse_megatron_layout(text), frameworks::layers_of(held.layout),
                        frameworks::predictions_of(held.layout), plan.strategy.pp,
                        plan.strategy.vpp);
  return text;
}

bool needs_layout(const model::Plan& plan, const model::Graph& graph) {
  std::vector<std::int64_t> counts;
  for (const std::vector<int>& layers : parts_of(plan)) {
    counts.push_back(model::counted_layers(graph, layers));
  }
  const auto even = [](auto begin, auto end) {
    return std::all_of(begin, end, [&](std::int64_t count) { return count == *begin; });
  };
  if (counts.size() < 2 || even(counts.begin(), counts.end())) return false;
  const bool plain = plan.stages.front().chunks.empty();
  return !plain || (counts.size() > 2 && !even(counts.begin() + 1, counts.end() - 1));
}

}  // namespace nestplan::cli
