#include "cli/plan_layout.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <vector>

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

/// "layer.7" with `kind` "layer".
bool is_numbered(std::string_view id, std::string_view kind) {
  if (!id.starts_with(kind) || id.size() < kind.size() + 2 || id[kind.size()] != '.') return false;
  const std::string_view number = id.substr(kind.size() + 1);
  return std::all_of(number.begin(), number.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// Whether `part` knows what `id` is, and holds it then.
bool add(targets::LayoutPart& part, std::string_view id) {
  if (id == "embedding") {
    part.embedding = true;
  } else if (id == "head") {
    part.loss = true;
  } else if (is_numbered(id, "layer")) {
    ++part.layers;
  } else if (is_numbered(id, "mtp")) {
    ++part.predictions;
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::optional<std::string> megatron_layout_of(const model::Plan& plan, const model::Graph& graph) {
  targets::PipelineLayout layout;
  targets::LayoutPart all;
  for (const std::vector<int>& layers : parts_of(plan)) {
    targets::LayoutPart& part = layout.emplace_back();
    for (const int layer : layers) {
      const std::string& id = graph.layers[static_cast<std::size_t>(layer)].id;
      if (!add(part, id) || !add(all, id)) return {};
    }
  }
  if (!all.embedding || !all.loss) return {};
  std::string text = targets::megatron_layout(layout);
  targets::check_layout(targets::parse_megatron_layout(text), all.layers, all.predictions,
                        plan.strategy.pp, plan.strategy.vpp);
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
