#include "nestplan/cost/profile.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "cost/flop_counter.hpp"
#include "cost/profile_degrees.hpp"
#include "cost/profile_draft.hpp"
#include "cost/profile_kernels.hpp"
#include "cost/profile_models.hpp"
#include "nestplan/cost/update.hpp"
#include "nestplan/util/errors.hpp"
#include "nestplan/util/text.hpp"

namespace nestplan::cost {
namespace {

using model::Architecture;
using model::EncoderDecoder;
using model::Model;
using model::Multimodal;
using model::UNet;

constexpr std::array<const char*, 3> kGranularities{"layer", "block", "operator"};

void require_positive(const std::string& name, const std::vector<std::int64_t>& values) {
  if (values.empty()) throw InvalidConfig(name + ": at least one value is needed");
  for (const std::int64_t value : values) {
    if (value < 1) throw InvalidConfig(name + ": " + std::to_string(value) + " is not positive");
  }
}

void check_parts(const Model& model, const ProfileOptions& options) {
  std::vector<std::string> known;
  for (const model::TokenCount& count : token_counts(model)) known.push_back(count.part);
  for (const auto& [part, tokens] : options.tokens) {
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      throw InvalidConfig(
          "tokens: " + name_of(model) + " has no part " + util::quoted(part) + " to count" +
          (known.empty() ? "; --seq is all that it takes" : util::hint(part, known)));
    }
    require_positive("tokens: " + part, {tokens});
  }
}

void check_sequence(const Architecture& a, const ProfileOptions& options) {
  require_positive("seq", {options.sequence});
  if (a.learned_positions > 0 && options.sequence > a.max_positions) {
    throw InvalidConfig("seq: " + std::to_string(options.sequence) + " is more than the " +
                        std::to_string(a.max_positions) + " learned positions of " + a.name);
  }
}

void check_sequence(const EncoderDecoder& model, const ProfileOptions& options) {
  check_sequence(model.encoder, options);
}

void check_sequence(const Multimodal& model, const ProfileOptions& options) {
  check_sequence(model.text, options);
  std::int64_t taken = 0;
  std::string list;
  for (const model::Tower& tower : model.towers) {
    const std::int64_t tokens = options.tokens_of(tower.id, tower.tokens) / tower.merge;
    taken += tokens;
    list += (list.empty() ? "" : ", ") + tower.id + " " + std::to_string(tokens);
  }
  if (taken > options.sequence) {
    throw InvalidConfig("seq: " + std::to_string(options.sequence) + " is less than the " +
                        std::to_string(taken) + " tokens that the towers of " + model.name +
                        " put out (" + list + ")");
  }
}

void check_sequence(const UNet& /*model*/, const ProfileOptions& /*options*/) {}
void check_sequence(const model::DiffusionTransformer& /*model*/,
                    const ProfileOptions& /*options*/) {}

void check_routing(const ProfileOptions& options) {
  if (!(options.routing_imbalance >= 1)) {
    throw InvalidConfig("routing-imbalance: is at least 1, the fullest over the average");
  }
  if (!(options.capacity_factor >= 0)) throw InvalidConfig("capacity-factor: must not be negative");
}

void check(const Model& model, const ProfileOptions& options) {
  std::visit([&options](const auto& m) { check_sequence(m, options); }, model);
  require_positive("tp", options.tp);
  require_positive("cp", options.cp);
  require_positive("ep", options.ep);
  if (!options.etp.empty()) require_positive("etp", options.etp);
  require_positive("micro-batch", options.micro_batches);
  check_routing(options);
  if (!(options.logit_bytes >= 0)) throw InvalidConfig("logit-bytes: must not be negative");
  if (options.context_forms.empty()) throw InvalidConfig("context-form: at least one is needed");
  require_positive("vocabulary multiple", {options.vocabulary_multiple});
  check_parts(model, options);
}

Draft draft_of(const Model& model, const CostModel& costs, const ProfileOptions& options,
               const Degrees& degrees) {
  Draft draft(options.granularity, options.granularity_of);
  const Drawing drawing{draft, costs, options, degrees};
  std::visit([&drawing](const auto& m) { draw(m, drawing); }, model);
  draft.finish();
  for (const auto& [part, granularity] : options.granularity_of) {
    const auto of_part = [&](const Draft::Layer& layer) {
      return layer.id.starts_with(part + ".");
    };
    if (std::none_of(draft.layers().begin(), draft.layers().end(), of_part)) {
      throw InvalidConfig("granularity: " + name_of(model) + " has no part " + util::quoted(part));
    }
  }
  return draft;
}

model::Graph outline_of(const Draft& draft, const std::string& name) {
  model::Graph graph;
  graph.name = name;
  for (const Draft::Layer& layer : draft.layers()) {
    graph.layers.push_back({layer.id, {}, layer.counted});
  }
  for (const Draft::Edge& edge : draft.edges()) graph.edges.push_back({edge.from, edge.to, {}});
  for (const Draft::Tie& tie : draft.ties()) {
    graph.ties.push_back({{tie.layers.begin(), tie.layers.end()}, {}});
  }
  return graph;
}

/// Drafts of one model differ in numbers only.
void append_column(model::Graph& graph, const Draft& draft) {
  for (std::size_t i = 0; i < graph.layers.size(); ++i) {
    graph.layers[i].costs.emplace_back(draft.layers()[i].cost);
  }
  const std::vector<Draft::Edge> edges = draft.edges();
  for (std::size_t i = 0; i < edges.size(); ++i) graph.edges[i].bytes.push_back(edges[i].bytes);
  const std::vector<Draft::Tie> ties = draft.ties();
  for (std::size_t i = 0; i < ties.size(); ++i) {
    graph.ties[i].parameters.push_back(ties[i].parameters);
  }
}

model::Dimensions dimensions(const Architecture& a) {
  model::Dimensions d;
  d.heads = a.heads;
  d.kv_heads = a.kv_heads;
  d.hidden = a.hidden;
  d.ffn = a.has_plain_mlp() ? a.ffn : 0;
  d.vocabulary = a.vocab;
  d.blocks = a.layers;
  for (std::int64_t i = 0; i < a.layers; ++i) d.windows += a.window(i) > 0 ? 1 : 0;
  d.sinks = a.sinks ? a.layers : 0;
  d.predictions = a.mtp_layers;
  d.kind = a.causal ? model::ModelKind::kDecoder : model::ModelKind::kEncoder;
  if (a.moe) {
    d.experts = a.moe->experts;
    d.expert_ffn = a.moe->expert_ffn;
  }
  return d;
}

model::Dimensions dimensions(const EncoderDecoder& model) {
  model::Dimensions d = dimensions(model.decoder);
  d.blocks += model.encoder.layers;
  d.encoder_blocks = model.encoder.layers;
  d.kind = model::ModelKind::kEncoderDecoder;
  return d;
}

/// Those of the language model, but for the blocks.
model::Dimensions dimensions(const Multimodal& model) {
  model::Dimensions d = dimensions(model.text);
  for (const model::Tower& tower : model.towers) d.blocks += tower.blocks.layers;
  d.kind = model::ModelKind::kMultimodal;
  return d;
}

/// Its widths differ from step to step.
model::Dimensions dimensions(const UNet& unet) {
  model::Dimensions d;
  d.kind = model::ModelKind::kUNet;
  for (const model::UNetLayer& layer : unet_layers(unet)) {
    if (layer.kind == model::UNetLayerKind::kResnet) ++d.blocks;
  }
  return d;
}

model::Dimensions dimensions(const model::DiffusionTransformer& model) {
  model::Dimensions d = dimensions(model.blocks);
  d.sequence = model.tokens();
  d.kind = model::ModelKind::kDiffusionTransformer;
  return d;
}

/// `blocks` are the layers of the graph that count.
model::Dimensions dimensions_of(const Model& model, const ProfileOptions& options) {
  model::Dimensions d = std::visit([](const auto& m) { return dimensions(m); }, model);
  if (has_sequence(model)) d.sequence = options.sequence;
  return d;
}

std::optional<double> tokens_per_sample(const Model& model, const ProfileOptions& options) {
  if (!has_sequence(model)) return std::nullopt;
  std::int64_t tokens = options.sequence;
  if (std::holds_alternative<EncoderDecoder>(model)) {
    tokens += options.tokens_of("decoder", options.sequence);
  }
  return static_cast<double>(tokens);
}

/// One sample on one device, with the vocabulary as it is.
Draft flop_draft(const Model& model, ProfileOptions options) {
  options.vocabulary_multiple = 1;
  options.fused_attention = true;
  options.routing_imbalance = 1;
  options.capacity_factor = 0;
  return draft_of(model, FlopCounter(), options, {});
}

double drafted_flops(const Model& model, const ProfileOptions& options) {
  double forward = 0;
  const Draft draft = flop_draft(model, options);
  for (const Draft::Layer& layer : draft.layers()) forward += layer.cost.forward_s;
  return 3 * forward;
}

}  // namespace

Granularity parse_granularity(std::string_view name) {
  for (std::size_t i = 0; i < kGranularities.size(); ++i) {
    if (name == kGranularities[i]) return static_cast<Granularity>(i);
  }
  throw InvalidConfig("granularity: unknown " + util::quoted(name) +
                      util::hint(name, granularity_names()));
}

std::vector<std::string> granularity_names() {
  return {kGranularities.begin(), kGranularities.end()};
}

const char* to_string(Granularity granularity) {
  return kGranularities[static_cast<std::size_t>(granularity)];
}

double model_flops_per_sample(const Architecture& a, std::int64_t sequence) {
  if (a.moe || a.latent || a.mtp_layers > 0) {
    ProfileOptions options;
    options.sequence = sequence;
    return drafted_flops(a, options);
  }
  const double tokens = static_cast<double>(sequence);
  const double hidden = static_cast<double>(a.hidden);
  const double block_weights =
      hidden * static_cast<double>(a.qkv_width() + a.query_width() + a.mlp_in_width() + a.ffn);
  const double head_weights =
      hidden * static_cast<double>(a.vocab) + (a.mlm_transform ? hidden * hidden : 0);
  double forward = 2 * tokens * (static_cast<double>(a.layers) * block_weights + head_weights);
  for (std::int64_t i = 0; i < a.layers; ++i) {
    forward += 4 * attention_pairs(a, tokens, i) * static_cast<double>(a.query_width());
  }
  return 3 * forward;
}

double model_flops_per_sample(const Model& model, const ProfileOptions& options) {
  if (const auto* architecture = std::get_if<Architecture>(&model)) {
    return model_flops_per_sample(*architecture, options.sequence);
  }
  return drafted_flops(model, options);
}

model::Graph build_outline(const Model& model, const ProfileOptions& options) {
  check(model, options);
  model::Graph outline = outline_of(flop_draft(model, options), name_of(model));
  outline.dimensions = dimensions_of(model, options);
  return outline;
}

model::Graph build_graph(const Model& model, const CostModel& costs, const ProfileOptions& options,
                         std::vector<DroppedDegree>* dropped) {
  check(model, options);
  model::Graph graph;
  for (const Degrees& degrees : legal_degrees(model, options, dropped)) {
    const Draft draft = draft_of(model, costs, options, degrees);
    if (graph.layers.empty()) graph = outline_of(draft, name_of(model));
    graph.strategies.push_back(strategy_of(model, options, degrees));
    append_column(graph, draft);
  }
  graph.dimensions = dimensions_of(model, options);
  graph.tokens_per_sample = tokens_per_sample(model, options);
  graph.model_flops_per_sample = model_flops_per_sample(model, options);
  graph.updates = {update_rate(costs)};
  quantise_counts(graph);
  return graph;
}

model::Graph build_graph(const Model& model, const model::Device& device,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  const AnalyticalCostModel costs(device, precision_of(options.precision),
                                  options.attention_kernel);
  return build_graph(model, costs, options, dropped);
}

model::Graph build_graph(const Architecture& a, const CostModel& costs,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  return build_graph(Model(a), costs, options, dropped);
}

model::Graph build_graph(const Architecture& a, const model::Device& device,
                         const ProfileOptions& options, std::vector<DroppedDegree>* dropped) {
  return build_graph(Model(a), device, options, dropped);
}

}  // namespace nestplan::cost
