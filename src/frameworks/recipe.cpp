#include "nestplan/frameworks/recipe.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "nestplan/util/errors.hpp"

namespace nestplan::frameworks {
namespace {

using targets::LayoutPart;
using targets::PipelineLayout;
using Kind = model::StageConstraints::Layout;

/// Embedding at the front, predictions and loss at the end: where frameworks put them by default.
bool has_usual_ends(const PipelineLayout& layout) {
  for (std::size_t i = 0; i < layout.size(); ++i) {
    const LayoutPart& part = layout[i];
    const bool first = i == 0;
    const bool last = i + 1 == layout.size();
    if (part.embedding != first || part.loss != last || (part.predictions > 0 && !last))
      return false;
  }
  return true;
}

bool same_layers(PipelineLayout::const_iterator begin, PipelineLayout::const_iterator end) {
  return std::all_of(begin, end,
                     [&](const LayoutPart& part) { return part.layers == begin->layers; });
}

template <typename Number>
std::int64_t total(const PipelineLayout& layout, Number LayoutPart::*of) {
  std::int64_t sum = 0;
  for (const LayoutPart& part : layout) sum += part.*of;
  return sum;
}

/// Shards travel for every micro-batch under ZeRO 2 and 3; stages hide their transfers only where
/// chunks interleave: see model::Overlap.
Hidden present(Hidden hidden, const Recipe& r) {
  const bool copies = r.dp * r.cp > 1;
  hidden.tensor = hidden.tensor && r.tp > 1;
  hidden.context = hidden.context && r.cp > 1 && r.context == model::ContextForm::kRing;
  hidden.expert = hidden.expert && r.ep > 1;
  hidden.shards = hidden.shards && copies && r.zero >= 2;
  hidden.sync = hidden.sync && copies;
  hidden.pipeline = hidden.pipeline && r.vpp > 1;
  return hidden;
}

}  // namespace

Hidden counted_hidden(const model::Overlap& overlap) {
  return {.tensor = overlap.tensor > 0,
          .context = overlap.context > 0,
          .expert = overlap.expert > 0,
          .shards = overlap.shards > 0,
          .sync = overlap.sync > 0,
          .pipeline = overlap.pipeline > 0};
}

Recipe normalised(Recipe r) {
  if (r.tp == 1) r.sequence_parallel = false;
  if (r.cp == 1) r.context = model::ContextForm::kRing;
  if (r.pp == 1) {
    r.vpp = 1;
    r.schedule = model::Schedule::k1F1B;
    r.order = placement::RankOrder::kPipelineLast;
  }
  if (r.cp == 1 && r.shard_groups == r.dp) r.zero = 0;
  if (r.zero == 0) r.shard_groups = 1;
  r.hidden = present(r.hidden, r);
  return r;
}

std::int64_t layers_of(const PipelineLayout& layout) { return total(layout, &LayoutPart::layers); }

std::int64_t predictions_of(const PipelineLayout& layout) {
  return total(layout, &LayoutPart::predictions);
}

Kind kind_of(const PipelineLayout& layout, std::int64_t pp) {
  if (layout.empty() || !has_usual_ends(layout)) return Kind::kAny;
  if (same_layers(layout.begin(), layout.end())) return Kind::kEven;
  const bool chunks = std::ssize(layout) != pp;
  const bool hollow = layout.front().layers == 0 || layout.back().layers == 0;
  if (chunks || hollow || !same_layers(layout.begin() + 1, layout.end() - 1)) return Kind::kAny;
  return Kind::kFirstLast;
}

PipelineLayout dealt_out(std::int64_t layers, std::int64_t predictions, std::int64_t pp,
                         std::int64_t vpp, std::optional<std::int64_t> first,
                         std::optional<std::int64_t> last) {
  const std::int64_t parts = pp * vpp;
  const std::int64_t others = parts - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t rest = layers - first.value_or(0) - last.value_or(0);
  if (others < 0 || rest < 0 || (others == 0 ? rest != 0 : rest % others != 0)) {
    throw InvalidInput(
        fmt::format("{} layers do not divide into pp {} · vpp {} parts", layers, pp, vpp));
  }
  PipelineLayout layout(static_cast<std::size_t>(parts));
  for (LayoutPart& part : layout) part.layers = others == 0 ? 0 : rest / others;
  if (first) layout.front().layers = *first;
  if (last) layout.back().layers = *last;
  layout.front().embedding = true;
  layout.back().predictions = predictions;
  layout.back().loss = true;
  return layout;
}

}  // namespace nestplan::frameworks
